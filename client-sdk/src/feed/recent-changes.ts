// The newest changes of a workspace, without a gap: what the stream brought, for iterators that read at
// their own pace. Pure.
import { MAX_RECENT } from "../api/limits.ts";
import type { Change } from "../api/types.ts";
import { isObject } from "../json.ts";

export class RecentChanges {
  /** The clock before the oldest kept change; `null` before the beginning. */
  #floor: number | null = null;
  #changes: Change[] = [];

  /** Everything up to this clock is known; `null` before the beginning. */
  get head(): number | null {
    return this.#floor === null ? null : this.#floor + this.#changes.length;
  }

  /** Begins anew: what came up to this clock is not kept. */
  start(clock: number): void {
    this.#floor = clock;
    this.#changes = [];
  }

  /** Takes the next change. `known`: it was here before; `gap`: others come before it, and it is not taken. */
  push(change: Change): "gap" | "known" | "taken" {
    const { head } = this;
    if (head === null || this.#floor === null || change.clock > head + 1) return "gap";
    if (change.clock <= head) return "known";
    this.#changes.push(change);
    if (this.#changes.length > MAX_RECENT) {
      this.#changes.shift();
      this.#floor += 1;
    }
    return "taken";
  }

  /** The change after a clock, `behind` when it is not kept any more, `undefined` when there is none yet. */
  after(clock: number): Change | "behind" | undefined {
    if (this.#floor === null) return undefined;
    return clock < this.#floor ? "behind" : this.#changes[clock - this.#floor];
  }
}

/** A change as it came, or `null` when it is none. */
export function parseChange(value: unknown): Change | null {
  if (!isObject(value)) return null;
  const { clock, kind, path, actor, at } = value;
  // A kind that is not known here is a change all the same: leaving it out would be a gap.
  const isChange = isClock(clock) && typeof kind === "string" && typeof path === "string" && typeof actor === "string" && typeof at === "number";
  return isChange ? ({ clock, kind, path, actor, at } as Change) : null;
}

export function isClock(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
