// Bytes: what clients send, built before a run, and what receivers got, unpacked. A
// relay may put several messages in one frame and merge updates (W3a), so nothing here
// counts frames.

import * as decoding from "lib0/decoding";
import * as encoding from "lib0/encoding";
import * as Y from "yjs";

/** `updates` single-character updates of one Yjs client, as frames; the nth holds clock n. */
export function updateFrames(clientId, updates) {
  const doc = new Y.Doc({ gc: false });
  doc.clientID = clientId;
  const text = doc.getText("content");
  const frames = [];
  doc.on("update", (update) => frames.push(syncFrame(UPDATE, update)));
  for (let n = 0; n < updates; n += 1) text.insert(n, "x");
  doc.destroy();
  return frames;
}

/** `count` awareness frames of one client: a name, a colour and a moving cursor. */
export function awarenessFrames(clientId, count) {
  return Array.from({ length: count }, (_, n) => {
    const user = { name: `client ${clientId}`, color: "#30bced" };
    return awarenessFrame(clientId, n + 1, { user, cursor: { anchor: n, head: n } });
  });
}

/** One awareness frame with one entry. */
export function awarenessFrame(clientId, clock, state) {
  const inner = encoding.createEncoder();
  encoding.writeVarUint(inner, 1);
  encoding.writeVarUint(inner, clientId);
  encoding.writeVarUint(inner, clock);
  encoding.writeVarString(inner, JSON.stringify(state));
  const frame = encoding.createEncoder();
  encoding.writeVarUint(frame, AWARENESS);
  encoding.writeVarUint8Array(frame, encoding.toUint8Array(inner));
  return encoding.toUint8Array(frame);
}

/** Sync step 1 with an empty state vector: "send me everything". */
export const STEP1 = new Uint8Array([0, 0, 1, 0]);

/** A sync frame: 0 step 1, 1 step 2, 2 update. */
export function syncFrame(kind, payload) {
  const encoder = encoding.createEncoder();
  encoding.writeVarUint(encoder, SYNC);
  encoding.writeVarUint(encoder, kind);
  encoding.writeVarUint8Array(encoder, payload);
  return encoding.toUint8Array(encoder);
}

/** Whether a frame holds a sync step 2, and its payload. */
export function step2Payload(frame) {
  return unpack(frame).find((message) => message.kind === "step2")?.payload;
}

/**
 * The messages of one frame: `{kind: "step1" | "step2", payload}`,
 * `{kind: "update", runs: [[clientId, clock, length]]}`,
 * `{kind: "awareness", entries: [[clientId, clock]]}` or `{kind: "other"}`.
 */
export function unpack(frame) {
  const decoder = decoding.createDecoder(frame);
  const messages = [];
  while (decoding.hasContent(decoder)) {
    const type = decoding.readVarUint(decoder);
    if (type === SYNC) messages.push(syncMessage(decoder));
    else if (type === AWARENESS) messages.push(awarenessMessage(decoder));
    else if (type === QUERY_AWARENESS) messages.push({ kind: "other" });
    else return [...messages, { kind: "other" }];
  }
  return messages;
}

/**
 * `unpack` that remembers: in a hot room one frame reaches 99 receivers in the same
 * bytes, and the driver must not be what limits the run.
 */
export class FrameReader {
  #seen = new Map();

  read(frame) {
    if (frame.length > CACHED_BYTES) return unpack(frame);
    const key = frame.latin1Slice(0, frame.length);
    let messages = this.#seen.get(key);
    if (messages === undefined) {
      if (this.#seen.size >= CACHED_FRAMES) this.#seen.clear();
      messages = unpack(frame);
      this.#seen.set(key, messages);
    }
    return messages;
  }
}

function syncMessage(decoder) {
  const kind = decoding.readVarUint(decoder);
  const payload = decoding.readVarUint8Array(decoder);
  if (kind !== UPDATE) return { kind: kind === 0 ? "step1" : "step2", payload };
  const runs = Y.decodeUpdate(payload).structs
    .filter((struct) => !(struct instanceof Y.Skip))
    .map((struct) => [struct.id.client, struct.id.clock, struct.length]);
  return { kind: "update", runs };
}

function awarenessMessage(decoder) {
  const inner = decoding.createDecoder(decoding.readVarUint8Array(decoder));
  const entries = [];
  for (let left = decoding.readVarUint(inner); left > 0; left -= 1) {
    entries.push([decoding.readVarUint(inner), decoding.readVarUint(inner)]);
    decoding.readVarString(inner);
  }
  return { kind: "awareness", entries };
}

const SYNC = 0;
const AWARENESS = 1;
const QUERY_AWARENESS = 3;
const UPDATE = 2;
const CACHED_BYTES = 4096;
const CACHED_FRAMES = 20_000;
