// `cargo xtask load`, in short, on every relay: nothing is lost, also when connections break on the way.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { startBothFaulty } from "./support/faults.mjs";
import { RUN_LIMIT, load } from "./support/load-tool.mjs";
import { RELAYS } from "./support/relays.mjs";
import { startGate } from "./support/tcp-gate.mjs";
import { verified } from "./support/verified.mjs";

/** What the relay's process says of itself: the Deno relay has `/metrics`, a Durable Object has no process. */
function checkProcess(label, { relayProcess, relayProcessNote }) {
  if (label === "cf") {
    assert.equal(relayProcess, null);
    assert.match(relayProcessNote, /\/metrics (answered 404|has no series)/);
    return;
  }
  const { samples, failedScrapes, peakResidentMiB, loopDelayMs, flushErrors, apiErrors, rejected, frames, highestQueuedBytes } = relayProcess;
  assert.ok(samples >= 2 && peakResidentMiB > 10 && loopDelayMs.longest >= loopDelayMs.p99, JSON.stringify(relayProcess));
  assert.deepEqual({ failedScrapes, flushErrors, apiErrors, rejected }, { failedScrapes: 0, flushErrors: 0, apiErrors: {}, rejected: {} });
  assert.ok(frames.in > 0 && frames.out > frames.in, JSON.stringify(frames));
  // Nothing piles up: at the moment of a scrape at most what one turn of the loop has sent.
  assert.ok(highestQueuedBytes < 16 * 1024, `${highestQueuedBytes} bytes queued`);
}

for (const { label, start } of RELAYS) {
  describe(`load on ${label}`, () => {
    let relay, folder;
    before(async () => {
      relay = await start();
      folder = mkdtempSync(join(tmpdir(), "yrelay-load-earlier-"));
    });
    after(async () => {
      rmSync(folder, { recursive: true, force: true });
      await relay?.stop();
    });

    test("A.56 A.60 A.63 A.66 A.70 10 clients in 3 documents: every write is delivered once and stored", async () => {
      const { code, json, shown } = await load(relay, relay.url, ["--clients", "10", "--documents", "3", "--rate", "2", "--seconds", "5"]);
      assert.equal(code, 0, shown);
      assert.equal(json.writes, json.expectedWrites);
      assert.ok(json.writes > 80, `${json.writes} writes`);
      assert.deepEqual({ ...json.stored, firstMissing: null }, { found: json.writes, missing: 0, unexpected: 0, writers: 10, firstMissing: null });
      assert.equal(json.deliveries.live + json.deliveries.bySync, json.deliveries.expected);
      assert.deepEqual(json.documentsApart, []);
      const { samples, dropped, aboveBound, p50, p95, p99 } = json.latencyMs;
      assert.deepEqual({ samples, dropped, aboveBound }, { samples: json.deliveries.live, dropped: 0, aboveBound: 0 });
      assert.ok(p50 > 0 && p50 <= p95 && p95 <= p99, shown);
      assert.match(shown, /\bone run is no capacity\b/);
      checkProcess(label, json);
    });

    test("A.62 A.64 A.77 A.78 two runs of one hot document beside those of three documents, and none beside what differs in more", async () => {
      const [earlier, fast] = ["earlier.json", "fast.json"].map((name) => join(folder, name));
      const args = ["--clients", "6", "--rate", "2", "--seconds", "3"];
      const first = await load(relay, relay.url, [...args, "--documents", "3"]);
      assert.equal(first.code, 0, first.shown);
      writeFileSync(earlier, JSON.stringify(first.json));

      const { code, json, shown } = await load(relay, relay.url, [...args, "--documents", "1", "--runs", "2", "--compare", earlier]);
      assert.equal(code, 0, shown);
      assert.equal(json.runs.length, 2);
      assert.notEqual(json.runs[0].workspace, json.runs[1].workspace);
      for (const run of json.runs) {
        assert.deepEqual([run.reconnects, run.stored.missing, run.writes], [{}, 0, run.expectedWrites]);
        checkProcess(label, run);
      }
      const { median, lowest, highest, runs } = json.spread["latencyMs.p95"];
      const both = json.runs.map((run) => run.latencyMs.p95).sort((a, b) => a - b);
      assert.deepEqual([lowest, highest, runs], [...both, 2]);
      assert.ok(Math.abs(median - (both[0] + both[1]) / 2) < 1e-9);
      assert.equal(json.comparison.difference, "documents (3 then, 1 now)");
      // Each write goes to five others and not to one.
      assert.equal(json.comparison.numbers["deliveries.live"].ratio, json.spread["deliveries.live"].median / first.json.deliveries.live);

      const refused = await load(relay, relay.url, [...args, "--documents", "1", "--ramp", "10", "--compare", earlier]);
      assert.equal(refused.code, 2, refused.shown);
      assert.match(refused.shown, /documents \(3 then, 1 now\), rampMs \(20 then, 10 now\)/);

      // Latencies are at least a microsecond.
      writeFileSync(fast, JSON.stringify({ ...first.json, latencyMs: { ...first.json.latencyMs, p95: 1e9, p99: 1e-6 } }));
      const slower = await load(relay, relay.url, [...args, "--documents", "3", "--compare", fast, "--max-ratio", "2"]);
      assert.equal(slower.code, 1, slower.shown);
      assert.match(slower.shown, /latencyMs\.p99 is \S+ times the earlier one, over 2\nFAILED/);
      assert.equal(slower.json.comparison.slower.length, 1);
    });

    test("A.68 A.76 connections that break cost nothing but time", async () => {
      const gate = await startGate(relay.url);
      const url = `${gate.url.replace(/^http/, "ws")}/ws`;
      const run = load(relay, url, ["--clients", "6", "--documents", "2", "--rate", "4", "--seconds", "8"]);
      // Resets what is open, and lets in who comes again.
      const cuts = setInterval(() => gate.open(), 2500);
      const { code, json, shown } = await run.finally(() => clearInterval(cuts));
      await gate.stop();
      assert.equal(code, 0, shown);
      assert.ok(json.reconnects["1006"] > 0, shown);
      assert.equal(json.stored.missing, 0);
      assert.ok(json.disconnectedSeconds > 0, shown);
    });
  });
}

test("A.58 A.59 A.68 11 of 24 saves fail: 10 clients in 2 documents of each relay converge, without a reconnect", { timeout: 2 * RUN_LIMIT }, async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), "yrelay-conflicts-"));
  const { cf, deno } = await startBothFaulty({ dataDir, onLog: () => {}, relay: { onLog: () => {} } });
  t.after(async () => {
    await deno.stop();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });
  await cf.faults({ on: "d1", match: "INSERT INTO doc_updates", how: "fail", some: 11, of: 24 });
  const runs = await Promise.all([cf, deno].map((relay) => load(relay, relay.url, ["--clients", "10", "--documents", "2", "--rate", "3", "--seconds", "4"])));
  const [hits] = await cf.hits();
  for (const { code, json, shown } of runs) {
    assert.equal(code, 0, shown);
    assert.deepEqual([json.stored.found, json.stored.missing, json.reconnects, json.documentsApart], [json.writes, 0, {}, []]);
  }
  assert.ok(hits > 4, `${hits} saves failed`);
  await verified(dataDir);
  t.diagnostic(`${runs.map(({ json }) => json.writes).join(" and ")} writes, ${hits} failed saves, no reconnect`);
});
