// Who is here: rows with an end, people by their sockets, and what one call costs (A09, A.45, C.25, S3).
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { startStack } from "../../tools/stack.mjs";
import { FrameClient } from "./support/frame-client.mjs";
import { awarenessEntries, awarenessFrame, STEP_1 } from "./support/frames.mjs";
import { Api, tap } from "./support/http.mjs";
import { sleep, until } from "./support/waiting.mjs";

const ENTRY = join(import.meta.dirname, "support", "d1-tap.mjs");
/** The runtime drops a room after 10 s without an event, measured in hibernation.test.mjs. */
const IDLE_MS = 14_000;

const place = (id) => `/api/workspaces/${id}/presence`;
/** What a list says, without times: `sub kind session`. */
const names = ({ json }) => json.presence.map(({ sub, kind, session }) => `${sub} ${kind} ${session}`);

// One at a time: the counts are of the whole stack.
describe("presence", { concurrency: 1, timeout: 180_000 }, () => {
  let api;
  let d1;
  const sockets = [];
  before(async () => {
    api = new Api(await startStack({ entry: ENTRY }));
    d1 = tap(api);
  });
  after(async () => {
    for (const socket of sockets) socket.stop();
    await api.finish();
  });

  /** Somebody in a workspace: a client that says and asks. */
  const member = (id, sub, kind = "human", role = "editor") => {
    const client = api.actor(sub, kind, { [id]: role });
    return {
      client,
      say: (session, more = {}) => client.put(place(id), { session, ...more }),
      ask: (session) => client.get(session ? `${place(id)}?session=${session}` : place(id)),
      leave: (session) => client.delete(`${place(id)}?session=${session}`),
      async connect() {
        const answer = await client.post(`/api/workspaces/${id}/tokens`, { purpose: "relay" });
        const { url } = api.stack.relays.find(({ label }) => label === "cf");
        const socket = await FrameClient.open(`${url}/${id}/d?token=${answer.json.token}`);
        sockets.push(socket);
        return socket;
      },
    };
  };
  /** Lets time pass for rows, as far as D1 is concerned. */
  const age = (id, sub, session) => d1.sql("UPDATE presence SET expires_at = expires_at - 300000 WHERE workspace = ?1 AND sub = ?2 AND session = ?3", id, sub, session);
  const stored = (id) => d1.sql("SELECT sub, kind, session, state, expires_at FROM presence WHERE workspace = ?1", id);

  test("A09 three tabs of one person are one person, an agent is none, and the last tab that dies counts until its row ends", async () => {
    await api.workspace("a09");
    const [ann, bob, bot] = [member("a09", "ann"), member("a09", "bob"), member("a09", "bot", "agent")];
    for (const tab of ["1", "2", "3"]) assert.equal((await ann.say(tab)).json.otherHumans, 0);
    const said = await bot.say("p", { state: { task: "jobs/42" } });
    assert.deepEqual([said.status, said.json.otherHumans], [200, 1]);
    const seen = await ann.ask("2");
    assert.deepEqual(names(seen), ["ann human 1", "ann human 2", "ann human 3", "bot agent p"]);
    assert.deepEqual(seen.json.presence.map((entry) => entry.self), [false, true, false, false]);
    assert.deepEqual(seen.json.presence[3].state, { task: "jobs/42" });
    assert.deepEqual([seen.json.otherHumans, seen.json.complete], [0, true]);
    assert.equal((await bob.ask()).json.otherHumans, 1);
    // An agent under the person's name is another, and takes nobody's row.
    const twin = member("a09", "ann", "agent");
    assert.equal((await twin.say("1")).json.otherHumans, 1);
    assert.equal((await twin.leave("2")).status, 204);
    assert.deepEqual(names(await bob.ask()), ["ann agent 1", "ann human 1", "ann human 2", "ann human 3", "bot agent p"]);
    for (const tab of ["1", "2"]) assert.equal((await ann.leave(tab)).status, 204);
    assert.equal((await bob.ask()).json.otherHumans, 1);
    await age("a09", "ann", "3");
    assert.equal((await bob.ask()).json.otherHumans, 0);
    assert.deepEqual(names(await bob.ask()), ["ann agent 1", "bot agent p"]);
  });

  test("A09 S3 three tabs, another person and seven agents: each side counts one other human, whatever tab asks", async () => {
    await api.workspace("sides");
    const [ann, bob] = [member("sides", "ann"), member("sides", "bob")];
    const agents = Array.from({ length: 7 }, (_, n) => member("sides", `bot-${n}`, "agent"));
    for (const agent of agents) await agent.say("p");
    for (const tab of ["1", "2", "3"]) assert.equal((await ann.say(tab)).json.otherHumans, 0, "agents are none");
    assert.equal((await bob.say("b")).json.otherHumans, 1);
    const seenBy = async (...callers) => Promise.all(callers.map(async ([one, session]) => (await one.ask(session)).json.otherHumans));
    assert.deepEqual(await seenBy([ann, "1"], [ann, "2"], [ann, "3"], [ann], [bob, "b"], [agents[0], "p"]), [1, 1, 1, 1, 1, 2]);
    for (const tab of ["1", "2"]) await ann.leave(tab);
    assert.deepEqual(await seenBy([ann, "3"], [bob, "b"], [agents[6], "p"]), [1, 1, 2]);
    await ann.leave("3");
    assert.deepEqual(await seenBy([bob, "b"], [agents[0], "p"]), [0, 1]);
  });

  test("C.25 W6 open sockets are shown, and neither their heartbeats nor their cursors write a row", async () => {
    await api.workspace("beats");
    const [ann, bob] = [member("beats", "ann"), member("beats", "bob")];
    const [one, two] = [await ann.connect(), await bob.connect()];
    for (const [n, socket] of [one, two].entries()) {
      socket.send(STEP_1);
      socket.send(awarenessFrame([[301 + n, 1, { name: "x" }]]));
      await socket.settled();
    }
    assert.equal((await ann.ask()).json.otherHumans, 1);
    const rows = async () => JSON.stringify([await stored("beats"), await d1.sql("SELECT * FROM workspaces WHERE id = ?1", "beats"), await d1.sql("SELECT * FROM change_log WHERE workspace = ?1", "beats")]);
    const before = await rows();
    for (let n = 0; n < 20; n += 1) {
      for (const socket of [one, two]) socket.say({ type: "ping" });
      one.send(awarenessFrame([[301, 2 + n, { cursor: n }]]));
    }
    for (const socket of [one, two]) {
      for (let n = 0; n < 20; n += 1) await socket.nextText(({ type }) => type === "pong");
      await socket.settled();
    }
    assert.equal(await rows(), before);
    assert.deepEqual(names(await ann.ask()), ["ann human null", "bob human null"]);
  });

  test("C.25 each call is one batch, a GET writes nothing, a PUT one row, and none of it is a change", async () => {
    const owner = await api.workspace("c25");
    const ann = member("c25", "ann", "human", "viewer");
    const bob = member("c25", "bob");
    const cost = async (call, status) => {
      await d1.counts();
      assert.equal((await call()).status, status);
      const { batches, rowsWritten } = await d1.counts();
      return [batches, rowsWritten];
    };
    assert.deepEqual(await cost(() => ann.say("1"), 200), [1, 1]);
    assert.deepEqual(await cost(() => ann.say("1", { ttl: 300, state: { path: "notes/a" } }), 200), [1, 1]);
    assert.deepEqual(await cost(() => bob.ask("1"), 200), [1, 0]);
    const [row] = await stored("c25");
    assert.equal(row.state, '{"path":"notes/a"}');
    assert.ok(Math.abs(row.expires_at - Date.now() - 300_000) < 60_000);
    assert.deepEqual(await cost(() => ann.leave("1"), 204), [1, 1]);
    assert.deepEqual(await cost(() => ann.leave("1"), 204), [1, 0]);
    // Rows of a crowd that left go a few at a time.
    await d1.sql("INSERT INTO presence WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30) SELECT 'c25', 'gone', 'human', i, NULL, 1 FROM n");
    assert.deepEqual(names(await bob.ask()), []);
    assert.deepEqual(await cost(() => bob.say("1"), 200), [1, 21]);
    assert.equal((await stored("c25")).length, 11);
    assert.deepEqual((await owner.get("/api/workspaces/c25")).json, { id: "c25", head: 0, floor: 0 });
  });

  test("A.45 S3 people on a socket are here without a row, in as many tabs as they like, until the tab closes", async () => {
    await api.workspace("a45");
    const [ann, bob] = [member("a45", "ann"), member("a45", "bob é")];
    assert.deepEqual((await ann.ask()).json, { presence: [], otherHumans: 0, complete: true });
    const mine = await ann.connect();
    mine.send(STEP_1);
    mine.send(awarenessFrame([[101, 1, { name: "ann" }]]));
    await mine.settled();
    assert.equal((await ann.ask()).json.otherHumans, 0, "her own socket");
    const tabs = [await bob.connect(), await bob.connect()];
    const service = await member("a45", "importer", "service").connect();
    for (const [index, socket] of [...tabs, service].entries()) {
      socket.send(STEP_1);
      socket.send(awarenessFrame([[201 + index, 1, { name: "tab" }]]));
      await socket.settled();
    }
    const seen = await ann.ask();
    assert.deepEqual(names(seen), ["ann human null", "bob é human null"]);
    assert.deepEqual([seen.json.otherHumans, seen.json.complete], [1, true]);
    assert.deepEqual(await stored("a45"), []);
    // A row and a socket are one person; what the row says is shown.
    assert.equal((await bob.say("t", { state: { name: "Bob" } })).json.otherHumans, 1);
    assert.deepEqual(names(await ann.ask()), ["bob é human t", "ann human null"]);
    await bob.leave("t");
    await sleep(IDLE_MS);
    assert.deepEqual(names(await ann.ask()), ["ann human null", "bob é human null"], "after the room was dropped from memory");
    await tabs[0].close();
    const isGone = (hex) => awarenessEntries(hex)?.some(([client, , state]) => client === 201 && state === null);
    await mine.next(isGone, "the cursor of the closed tab goes");
    assert.equal((await ann.ask()).json.otherHumans, 1, "one tab is left");
    tabs[1].reset();
    await until(async () => (await ann.ask()).json.otherHumans === 0, "the person goes with the last socket");
    assert.deepEqual(names(await ann.ask()), ["ann human null"]);
    assert.deepEqual(names(await bob.ask()), ["ann human null"]);
  });

  test("R4 a subject has 20 sessions and a workspace 500; who is here may renew all the same", async () => {
    await api.workspace("full");
    const [ann, bob] = [member("full", "ann"), member("full", "bob")];
    for (let tab = 1; tab <= 20; tab += 1) assert.equal((await ann.say(`t${tab}`)).status, 200);
    const refused = await ann.say("t21");
    assert.deepEqual([refused.status, refused.json.code, refused.json.limit, refused.headers["retry-after"]], [429, "rate_limited", 20, "60"]);
    assert.equal((await ann.say("t1")).status, 200);
    assert.equal((await stored("full")).length, 20);
    await age("full", "ann", "t2");
    assert.equal((await ann.say("t21")).status, 200);
    await d1.sql("INSERT INTO presence WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 480) SELECT 'full', 'p' || i, 'human', 's', NULL, ?1 FROM n", Date.now() + 200_000);
    const full = await bob.say("t");
    assert.deepEqual([full.status, full.json.code, full.json.limit], [429, "rate_limited", 500]);
    assert.equal((await ann.say("t21")).status, 200);
    const all = await bob.ask();
    assert.deepEqual([all.json.presence.length, all.json.otherHumans], [500, 481]);
    await age("full", "p7", "s");
    assert.equal((await bob.say("t")).status, 200);
  });

  test("R4 bad requests are refused, say what is wrong, and store nothing", async () => {
    await api.workspace("bad");
    const ann = member("bad", "ann");
    const bodies = [{}, [], { session: "" }, { session: "a b" }, { session: 1 }, { session: "x".repeat(65) }, { session: "a", ttl: 59 }, { session: "a", ttl: 301 }, { session: "a", ttl: "60" }, { session: "a", ttl: 60.5 }, { session: "a", state: "x" }, { session: "a", state: null }, { session: "a", kind: "human" }, { session: "a", sub: "bob" }];
    for (const body of bodies) {
      const refused = await ann.client.put(place("bad"), body);
      assert.deepEqual([refused.status, refused.json.code], [400, "bad_request"], JSON.stringify(body));
    }
    assert.equal((await ann.client.put(place("bad"), "{")).json.code, "invalid_json");
    const state = (bytes) => ({ state: { a: "x".repeat(bytes - 8) } });
    const large = await ann.say("a", state(1025));
    assert.deepEqual([large.status, large.json.code, large.json.limit], [413, "payload_too_large", 1024]);
    const body = await ann.client.put(place("bad"), `${" ".repeat(8 * 1024)}{}`);
    assert.deepEqual([body.status, body.json.code, body.json.limit], [413, "payload_too_large", 8 * 1024]);
    const text = await ann.client.put(place("bad"), '{"session":"a"}', { "content-type": "text/plain" });
    assert.deepEqual([text.status, text.json.code], [415, "unsupported_media_type"]);
    for (const query of ["?session=", "?session=a%20b", "?session=a&session=b", `?session=${"x".repeat(65)}`]) {
      assert.equal((await ann.client.get(`${place("bad")}${query}`)).json.code, "bad_request", query);
      assert.equal((await ann.client.delete(`${place("bad")}${query}`)).json.code, "bad_request", query);
    }
    assert.equal((await ann.client.delete(place("bad"))).json.code, "bad_request");
    const post = await ann.client.post(place("bad"), { session: "a" });
    assert.deepEqual([post.status, post.headers.allow], [405, "GET, PUT, DELETE"]);
    assert.deepEqual(await stored("bad"), []);
    assert.equal((await ann.say("a", state(1024))).status, 200);
  });

  test("U07 only who has a role is here, any role is enough, and a workspace that is gone has nobody", async () => {
    const owner = await api.workspace("roles");
    // One after the other: the last of them removes what the first made.
    const answers = async (client, id = "roles") => {
      const told = [await client.put(place(id), { session: "a" }), await client.get(place(id)), await client.delete(`${place(id)}?session=a`)];
      return told.map(({ status, json }) => json?.code ?? status);
    };
    assert.deepEqual(await answers(api.as(undefined)), Array(3).fill("unauthorized"));
    assert.deepEqual(await answers(api.actor("eve", "human", { other: "owner" })), Array(3).fill("forbidden"));
    const scope = (await owner.post("/api/workspaces/roles/tokens", { purpose: "stream" })).json.token;
    assert.deepEqual(await answers(api.as(scope)), Array(3).fill("unauthorized"));
    assert.deepEqual(await answers(member("roles", "vic", "human", "viewer").client), [200, 200, 204]);
    const nowhere = api.actor("ann", "human", { nowhere: "owner" });
    assert.deepEqual(await answers(nowhere, "nowhere"), Array(3).fill("workspace_not_found"));
    assert.deepEqual(await stored("nowhere"), []);
    assert.equal((await owner.delete("/api/workspaces/roles")).status, 200);
    assert.deepEqual(await answers(owner), Array(3).fill("workspace_deleted"));
    assert.deepEqual(await stored("roles"), []);
    const foreign = await owner.get(place("roles"), { headers: { origin: "https://evil.example" } });
    assert.equal(foreign.json.code, "origin_not_allowed");
  });

  test("the hourly sweep removes what counts no more, batch after batch", async () => {
    await d1.sql("DELETE FROM presence");
    await api.workspace("sweep");
    await member("sweep", "ann").say("1");
    await d1.sql("INSERT INTO presence WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4500) SELECT 'w' || i % 90, 'gone', 'human', i, NULL, ?1 FROM n", Date.now() - 1_000);
    assert.equal((await api.as(undefined).get("/cdn-cgi/local/scheduled")).status, 200);
    api.seen.delete("GET /cdn-cgi/local/scheduled 200");
    assert.deepEqual((await d1.sql("SELECT sub FROM presence")).map(({ sub }) => sub), ["ann"]);
  });
});

test("S3 C.25 only a room that should be live is asked, and without its answer the rows are one", async () => {
  const api = new Api(await startStack({ entry: ENTRY, without: ["ROOM"] }));
  try {
    const owner = await api.workspace("w");
    const lease = (until) => tap(api).sql("UPDATE workspaces SET live_until = ?1", until);
    const bob = api.actor("bob", "human", { w: "editor" });
    assert.equal((await bob.put(place("w"), { session: "b" })).json.complete, true);
    await lease(Date.now() + 60_000);
    for (const answer of [await owner.get(place("w")), await owner.put(place("w"), { session: "a" })]) {
      assert.deepEqual([answer.status, answer.json.complete, answer.json.otherHumans], [200, false, 1]);
    }
    await lease(Date.now() - 1);
    assert.equal((await owner.get(place("w"))).json.complete, true);
  } finally {
    await api.finish();
  }
});
