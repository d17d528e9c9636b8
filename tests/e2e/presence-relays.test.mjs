// Who is here, with people on the sockets of both relays, and what it costs (A09, A.45, B.25, S3).
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { awarenessFrame, STEP_1 } from "./support/frames.mjs";
import { Api, tap } from "./support/http.mjs";
import { startBoth } from "./support/relays.mjs";
import { until } from "./support/waiting.mjs";

const ENTRY = join(import.meta.dirname, "support", "d1-tap.mjs");
const BEATS = 20;

// One at a time: the counts are of the whole stack.
describe("presence over both relays", { concurrency: 1, timeout: 120_000 }, () => {
  let cf, deno, api, d1;
  before(async () => {
    ({ cf, deno } = await startBoth({ entry: ENTRY }));
    api = new Api(cf.stack);
    d1 = tap(api);
  });
  after(async () => {
    api?.agent.destroy();
    await deno?.stop();
  });

  /** A workspace with its presence as each asks for it, and sockets on either relay. */
  async function place() {
    const onCf = await cf.workspace();
    const onDeno = deno.sharing(onCf);
    const path = `/api/workspaces/${onCf.id}/presence`;
    const ask = async (sub, kind = "human") => (await api.actor(sub, kind, { [onCf.id]: "viewer" }).get(path)).json;
    const connect = async (workspace, sub) => {
      const socket = await workspace.connect("d", { sub });
      socket.send(STEP_1);
      await socket.settled();
      return socket;
    };
    const stored = () => d1.sql("SELECT sub, kind, session FROM presence WHERE workspace = ?1", onCf.id);
    return { id: onCf.id, path, ask, stored, onCf: (sub) => connect(onCf, sub), onDeno: (sub) => connect(onDeno, sub) };
  }

  const others = (list) => list.otherHumans;
  const seen = ({ presence }) => presence.map(({ sub, kind, session }) => `${sub} ${kind} ${session}`);

  test("A09 A.45 three tabs over both relays are one person, seen by everybody until the last of them closes", async () => {
    const { ask, onCf, onDeno } = await place();
    const tabs = [await onCf("ann"), await onCf("ann"), await onDeno("ann")];
    const bob = await onDeno("bob");
    await until(async () => others(await ask("bot", "agent")) === 2, "both are seen");
    assert.deepEqual(seen(await ask("ann")), ["ann human null", "bob human null"]);
    assert.deepEqual([others(await ask("ann")), others(await ask("bob"))], [1, 1]);
    await tabs[0].close();
    await tabs[1].close();
    await until(async () => seen(await ask("bob")).length === 2 && others(await ask("bob")) === 1, "her third tab is on the other relay");
    await tabs[2].close();
    await until(async () => others(await ask("bob")) === 0, "the last tab is closed");
    await bob.close();
    await until(async () => (await ask("ann")).presence.length === 0, "nobody is here");
  });

  test("S3 a join and a leave on the Deno relay write one row each; further tabs, heartbeats and cursors none", async () => {
    const { ask, onDeno, stored } = await place();
    const first = await onDeno("ann");
    await until(async () => (await stored()).length === 1, "the row of a join");
    assert.deepEqual(await stored(), [{ sub: "ann", kind: "human", session: "socket deno" }]);
    await d1.counts();
    const second = await onDeno("ann");
    const third = await onDeno("ann");
    await third.close();
    for (let n = 0; n < BEATS; n += 1) {
      for (const socket of [first, second]) socket.say({ type: "ping" });
      first.send(awarenessFrame([[301, 1 + n, { cursor: n }]]));
    }
    for (const socket of [first, second]) {
      for (let n = 0; n < BEATS; n += 1) await socket.nextText(({ type }) => type === "pong");
      await socket.settled();
    }
    assert.equal((await d1.counts()).rowsWritten, 0, "neither tabs nor heartbeats nor cursors");
    const bob = await onDeno("bob");
    await until(async () => others(await ask("ann")) === 1, "he is here");
    assert.equal((await d1.counts()).rowsWritten, 1, "a join");
    await bob.close();
    await until(async () => others(await ask("ann")) === 0, "he left");
    assert.equal((await d1.counts()).rowsWritten, 1, "a leave");
    await first.close();
    await second.close();
    await until(async () => (await stored()).length === 0, "she left");
    assert.equal((await d1.counts()).rowsWritten, 1, "a leave of two tabs");
  });

  test("U07 only a service speaks for people, no client can look like one, and it is not told who is here", async () => {
    const { id, path, ask, stored } = await place();
    const named = (sub) => ({ "yrelay-author": encodeURIComponent(sub) });
    const relay = api.actor("relay-x", "service", { [id]: "viewer" });
    const told = await relay.put(path, { session: "x" }, named("bob é"));
    assert.deepEqual([told.status, told.text], [204, ""]);
    assert.deepEqual(await stored(), [{ sub: "bob é", kind: "human", session: "socket x" }]);
    assert.deepEqual(seen(await ask("ann")), ["bob é human null"]);
    for (const kind of ["human", "agent"]) {
      const other = api.actor("eve", kind, { [id]: "owner" });
      assert.equal((await other.put(path, { session: "x" }, named("bob é"))).json.code, "forbidden");
      assert.equal((await other.delete(`${path}?session=x`, named("bob é"))).json.code, "forbidden");
      assert.equal((await other.put(path, { session: "socket x" })).json.code, "bad_request");
    }
    assert.equal((await relay.put(path, { session: "x" }, named(""))).json.code, "bad_request");
    // A row of his own takes the place of the socket's in the list, and neither removes the other.
    const bob = api.actor("bob é", "human", { [id]: "viewer" });
    assert.deepEqual(seen((await bob.put(path, { session: "x" })).json), ["bob é human x"]);
    await bob.delete(`${path}?session=x`);
    assert.equal(others(await ask("ann")), 1);
    assert.equal((await relay.delete(`${path}?session=x`, named("bob é"))).status, 204);
    assert.deepEqual(await stored(), []);
  });

  test("B.25 people of a relay that died are listed until their rows end, and no longer", async () => {
    const { ask, onDeno } = await place();
    await onDeno("ann");
    await until(async () => others(await ask("bob")) === 1, "she is here");
    await deno.process.kill();
    assert.equal(others(await ask("bob")), 1);
    await d1.advance(300_000);
    assert.deepEqual(await ask("bob"), { presence: [], otherHumans: 0, complete: true });
  });
});
