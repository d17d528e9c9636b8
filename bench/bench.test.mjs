// The method itself: `node --test bench/*.test.mjs`. A benchmark that cannot see a loss or a packed
// frame would praise the wrong program.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as Y from "yjs";

import { awarenessFrames, step2Payload, syncFrame, unpack, updateFrames } from "./frames.mjs";
import { FIRST_CLIENT, Ledger } from "./ledger.mjs";
import { Report, median } from "./report.mjs";
import { seedDocument, textLength } from "./seed.mjs";

/** The update in a frame: below 128 bytes, so after two type bytes and one length byte. */
const payload = (frame) => frame.subarray(3);

const pair = () => new Ledger({ clients: 2, documents: 1 }, 3);

test("a packed frame counts as the messages in it", () => {
  const updates = updateFrames(FIRST_CLIENT, 2);
  const [awareness] = awarenessFrames(FIRST_CLIENT, 1);
  const kinds = unpack(Buffer.concat([...updates, awareness])).map(({ kind }) => kind);
  assert.deepEqual(kinds, ["update", "update", "awareness"]);
});

test("merged updates count as the updates in them", () => {
  const frames = [...updateFrames(FIRST_CLIENT, 3), ...updateFrames(FIRST_CLIENT + 1, 2)];
  const merged = Y.mergeUpdates(frames.map(payload));
  const [{ runs }] = unpack(syncFrame(2, merged));
  const clocks = runs.flatMap(([client, clock, length]) => Array.from({ length }, (_, n) => `${client}:${clock + n}`));
  assert.deepEqual(clocks.sort(), ["1000:0", "1000:1", "1000:2", "1001:0", "1001:1"]);
});

test("the gap in a merged update is not counted as received", () => {
  const [first, , third] = updateFrames(FIRST_CLIENT, 3);
  const [{ runs }] = unpack(syncFrame(2, Y.mergeUpdates([payload(first), payload(third)])));
  assert.deepEqual(runs.map(([, clock]) => clock), [0, 2]);
});

test("the ledger sees a loss, a double and a stale awareness state", () => {
  const ledger = pair();
  ledger.update(0, [[FIRST_CLIENT + 1, 0, 2]]);
  ledger.update(0, [[FIRST_CLIENT + 1, 1, 1]]);
  ledger.update(1, [[FIRST_CLIENT, 0, 3]]);
  ledger.awareness(1, [[FIRST_CLIENT, 4]]);
  const { lost, duplicates, updates, staleStates, states } = ledger.result();
  assert.deepEqual({ lost, duplicates, updates, staleStates, states }, { lost: 1, duplicates: 1, updates: 5, staleStates: 1, states: 1 });
});

test("the ledger sees an update that left its document", () => {
  const ledger = new Ledger({ clients: 4, documents: 2 }, 1);
  ledger.update(0, [[FIRST_CLIENT + 1, 0, 1]]);
  assert.equal(ledger.result().foreign, 1);
});

test("an update that comes back to its sender is no delivery", () => {
  const ledger = pair();
  ledger.update(0, [[FIRST_CLIENT, 0, 3]]);
  assert.equal(ledger.result().updates, 0);
});

test("the parts of a seeded document make the whole", () => {
  const { parts, whole, length } = seedDocument(900_000);
  assert.ok(parts.length > 1);
  assert.equal(textLength(whole), length);
  assert.equal(textLength(Y.mergeUpdates(parts)), length);
  assert.equal(step2Payload(syncFrame(1, whole)).length, whole.length);
});

test("the verdict follows the median round", () => {
  const report = new Report();
  for (const tested of [1, 3, 9]) report.record("figure", { unit: "ms", tested, floor: 2, limit: 1.5 });
  assert.equal(report.rows()[0].verdict, "ok");
  report.record("figure", { unit: "ms", tested: 9, floor: 2, limit: 1.5 });
  assert.equal(report.failed, true);
  assert.equal(median([4, 1, 3]), 3);
});
