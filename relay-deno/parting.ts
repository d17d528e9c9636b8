/**
 * Sockets on their way out: told to close, or about to be, and not gone yet.
 *
 * The runtime cannot end a connection by force. Once `close` is called it sends no more pings, so a
 * peer that never answers stays, and what it has not read stays in memory. So a socket is told only
 * when it has read what was sent before, and what is stuck is counted: past a bound nobody new is let
 * in, into that workspace or into the relay.
 *
 * @module
 */

import { PARTING_INTERVAL } from "./limits.ts";
import { Metrics } from "./metrics.ts";

interface Farewell {
  readonly workspace: string;
  readonly code: number;
  readonly reason: string;
}

/** The sockets of the whole process that are on their way out. */
export class Parting {
  readonly #metrics: Metrics;
  readonly #sockets = new Map<WebSocket, Farewell>();
  /** Those that were not told yet. */
  readonly #waiting = new Set<WebSocket>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #wake: (() => void)[] = [];

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
  }

  /** Closes a socket. Nothing may be sent to it any more. */
  part(socket: WebSocket, workspace: string, code: number, reason: string): void {
    if (socket.readyState >= WebSocket.CLOSING || this.#sockets.has(socket)) return;
    Metrics.count(this.#metrics.closed, String(code));
    this.#sockets.set(socket, { workspace, code, reason });
    this.#waiting.add(socket);
    // It may come twice.
    socket.addEventListener("close", () => this.#forget(socket));
    this.#tell(socket);
    this.#arm();
  }

  /** Sockets that are still there. */
  get count(): number {
    return this.#sockets.size;
  }

  /** Those of one workspace. */
  countOf(workspace: string): number {
    let count = 0;
    for (const farewell of this.#sockets.values()) if (farewell.workspace === workspace) count += 1;
    return count;
  }

  /** Bytes that they have not taken. */
  get stuckBytes(): number {
    let bytes = 0;
    for (const socket of this.#sockets.keys()) bytes += socket.bufferedAmount;
    return bytes;
  }

  /** Waits until all of them are gone, or for so long. */
  async gone(ms: number): Promise<void> {
    if (this.#sockets.size === 0) return;
    await new Promise<void>((settle) => {
      const timer = setTimeout(settle, ms);
      this.#wake.push(() => {
        clearTimeout(timer);
        settle();
      });
    });
  }

  /**
   * A close frame that has to wait behind others may never be written: the first frame that the peer
   * sends meanwhile makes the runtime drop the connection.
   */
  #tell(socket: WebSocket): void {
    const farewell = this.#sockets.get(socket);
    if (!farewell || socket.bufferedAmount > 0) return;
    this.#waiting.delete(socket);
    try {
      socket.close(farewell.code, farewell.reason);
    } catch {
      // Its end came first.
      this.#forget(socket);
    }
  }

  /** Looks at those that still have to read. There is no timer when there are none. */
  #arm(): void {
    if (this.#waiting.size === 0 || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      for (const socket of this.#waiting) this.#tell(socket);
      this.#arm();
    }, PARTING_INTERVAL);
  }

  #forget(socket: WebSocket): void {
    this.#sockets.delete(socket);
    this.#waiting.delete(socket);
    if (this.#sockets.size === 0) this.#wake.splice(0).forEach((wake) => wake());
  }
}
