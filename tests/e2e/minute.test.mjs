// Five agents and two people in one document for a minute: agents append, edit by quote and by JSON
// pointer, over REST, the SDK and MCP; one person is on each relay. Afterwards everything that was
// acknowledged is there once, wherever one looks.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import * as Y from "yjs";
import { WorkspaceAgent } from "../../client-sdk/src/agent/index.ts";
import { McpClient } from "./support/mcp.mjs";
import { person } from "./support/person.mjs";
import { startBoth } from "./support/relays.mjs";
import { stockClient } from "./support/stock-client.mjs";
import { PATIENCE, sleep, until } from "./support/waiting.mjs";

/** How long they edit, in s. The full run of the promise is a minute. */
const SECONDS = Number(process.env.YRELAY_MINUTE_SECONDS ?? 15);
/** Pauses of an agent between two calls and of a person between two words, in ms. */
const AGENT_PAUSE = 100;
const PERSON_PAUSE = 200;

let cf;
let deno;
before(async () => {
  ({ cf, deno } = await startBoth());
});
after(async () => {
  await deno?.stop();
  await cf?.stop();
});

/** Each way to edit: `(name, count)` gives root and edits. What is inserted is one run, so nothing comes between. */
const append = (name, n) => ["t", [{ op: "append", text: `<${name}.${n}>` }]];
const byQuote = (name, n) => ["t", [{ op: "replace", quote: `[${name} ${n}]`, with: `[${name} ${n + 1}]` }, { op: "insert", before: `[${name} ${n + 1}]`, text: `<${name}.${n}>` }]];
const byPointer = (name, n) => (n % 2 === 0 ? ["list", [{ op: "insert", pointer: "/-", value: `${name}.${n}` }]] : ["map", [{ op: "put", pointer: `/${name}.${n}`, value: n }]]);

/** The ways to send them; each answers the clock. */
async function agents(here) {
  const sdk = (sub) => {
    const agent = new WorkspaceAgent({ api: here.relay.api, workspace: here.id, getToken: () => here.apiToken({ sub, kind: "agent", role: "editor" }) });
    here.relay.opened({ stop: () => agent.close() });
    return async (root, edits) => (await agent.edit("d", edits, { root })).clock;
  };
  const rest = (sub) => {
    const token = here.apiToken({ sub, kind: "agent", role: "editor" });
    return async (root, edits) => {
      const answer = await here.rest("POST", "/docs/d/edits", { body: { root, edits }, token, headers: { "idempotency-key": randomUUID() } });
      assert.equal(answer.status, 200, answer.text);
      return answer.json.clock;
    };
  };
  const mcp = async (sub, era) => {
    const client = await McpClient.connect(here.relay.api, here.apiToken({ sub, kind: "agent", role: "editor" }), era);
    here.relay.opened({ stop: () => client.close() });
    return async (root, edits) => (await client.call("edit_document", { path: "d", root, edits, idempotencyKey: randomUUID() })).clock;
  };
  return [
    { name: "ada", way: append, send: sdk("ada") },
    { name: "ben", way: byQuote, send: sdk("ben") },
    { name: "cleo", way: byPointer, send: rest("cleo") },
    { name: "dan", way: append, send: await mcp("dan", "modern") },
    { name: "eve", way: byQuote, send: await mcp("eve", "legacy") },
  ];
}

/** Types words between those that are there, never inside one. */
async function type(text, name, end) {
  let n = 0;
  for (; Date.now() < end; n += 1) {
    const shown = text.toString();
    const gap = shown.indexOf(">", (n * 7919) % Math.max(shown.length, 1)) + 1;
    text.insert(gap === 0 ? shown.length : gap, `<${name}.${n}>`);
    await sleep(PERSON_PAUSE);
  }
  return n;
}

const contents = (doc) => ({ t: doc.getText("t").toString(), list: doc.getArray("list").toJSON(), map: doc.getMap("map").toJSON() });
const range = (count, from = 0) => Array.from({ length: count }, (_, n) => n + from);

test("C.18 C.19 I01 D3 five agents and two people in one document: each acknowledged edit is there once, on both relays and in D1", { timeout: SECONDS * 1000 + 150_000 }, async (t) => {
  const here = await cf.workspace();
  const there = deno.sharing(here);
  assert.equal((await here.rest("POST", "/docs/d/edits", { body: { root: "t", edits: [{ op: "append", text: "[ben 0][eve 0]" }] } })).status, 201);
  const stream = here.stream();
  const fay = await stockClient(here, { sub: "fay" });
  const gus = deno.opened(person({ seed: cf.stack.secrets.SCOPE_SIGNING_KEY, workspace: here.id, sub: "gus", relays: [{ label: "deno", url: there.relay.url }] }));
  await until(gus.synced, "the person on the Deno relay is synced");

  const everybody = await agents(here);
  const end = Date.now() + SECONDS * 1000;
  const work = everybody.map(async ({ name, way, send }) => {
    const clocks = [];
    for (let n = 0; Date.now() < end; n += 1) {
      clocks.push(await send(...way(name, n)));
      await sleep(AGENT_PAUSE);
    }
    return clocks;
  });
  const people = [fay, gus].map(({ doc }, n) => type(doc.getText("t"), ["fay", "gus"][n], end));
  const [acknowledged, typed] = await Promise.all([Promise.all(work), Promise.all(people)]);

  const counts = new Map([...everybody.map(({ name }, n) => [name, acknowledged[n].length]), ["fay", typed[0]], ["gus", typed[1]]]);
  const words = [...counts].filter(([name]) => name !== "cleo").flatMap(([name, count]) => range(count).map((n) => `<${name}.${n}>`));
  const isWhole = ({ doc }) => words.every((word) => doc.getText("t").toString().includes(word)) && doc.getArray("list").length + doc.getMap("map").size >= counts.get("cleo");
  await until(() => [fay, gus].every(isWhole), "everything is at both people", 2 * PATIENCE);

  // Once, and nothing else: what is left over when every word is taken out are the two counters.
  const whole = contents(fay.doc);
  assert.deepEqual(whole.t.match(/<[^<>]*>/g).toSorted(), words.toSorted());
  assert.equal(whole.t.replaceAll(/<[^<>]*>/g, ""), `[ben ${counts.get("ben")}][eve ${counts.get("eve")}]`);
  const mine = range(counts.get("cleo"));
  assert.deepEqual(whole.list, mine.filter((n) => n % 2 === 0).map((n) => `cleo.${n}`));
  assert.deepEqual(whole.map, Object.fromEntries(mine.filter((n) => n % 2 === 1).map((n) => [`cleo.${n}`, n])));

  // The same everywhere: the other person, who comes anew to either relay, and the database.
  const stored = async () => {
    const answer = await fetch(`${here.relay.api}/api/workspaces/${here.id}/docs/d`, { headers: { authorization: `Bearer ${here.token}` }, signal: AbortSignal.timeout(PATIENCE) });
    const doc = new Y.Doc();
    Y.applyUpdate(doc, new Uint8Array(await answer.arrayBuffer()));
    return doc;
  };
  const isSame = (doc) => Y.equalSnapshots(Y.snapshot(doc), Y.snapshot(fay.doc));
  await until(async () => isSame(await stored()), "D1 has all of it");
  const head = await here.head();
  const fresh = await Promise.all([here, there].map((workspace) => stockClient(workspace, { sub: "new" })));
  for (const { doc } of [gus, ...fresh]) {
    assert.ok(isSame(doc));
    assert.deepEqual(contents(doc), whole);
  }
  assert.deepEqual((await here.rest("GET", "/docs/d", { headers: { accept: "application/json" } })).json, whole);

  // Who only comes and reads adds nothing to the log, although a stock client repeats all deletes to
  // its relay: a receipt says that whatever came before it is saved.
  for (const { relay } of [here, there]) {
    const reader = cf.opened(person({ seed: cf.stack.secrets.SCOPE_SIGNING_KEY, workspace: here.id, sub: "new", relays: [{ label: relay.label, url: relay.url }] }));
    await until(reader.synced, "who comes later is synced");
    await reader.provider.flush(AbortSignal.timeout(PATIENCE));
  }
  assert.equal(await here.head(), head);

  // The log: without a gap, each edit of an agent one change of its own, and each reader got it so.
  const log = [];
  for (let since = 0; since < head; since += 1000) log.push(...(await here.rest("GET", `/changes?since=${since}&limit=1000`)).json.changes);
  assert.deepEqual(log.map(({ clock }) => clock), range(head, 1));
  for (const [n, { name }] of everybody.entries()) assert.deepEqual(log.filter(({ actor }) => actor === name).map(({ clock }) => clock), acknowledged[n], name);
  await stream.reaches(head);
  assert.deepEqual(stream.clocks, range(head, 1));
  assert.deepEqual([fay.closes, gus.closes], [[], []]);
  t.diagnostic(`${SECONDS} s: ${[...counts].map(([name, count]) => `${name} ${count}`).join(", ")}; ${head} changes`);
  for (const client of [fay, ...fresh]) client.destroy();
  await stream.stop();
});
