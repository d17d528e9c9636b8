// The real surroundings on a faster clock, with a page that a test can hide or take offline.
import { browserEnvironment } from "../src/browser.ts";
import type { Environment, Surroundings, TabStorage } from "../src/browser.ts";

/** Ten seconds become less than half a one; a timer of 100 ms still is a real 4. */
const FASTER = 25;

export interface TestEnvironment extends Environment {
  readonly warnings: string[];
  /** Tells of a change of the page. */
  change(to: Surroundings): void;
}

export function fastEnvironment({ search = "", storage = null as TabStorage | null } = {}): TestEnvironment {
  const real = browserEnvironment();
  const begun = Date.now();
  const listeners = new Set<(change: Surroundings) => void>();
  const warnings: string[] = [];
  let online = true;
  let hidden = false;
  return {
    ...real,
    warnings,
    now: () => begun + (Date.now() - begun) * FASTER,
    setTimeout: (run, ms) => globalThis.setTimeout(run, ms / FASTER),
    isOnline: () => online,
    isHidden: () => hidden,
    search: () => search,
    tabStorage: () => storage,
    warn: (text) => warnings.push(text),
    watch(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    change(to) {
      if (to === "online" || to === "offline") online = to === "online";
      else if (to === "hidden" || to === "visible") hidden = to === "hidden";
      for (const listener of listeners) listener(to);
    },
  };
}
