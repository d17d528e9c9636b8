// Two relays that never talk to each other and one database between them (D3): people on both type
// in the same document, and everybody ends with the same.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import * as Y from "yjs";
import { SyncProvider } from "../../client-sdk/src/index.ts";
import { startAnother, startBoth } from "./support/relays.mjs";
import { stockClient } from "./support/stock-client.mjs";
import { sleep, until } from "./support/waiting.mjs";

/** How long both groups type, in ms. The full run of the promise is a minute. */
const TYPING_MS = Number(process.env.YRELAY_TWO_RELAYS_SECONDS ?? 20) * 1000;
const TYPIST_PAUSE_MS = 200;
/** A relay flushes every two seconds (D1); each flush may be told, pulled and found complete. */
const FLUSH_MS = 2000;
/** Quiet after which an echo between the relays would have shown itself as more changes. */
const QUIET_MS = 10_000;

/** Notes when each entry of the shared array was first seen here. */
function watch(client) {
  const seen = new Map();
  client.updates = 0;
  client.doc.on("update", (_update, origin) => {
    if (origin === client.provider) client.updates += 1;
    for (const entry of client.doc.getArray("entries")) if (!seen.has(entry)) seen.set(entry, Date.now());
  });
  return seen;
}

describe("two relays", { concurrency: 2 }, () => {
  let cf;
  let deno;
  before(async () => {
    ({ cf, deno } = await startBoth());
  });
  after(async () => {
    await deno?.stop();
    await cf?.stop();
  });

  test("A.2 D3 two groups type on two relays: all replicas and the database end equal, without an echo", async (t) => {
    const here = await cf.workspace();
    const there = deno.sharing(here);
    const clients = await Promise.all([here, here, there, there].map((workspace, n) => stockClient(workspace, { sub: `typist-${n}` })));
    const seen = clients.map(watch);
    const written = new Map();
    const end = Date.now() + TYPING_MS;
    await Promise.all(
      clients.map(async ({ doc }, n) => {
        for (let count = 0; Date.now() < end; count++) {
          const entry = `${n}.${count}`;
          written.set(entry, Date.now());
          doc.transact(() => {
            doc.getArray("entries").push([entry]);
            doc.getText("t").insert(doc.getText("t").length, `${n}`);
          });
          await sleep(TYPIST_PAUSE_MS);
        }
      }),
    );
    await until(() => clients.every(({ doc }) => doc.getArray("entries").length === written.size), "every entry at everybody");
    const texts = clients.map(({ doc }) => doc.getText("t").toString());
    assert.equal(new Set(texts).size, 1);
    assert.equal(texts[0].length, written.size, "nothing twice");
    await until(async () => (await here.text()) === texts[0], "the text over REST");

    const { head } = (await here.rest("GET", "")).json;
    const flushes = 2 * (TYPING_MS / FLUSH_MS + 2);
    assert.ok(head <= flushes, `${head} changes where ${flushes} flushes were due`);
    const received = clients.map(({ updates }) => updates);
    await sleep(QUIET_MS);
    assert.equal((await here.rest("GET", "")).json.head, head, "nobody saves what came from the other relay");
    assert.deepEqual(clients.map(({ updates }) => updates), received, "and nobody is sent it again");
    // At most: what the other one here typed, and what each flush of the other relay brought.
    for (const count of received) assert.ok(count <= written.size / 4 + flushes + 4, `${count} updates received`);

    const far = (n) => (n < 2 ? [2, 3] : [0, 1]);
    const delays = [...written].flatMap(([entry, at]) => far(Number(entry.split(".")[0])).map((reader) => seen[reader].get(entry) - at));
    delays.sort((a, b) => a - b);
    t.diagnostic(`${written.size} entries, ${head} changes; to the other relay: median ${delays[delays.length >> 1]} ms, longest ${delays.at(-1)} ms`);
    for (const client of clients) client.destroy();
  });

  test("D3 what REST writes reaches the people on both relays", async () => {
    const here = await cf.workspace();
    const clients = await Promise.all([here, deno.sharing(here)].map((workspace) => stockClient(workspace)));
    const doc = new Y.Doc();
    doc.getText("t").insert(0, "from an agent");
    const body = Buffer.from(Y.encodeStateAsUpdate(doc));
    assert.equal((await here.rest("POST", "/docs/d/updates", { body, headers: { "content-type": "application/octet-stream" } })).status, 201);
    await until(() => clients.every((client) => client.doc.getText("t").toString() === "from an agent"), "the text on both relays");
    for (const client of clients) client.destroy();
  });

  test("C.10 the order of the list alone decides which relay is the first", async () => {
    const here = await cf.workspace();
    const token = async () => (await here.rest("POST", "/tokens", { body: { purpose: "relay" } })).json;
    const list = [cf, deno].map(({ label, url }) => ({ label, url }));
    const people = [list, list.toReversed()].map((relays) => new SyncProvider({ doc: new Y.Doc(), workspace: here.id, document: "d", relays, getToken: token }));
    try {
      await until(() => people.every(({ status }) => status.connection === "synced"), "both are synced");
      assert.deepEqual(people.map(({ status }) => status.label), ["cf", "deno"]);
      people[0].doc.getText("t").insert(0, "one document");
      await until(() => people[1].doc.getText("t").toString() === "one document", "over both relays");
    } finally {
      for (const person of people) person.destroy();
    }
  });

  test("C.39 a third relay is one more entry: people on all three converge, and each signs what it saves", async () => {
    const third = await startAnother(deno, { label: "third" });
    try {
      const here = await cf.workspace();
      const relays = [here, deno.sharing(here), third.sharing(here)];
      const clients = await Promise.all(relays.flatMap((workspace, n) => [0, 1].map((m) => stockClient(workspace, { sub: `p${n}${m}` }))));
      for (const [n, { doc }] of clients.entries()) doc.getArray("entries").push([n]);
      const sorted = ({ doc }) => doc.getArray("entries").toArray().sort().join();
      await until(() => clients.every((client) => sorted(client) === "0,1,2,3,4,5"), "everything at everybody");
      assert.equal(new Set(clients.map(({ doc }) => doc.getArray("entries").toArray().join())).size, 1);
      const { changes } = (await here.rest("GET", "/changes?since=0")).json;
      assert.deepEqual(changes.map(({ actor }) => actor).sort(), ["relay:cf", "relay:deno", "relay:third"]);
      for (const client of clients) client.destroy();
    } finally {
      await third.stop();
    }
  });

  test("F7 A.37 a deleted workspace closes its sockets on both relays with 4404", async () => {
    const here = await cf.workspace();
    const clients = await Promise.all([here, deno.sharing(here)].map((workspace) => stockClient(workspace)));
    assert.equal((await here.rest("DELETE", "")).status, 200);
    await until(() => clients.every(({ closes }) => closes.includes(4404)), "4404 on both relays");
    for (const client of clients) client.destroy();
  });
});
