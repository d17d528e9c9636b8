// The surroundings of an SDK client, counted: its connects, with the time that the client chose for each,
// its closes, and the bytes of sync that went either way.
import { browserEnvironment } from "../../../client-sdk/src/browser.ts";

/**
 * Counts for one client. `random` is in place of chance, so that a run can be repeated. `attempts` has
 * for each connect when it was due: that does not depend on how busy the machine is. `sync` has the
 * length of each binary frame, by what it is, since the last connect.
 */
export function countingEnvironment(random) {
  const real = browserEnvironment();
  const counts = { attempts: [], opens: 0, openedAt: [], closes: [], sync: emptySync() };
  let due = 0;
  class Counted extends real.WebSocket {
    constructor(...args) {
      super(...args);
      counts.attempts.push({ due, at: Date.now() });
      counts.sync = emptySync();
      this.addEventListener("open", () => {
        counts.opens += 1;
        counts.openedAt.push(Date.now());
      });
      this.addEventListener("close", ({ code }) => counts.closes.push(code));
      this.addEventListener("message", ({ data }) => note(counts.sync.received, data));
    }

    send(data) {
      note(counts.sync.sent, data);
      super.send(data);
    }
  }
  const setTimeout = (run, ms) => {
    const at = Date.now() + ms;
    return real.setTimeout(() => {
      // A connect follows its timer within the same turn.
      due = at;
      run();
    }, ms);
  };
  return { ...real, WebSocket: Counted, setTimeout, random, counts };
}

function emptySync() {
  const none = () => ({ step1: [], step2: [], update: [] });
  return { sent: none(), received: none() };
}

/** Sorts a binary frame: its first two bytes say what it is. */
function note(frames, data) {
  if (typeof data === "string") return;
  const bytes = new Uint8Array(data);
  if (bytes[0] === 0) frames[["step1", "step2", "update"][bytes[1]]].push(bytes.length);
}

/** Numbers from 0 to below 1 out of a seed (mulberry32). */
export function seeded(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The most of these times within any window of so many ms. */
export function busiest(times, windowMs) {
  const sorted = [...times].sort((a, b) => a - b);
  let most = 0;
  let first = 0;
  for (const [n, time] of sorted.entries()) {
    while (time - sorted[first] >= windowMs) first += 1;
    most = Math.max(most, n - first + 1);
  }
  return most;
}

/** How many of these times are in each window of so many ms, from the first of them on. */
export function buckets(times, windowMs) {
  const start = Math.min(...times);
  const counts = new Array(Math.floor((Math.max(...times) - start) / windowMs) + 1).fill(0);
  for (const time of times) counts[Math.floor((time - start) / windowMs)] += 1;
  return counts;
}

/** How often each value comes, such as `{1012: 100}`. */
export function histogram(values) {
  const counts = {};
  for (const value of values) counts[value] = (counts[value] ?? 0) + 1;
  return counts;
}
