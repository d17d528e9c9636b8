/**
 * Frames take turns with everything else.
 *
 * The runtime reads a socket as long as there is something to read, and lets nothing else run meanwhile: no
 * request, no timer, no answer of the API. So a frame is dealt with at once only while that has not gone on for
 * long. Past it frames wait here, in their order, and are dealt with in slices; whoever lets too much wait is to
 * be closed, since a socket cannot be told to send less.
 *
 * @module
 */

import { MAX_WAITING, MAX_WAITING_OF_SOCKET, TURN, WAITING_COST } from "./limits.ts";

/** Something that waits, of a socket. */
interface Waiting {
  readonly socket: object;
  readonly cost: number;
  readonly run: () => void;
}

/** The turns of all sockets of the process. */
export class Turns {
  readonly #now: () => number;
  readonly #queue: Waiting[] = [];
  #waiting = 0;
  readonly #costs = new Map<object, number>();
  /** Since when there was no moment for anything else, and when the last frame was done. */
  #since = 0;
  #last = 0;

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /** Bytes that wait, with what each costs besides. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Whether a frame that came in now may be dealt with at once; then {@link done} has to follow. */
  isFree(now: number): boolean {
    if (this.#queue.length > 0) return false;
    // A clock that was set back says nothing of how long it has been.
    if (now - this.#last > PAUSE || now < this.#since) this.#since = now;
    return now - this.#since < TURN;
  }

  /** A frame was dealt with, now. */
  done(now: number): void {
    this.#last = now;
  }

  /** Whether something of a socket waits: what comes after it has to wait as well. */
  has(socket: object): boolean {
    return this.#costs.has(socket);
  }

  /** Lets something wait for its turn. False, and not taken, when too much of the socket does; one thing always may. */
  wait(socket: object, bytes: number, run: () => void): boolean {
    const cost = bytes + WAITING_COST;
    const before = this.#costs.get(socket) ?? 0;
    if (before > 0 && (before + cost > MAX_WAITING_OF_SOCKET || this.#waiting + cost > MAX_WAITING)) {
      return false;
    }
    if (this.#queue.length === 0) setTimeout(() => this.#work(), 0);
    this.#queue.push({ socket, cost, run });
    this.#costs.set(socket, before + cost);
    this.#waiting += cost;
    return true;
  }

  /** One slice; everything else runs before the next. */
  #work(): void {
    const end = this.#now() + TURN;
    let done = 0;
    for (const entry of this.#queue) {
      if (this.#now() >= end) break;
      done += 1;
      this.#step(entry);
    }
    this.#queue.splice(0, done);
    if (this.#queue.length > 0) setTimeout(() => this.#work(), 0);
  }

  #step({ socket, cost, run }: Waiting): void {
    this.#waiting -= cost;
    const left = (this.#costs.get(socket) ?? 0) - cost;
    if (left > 0) this.#costs.set(socket, left);
    else this.#costs.delete(socket);
    run();
  }
}

/**
 * A pause between two frames in which something else could run, in ms: reading goes on within microseconds. By the
 * clock of the core, which is the cheapest there is and counts whole milliseconds.
 */
const PAUSE = 1;
