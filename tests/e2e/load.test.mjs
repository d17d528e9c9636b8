// `cargo xtask load`, in short, on every relay: nothing is lost, also when connections break on the way.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { startBothFaulty } from "./support/faults.mjs";
import { RUN_LIMIT, load } from "./support/load-tool.mjs";
import { RELAYS } from "./support/relays.mjs";
import { startGate } from "./support/tcp-gate.mjs";
import { verified } from "./support/verified.mjs";

for (const { label, start } of RELAYS) {
  describe(`load on ${label}`, () => {
    let relay;
    before(async () => {
      relay = await start();
    });
    after(() => relay?.stop());

    test("A.60 A.63 10 clients in 3 documents: every write is delivered once and stored", async () => {
      const { code, json, shown } = await load(relay, relay.url, ["--clients", "10", "--documents", "3", "--rate", "2", "--seconds", "5"]);
      assert.equal(code, 0, shown);
      assert.equal(json.writes, json.expectedWrites);
      assert.ok(json.writes > 80, `${json.writes} writes`);
      assert.deepEqual({ ...json.stored, firstMissing: null }, { found: json.writes, missing: 0, unexpected: 0, writers: 10, firstMissing: null });
      assert.equal(json.deliveries.live + json.deliveries.bySync, json.deliveries.expected);
      assert.deepEqual(json.documentsApart, []);
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
