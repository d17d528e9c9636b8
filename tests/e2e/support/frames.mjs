// Frames of the relay protocol, made and read by hand: the tests must not use the code they test.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as Y from "yjs";
import { ROOT } from "../../../tools/wrangler-config.mjs";

const { frames } = JSON.parse(readFileSync(join(ROOT, "tests", "data", "frames.json"), "utf8"));

/** Sync step 1 of an empty document (F01). */
export const STEP_1 = "00000100";
/** "hi" by client 101 (F04). */
export const HI = "00020c010165000401017402686900";

/** A variable-length integer as lib0 writes it; exact up to 2^53 - 1. */
export function varUint(value) {
  const bytes = [];
  let rest = BigInt(value);
  while (rest > 127n) {
    bytes.push(Number(rest & 127n) | 128);
    rest >>= 7n;
  }
  return Buffer.from([...bytes, Number(rest)]);
}

/** Bytes with their length before them. */
export function varBytes(bytes) {
  return Buffer.concat([varUint(bytes.length), bytes]);
}

/** A frame with one update. */
export function updateFrame(update) {
  return Buffer.concat([Buffer.from([0, 2]), varBytes(Buffer.from(update))]);
}

/** A frame with one awareness message; entries are `[client, clock, state]`. */
export function awarenessFrame(entries) {
  const parts = entries.map(([client, clock, state]) =>
    Buffer.concat([varUint(client), varUint(clock), varBytes(Buffer.from(JSON.stringify(state)))]));
  return Buffer.concat([Buffer.from([1]), varBytes(Buffer.concat([varUint(entries.length), ...parts]))]);
}

/** The entries of an awareness frame in hex, or undefined for another frame. */
export function awarenessEntries(hex) {
  const bytes = Buffer.from(hex, "hex");
  if (bytes[0] !== 1) return undefined;
  let at = 1;
  const number = () => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = bytes[at++];
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  };
  number();
  return Array.from({ length: number() }, () => {
    const client = number();
    const clock = number();
    const length = number();
    at += length;
    return [client, clock, JSON.parse(bytes.toString("utf8", at - length, at))];
  });
}

/** An update that appends `length` letters as client `client`, whose clock starts at 0, to text "t". */
export function textUpdate(client, length) {
  return Buffer.concat([Buffer.from([1, 1]), varUint(client), Buffer.from([0, 4, 1, 1, 0x74]), varBytes(Buffer.alloc(length, "x")), Buffer.from([0])]);
}

/** An update frame whose value is an array in an array and so on (F38). */
export function nestedFrame(levels) {
  const inside = Buffer.alloc(levels * 2);
  for (let at = 0; at < inside.length; at += 2) inside.set([0x75, 1], at);
  return updateFrame(Buffer.concat([Buffer.from("010166000801016d01", "hex"), inside, Buffer.from([0x7e, 0])]));
}

/** The frames of tests/data/frames.json, those that are described there made. */
export const FRAMES = frames.map(({ id, kind, hex, text }) => {
  if (id === "F38") return { id, kind, frame: nestedFrame(20_000) };
  if (id === "F44") return { id, kind, frame: awarenessFrame([[104, 1, { pad: "x".repeat(300_000) }]]) };
  return { id, kind, text, frame: text === undefined ? Buffer.from(hex, "hex") : undefined };
});

/** One of them. */
export function named(id) {
  const found = FRAMES.find((entry) => entry.id === id);
  if (!found) throw new Error(`frames.json has no ${id}`);
  return found;
}

/** Whether a frame in hex is sync step 1, step 2, an update, or awareness. */
export const isStep1 = (hex) => hex.startsWith("0000");
export const isStep2 = (hex) => hex.startsWith("0001");
export const isUpdate = (hex) => hex.startsWith("0002");
export const isAwareness = (hex) => hex.startsWith("01");

/** What a client's frames of some kind make of an empty document. */
export function docAt(client, fits = isUpdate) {
  const doc = new Y.Doc();
  for (const frame of client.frames.filter(fits)) {
    const bytes = Buffer.from(frame, "hex");
    let at = 2;
    while (bytes[at] & 128) at += 1;
    Y.applyUpdate(doc, bytes.subarray(at + 1));
  }
  return doc;
}

/** The updates in a client's frames, merged as a client would. */
export function textAt(client) {
  return docAt(client).getText("t").toString();
}
