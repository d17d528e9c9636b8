/**
 * Waiting for something that says nothing when it comes.
 *
 * @module
 */

/** Looks again and again, for so long at most. */
export async function until(isDone: () => boolean, ms: number): Promise<void> {
  const end = Date.now() + ms;
  while (!isDone() && Date.now() < end) await new Promise((settle) => setTimeout(settle, LOOK_INTERVAL));
}

/** How often that is, in ms: what is waited for takes a call to the API. */
const LOOK_INTERVAL = 20;
