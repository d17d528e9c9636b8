import assert from "node:assert/strict";
import { test } from "node:test";
import { Seal } from "./seal.ts";
import type { Signal } from "./seal.ts";

test("A5 a signal says nothing to others, is never the same twice, and a changed one is none", async () => {
  const signal: Signal = { from: "a", run: "r", to: "b", kind: "offer", attempt: "1", sdp: "v=0 192.0.2.1" };
  const seal = new Seal(globalThis.crypto, "secret");
  const text = await seal.close(signal);
  assert.deepEqual(await seal.open(text), signal);
  assert.deepEqual(await new Seal(globalThis.crypto, "secret").open(text), signal);
  assert.notEqual(await seal.close(signal), text);
  assert.ok(!atob(text).includes("192.0.2.1"));
  assert.equal(await new Seal(globalThis.crypto, "another").open(text), null);
  const changed = atob(text).split("");
  changed[20] = String.fromCharCode(changed[20]!.charCodeAt(0) ^ 1);
  for (const bad of [btoa(changed.join("")), text.slice(4), "", "!", "AAAA", undefined, 7, {}]) assert.equal(await seal.open(bad), null);
});
