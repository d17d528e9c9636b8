import assert from "node:assert/strict";
import { backoff, pause } from "./backoff.ts";

Deno.test("delays double up to their maximum, and any part of them may be drawn", () => {
  const limits = { min: 500, max: 4000 };
  const longest = [0, 1, 2, 3, 4, 50, 5000].map((failures) => backoff(failures, limits, () => 1));
  assert.deepEqual(longest, [500, 1000, 2000, 4000, 4000, 4000, 4000]);
  assert.equal(backoff(3, limits, () => 0), 0);
  assert.equal(backoff(3, limits, () => 0.5), 2000);
});

Deno.test("a pause ends with its signal, before or during it", async () => {
  const stop = new AbortController();
  const waiting = pause(60_000, stop.signal);
  stop.abort();
  await waiting;
  await pause(60_000, stop.signal);
});
