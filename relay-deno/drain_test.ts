import assert from "node:assert/strict";
import { drain, type DrainedParts } from "./drain.ts";
import { createLog } from "./log.ts";

/** Parts that note what is done with them; a name in `failing` makes that step fail. */
function recorded(failing: readonly string[]) {
  const done: string[] = [];
  const step = (name: string) => () => {
    done.push(name);
    if (failing.includes(name)) throw new Error(`${name} failed`);
  };
  const later = (name: string) => () => Promise.resolve().then(step(name));
  const host = {
    isDraining: false,
    connections: 0,
    unsavedRooms: 0,
    flush: step("flush"),
    restart: step("restart"),
    spool: { flush: () => true, close: step("spool.close") },
  };
  const parts = {
    host,
    parting: { gone: later("parting.gone") },
    spoolDrain: () => ({ stop: later("spoolDrain.stop") }),
    server: { shutdown: later("server.shutdown") },
    log: createLog("deno", () => {}),
  };
  // What the drain uses of them, and no more.
  return { done, parts: parts as unknown as DrainedParts };
}

const STEPS = ["flush", "parting.gone", "restart", "server.shutdown", "spool.close", "spoolDrain.stop"];

Deno.test("B.54 every step of a stop is tried, and what failed is told together", async () => {
  const { done, parts } = recorded(["restart", "spool.close"]);
  await assert.rejects(drain(parts, 1000), (error: AggregateError) => {
    assert.deepEqual(error.errors.map(({ message }) => message), ["restart failed", "spool.close failed"]);
    return true;
  });
  assert.deepEqual(done.toSorted(), STEPS);
});

Deno.test("B.54 a stop without a failure settles, whatever fails it is not another step's fault", async () => {
  const clean = recorded([]);
  await drain(clean.parts, 1000);
  assert.deepEqual(clean.done.toSorted(), STEPS);
  for (const name of STEPS) {
    const { done, parts } = recorded([name]);
    await assert.rejects(drain(parts, 1000), AggregateError);
    assert.deepEqual(done.toSorted(), STEPS, name);
  }
});
