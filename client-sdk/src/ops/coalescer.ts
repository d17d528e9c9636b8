// Decides when what is waiting on a surface is written: after a pause, at a maximum age, or when the
// page goes away; one request at a time for each surface. What is waiting is the outbox's business.
// Pure: `now` is an argument, and the owner arms a timer for `pollTimeout`.

declare const DUE: unique symbol;
declare const COALESCED: unique symbol;

/** The name of a surface whose pause is over. Only the coalescer gives one. */
export type Due = string & { readonly [DUE]: true };

/** What waited on a surface until that was due. The outbox makes it of a `Due`, and a sender takes nothing else (C.65). */
export type Coalesced<T> = T & { readonly [COALESCED]: true };

/** Times in ms. */
export interface CoalescerTimes {
  /** The pause after which something alone is written; when more than one waits, it is twice as long. */
  readonly idleMs: number;
  readonly maxAgeMs: number;
}

/** Shorter pauses lie between the keystrokes of a word; a longer one is felt as a delay by others. */
export const MIN_IDLE_MS = 250;
export const MAX_IDLE_MS = 500;

export const COALESCER_TIMES: CoalescerTimes = {
  // The longest that is allowed: it saves the most writes.
  idleMs: MAX_IDLE_MS,
  // Of somebody who types without a pause, others see something every 5 s.
  maxAgeMs: 5_000,
};

interface Surface {
  /** When the oldest and the newest that wait came; `null`: nothing waits. */
  waiting: { first: number; last: number } | null;
  /** Somebody waits for it: due as soon as it may be sent. */
  isUrgent: boolean;
  isInFlight: boolean;
  /** After a failure: not before so long after it. */
  pause: { from: number; readonly ms: number } | null;
}

export class Coalescer {
  readonly #times: CoalescerTimes;
  readonly #surfaces = new Map<string, Surface>();

  /** Throws a `RangeError` for times that would write per keystroke, or never. */
  constructor(times: CoalescerTimes = COALESCER_TIMES) {
    const { idleMs, maxAgeMs } = times;
    if (!(idleMs >= MIN_IDLE_MS && idleMs <= MAX_IDLE_MS)) throw new RangeError(`idleMs is ${idleMs}; give ${MIN_IDLE_MS} to ${MAX_IDLE_MS}`);
    if (!(maxAgeMs >= idleMs && Number.isFinite(maxAgeMs))) throw new RangeError(`maxAgeMs is ${maxAgeMs}; give ${idleMs} or more`);
    this.#times = times;
  }

  /** Something new waits on a surface. */
  handleAdd(name: string, now: number): void {
    const surface = this.#surfaces.get(name) ?? { waiting: null, isUrgent: false, isInFlight: false, pause: null };
    surface.waiting = { first: surface.waiting?.first ?? now, last: now };
    this.#surfaces.set(name, surface);
  }

  /** Everything that waits is due, or what waits on one surface. A delay after a failure stays. */
  handleFlush(name?: string): void {
    for (const [key, surface] of this.#surfaces) {
      if (surface.waiting !== null && (name === undefined || key === name)) surface.isUrgent = true;
    }
  }

  /** Delays after failures end: the network is back, or somebody looks at the page again. */
  handleWake(): void {
    for (const surface of this.#surfaces.values()) surface.pause = null;
  }

  /** The request was answered. `more`: other things wait on the surface, which came before now. */
  handleDone(name: string, more: boolean, now: number): void {
    const surface = this.#surfaces.get(name);
    if (surface === undefined) return;
    surface.isInFlight = false;
    surface.pause = null;
    if (more) surface.waiting ??= { first: now, last: now };
    else this.#surfaces.delete(name);
  }

  /** The request failed; what it carried waits again, and is due after a pause. */
  handleFailure(name: string, pauseMs: number, now: number): void {
    const surface = this.#surfaces.get(name);
    if (surface === undefined) return;
    surface.isInFlight = false;
    surface.isUrgent = true;
    surface.waiting ??= { first: now, last: now };
    surface.pause = { from: now, ms: pauseMs };
  }

  /** The surfaces to write now; each counts as in flight until it is done or failed. */
  poll(now: number): Due[] {
    const due: Due[] = [];
    for (const [name, surface] of this.#surfaces) {
      if (this.#dueAt(surface, now) > now) continue;
      Object.assign(surface, { waiting: null, isUrgent: false, isInFlight: true });
      due.push(name as Due);
    }
    return due;
  }

  /** When to poll next; `null`: not before something happens. */
  pollTimeout(now: number): number | null {
    let next = Infinity;
    for (const surface of this.#surfaces.values()) next = Math.min(next, this.#dueAt(surface, now));
    return next === Infinity ? null : next;
  }

  #dueAt(surface: Surface, now: number): number {
    const { waiting, isInFlight, isUrgent, pause } = surface;
    if (waiting === null || isInFlight) return Infinity;
    // A clock that was set back must not make anything wait for it to catch up.
    waiting.last = Math.min(waiting.last, now);
    waiting.first = Math.min(waiting.first, now);
    if (pause !== null) pause.from = Math.min(pause.from, now);
    // Who goes on typing pauses between words, and longer than between letters.
    const pauses = waiting.last > waiting.first ? 2 : 1;
    const due = isUrgent ? now : Math.min(waiting.last + this.#times.idleMs * pauses, waiting.first + this.#times.maxAgeMs);
    return pause === null ? due : Math.max(due, pause.from + pause.ms);
  }
}
