// The first relay dies while people type, and comes back: nobody notices more than a pause.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import * as Y from "yjs";
import { SyncProvider } from "../../client-sdk/src/index.ts";
import { startStack } from "../../tools/stack.mjs";
import { startBoth } from "./support/relays.mjs";
import { reconnects, verified } from "./support/verified.mjs";
import { sleep, until } from "./support/waiting.mjs";

const PEOPLE = ["ann", "ben", "cat"];
const KEYSTROKE_MS = 100;
/** How long people type before, between and after. */
const PHASE_MS = 3000;
/** A move back is looked for every few minutes; here every second. */
const TIMES = { probeMs: 1000 };

/** A person who types marked entries until told to stop. */
function typist(name, options) {
  const doc = new Y.Doc();
  const it = { name, doc, count: 0, closes: [], telemetry: [] };
  it.provider = new SyncProvider({ doc, onTelemetry: (event) => it.telemetry.push(event), times: TIMES, ...options });
  it.provider.on("close", ({ code }) => it.closes.push(code));
  it.entries = () => doc.getArray("entries").toArray();
  // Without the API nobody is told that the document is complete (D4): there it stays at connected.
  it.label = () => (["connected", "synced"].includes(it.provider.status.connection) ? it.provider.status.label : undefined);
  const timer = setInterval(() => {
    doc.getArray("entries").push([`${name}.${it.count}`]);
    it.count += 1;
  }, KEYSTROKE_MS);
  it.rest = () => clearInterval(timer);
  it.stop = () => {
    clearInterval(timer);
    it.provider.destroy();
  };
  return it;
}

test("A.75 the runtime of the first relay is killed while three type: all go on at the second, and come back", { timeout: 150_000 }, async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), "yrelay-failover-"));
  const { cf, deno } = await startBoth({ dataDir });
  let again;
  let people = [];
  try {
    const workspace = await cf.workspace();
    const token = async (sub) => (await workspace.rest("POST", "/tokens", { body: { purpose: "relay" }, token: workspace.apiToken({ sub, role: "editor" }) })).json;
    people = PEOPLE.map((sub) => typist(sub, {
      workspace: workspace.id, document: "d", getToken: () => token(sub),
      relays: [{ label: "cf", url: cf.url }, { label: "deno", url: deno.url }],
    }));
    const everybody = (label) => () => people.every((person) => person.label() === label);
    const heard = (counts) => () => people.every((person) => {
      const there = new Set(person.entries());
      return PEOPLE.every((name, n) => there.has(`${name}.${counts[n] - 1}`));
    });
    await until(everybody("cf"), "all on the first relay");
    await sleep(PHASE_MS);

    const killed = Date.now();
    const typed = people.map(({ count }) => count);
    await cf.stack.kill();
    await until(everybody("deno"), "all on the second relay");
    await until(heard(typed), "what was typed until the kill is at everybody");
    t.diagnostic(`on the second relay and converged ${Date.now() - killed} ms after the kill`);
    await sleep(PHASE_MS);

    const port = Number(new URL(cf.api).port);
    again = await startStack({ dataDir, port });
    await until(everybody("cf"), "all back on the first relay", 60_000);
    await sleep(PHASE_MS);
    for (const person of people) person.rest();
    const wanted = people.flatMap(({ name, count }) => Array.from({ length: count }, (_, n) => `${name}.${n}`)).sort();
    await until(() => people.every((person) => person.entries().length === wanted.length), "everything at everybody");
    for (const person of people) assert.deepEqual(person.entries().sort(), wanted, `${person.name} has everything once`);
    assert.equal(new Set(people.map((person) => person.entries().join())).size, 1, "in the same order");
    await Promise.all(people.map((person) => person.provider.flush(AbortSignal.timeout(20_000))));
    const stored = await workspace.rest("GET", "/docs/d", { headers: { accept: "application/json" } });
    assert.deepEqual(stored.json.entries.sort(), wanted, "and so has the database");
    await verified(dataDir);
    t.diagnostic(reconnects(people.flatMap(({ closes }) => closes)));
    for (const { telemetry } of people) {
      const moves = telemetry.map(({ name, fromLabel, toLabel }) => `${name} ${fromLabel} ${toLabel}`);
      assert.deepEqual([moves[0], moves.at(-1)], ["relay_advance cf deno", "relay_advance deno cf"]);
    }
  } finally {
    for (const person of people) person.stop();
    await deno.stop();
    await again?.stop();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  }
});
