// Deno relays behind one address, 1, 2, 4, 2 and 1 of them, while people type. They know nothing of each other:
// no membership, no leases, nobody owns a document and no connection is passed on. What holds editors of one
// document together is the database and the feed (D3), so members may come and go at any moment.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { startBalancer } from "./support/balancer.mjs";
import { load } from "./support/load-tool.mjs";
import { readMetrics } from "./support/metrics.mjs";
import { startAnother, startCf } from "./support/relays.mjs";
import { verified } from "./support/verified.mjs";
import { PATIENCE, sleep, until } from "./support/waiting.mjs";

/** From the first person to the last write, in s. The whole case has 720; then leave it a quiet machine. */
const SECONDS = Number(process.env.YRELAY_SCALE_SECONDS ?? 30);
/** People, documents, and writes a second of each; the whole case as in row A.67. */
const [CLIENTS, DOCUMENTS, RATE] = SECONDS >= 720 ? [100, 25, 1] : [20, 5, 2];
/** How many relays there are, in turn, for equal times. */
const STEPS = [1, 2, 4, 2, 1];
/** How long a relay that is told to stop still takes who comes, in ms: the balancer looks several times meanwhile. */
const PRESTOP_MS = 1_000;
/** How long a run may take to converge, in ms: as long as the tool itself waits, and some time to compile it. */
const SETTLE_MS = 240_000;

/** The relays behind the balancer; each is a process with a label and a spool of its own. */
class Members {
  #made = 0;
  live = [];
  ends = [];

  constructor(cf, balancer, folder) {
    Object.assign(this, { cf, balancer, folder });
  }

  async grow(to) {
    while (this.live.length < to) {
      const label = `r${(this.#made += 1)}`;
      const spoolDir = join(this.folder, label);
      const relay = await startAnother(this.cf, { label, spoolDir, vars: { RELAY_PRESTOP_MS: `${PRESTOP_MS}` }, onLog: () => {} });
      this.live.push(Object.assign(relay, { spoolDir }));
      this.balancer.add(label, relay.process.http);
    }
  }

  /** The oldest go, at the same time: in the end nobody is left of the first. Answers how many connections they had. */
  async shrink(to) {
    const open = this.balancer.open();
    const leaving = this.live.splice(0, this.live.length - to);
    await Promise.all(leaving.map(async (relay) => {
      const counts = await counters(relay);
      const end = await relay.process.stop("SIGTERM");
      const [drained] = relay.process.logs.filter(({ event }) => event === "drained");
      this.ends.push({ label: relay.label, ...end, unsaved: drained?.unsaved_rooms, spooled: spooled(relay.spoolDir), ...counts });
      await this.balancer.remove(relay.label);
    }));
    return leaving.reduce((sum, { label }) => sum + open[label], 0);
  }

  async stop() {
    await Promise.all(this.live.map(({ process }) => process.stop()));
  }
}

/** What a relay counted: of the first three nothing may have happened, saves that failed are tried again. */
async function counters({ process }) {
  const { sum } = await readMetrics(process.http);
  const [rejected, traps, unhandled, flushErrors] = ["rejected_total", "traps_total", "unhandled_errors_total", "flush_errors_total"].map(sum);
  return { wrong: rejected + traps + unhandled, flushErrors };
}

/** Rows that a relay left in its spool. */
function spooled(folder) {
  const database = new DatabaseSync(join(folder, "spool.sqlite"));
  const [{ rows }] = database.prepare("SELECT count(*) AS rows FROM updates").all();
  database.close();
  return rows;
}

/** Over how many relays the editors of each document are spread, such as `{"load/0": 3}`. */
function spread(paths) {
  const relays = {};
  for (const asked of Object.values(paths)) {
    for (const path of new Set(asked)) {
      const document = path.split("/").slice(3).join("/");
      relays[document] = (relays[document] ?? 0) + 1;
    }
  }
  return relays;
}

/** Such as "3 on 2, 2 on 3". */
function histogram(numbers) {
  const groups = Map.groupBy(numbers, (number) => number);
  return [...groups].sort(([a], [b]) => a - b).map(([number, all]) => `${all.length} on ${number}`).join(", ");
}

const total = (counts) => Object.values(counts).reduce((sum, count) => sum + count, 0);

/** Everybody is connected, and has said to what. */
function everybody(balancer) {
  const paths = () => Object.values(balancer.paths()).flat();
  return until(() => paths().length === CLIENTS && paths().every((path) => path !== ""), `all ${CLIENTS} are connected`, 2 * PATIENCE);
}

/** Grows or shrinks. Answers how many connections that broke, how many were sent away, and how it is spread then. */
async function scaled({ members, balancer }, count) {
  await everybody(balancer);
  const isMore = count > members.live.length;
  if (isMore) await members.grow(count);
  const sentAway = await members.shrink(count);
  const labels = members.live.map(({ label }) => label).toSorted();
  await until(() => balancer.ready().toSorted().join() === labels.join(), "who gets connections is who runs");
  // Nobody moves by itself: what is past an equal share comes again, as after any break.
  const cuts = isMore ? balancer.level() : 0;
  await everybody(balancer);
  const open = balancer.open();
  assert.ok(labels.every((label) => open[label] > 0), `each relay gets some: ${JSON.stringify(open)}`);
  return { cuts, sentAway, open, relays: Object.values(spread(balancer.paths())) };
}

/** Nothing is lost, nobody is left, and every relay ended as it should. */
function judge({ code, json, shown }, members, { cuts, sentAway }) {
  assert.equal(code, 0, shown);
  assert.deepEqual([json.stored.found, json.stored.missing, json.stored.unexpected, json.stored.writers], [json.writes, 0, 0, CLIENTS]);
  assert.ok(json.writes >= json.expectedWrites - CLIENTS, `${json.writes} writes of ${json.expectedWrites}`);
  assert.deepEqual([json.documentsApart, json.failedClients], [[], []]);
  // Told to come back, or broken by the balancer. Who sends at the very moment may not read why (docs/PROTOCOL.md).
  const { 1006: broken = 0, 1012: told = 0, ...others } = json.reconnects;
  assert.deepEqual(others, {});
  assert.equal(broken + told, cuts + sentAway, `${cuts} cut, ${sentAway} sent away: ${shown}`);
  assert.ok(told > 0 && cuts > 0);
  assert.ok(json.disconnectedSeconds > 0 && json.availability < 1, "a change of relays is a gap, and it is told");
  const good = { code: 0, signal: null, unsaved: 0, spooled: 0, wrong: 0 };
  assert.deepEqual(members.ends.map(({ label, flushErrors, ...end }) => end), members.ends.map(() => good), JSON.stringify(members.ends));
}

test("A.51 A.52 A.67 A.83 D3 O07 1, 2, 4, 2 and 1 Deno relays behind one address while people type: every write is stored, nobody is left behind", { timeout: SECONDS * 1000 + SETTLE_MS + 120_000 }, async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), "yrelay-scale-"));
  const cf = await startCf({ dataDir, onLog: () => {} });
  const balancer = await startBalancer();
  const members = new Members(cf, balancer, join(dataDir, "spools"));
  const failed = new AbortController();
  t.after(async () => {
    failed.abort();
    await balancer.stop();
    await members.stop();
    await cf.stop();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });
  await members.grow(1);
  await until(() => balancer.ready().length === 1, "the first relay is ready");
  let isOver = false;
  const url = `${balancer.url.replace(/^http/, "ws")}/ws`;
  // Behind the balancer there is no one process to ask for its numbers: the Worker says that it has none.
  const options = ["--clients", CLIENTS, "--documents", DOCUMENTS, "--rate", RATE, "--seconds", SECONDS];
  const args = [...options, "--metrics", `${cf.api}/metrics`].map(String);
  const run = load({ ...cf, label: "balanced" }, url, args, { limit: SECONDS * 1000 + SETTLE_MS, signal: failed.signal }).finally(() => (isOver = true));
  // The first run compiles the tool: time counts from the first connection on.
  await until(() => isOver || total(balancer.open()) > 0, "the first person", SETTLE_MS);
  const start = Date.now();
  const all = { cuts: 0, sentAway: 0 };
  let mostApart = 0;
  for (const [step, count] of STEPS.entries()) {
    await sleep(Math.max(0, start + (step * SECONDS * 1000) / (STEPS.length + 1) - Date.now()));
    const { cuts, sentAway, open, relays } = await scaled({ members, balancer }, count);
    assert.equal(isOver, false, "people still type");
    all.cuts += cuts;
    all.sentAway += sentAway;
    mostApart = Math.max(mostApart, ...relays);
    t.diagnostic(`${count} relays, connections ${JSON.stringify(open)}; documents by how many relays their editors are on: ${histogram(relays)}`);
  }
  const { code, json, shown } = await run;
  await members.shrink(0);
  judge({ code, json, shown }, members, all);
  assert.ok(mostApart > 1, "the editors of a document were on several relays");
  await verified(dataDir);
  const { p50, p95, p99, max } = json.latencyMs;
  const failures = members.ends.reduce((sum, { flushErrors }) => sum + flushErrors, 0);
  t.diagnostic(`${json.writes} writes, all stored; reconnects by close code ${JSON.stringify(json.reconnects)}, refused ${JSON.stringify(json.refusals)}, unserved ${balancer.unserved}; ${failures} saves tried again`);
  t.diagnostic(`disconnected ${json.disconnectedSeconds.toFixed(1)} s in all; latency ${p50}, ${p95}, ${p99}, ${max} ms`);
});
