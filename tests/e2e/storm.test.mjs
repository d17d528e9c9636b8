// Everybody is sent away at once, and comes back: spread over seconds, without the documents going
// over the wire again (B08).
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import * as Y from "yjs";
import { startDenoRelay } from "../../tools/deno-relay.mjs";
import { publicScopeKey } from "../../tools/scope-key.mjs";
import { WALKER_TIMES } from "../../client-sdk/src/relay-walker.ts";
import { startStack } from "../../tools/stack.mjs";
import { buckets, busiest, countingEnvironment, histogram, seeded } from "./support/counting-environment.mjs";
import { FAULTY, commanded, startBothFaulty, startFaulty } from "./support/faults.mjs";
import { readMetrics } from "./support/metrics.mjs";
import { person } from "./support/person.mjs";
import { startDeno } from "./support/relays.mjs";
import { reconnects, verified } from "./support/verified.mjs";
import { PATIENCE, until } from "./support/waiting.mjs";

/** How many people, ten to a room. The whole case has 500; then leave it a quiet machine. */
const CLIENTS = Number(process.env.YRELAY_STORM_CLIENTS ?? 100);
const PER_ROOM = 10;
/** How many of them when a process is killed: two more processes start while they come back. */
const CRASHED = Number(process.env.YRELAY_STORM_CLIENTS ?? 50);
/** Of 500 clients fewer than 150 may come within a second. */
const PEAK_SHARE = 150 / 500;
/** Their connects are due over at least this time, in ms. */
const LEAST_SPREAD = 5_000;
/** Within this time all are synced, in ms. */
const ALL_BACK = 30_000;
/** The width of a bucket of arrivals, in ms (A.25). */
const BUCKET = 100;
/** More standard deviations than chance has in a few dozen buckets. */
const DEVIATIONS = 5;
/** The reads of whole documents: those past a clock begin with that clock. */
const LOAD = { on: "d1", match: "ORDER BY clock, part LIMIT 256 -- 0 ", how: "pass" };
/** Letters of each document: many times what a sync without news may have. */
const LETTERS = 20_000;
/** The longest step 2 without news: an empty update, and the header of the frame. */
const NOTHING_NEW = 8;
/** The longest step 2 that brings a word. */
const A_WORD = 100;

/** Rooms with a stored document each, and everybody in them. */
async function gather(t, relay, clients = CLIENTS) {
  const crowd = [];
  t.after(() => crowd.forEach((one) => one.stop()));
  for (let room = 0; room < clients / PER_ROOM; room += 1) {
    const workspace = await relay.workspace();
    const doc = new Y.Doc();
    doc.getText("t").insert(0, "x".repeat(LETTERS));
    const made = await workspace.rest("POST", "/docs/d/updates", { body: Y.encodeStateAsUpdate(doc), headers: { "content-type": "application/octet-stream" } });
    assert.equal(made.status, 201, made.text);
    for (let seat = 0; seat < PER_ROOM; seat += 1) {
      const number = crowd.length;
      const environment = countingEnvironment(seeded(number + 1));
      const sub = `p${number}`;
      const relays = [{ label: relay.label, url: relay.url }];
      crowd.push(Object.assign(person({ seed: relay.stack.secrets.SCOPE_SIGNING_KEY, workspace: workspace.id, sub, relays, environment }), { room, workspace, counts: environment.counts }));
    }
    // Not all at once: that is the case itself, later.
    await until(() => crowd.every((one) => one.synced()), "the room is full", ALL_BACK);
  }
  return crowd;
}

/** What is asked of a return: how the connects were spread, and what the syncs brought. Answers how many connects. */
function judge(t, crowd, before, longest) {
  const attempts = crowd.flatMap(({ counts }, n) => counts.attempts.slice(before[n]));
  const due = attempts.map((attempt) => attempt.due);
  const peak = busiest(due, 1000);
  const spread = Math.round(Math.max(...due) - Math.min(...due));
  const codes = histogram(crowd.flatMap(({ closes }) => closes));
  const sync = crowd.map(({ counts }) => counts.sync);
  const step2 = sync.flatMap(({ sent, received }) => [...sent.step2, ...received.step2]);
  t.diagnostic(`${attempts.length} connects of ${crowd.length} clients: due over ${spread} ms, at most ${peak} within a second; made: at most ${busiest(attempts.map(({ at }) => at), 1000)}`);
  t.diagnostic(`closes ${JSON.stringify(codes)}; longest step 2 ${Math.max(...step2)} of ${LETTERS} bytes; ${step2.reduce((sum, length) => sum + length, 0)} bytes in ${step2.length} of them`);
  assert.ok(peak < PEAK_SHARE * crowd.length, `${peak} of ${crowd.length} within a second`);
  assert.ok(spread >= LEAST_SPREAD, `due within ${spread} ms`);
  assert.equal(step2.length, 2 * crowd.length, "one in each direction");
  assert.ok(Math.max(...step2) <= longest, `a step 2 of ${Math.max(...step2)} bytes`);
  assert.deepEqual(codes, { 1012: crowd.length });
  return attempts.length;
}

/** Everybody still has the same as the database. */
async function same(crowd) {
  for (const one of crowd.filter((_, n) => n % PER_ROOM === 0)) {
    const room = crowd.filter(({ room }) => room === one.room);
    await until(() => new Set(room.map((other) => other.text())).size === 1, "the room agrees");
    await until(async () => (await one.workspace.text()) === one.text(), "and the database");
  }
}

test("B08 the Deno relay restarts under its crowd: back over seconds, no document sent again, no error", { timeout: 240_000 }, async (t) => {
  const relay = await startDeno({ relay: { onLog: () => {} } });
  t.after(() => relay.stop());
  const crowd = await gather(t, relay);
  for (const one of crowd.filter((_, n) => n % PER_ROOM === 0)) one.type(" word");
  await until(() => crowd.every((one) => one.text().endsWith(" word")), "everybody has the last word");
  await until(() => crowd.every((one, n) => n % PER_ROOM > 0 || one.provider.status.save === "saved"), "it is saved");
  const before = crowd.map(({ counts }) => counts.attempts.length);
  const old = relay.process;
  const errors = (await readMetrics(old.http)).sum("api_errors_total");
  assert.deepEqual(await old.stop("SIGTERM"), { code: 0, signal: null });
  const { SCOPE_SIGNING_KEY } = relay.stack.secrets;
  const token = relay.stack.mint({ sub: "relay-deno", kind: "service", workspaces: { "*": "editor" }, ttl: 3600 });
  relay.process = await startDenoRelay({ api: relay.api, token, publicKey: publicScopeKey(SCOPE_SIGNING_KEY), port: old.port, onLog: () => {} });
  await until(() => crowd.every((one, n) => one.synced() && one.counts.attempts.length > before[n]), "all are synced again", ALL_BACK);
  judge(t, crowd, before, NOTHING_NEW);
  await same(crowd);
  const { sum } = await readMetrics(relay.process.http);
  const wrongs = ["api_errors_total", "flush_errors_total", "rejected_total", "traps_total", "unhandled_errors_total"].map(sum);
  assert.deepEqual([errors, ...wrongs], [0, 0, 0, 0, 0, 0]);
});

test("B08 the Durable Objects lose their memory under a crowd that types: back over seconds, no document sent again", { timeout: 240_000 }, async (t) => {
  const relay = await startFaulty({ onLog: () => {} });
  t.after(() => relay.stop());
  const crowd = await gather(t, relay);
  const struck = await relay.workspace();
  const before = crowd.map(({ counts }) => counts.attempts.length);
  // In each room a word that is relayed and cannot be saved. A panic anywhere then takes the memory of
  // all rooms, which find out at their next event, and send everybody away with 1012 (D1b).
  await relay.faults({ on: "d1", match: "INSERT INTO doc_updates", how: "fail" });
  const writers = crowd.filter((_, n) => n % PER_ROOM === 0);
  for (const writer of writers) writer.type(" word");
  await until(() => crowd.every((one) => one.text().endsWith(" word")), "everybody has the word");
  const panic = await fetch(`${relay.api}/__dev/rooms/${struck.id}/panic`, { signal: AbortSignal.timeout(PATIENCE) });
  assert.equal((await panic.text(), panic.status), 500);
  await relay.faults();
  for (const writer of writers) writer.type(".");
  await until(() => crowd.every((one, n) => one.synced() && one.counts.attempts.length > before[n]), "all are synced again", ALL_BACK);
  assert.equal(judge(t, crowd, before, A_WORD), crowd.length, "each connect works");
  await same(crowd);
  assert.ok(crowd.every((one) => one.text().endsWith(" word.")));
});

/**
 * What is asked of a return from a crash. A try comes uniformly within a window that doubles with each, so
 * of all that are due in one bucket no more than the share of the first window and half of it and so on.
 */
function judgeCrash(t, crowd, before, { since, loads, mostLoads }) {
  const tries = crowd.map(({ counts }, n) => counts.attempts.slice(before[n]).map(({ due }) => due));
  const first = buckets(tries.map(([due]) => due), BUCKET);
  const all = buckets(tries.flat(), BUCKET);
  const share = BUCKET / (WALKER_TIMES.baseMs - WALKER_TIMES.minDelayMs);
  const most = (part) => crowd.length * part + DEVIATIONS * Math.sqrt(crowd.length * part);
  const opens = crowd.map(({ counts }) => counts.openedAt.at(-1));
  t.diagnostic(`${crowd.length} clients, ${tries.flat().length} connects, the last of them open ${Math.max(...opens) - since} ms after the kill; per ${BUCKET} ms at most ${Math.max(...all)}, of the first tries ${first.join(" ")}`);
  t.diagnostic(`${loads} loads of ${crowd.length / PER_ROOM} documents; ${reconnects(crowd.flatMap(({ closes }) => closes))}`);
  assert.ok(Math.max(...first) <= most(share), `${Math.max(...first)} first tries in a bucket`);
  assert.ok(Math.max(...all) <= most(2 * share), `${Math.max(...all)} in a bucket`);
  assert.ok(loads >= crowd.length / PER_ROOM && loads <= mostLoads, `${loads} loads: a document is not loaded for each client`);
}

/** One word of each room has a receipt, and one after it has only been relayed. */
async function typeTwice(crowd) {
  const writers = crowd.filter((_, n) => n % PER_ROOM === 0);
  for (const writer of writers) writer.type(" saved");
  await Promise.all(writers.map(({ provider }) => provider.flush(AbortSignal.timeout(ALL_BACK))));
  for (const writer of writers) writer.type(" word");
  await until(() => crowd.every((one) => one.text().endsWith(" saved word")), "everybody has the last word");
}

const allBack = (crowd, before) => until(() => crowd.every((one, n) => one.synced() && one.counts.attempts.length > before[n]), "all are synced again", 2 * ALL_BACK);

test("A.19 A.25 A.75 B08 O07 the Deno relay is killed under its crowd: back by full jitter, no load for each client, nothing lost", { timeout: 240_000 }, async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), "yrelay-storm-"));
  const { cf, deno } = await startBothFaulty({ dataDir, relay: { onLog: () => {} } });
  t.after(async () => {
    await deno.stop();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });
  const crowd = await gather(t, deno, CRASHED);
  await typeTwice(crowd);
  const before = crowd.map(({ counts }) => counts.attempts.length);
  await cf.faults(LOAD);
  const since = Date.now();
  const old = deno.process;
  await old.kill();
  const { SCOPE_SIGNING_KEY } = deno.stack.secrets;
  const token = deno.stack.mint({ sub: "relay-deno", kind: "service", workspaces: { "*": "editor" }, ttl: 3600 });
  deno.process = await startDenoRelay({ api: deno.api, token, publicKey: publicScopeKey(SCOPE_SIGNING_KEY), port: old.port, onLog: () => {} });
  await allBack(crowd, before);
  const [loads] = await cf.hits();
  await same(crowd);
  assert.ok(crowd.every((one) => one.text().endsWith(" saved word")));
  // A feed that opens during a load may make the room ask for the same once more.
  judgeCrash(t, crowd, before, { since, loads, mostLoads: (2 * CRASHED) / PER_ROOM });
  await verified(dataDir);
});

test("A.19 A.25 A.75 B08 the runtime of the Durable Objects is killed under its crowd: back by full jitter, documents loaded once, nothing lost", { timeout: 240_000 }, async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), "yrelay-storm-"));
  const relay = await startFaulty({ dataDir, onLog: () => {} });
  t.after(async () => {
    await relay.stop();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });
  const crowd = await gather(t, relay, CRASHED);
  await typeTwice(crowd);
  const before = crowd.map(({ counts }) => counts.attempts.length);
  const since = Date.now();
  const port = Number(new URL(relay.api).port);
  await relay.stack.kill();
  relay.stack = await startStack({ dataDir, port, entry: FAULTY, vars: { FAULTS: JSON.stringify([LOAD]) }, onLog: () => {} });
  await allBack(crowd, before);
  const [loads] = await commanded(relay).hits();
  await same(crowd);
  assert.ok(crowd.every((one) => one.text().endsWith(" saved word")));
  judgeCrash(t, crowd, before, { since, loads, mostLoads: CRASHED / PER_ROOM });
  await verified(dataDir);
});
