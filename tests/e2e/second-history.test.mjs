// A relay that knows nothing takes over and hands back, again and again: a text never gets a second
// history, whoever reloads meanwhile, and from whatever (N05).
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import * as Y from "yjs";
import { startDenoRelay } from "../../tools/deno-relay.mjs";
import { publicScopeKey } from "../../tools/scope-key.mjs";
import { startStack } from "../../tools/stack.mjs";
import { readMetrics } from "./support/metrics.mjs";
import { person } from "./support/person.mjs";
import { startBoth } from "./support/relays.mjs";
import { stockClient } from "./support/stock-client.mjs";
import { PATIENCE, sleep, until } from "./support/waiting.mjs";

const TEXT = "The text that was there before everything else. ";
const ROUNDS = 5;
/** A move back is looked for every few minutes; here every second. */
const TIMES = { probeMs: 1000 };
/** How long a stack may take to be back, and everybody with it. */
const RETURN_MS = 60_000;
const KEYSTROKE_MS = 20;

/** What is wrong with a text in which `TEXT` and each mark are to be once. */
function wrong(text) {
  const marks = text.match(/\[[\w.-]+\]/g) ?? [];
  const twice = marks.filter((mark, n) => marks.indexOf(mark) !== n);
  const count = text.split(TEXT).length - 1;
  const rest = text.length - count * TEXT.length - marks.join("").length;
  if (count > 1 || twice.length > 0) return `${count} times the text, ${twice} twice`;
  return rest === 0 ? undefined : `${rest} characters that nobody typed: ${text}`;
}

/** Looks at every state that a document goes through; `faults` has what must not have been. */
function watch(faults, name, doc) {
  let had = false;
  doc.on("update", () => {
    const text = doc.getText("t").toString();
    const fault = wrong(text) ?? (had && !text.includes(TEXT) ? "the text is gone" : undefined);
    had ||= text.includes(TEXT);
    if (fault) faults.push(`${name}: ${fault}`);
  });
}

/** Two relays over one database with a text in it, written by REST. */
async function begin(t, { relay } = {}) {
  const dataDir = mkdtempSync(join(tmpdir(), "yrelay-history-"));
  const { cf, deno } = await startBoth({ dataDir, relay });
  const it = { cf, deno, faults: [], stack: cf.stack, relay: deno.process };
  const everybody = new Set();
  t.after(async () => {
    for (const one of everybody) one.stop();
    await it.relay.kill();
    await it.stack.stop();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });
  it.workspace = await cf.workspace();
  const first = new Y.Doc();
  first.getText("t").insert(0, TEXT);
  const answer = await it.workspace.rest("POST", "/docs/d/updates", { body: Y.encodeStateAsUpdate(first), headers: { "content-type": "application/octet-stream" } });
  assert.equal(answer.status, 201, answer.text);
  it.bytes = async () => {
    const limits = { headers: { accept: "application/octet-stream", authorization: `Bearer ${it.workspace.token}` }, signal: AbortSignal.timeout(PATIENCE) };
    const stored = await fetch(`${cf.api}/api/workspaces/${it.workspace.id}/docs/d`, limits);
    assert.equal(stored.status, 200);
    return new Uint8Array(await stored.arrayBuffer());
  };
  const relays = [{ label: "cf", url: cf.url }, { label: "deno", url: deno.url }];
  it.person = (sub, options = {}) => {
    const one = person({ seed: cf.stack.secrets.SCOPE_SIGNING_KEY, workspace: it.workspace.id, sub, relays, times: TIMES, ...options });
    watch(it.faults, sub, one.doc);
    everybody.add(one);
    return one;
  };
  it.stock = async (on, sub, options) => {
    const doc = new Y.Doc();
    watch(it.faults, sub, doc);
    const client = await stockClient(on, { sub, doc, ...options });
    everybody.add({ stop: client.destroy });
    client.text = () => client.doc.getText("t").toString();
    client.type = (text) => client.doc.getText("t").insert(client.text().length, text);
    return client;
  };
  it.revive = async () => (it.stack = await startStack({ dataDir, port: Number(new URL(cf.api).port) }));
  return it;
}

const has = (marks) => (one) => one.text().includes(TEXT) && marks.every((mark) => one.text().includes(mark));

/** Everybody has the same text, and so has the database. */
async function agree(it, people, marks) {
  await until(() => people.every(has(marks)), "every mark at everybody", RETURN_MS);
  await until(() => new Set(people.map((one) => one.text())).size === 1, "the same text at everybody");
  await until(async () => (await it.workspace.text()) === people[0].text(), "and in the database", RETURN_MS);
  assert.equal(wrong(people[0].text()), undefined);
}

test("N05 C.71 five times to an empty relay and back, with reloads from nothing and from REST: the text is there once", { timeout: 400_000 }, async (t) => {
  const it = await begin(t);
  const there = it.deno.sharing(it.workspace);
  await there.scope({ sub: "stock-deno" });
  const stock = await it.stock(it.workspace, "stock-cf");
  const ann = it.person("ann");
  let [fresh, restored] = [it.person("fresh"), it.person("restored")];
  const marks = [];
  const mark = (one, name, round) => {
    marks.push(`[${name}.${round}]`);
    one.type(marks.at(-1));
  };
  await until(() => [ann, fresh, restored].every((one) => one.on("cf") && has([])(one)), "all on the first relay");
  for (let round = 0; round < ROUNDS; round += 1) {
    const bytes = await it.bytes();
    assert.equal((await it.deno.inspect(it.workspace.id)).instance, "", "the second relay has no room");
    for (const one of [fresh, restored]) one.stop();
    await it.stack.kill();
    mark(ann, "ann", round);
    mark(stock, "stock-cf", round);
    fresh = it.person("fresh");
    const copy = new Y.Doc();
    Y.applyUpdate(copy, bytes);
    restored = it.person("restored", { doc: copy });
    mark(restored, "restored", round);
    const people = [ann, fresh, restored];
    await until(() => people.every((one) => one.on("deno")), "all on the second relay");
    const guest = await it.stock(there, "stock-deno", { patient: false });
    const online = marks.filter((one) => one !== `[stock-cf.${round}]`);
    await until(() => [...people, guest].every(has(online)), "the text came along");
    mark(fresh, "fresh", round);
    mark(guest, "guest", round);
    await until(() => [...people, guest].every(has([`[fresh.${round}]`, `[guest.${round}]`])), "they hear each other");
    guest.destroy();

    await it.revive();
    await until(() => people.every((one) => one.on("cf")), "all back on the first relay", RETURN_MS);
    await agree(it, [...people, stock], marks);
    const late = it.person(`late.${round}`);
    await until(() => late.synced() && has(marks)(late), "who comes now has everything");
    late.stop();
    await until(async () => (await it.deno.inspect(it.workspace.id)).instance === "", "the second relay forgets the room", RETURN_MS);
  }
  assert.equal(marks.length, ROUNDS * 5);
  assert.deepEqual(it.faults, []);
  const moves = ann.advances().filter((move) => move.endsWith("recovered")).length;
  assert.equal(moves, ROUNDS, "each time by a move back");
  t.diagnostic(`${marks.length} marks; ${it.workspace.id} has ${await it.workspace.head()} changes`);
});

/** Marks typed by one person, a keystroke apart, until told to stop. */
function typist(one) {
  const it = { marks: [] };
  const timer = setInterval(() => {
    it.marks.push(`[${one.sub}.${it.marks.length}]`);
    one.type(it.marks.at(-1));
  }, KEYSTROKE_MS);
  it.rest = () => clearInterval(timer);
  return it;
}

async function spoolRows({ http }) {
  return (await readMetrics(http)).gauge("spool_rows");
}

/** Both relays are killed: the first, then, with everybody on it and typing, the second. */
async function killBoth(t, people) {
  const spoolDir = mkdtempSync(join(tmpdir(), "yrelay-spool-"));
  t.after(() => rmSync(spoolDir, { recursive: true, force: true, maxRetries: 5 }));
  const it = await begin(t, { relay: { spoolDir } });
  it.people = people.map((sub) => it.person(sub));
  const rows = () => spoolRows(it.deno.process);
  await until(() => it.people.every((one) => one.on("cf") && has([])(one)), "all on the first relay");
  await it.stack.kill();
  await until(() => it.people.every((one) => one.on("deno")), "all on the second relay");
  it.early = it.people.map(({ sub }) => `[${sub}.early]`);
  it.people.forEach((one, n) => one.type(it.early[n]));
  await until(() => it.people.every(has(it.early)), "they hear each other there");
  const before = await until(rows, "the spool has what they wrote");
  // Rows are written in the order in which updates came: with this one, all before it are on the disk.
  it.people[0].type("[last.before]");
  it.early.push("[last.before]");
  await until(async () => (await rows()) > before, "and the last of it");
  it.typists = it.people.map(typist);
  await sleep(500);
  await it.deno.process.kill();
  it.again = async () => {
    const { url, port } = it.deno.process;
    const { SCOPE_SIGNING_KEY } = it.stack.secrets;
    const token = it.cf.stack.mint({ sub: "relay-deno", kind: "service", workspaces: { "*": "editor" }, ttl: 3600 });
    it.relay = await startDenoRelay({ api: it.cf.api, token, publicKey: publicScopeKey(SCOPE_SIGNING_KEY), port, spoolDir });
    assert.equal(it.relay.url, url);
  };
  return it;
}

test("B.18 N05 D6 the second relay is killed while they type and comes back with its spool: the text is there once", { timeout: 200_000 }, async (t) => {
  const it = await killBoth(t, ["ann", "ben", "cat"]);
  // One closes the page in this moment: what the others heard of her stays, and comes from nobody twice.
  const [ann, ben, cat] = it.people;
  it.typists[2].rest();
  const heard = it.typists[2].marks.filter((mark) => ann.text().includes(mark) || ben.text().includes(mark));
  cat.stop();
  await it.again();
  await until(() => [ann, ben].every((one) => one.on("deno")), "both on the second relay again", RETURN_MS);
  await sleep(500);
  for (const one of it.typists) one.rest();
  await it.revive();
  await until(() => [ann, ben].every((one) => one.on("cf") && one.synced()), "both on the first relay", RETURN_MS);
  await agree(it, [ann, ben], [...it.early, ...it.typists[0].marks, ...it.typists[1].marks, ...heard]);
  // The copy that was closed comes back: what only it had is new, the rest is not.
  const back = it.person("cat", { doc: cat.doc });
  await agree(it, [ann, ben, back], [...it.early, ...it.typists.flatMap(({ marks }) => marks)]);
  await until(async () => (await spoolRows(it.relay)) === 0, "the spool is empty", RETURN_MS);
  assert.deepEqual(it.faults, []);
  t.diagnostic(`${it.typists.map(({ marks }) => marks.length)} marks; ${heard.length} of the third were heard before the kill`);
});

test("N05 D6 nobody comes back but the spool: what was on the disk is stored, the text once", { timeout: 200_000 }, async (t) => {
  const it = await killBoth(t, ["ann", "ben"]);
  for (const one of it.typists) one.rest();
  for (const one of it.people) one.stop();
  await it.revive();
  assert.equal(await it.workspace.text(), TEXT, "nothing of it is in the database yet");
  await it.again();
  const text = await until(async () => {
    const stored = await it.workspace.text();
    return it.early.every((mark) => stored.includes(mark)) && stored;
  }, "what the spool had", RETURN_MS);
  assert.equal(wrong(text), undefined);
  const reader = it.person("reader");
  await until(() => reader.synced() && has(it.early)(reader), "a reader from nothing");
  const back = it.people.map((one) => it.person(one.sub, { doc: one.doc }));
  await agree(it, [reader, ...back], [...it.early, ...it.typists.flatMap(({ marks }) => marks)]);
  assert.deepEqual(it.faults, []);
});
