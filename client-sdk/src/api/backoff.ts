// How long to wait before the next try. Pure: chance is an argument.
import { BYE_MS, MAX_STREAM_RETRY_AFTER_MS, RETRY_BASE_MS, RETRY_CAP_MS, RETRY_MIN_MS, STABLE_MS, STREAM_RETRY_BASE_MS } from "./limits.ts";

/**
 * The delay after so many failures in a row before this one. Full jitter: what failed together must
 * not come back together. With a `Retry-After` the jitter is on top of it.
 */
export function retryDelay(failures: number, random: number, retryAfterMs: number | null, baseMs = RETRY_BASE_MS): number {
  const ceiling = Math.min(RETRY_CAP_MS, baseMs * 2 ** Math.min(failures, 20));
  return Math.max(RETRY_MIN_MS, (retryAfterMs ?? 0) + random * ceiling);
}

/** How a stream ended that is to be opened again. */
export type StreamEnd = { readonly kind: "bye"; readonly retryMs: number | null } | { readonly kind: "lost"; readonly retryAfterMs: number | null };

/** What follows: the failures in a row now, and the delay. */
export interface Again {
  readonly failures: number;
  readonly delayMs: number;
}

/** `livedMs` is how long the stream was open; 0 when it did not open. */
export function reopen(failures: number, end: StreamEnd, livedMs: number, random: number): Again {
  const before = livedMs >= STABLE_MS ? 0 : failures;
  if (end.kind === "bye" && livedMs >= STABLE_MS) {
    const spread = Math.min(end.retryMs ?? BYE_MS, RETRY_CAP_MS);
    return { failures: 0, delayMs: Math.max(RETRY_MIN_MS, random * spread) };
  }
  const retryAfterMs = end.kind === "lost" && end.retryAfterMs !== null ? Math.min(end.retryAfterMs, MAX_STREAM_RETRY_AFTER_MS) : null;
  return { failures: before + 1, delayMs: retryDelay(before, random, retryAfterMs, STREAM_RETRY_BASE_MS) };
}

/** The header `Retry-After`, in seconds or as a date; `null` when it says neither. */
export function parseRetryAfter(header: string | null, now: number): number | null {
  if (header === null) return null;
  if (/^\d+$/.test(header)) return Number(header) * 1_000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}

/** Whether a refusal with this status may pass by itself. */
export function mayPass(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || status >= 500;
}
