import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import * as encoding from "lib0/encoding";
import { writeSyncStep1, writeSyncStep2, writeUpdate } from "y-protocols/sync";
import * as Y from "yjs";
import { FrameError, decodeFrame, encodeAwareness, encodeQueryAwareness, encodeSyncStep1, encodeSyncStep2, encodeUpdate } from "./messages.ts";

/** What y-protocols itself writes. */
function stock(...writes: ((encoder: encoding.Encoder) => void)[]): Uint8Array {
  const encoder = encoding.createEncoder();
  for (const write of writes) write(encoder);
  return encoding.toUint8Array(encoder);
}

const type = (number: number) => (encoder: encoding.Encoder) => encoding.writeVarUint(encoder, number);

test("each message has the bytes of y-protocols", () => {
  const doc = new Y.Doc();
  // Longer than 127 and than 16,383 bytes, so that lengths take one, two and three bytes.
  for (const length of [0, 200, 20_000]) {
    doc.getText("t").insert(0, "x".repeat(length));
    const update = Y.encodeStateAsUpdate(doc);
    assert.deepEqual(encodeSyncStep1(Y.encodeStateVector(doc)), stock(type(0), (encoder) => writeSyncStep1(encoder, doc)));
    assert.deepEqual(encodeSyncStep2(update), stock(type(0), (encoder) => writeSyncStep2(encoder, doc)));
    assert.deepEqual(encodeUpdate(update), stock(type(0), (encoder) => writeUpdate(encoder, update)));
    assert.deepEqual(encodeAwareness(update), stock(type(1), (encoder) => encoding.writeVarUint8Array(encoder, update)));
  }
});

test("several messages in a frame are all read, in order", () => {
  const bytes = Uint8Array.of(1, 2, 3);
  const frame = stock(
    type(0), type(2), (encoder) => encoding.writeVarUint8Array(encoder, bytes),
    type(3),
    type(1), (encoder) => encoding.writeVarUint8Array(encoder, bytes),
    type(2), type(0), (encoder) => encoding.writeVarString(encoder, "nö"),
  );
  assert.deepEqual(decodeFrame(frame), [
    { kind: "update", bytes },
    { kind: "queryAwareness" },
    { kind: "awareness", bytes },
    { kind: "auth", reason: "nö" },
  ]);
  assert.deepEqual(decodeFrame(encodeQueryAwareness()), [{ kind: "queryAwareness" }]);
});

test("an unknown message ends the frame and keeps what came before it", () => {
  for (const unknown of [Uint8Array.of(4, 9, 9), Uint8Array.of(0, 7), Uint8Array.of(2, 5, 1)]) {
    assert.deepEqual(decodeFrame(Uint8Array.from([...encodeUpdate(Uint8Array.of(8)), ...unknown])), [{ kind: "update", bytes: Uint8Array.of(8) }]);
  }
  assert.deepEqual(decodeFrame(new Uint8Array()), []);
});

test("a frame that ends early, or has too large a number, is an error with a cure", () => {
  const whole = encodeUpdate(new Uint8Array(300));
  for (const length of [1, 2, 3, 4, whole.length - 1]) {
    assert.throws(() => decodeFrame(whole.subarray(0, length)), (error) => error instanceof FrameError && /at byte \d+/.test(error.message));
  }
  assert.throws(() => decodeFrame(Uint8Array.of(0, 2, 255, 255, 255, 255, 255, 255, 255, 255, 1)), FrameError);
  assert.throws(() => decodeFrame(Uint8Array.of(0, 2, 255, 255, 255, 255, 255, 255, 255, 127)), FrameError);
});

test("no bytes make the reader do anything but answer or throw a FrameError", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
      try {
        decodeFrame(bytes);
      } catch (error) {
        assert.ok(error instanceof FrameError);
      }
    }),
    { numRuns: 5_000 },
  );
});
