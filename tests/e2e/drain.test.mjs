// A relay is taken out of service while people type on it, and put back: nobody reloads, nothing is lost, and
// what it had relayed when it let go is in the database before its process ends.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { person } from "./support/person.mjs";
import { startAnother, startBoth } from "./support/relays.mjs";
import { reconnects, verified } from "./support/verified.mjs";
import { PATIENCE, sleep, until } from "./support/waiting.mjs";

const KEYSTROKE_MS = 80;
/** How long people type in each phase, in ms. */
const PHASE_MS = 1_500;
/** Nobody is back before the process has ended, so what is stored by then is its own doing. */
const TIMES = { minDelayMs: 3_000, restartSpreadMs: 3_200, baseMs: 3_200, probeMs: 1_000 };

test("A.2 A.8 A.54 A.73 O07 the Deno relay stops under people who type: saved at its release, they go on elsewhere and come back", { timeout: 120_000 }, async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), "yrelay-drain-"));
  const { cf, deno } = await startBoth({ dataDir, relay: { onLog: () => {} } });
  t.after(async () => {
    await deno.process.stop();
    await cf.stop();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });
  const workspace = await cf.workspace();
  const [here, there] = [cf, deno].map(({ label, url }) => ({ label, url }));
  const come = (sub, relays) => {
    const one = person({ seed: cf.stack.secrets.SCOPE_SIGNING_KEY, workspace: workspace.id, sub, relays, times: TIMES });
    t.after(() => one.stop());
    const words = [];
    const say = () => {
      words.push(`<${sub}.${words.length}>`);
      one.type(words.at(-1));
    };
    // What it had when the relay let it go.
    let released;
    one.provider.on("close", () => (released ??= one.text()));
    return Object.assign(one, { words, say, released: () => released });
  };
  const movers = [come("ann", [there, here]), come("ben", [there, here])];
  const people = [...movers, come("cat", [here])];
  const wordsIn = (text) => (text.match(/<[^<>]*>/g) ?? []).toSorted();
  const typing = setInterval(() => people.forEach((one) => one.say()), KEYSTROKE_MS);
  t.after(() => clearInterval(typing));
  await until(() => movers.every((one) => one.on("deno")) && people.every((one) => one.synced()), "all are in, on their first relay");
  await sleep(PHASE_MS);

  const { port } = deno.process;
  assert.deepEqual(await deno.process.stop("SIGTERM"), { code: 0, signal: null });
  const stored = new Set(wordsIn(await workspace.text()));
  assert.ok(movers.every((one) => !one.synced()), "nobody is back yet");
  for (const [one, other] of [movers, movers.toReversed()]) {
    const relayed = wordsIn(one.released()).filter((word) => word.startsWith(`<${other.sub}.`));
    assert.ok(relayed.length > 5);
    assert.deepEqual(relayed.filter((word) => !stored.has(word)), [], `what ${one.sub} had from ${other.sub} is stored`);
  }
  await until(() => movers.every((one) => one.on("cf")), "both are on the second relay", 2 * PATIENCE);
  await sleep(PHASE_MS);
  deno.process = (await startAnother(deno, { port, onLog: () => {} })).process;
  await until(() => movers.every((one) => one.on("deno")), "both are back on the first", 2 * PATIENCE);
  await sleep(PHASE_MS);
  clearInterval(typing);

  const wanted = people.flatMap(({ words }) => words).toSorted();
  await until(() => people.every((one) => wordsIn(one.text()).length >= wanted.length), "every word is at everybody", 2 * PATIENCE);
  await Promise.all(people.map(({ provider }) => provider.flush(AbortSignal.timeout(PATIENCE))));
  const text = people[0].text();
  assert.deepEqual(wordsIn(text), wanted, "each once");
  assert.deepEqual([...new Set([...people.map((one) => one.text()), await workspace.text()])], [text]);
  for (const one of movers) assert.deepEqual(one.closes, [1012], "told once, and asked to come back");
  assert.deepEqual(people[2].closes, []);
  await verified(dataDir);
  t.diagnostic(`${wanted.length} words; ${movers.map((one) => one.advances().join(", ")).join(" | ")}; ${reconnects(people.flatMap(({ closes }) => closes))}`);
});
