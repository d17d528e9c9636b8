// Two writes as one mean the same as both.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import * as Y from "yjs";
import { MAX_UPDATE_BYTES, applyMergePatch, mergeWrites } from "./merge.ts";
import type { Write } from "./merge.ts";

const put = (value: unknown, more = {}): Write => ({ op: "put", path: "a", value, ...more });
const patch = (value: unknown, more = {}): Write => ({ op: "patch", path: "a", patch: value, ...more });
const remove: Write = { op: "delete", path: "a" };

test("the newest value of a record is what is left", () => {
  assert.deepEqual(mergeWrites(put(1), put(2)), put(2));
  assert.deepEqual(mergeWrites(put({ a: 1, b: 1 }), patch({ b: null, c: 2 })), put({ a: 1, c: 2 }));
  assert.deepEqual(mergeWrites(patch({ a: 1 }), patch({ b: 2 })), patch({ a: 1, b: 2 }));
  assert.deepEqual(mergeWrites(patch({ a: 1 }), put(3)), put(3));
});

test("a condition is about what is stored: the first write's stays, a later one keeps them apart", () => {
  assert.deepEqual(mergeWrites(put(1, { ifMatch: 4 }), put(2)), put(2, { ifMatch: 4 }));
  assert.equal(mergeWrites(put(1), put(2, { ifMatch: 4 })), null);
  assert.equal(mergeWrites(patch({}, { ifMatch: 4 }), put(2)), null);
});

test("a delete takes along what is below, so it stays a write of its own", () => {
  for (const [earlier, later] of [[put(1), remove], [remove, put(1)], [remove, remove]] as const) assert.equal(mergeWrites(earlier!, later!), null);
  assert.equal(mergeWrites(put(1), { op: "put", path: "b", value: 1 }), null);
});

const json = fc.letrec<{ any: unknown }>((tie) => ({
  any: fc.oneof({ maxDepth: 3 }, fc.constantFrom(null, 1, "x", true), fc.array(fc.constantFrom(1, null), { maxLength: 2 }), fc.dictionary(fc.constantFrom("a", "b", "__proto__"), tie("any"), { maxKeys: 3 })),
})).any;

test("merge patches become one only where one says the same", () => {
  fc.assert(
    fc.property(json, json, json, (target, first, second) => {
      const merged = mergeWrites(patch(first), patch(second));
      if (merged?.op !== "patch") return;
      assert.deepEqual(applyMergePatch(target, merged.patch), applyMergePatch(applyMergePatch(target, first), second));
    }),
    { numRuns: 3_000 },
  );
  assert.equal(mergeWrites(patch({ a: 1 }), patch({ a: { b: 1 } })), null);
});

test("updates of a document become one, of the same epoch and within what the API takes", () => {
  const doc = new Y.Doc();
  const updates: Write[] = [];
  doc.on("update", (update: Uint8Array) => updates.push({ op: "update", path: "d", update }));
  for (const [index, letter] of [..."hello"].entries()) doc.getText("t").insert(index, letter);
  doc.getText("t").delete(0, 1);
  const merged = updates.reduce((all, one) => mergeWrites(all, one)!);
  const copy = new Y.Doc();
  Y.applyUpdate(copy, (merged as { update: Uint8Array }).update);
  assert.equal(copy.getText("t").toString(), "ello");
  assert.equal(mergeWrites(updates[0]!, { ...updates[1]!, epoch: 3 } as Write), null);
  assert.equal(mergeWrites(updates[0]!, { op: "update", path: "d", update: new Uint8Array(MAX_UPDATE_BYTES) }), null);
});
