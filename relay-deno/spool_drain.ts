/**
 * Sends what earlier runs left in the spool, in the background (D6).
 *
 * Rows of one author and document go as one merged update under a key that depends on nothing but
 * the rows, so a request whose answer was lost is done once. What is refused for good is put aside;
 * everything else is tried again.
 *
 * @module
 */

import type { Answer } from "./api_client.ts";
import { backoff, pause } from "./backoff.ts";
import { MAX_SPOOL_REQUEST, SPOOL_DRAIN_RETRY } from "./limits.ts";
import { type Log, messageOf } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import type { Spool, SpoolGroup, SpoolRows } from "./spool.ts";
import type { Append } from "./storage.ts";

/** What the drain works with. */
export interface DrainParts {
  readonly spool: Spool;
  /** Sends an update; `undefined` when there is no answer. */
  readonly send: (append: Append) => Promise<Answer | undefined>;
  /** One update with the effect of several. */
  readonly merge: (updates: Uint8Array[]) => Uint8Array;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly retry?: { min: number; max: number };
}

/** Answers after which the same request can never succeed. */
const FINAL = new Set([400, 404, 409, 410, 413, 422]);

/** The drain of a spool; `run` until `stop`. */
export class SpoolDrain {
  readonly #parts: DrainParts;
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;

  constructor(parts: DrainParts) {
    this.#parts = parts;
  }

  /** Starts sending, unless that is going on. Settles when nothing is left to send, or at `stop`. */
  run(): Promise<void> {
    this.#running ??= this.#work().finally(() => this.#running = undefined);
    return this.#running;
  }

  /** Ends it after the request on its way. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #work(): Promise<void> {
    let failures = 0;
    while (!this.#stop.signal.aborted) {
      let isDelayed = false;
      try {
        const groups = this.#parts.spool.groups();
        if (groups.length === 0) return;
        // A group that cannot be sent now must not keep the others waiting.
        for (const group of groups) {
          if (this.#stop.signal.aborted) return;
          isDelayed = !await this.#send(group) || isDelayed;
        }
      } catch (error) {
        this.#parts.log.error("spool_failed", { cause: messageOf(error) });
        isDelayed = true;
      }
      failures = isDelayed ? failures + 1 : 0;
      if (isDelayed) {
        await pause(backoff(failures, this.#parts.retry ?? SPOOL_DRAIN_RETRY), this.#stop.signal);
      }
    }
  }

  /** Sends a group's oldest rows. `false` when they have to be tried again. */
  async #send(group: SpoolGroup): Promise<boolean> {
    const { spool, log, metrics } = this.#parts;
    const rows = spool.rows(group, MAX_SPOOL_REQUEST);
    if (!rows) return true;
    const { workspace, document, epoch, author, run } = group;
    const seen = { workspace, document, updates: rows.updates.length };
    let update: Uint8Array;
    try {
      update = this.#parts.merge(rows.updates);
    } catch (error) {
      return this.#refuse(group, rows, `merge: ${messageOf(error)}`);
    }
    const key = `spool-${run}-${rows.first}-${rows.last}`;
    const answer = await this.#parts.send({
      workspace,
      document,
      update,
      epoch,
      author,
      after: undefined,
      key,
    });
    if (answer && answer.status < 300) {
      // Still there, it is sent once more under the same key, which changes nothing.
      if (!spool.saved(group, rows)) return false;
      metrics.spoolSent += rows.updates.length;
      log.info("spool_sent", seen);
      return true;
    }
    if (answer && FINAL.has(answer.status) && answer.code !== "") {
      return this.#refuse(group, rows, answer.code);
    }
    log.warn("spool_delayed", { ...seen, status: answer?.status });
    return false;
  }

  #refuse(group: SpoolGroup, rows: SpoolRows, cause: string): boolean {
    if (!this.#parts.spool.refused(group, rows, cause)) return false;
    this.#parts.metrics.spoolRefused += rows.updates.length;
    const { workspace, document } = group;
    this.#parts.log.error("spool_refused", { workspace, document, updates: rows.updates.length, cause });
    return true;
  }
}
