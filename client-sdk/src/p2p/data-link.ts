// One direct connection: an RTCPeerConnection with one ordered channel. Messages of any size go in
// pieces, what waits is bounded, and it ends exactly once.
import type { DataChannelLike, Environment, PeerConnectionLike } from "../browser.ts";
import { Emitter } from "../emitter.ts";
import { MAX_FRAME_BYTES } from "../sync-session.ts";
import { HIGH_WATER_BYTES, LOW_WATER_BYTES, MAX_PIECE_BYTES, MAX_TEXT_LENGTH, MAX_WAITING_BYTES, P2P_TIMES } from "./types.ts";

export type DataLinkEvents = {
  text: string;
  bytes: Uint8Array;
  /** Whether it carries messages has changed. */
  state: undefined;
  end: undefined;
};

/** A frame of the sync and the path before it. */
const MAX_MESSAGE_BYTES = MAX_FRAME_BYTES + 1024;
/** The first byte of a piece. */
const MORE = 0;
const LAST = 1;

export class DataLink extends Emitter<DataLinkEvents> {
  readonly #connection: PeerConnectionLike;
  readonly #channel: DataChannelLike;
  readonly #environment: Pick<Environment, "clearTimeout" | "setTimeout">;
  #isEnded = false;
  #wasOpen = false;
  readonly #waiting: (string | Uint8Array<ArrayBuffer>)[] = [];
  #waitingBytes = 0;
  #parts: Uint8Array[] = [];
  #partBytes = 0;

  constructor(connection: PeerConnectionLike, environment: Pick<Environment, "clearTimeout" | "setTimeout">) {
    super();
    this.#connection = connection;
    this.#environment = environment;
    // Both sides know of it beforehand, so neither has to wait for the other's.
    this.#channel = connection.createDataChannel("yrelay", { negotiated: true, id: 0 });
    this.#channel.binaryType = "arraybuffer";
    this.#channel.bufferedAmountLowThreshold = LOW_WATER_BYTES;
    this.#channel.onopen = () => this.#check();
    this.#channel.onclose = () => this.close();
    this.#channel.onmessage = ({ data }) => this.#receive(data);
    this.#channel.onbufferedamountlow = () => this.#drain();
    connection.onconnectionstatechange = () => this.#check();
  }

  /** Messages get through. A connection that is interrupted may come back by itself. */
  get isOpen(): boolean {
    return !this.#isEnded && this.#channel.readyState === "open" && this.#connection.connectionState === "connected";
  }

  /** The offer, with every candidate in it: nothing follows that could come too early (P04). */
  async offer(): Promise<string> {
    await this.#connection.setLocalDescription();
    return this.#described();
  }

  async answer(offer: string): Promise<string> {
    await this.#connection.setRemoteDescription({ type: "offer", sdp: offer });
    await this.#connection.setLocalDescription();
    return this.#described();
  }

  accept(answer: string): Promise<void> {
    return this.#connection.setRemoteDescription({ type: "answer", sdp: answer });
  }

  say(message: object): void {
    const text = JSON.stringify(message);
    this.#enqueue(text, text.length);
  }

  send(message: Uint8Array): void {
    const room = MAX_PIECE_BYTES - 1;
    for (let at = 0; at === 0 || at < message.length; at += room) {
      const part = message.subarray(at, at + room);
      const piece = new Uint8Array(part.length + 1);
      piece[0] = at + room >= message.length ? LAST : MORE;
      piece.set(part, 1);
      this.#enqueue(piece, piece.length);
    }
  }

  close(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#waiting.length = 0;
    Object.assign(this.#channel, { onopen: null, onclose: null, onmessage: null, onbufferedamountlow: null });
    this.#connection.onconnectionstatechange = null;
    this.#connection.close();
    this.emit("end", undefined);
  }

  #check(): void {
    const { connectionState } = this.#connection;
    if (connectionState === "failed" || connectionState === "closed") return this.close();
    if (this.#wasOpen === this.isOpen) return;
    this.#wasOpen = this.isOpen;
    this.emit("state", undefined);
  }

  #described(): Promise<string> {
    return new Promise((settle, reject) => {
      const done = () => {
        this.#environment.clearTimeout(timer);
        this.#connection.onicegatheringstatechange = null;
        const sdp = this.#connection.localDescription?.sdp;
        if (sdp === undefined || this.#isEnded) reject(new Error("The connection was closed while it was described."));
        else settle(sdp);
      };
      const timer = this.#environment.setTimeout(done, P2P_TIMES.gatherMs);
      const look = () => this.#connection.iceGatheringState === "complete" && done();
      this.#connection.onicegatheringstatechange = look;
      look();
    });
  }

  #enqueue(piece: string | Uint8Array<ArrayBuffer>, bytes: number): void {
    if (this.#isEnded) return;
    this.#waitingBytes += bytes;
    if (this.#waitingBytes > MAX_WAITING_BYTES) return this.close();
    this.#waiting.push(piece);
    this.#drain();
  }

  #drain(): void {
    while (this.#waiting.length > 0 && this.#channel.readyState === "open" && this.#channel.bufferedAmount < HIGH_WATER_BYTES) {
      const piece = this.#waiting.shift()!;
      this.#waitingBytes -= piece.length;
      try {
        this.#channel.send(piece as Uint8Array<ArrayBuffer>);
      } catch {
        // It is closing; a message less would be a hole.
        return this.close();
      }
    }
  }

  /** What breaks the bounds is no peer of ours. */
  #receive(data: unknown): void {
    if (typeof data === "string") return data.length > MAX_TEXT_LENGTH ? this.close() : this.emit("text", data);
    if (!(data instanceof ArrayBuffer)) return;
    const piece = new Uint8Array(data);
    this.#partBytes += piece.length - 1;
    if (piece.length === 0 || this.#partBytes > MAX_MESSAGE_BYTES) return this.close();
    this.#parts.push(piece.subarray(1));
    if (piece[0] !== LAST) return;
    const message = joined(this.#parts, this.#partBytes);
    this.#parts = [];
    this.#partBytes = 0;
    this.emit("bytes", message);
  }
}

function joined(parts: readonly Uint8Array[], length: number): Uint8Array {
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
