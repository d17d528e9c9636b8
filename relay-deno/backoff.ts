/**
 * Delays between tries: full jitter, so that many relays do not come back in step.
 *
 * @module
 */

/** A random delay in ms after so many failures in a row: anything up to the doubled minimum. */
export function backoff(
  failures: number,
  { min, max }: { min: number; max: number },
  random: () => number = Math.random,
): number {
  return Math.ceil(random() * Math.min(max, min * 2 ** Math.min(failures, 20)));
}

/** Waits, or until the signal is aborted. Never fails. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((settle) => {
    if (signal.aborted) return settle();
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      settle();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });
}
