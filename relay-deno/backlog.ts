/**
 * What waits for a socket to take it. To ask the runtime costs about as much as a send, so it is asked only when
 * the answer could matter.
 *
 * @module
 */

/** The backlog of a socket, as long as each send to it is told. */
export class Backlog {
  readonly #socket: Pick<WebSocket, "bufferedAmount">;
  /** What waited when that was last asked, and what was sent since: no less than what waits. */
  #atMost = 0;

  constructor(socket: Pick<WebSocket, "bufferedAmount">) {
    this.#socket = socket;
  }

  /** Something was sent. Returns the bytes that wait if they are over a bound, else 0. */
  sent(data: string | ArrayBuffer | Uint8Array, bound: number): number {
    this.#atMost += typeof data === "string" ? data.length * MAX_UTF8 : data.byteLength;
    if (this.#atMost <= bound) return 0;
    this.#atMost = this.#socket.bufferedAmount;
    return this.#atMost > bound ? this.#atMost : 0;
  }
}

/** Most bytes that one unit of a JavaScript string is sent as. */
const MAX_UTF8 = 3;
