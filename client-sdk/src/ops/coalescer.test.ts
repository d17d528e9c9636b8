// When writes go out: pauses, ages, one at a time; and how many writes a recorded hour of typing makes.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { Coalescer } from "./coalescer.ts";

test("C.29 a pause writes, not a keystroke: what is alone after 250 to 500 ms, who types on after twice that", () => {
  const coalescer = new Coalescer({ idleMs: 300, maxAgeMs: 5_000 });
  coalescer.handleAdd("a", 0);
  assert.deepEqual([coalescer.pollTimeout(0), coalescer.poll(299), coalescer.poll(300)], [300, [], ["a"]]);
  coalescer.handleDone("a", false, 300);
  for (const now of [1_000, 1_100, 1_200]) {
    coalescer.handleAdd("a", now);
    assert.deepEqual(coalescer.poll(now), []);
  }
  assert.deepEqual([coalescer.pollTimeout(1_200), coalescer.poll(1_799), coalescer.poll(1_800)], [1_800, [], ["a"]]);
  assert.equal(coalescer.pollTimeout(1_800), null);
});

test("C.29 the bounds are enforced", () => {
  for (const idleMs of [249, 501, NaN]) assert.throws(() => new Coalescer({ idleMs, maxAgeMs: 5_000 }), RangeError);
  for (const maxAgeMs of [299, Infinity, NaN]) assert.throws(() => new Coalescer({ idleMs: 300, maxAgeMs }), RangeError);
});

test("B10 who types without a pause is written at the maximum age", () => {
  const coalescer = new Coalescer({ idleMs: 500, maxAgeMs: 5_000 });
  const writes: number[] = [];
  for (let now = 0; now < 600_000; now += 100) {
    coalescer.handleAdd("a", now);
    for (const name of coalescer.poll(now)) {
      writes.push(now);
      coalescer.handleDone(name, false, now);
    }
  }
  assert.ok(writes.length >= 115 && writes.length <= 120, `${writes.length} writes in ten minutes`);
});

test("B10 two surfaces do not wait for each other", () => {
  const coalescer = new Coalescer({ idleMs: 250, maxAgeMs: 5_000 });
  coalescer.handleAdd("a", 0);
  coalescer.handleAdd("b", 200);
  assert.deepEqual(coalescer.poll(250), ["a"]);
  assert.deepEqual(coalescer.poll(450), ["b"]);
});

test("A.26 what comes during a request waits for its answer", () => {
  const coalescer = new Coalescer({ idleMs: 250, maxAgeMs: 5_000 });
  coalescer.handleAdd("a", 0);
  assert.deepEqual(coalescer.poll(250), ["a"]);
  coalescer.handleAdd("a", 300);
  assert.deepEqual(coalescer.poll(60_000), []);
  assert.equal(coalescer.pollTimeout(60_000), null);
  coalescer.handleDone("a", true, 60_000);
  assert.deepEqual(coalescer.poll(60_000), ["a"]);
});

test("a flush makes everything due, or one surface; after a failure the delay stays until the network is back", () => {
  const coalescer = new Coalescer();
  coalescer.handleAdd("a", 0);
  coalescer.handleAdd("b", 0);
  coalescer.handleFlush("b");
  assert.deepEqual(coalescer.poll(0), ["b"]);
  coalescer.handleFailure("b", 9_999, 1);
  coalescer.handleFlush();
  assert.deepEqual(coalescer.poll(1), ["a"]);
  assert.equal(coalescer.pollTimeout(1), 10_000);
  coalescer.handleWake();
  assert.deepEqual(coalescer.poll(2), ["b"]);
});

test("B12 a clock that is set back an hour, or on a day, delays nothing by more than a pause", () => {
  const coalescer = new Coalescer({ idleMs: 500, maxAgeMs: 5_000 });
  coalescer.handleAdd("a", 3_600_000);
  assert.deepEqual(coalescer.poll(0), []);
  assert.equal(coalescer.pollTimeout(0), 500);
  assert.deepEqual(coalescer.poll(500), ["a"]);
  coalescer.handleDone("a", false, 500);
  coalescer.handleAdd("a", 500);
  assert.deepEqual(coalescer.poll(86_400_000), ["a"]);
  coalescer.handleFailure("a", 30_000, 86_400_000);
  assert.equal(coalescer.pollTimeout(1_000), 31_000, "after a failure too");
});

/** Not part of the repository; CC BY 4.0, see the note in that folder. */
const TRACE = new URL("../../../../shared/cases/trace_single.json", import.meta.url);
/** Milliseconds of one person's keystrokes: the recorded ones, or bursts of words with pauses between them. */
function keystrokes(): readonly number[] {
  if (existsSync(TRACE)) return (JSON.parse(readFileSync(TRACE, "utf8")) as { txns: [number][] }).txns.map(([at]) => at);
  const times: number[] = [];
  for (let word = 0; word < 1_200; word += 1) for (let letter = 0; letter < 7; letter += 1) times.push(word * 2_500 + letter * 180);
  return times;
}

test("B10 C.64 a recorded session: fewer writes than with windows of 500 ms, and each keystroke is in one", (context) => {
  const times = keystrokes();
  const coalescer = new Coalescer();
  let [writes, written, waiting] = [0, 0, 0];
  const runUntil = (end: number) => {
    for (let at = coalescer.pollTimeout(end); at !== null && at <= end; at = coalescer.pollTimeout(end)) {
      for (const name of coalescer.poll(at)) {
        writes += 1;
        written += waiting;
        waiting = 0;
        coalescer.handleDone(name, false, at);
      }
    }
  };
  for (const now of times) {
    runUntil(now - 1);
    coalescer.handleAdd("doc", now);
    waiting += 1;
  }
  runUntil(times.at(-1)! + 10_000);
  let windows = 0;
  let open = -Infinity;
  for (const at of times) {
    if (at < open + 500) continue;
    open = at;
    windows += 1;
  }
  const minutes = (times.at(-1)! - times[0]!) / 60_000;
  context.diagnostic(`${times.length} keystrokes in ${minutes.toFixed(1)} min: ${writes} writes, ${(times.length / writes).toFixed(1)} keystrokes each; windows of 500 ms: ${windows}`);
  assert.equal(written, times.length);
  assert.ok(writes < windows, `${writes} writes, ${windows} windows`);
  assert.ok(times.length / writes >= 6, "the promise of the default times");
  assert.ok(writes <= (minutes * 60_000) / 250, "C.64: at most one in 250 ms");
});
