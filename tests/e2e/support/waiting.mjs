// Bounded waits: nothing in these tests waits for ever, and nothing asserts how fast it was.
import { setTimeout as sleep } from "node:timers/promises";

/** How long a step may take that takes milliseconds on an idle machine, in ms. */
export const PATIENCE = 20_000;

export { sleep };

/** The promise, or an error that says what did not happen. */
export function within(promise, what, ms = PATIENCE) {
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: not within ${ms} ms`)), ms);
  });
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer));
}

/** Asks again and again until the answer is truthy, and returns it. */
export async function until(check, what, ms = PATIENCE) {
  const end = Date.now() + ms;
  for (;;) {
    const answer = await check();
    if (answer) return answer;
    if (Date.now() > end) throw new Error(`${what}: not within ${ms} ms`);
    await sleep(25);
  }
}
