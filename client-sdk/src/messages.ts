// y-protocols messages in bytes, as in the grammar of PROTOCOL.md. The framing is done here, since the
// encoders that y-protocols takes come from a package that an application does not install by itself.

export type Message =
  | { readonly kind: "auth"; readonly reason: string }
  | { readonly kind: "awareness"; readonly bytes: Uint8Array }
  | { readonly kind: "queryAwareness" }
  | { readonly kind: "syncStep1"; readonly bytes: Uint8Array }
  | { readonly kind: "syncStep2"; readonly bytes: Uint8Array }
  | { readonly kind: "update"; readonly bytes: Uint8Array };

/** The frame ends in the middle of a message, or a number in it is too large. */
export class FrameError extends Error {
  constructor(position: number) {
    super(`The frame is broken at byte ${position}.`);
  }
}

const SYNC = 0;
const AWARENESS = 1;
const AUTH = 2;
const QUERY_AWARENESS = 3;
const SYNC_KINDS = ["syncStep1", "syncStep2", "update"] as const;
/** Bytes of a varUint up to 2^53 - 1. */
const MAX_VARINT_BYTES = 8;

export const encodeSyncStep1 = (stateVector: Uint8Array): Uint8Array => encode([SYNC, 0], stateVector);
export const encodeSyncStep2 = (update: Uint8Array): Uint8Array => encode([SYNC, 1], update);
export const encodeUpdate = (update: Uint8Array): Uint8Array => encode([SYNC, 2], update);
export const encodeAwareness = (states: Uint8Array): Uint8Array => encode([AWARENESS], states);
export const encodeQueryAwareness = (): Uint8Array => Uint8Array.of(QUERY_AWARENESS);

/** Reads every message of a frame; one of an unknown type ends it. Throws a `FrameError`. */
export function decodeFrame(frame: Uint8Array): Message[] {
  const reader = new Reader(frame);
  const messages: Message[] = [];
  while (!reader.done) {
    const message = decodeMessage(reader);
    if (message === null) break;
    messages.push(message);
  }
  return messages;
}

function decodeMessage(reader: Reader): Message | null {
  switch (reader.varUint()) {
    case SYNC: {
      const kind = SYNC_KINDS[reader.varUint()];
      return kind === undefined ? null : { kind, bytes: reader.bytes() };
    }
    case AWARENESS:
      return { kind: "awareness", bytes: reader.bytes() };
    case AUTH:
      return reader.varUint() === 0 ? { kind: "auth", reason: new TextDecoder().decode(reader.bytes()) } : null;
    case QUERY_AWARENESS:
      return { kind: "queryAwareness" };
    default:
      return null;
  }
}

function encode(head: readonly number[], body: Uint8Array): Uint8Array {
  const length: number[] = [];
  let rest = body.length;
  for (; rest > 127; rest = Math.floor(rest / 128)) length.push((rest % 128) | 128);
  length.push(rest);
  const frame = new Uint8Array(head.length + length.length + body.length);
  frame.set(head);
  frame.set(length, head.length);
  frame.set(body, head.length + length.length);
  return frame;
}

class Reader {
  readonly #frame: Uint8Array;
  #at = 0;

  constructor(frame: Uint8Array) {
    this.#frame = frame;
  }

  get done(): boolean {
    return this.#at >= this.#frame.length;
  }

  varUint(): number {
    let value = 0;
    for (let count = 0; count < MAX_VARINT_BYTES; count += 1) {
      const byte = this.#frame[this.#at];
      if (byte === undefined) break;
      this.#at += 1;
      value += (byte & 127) * 128 ** count;
      if (byte < 128) {
        if (Number.isSafeInteger(value)) return value;
        break;
      }
    }
    throw new FrameError(this.#at);
  }

  bytes(): Uint8Array {
    const length = this.varUint();
    const end = this.#at + length;
    if (end > this.#frame.length) throw new FrameError(this.#at);
    const bytes = this.#frame.subarray(this.#at, end);
    this.#at = end;
    return bytes;
  }
}
