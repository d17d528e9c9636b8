import assert from "node:assert/strict";
import { test } from "node:test";
import { mayPass, parseRetryAfter, reopen, retryDelay } from "./backoff.ts";
import { RETRY_BASE_MS, RETRY_CAP_MS, RETRY_MIN_MS, STABLE_MS, STREAM_RETRY_BASE_MS } from "./limits.ts";

test("A.10 delays are anything up to a ceiling that doubles to its end", () => {
  for (const [failures, ceiling] of [[0, RETRY_BASE_MS], [1, 2 * RETRY_BASE_MS], [3, 8 * RETRY_BASE_MS], [9, RETRY_CAP_MS], [5_000, RETRY_CAP_MS]] as const) {
    assert.equal(retryDelay(failures, 0, null), RETRY_MIN_MS);
    assert.equal(retryDelay(failures, 0.5, null), ceiling / 2);
  }
});

test("Retry-After is the least delay, in seconds or as a date", () => {
  assert.equal(retryDelay(0, 0, 7_000), 7_000);
  assert.equal(retryDelay(0, 0.5, 7_000), 7_000 + RETRY_BASE_MS / 2);
  const now = Date.parse("2026-01-02T03:04:05Z");
  assert.deepEqual(["3", "0", "Fri, 02 Jan 2026 03:04:15 GMT", "Fri, 02 Jan 2026 03:00:00 GMT", "soon", null].map((header) => parseRetryAfter(header, now)), [3_000, 0, 10_000, 0, null, null]);
});

test("a stream that did not last is a failure however it ended; one that lasted begins anew", () => {
  const bye = { kind: "bye", retryMs: 2_000 } as const;
  const lost = { kind: "lost", retryAfterMs: null } as const;
  const half = 0.5;
  assert.deepEqual(reopen(4, bye, STABLE_MS, half), { failures: 0, delayMs: 1_000 });
  assert.deepEqual(reopen(4, { kind: "bye", retryMs: null }, STABLE_MS, half), { failures: 0, delayMs: 1_000 });
  assert.deepEqual(reopen(4, { kind: "bye", retryMs: 1e9 }, STABLE_MS, half), { failures: 0, delayMs: RETRY_CAP_MS / 2 });
  assert.deepEqual(reopen(4, bye, STABLE_MS - 1, half), { failures: 5, delayMs: RETRY_CAP_MS / 2 });
  assert.deepEqual(reopen(4, lost, STABLE_MS - 1, half), { failures: 5, delayMs: RETRY_CAP_MS / 2 });
  assert.deepEqual(reopen(4, lost, STABLE_MS, half), { failures: 1, delayMs: STREAM_RETRY_BASE_MS / 2 });
  assert.deepEqual(reopen(2, lost, 0, half), { failures: 3, delayMs: 2 * STREAM_RETRY_BASE_MS });
  assert.deepEqual(reopen(0, { kind: "lost", retryAfterMs: 90_000 }, 0, 0), { failures: 1, delayMs: 90_000 });
  assert.deepEqual(reopen(0, { kind: "lost", retryAfterMs: 1e12 }, 0, 0), { failures: 1, delayMs: 3_600_000 });
});

test("what may pass by itself", () => {
  const passing = [200, 204, 301, 400, 401, 403, 404, 408, 409, 410, 412, 422, 425, 429, 500, 502, 503, 504, 522].filter(mayPass);
  assert.deepEqual(passing, [408, 425, 429, 500, 502, 503, 504, 522]);
});
