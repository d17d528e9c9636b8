import assert from "node:assert/strict";
import { hex, STEP_1, until, withRelay } from "./_test_support.ts";
import { MAX_WAITING_OF_SOCKET, TURN, WAITING_COST } from "./limits.ts";
import { Turns } from "./turns.ts";

/** A frame of 1 KB. What it says does not matter here: it waits. */
const FRAME = hex(`02${"00".repeat(1023)}`);

Deno.test("A.65 frames are dealt with at once until that has gone on for a turn, and after a pause again", () => {
  const turns = new Turns();
  let now = 1_000;
  for (let ms = 0; ms < TURN; ms += 1) {
    assert.equal(turns.isFree(now), true, `after ${ms} ms`);
    now += 1;
    turns.done(now);
  }
  assert.equal(turns.isFree(now), false);
  now += 5;
  assert.equal(turns.isFree(now), true);
  turns.done(now);
  // The clock may be set back.
  assert.equal(turns.isFree(now - 60_000), true);
});

Deno.test("A.65 what waits keeps its order, is dealt with in slices, and others run in between", async () => {
  let now = 0;
  const turns = new Turns(() => now);
  const seen: string[] = [];
  const [a, b] = [{}, {}];
  for (let n = 0; n < 6; n += 1) {
    const frame = () => {
      seen.push(`${n}`);
      now += TURN / 2;
    };
    assert.equal(turns.wait(n % 2 ? a : b, 10, frame), true);
  }
  assert.deepEqual([turns.isFree(now), turns.has(a), turns.waiting], [false, true, 6 * (10 + WAITING_COST)]);
  const other = setInterval(() => seen.push("other"), 0);
  await until(() => turns.waiting === 0, "all had their turn");
  clearInterval(other);
  assert.deepEqual(seen.filter((what) => what !== "other"), ["0", "1", "2", "3", "4", "5"]);
  for (const [before, after] of [["1", "2"], ["3", "4"]] as const) {
    assert.ok(seen.slice(seen.indexOf(before), seen.indexOf(after)).includes("other"), seen.join(" "));
  }
  assert.equal(turns.has(a), false);
});

Deno.test("A.65 of one socket a bounded amount waits, and of another one still something", async () => {
  const turns = new Turns();
  const [a, b] = [{}, {}];
  let taken = 0;
  while (turns.wait(a, MAX_WAITING_OF_SOCKET / 8, () => {})) taken += 1;
  assert.equal(taken, 7);
  assert.equal(turns.wait(b, 2 * MAX_WAITING_OF_SOCKET, () => {}), true);
  await until(() => turns.waiting === 0, "all had their turn");
});

Deno.test("A.65 who sends more than the relay can take is closed with 1013, and the room serves the others", async () => {
  // Everything waits, and while it is stuck a turn is over before anything was done.
  let [now, isStuck] = [0, false];
  class Busy extends Turns {
    override isFree(): boolean {
      return false;
    }
  }
  const turns = new Busy(() => isStuck ? now += TURN : now);
  await withRelay({ host: { turns } }, async ({ connect, host, metrics }) => {
    const [a, b] = [await connect("w"), await connect("w")];
    for (const client of [a, b]) {
      client.send(STEP_1);
      await until(() => client.frames.length === 2, "both steps");
    }
    isStuck = true;
    for (let n = 0; n < 8_000; n += 1) a.send(FRAME);
    await until(() => metrics.closed.get("1013") === 1, "the flood is closed");
    isStuck = false;
    b.send(STEP_1);
    await until(() => b.frames.length === 4, "the other one is served");
    await until(() => host.find("w")?.clients === 1, "the first is forgotten");
  });
});

Deno.test("D1 what a client sent before it left counts, also when it had to wait", async () => {
  const turns = new Turns();
  let isFree = true;
  turns.isFree = () => isFree;
  await withRelay({ host: { turns } }, async ({ connect, host }) => {
    const [a, b] = [await connect("w"), await connect("w")];
    for (const client of [a, b]) {
      client.send(STEP_1);
      await until(() => client.frames.length === 2, "both steps");
    }
    isFree = false;
    a.send(hex("00020c010165000401017402686900"));
    await a.close();
    await until(() => b.frames.includes("00020c010165000401017402686900"), "the last update");
    await until(() => host.find("w")?.clients === 1, "it has left");
  });
});
