// Bounded waits: nothing waits for ever, and nothing asserts how fast it was.

/** How long a step may take that takes milliseconds on an idle machine, in ms. */
const PATIENCE = 20_000;

/** Asks again and again until the answer is truthy. */
export async function until(check: () => unknown, what: string): Promise<void> {
  const end = Date.now() + PATIENCE;
  while (!check()) {
    if (Date.now() > end) throw new Error(`${what}: not within ${PATIENCE} ms`);
    await new Promise((settle) => setTimeout(settle, 5));
  }
}

/** Lets a time pass in which something must not happen. */
export function pass(ms: number): Promise<void> {
  return new Promise((settle) => setTimeout(settle, ms));
}
