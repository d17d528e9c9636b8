// One WebSocket: it opens in time or fails, it is alive or counted as lost, and it ends exactly once,
// whatever its own late events say (they come twice on some platforms, and minutes late on others).
import type { Environment, WebSocketLike } from "./browser.ts";
import type { FailTrigger } from "./relay-walker.ts";
import { Timer } from "./timer.ts";

/** Times in ms. */
export interface ConnectionTimes {
  readonly openTimeoutMs: number;
  readonly syncTimeoutMs: number;
  readonly heartbeatMs: number;
  readonly wakeTimeoutMs: number;
}

export const CONNECTION_TIMES: ConnectionTimes = {
  // A handshake that takes longer is a relay that hangs (S1).
  openTimeoutMs: 10_000,
  // The largest document, 16 MiB, over a line of 1 Mbit/s. Until then nothing else may get through,
  // so heartbeats begin after it.
  syncTimeoutMs: 135_000,
  // Two missed beats are noticed within three: 42 s after the link died.
  heartbeatMs: 14_000,
  // The page is looked at again: the person waits for this.
  wakeTimeoutMs: 5_000,
};

/** Beats in a row without any frame after which the link is dead (D1b). */
const MISSED_BEATS = 2;
/** These bytes exactly: the platform answers them without waking the room (W6). */
const PING = '{"type":"ping"}';
/** The code of a link that is dead without a close frame. No relay sends it. */
export const LOST = 0;

export interface ConnectionEvents {
  opened(): void;
  /** It ended before it was open. */
  failed(trigger: FailTrigger): void;
  /** It ended after it was open. */
  closed(code: number): void;
  frame(bytes: Uint8Array): void;
  text(text: string): void;
}

export class Connection {
  readonly #environment: Environment;
  readonly #times: ConnectionTimes;
  readonly #events: ConnectionEvents;
  readonly #socket: WebSocketLike;
  #phase: "ended" | "opening" | "open" | "synced" = "opening";
  readonly #timer: Timer;
  #heard = false;
  #missed = 0;

  /** Throws what the platform's constructor throws. */
  constructor(environment: Environment, target: { url: string; token: string | null }, times: ConnectionTimes, events: ConnectionEvents) {
    this.#environment = environment;
    this.#timer = new Timer(environment);
    this.#times = times;
    this.#events = events;
    // As a sub-protocol the token stays out of addresses, which browsers and proxies log.
    this.#socket = new environment.WebSocket(target.url, target.token === null ? [] : ["yrelay", target.token]);
    this.#socket.binaryType = "arraybuffer";
    this.#socket.onopen = () => this.#opened();
    this.#socket.onmessage = ({ data }) => this.#message(data);
    this.#socket.onerror = () => this.#phase === "opening" && this.#finish("error_before_open");
    this.#socket.onclose = ({ code }) => this.#finish(this.#phase === "opening" ? "close_before_open" : code);
    this.#timer.set(times.openTimeoutMs, () => this.#finish("open_timeout"));
  }

  send(frame: Uint8Array | string): void {
    if (this.#phase === "open" || this.#phase === "synced") this.#socket.send(frame as Uint8Array<ArrayBuffer> | string);
  }

  /** The relay answered; from now on silence means that the link is dead. */
  synced(): void {
    if (this.#phase !== "open") return;
    this.#phase = "synced";
    this.#rest();
  }

  /** The page became visible or hidden, or the network came back. */
  handleChange(): void {
    if (this.#phase !== "synced") return;
    if (this.#environment.isHidden()) this.#rest();
    else this.#beat(this.#times.wakeTimeoutMs, MISSED_BEATS - 1);
  }

  /** Counts it as lost. */
  fail(): void {
    this.#finish(LOST);
  }

  /** Ends it without a word to its owner. */
  end(): void {
    if (this.#phase === "ended") return;
    this.#phase = "ended";
    this.#timer.clear();
    const quiet = () => {};
    // Not `null`: some implementations throw an error event that nobody listens to.
    Object.assign(this.#socket, { onopen: quiet, onmessage: quiet, onerror: quiet, onclose: quiet });
    try {
      this.#socket.close(1000);
    } catch {
      // It is closing already.
    }
  }

  #opened(): void {
    this.#phase = "open";
    this.#timer.set(this.#times.syncTimeoutMs, () => this.#finish(LOST));
    this.#events.opened();
  }

  #message(data: unknown): void {
    this.#heard = true;
    if (typeof data === "string") this.#events.text(data);
    else if (data instanceof ArrayBuffer) this.#events.frame(new Uint8Array(data));
  }

  /** Begins to count beats anew; a hidden page has none. */
  #rest(): void {
    this.#timer.clear();
    if (!this.#environment.isHidden()) this.#timer.set(this.#times.heartbeatMs, () => this.#beat(this.#times.heartbeatMs, 0));
  }

  /** Asks for a sign of life, which has to come within `limitMs` unless a beat may still be missed. */
  #beat(limitMs: number, missed: number): void {
    this.#heard = false;
    this.#missed = missed;
    this.#socket.send(PING);
    this.#timer.set(limitMs, () => {
      if (this.#heard) return this.#beat(this.#times.heartbeatMs, 0);
      if (this.#missed + 1 >= MISSED_BEATS) return this.#finish(LOST);
      this.#beat(this.#times.heartbeatMs, this.#missed + 1);
    });
  }

  #finish(how: FailTrigger | number): void {
    if (this.#phase === "ended") return;
    this.end();
    if (typeof how === "number") this.#events.closed(how);
    else this.#events.failed(how);
  }
}
