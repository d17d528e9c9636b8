/**
 * The end of the relay, in order (section 9): nobody new, save, receipts, 1012, the rest of the
 * saving, the spool, the server. It takes no longer than its window, and a step that fails keeps none
 * of the others from being tried.
 *
 * @module
 */

import { DRAIN_CLOSE_WAIT, DRAIN_FLUSH_WAIT, DRAIN_RESERVE } from "./limits.ts";
import type { Log } from "./log.ts";
import type { Parting } from "./parting.ts";
import type { RoomHost } from "./room_host.ts";
import type { SpoolDrain } from "./spool_drain.ts";
import { until } from "./until.ts";

/** What is brought to an end. */
export interface DrainedParts {
  readonly host: RoomHost;
  /** Where connections are passed on to. */
  readonly cluster?: { restart(): void } | undefined;
  readonly parting: Parting;
  readonly spoolDrain: () => SpoolDrain | undefined;
  readonly server: { shutdown(): Promise<void> };
  readonly log: Log;
}

/**
 * Ends the relay within a window, in ms. Settles when the process may exit; rejects then with an
 * `AggregateError` of what failed.
 */
export async function drain(parts: DrainedParts, windowMs: number): Promise<void> {
  const { host, parting, server, log } = parts;
  const end = Date.now() + windowMs - DRAIN_RESERVE;
  const left = () => Math.max(0, end - Date.now());
  host.isDraining = true;
  log.info("draining", {
    connections: host.connections,
    unsaved_rooms: host.unsavedRooms,
    window_ms: windowMs,
  });
  const failures: unknown[] = [];
  const attempt = async (step: () => unknown) => {
    try {
      await step();
    } catch (error) {
      failures.push(error);
    }
  };
  const spoolEnd = attempt(() => parts.spoolDrain()?.stop());
  await attempt(async () => {
    host.flush();
    await until(() => host.unsavedRooms === 0, Math.min(DRAIN_FLUSH_WAIT, left()));
  });
  // What came in meanwhile is saved when the last connection of its document leaves. Closing comes
  // before the server's own end, which would close the sockets with another code.
  await attempt(() => host.restart());
  await attempt(() => parts.cluster?.restart());
  await Promise.all([
    attempt(() => parting.gone(Math.min(DRAIN_CLOSE_WAIT, left()))),
    attempt(() => until(() => host.unsavedRooms === 0, left())),
    Promise.race([spoolEnd, until(() => false, left())]),
  ]);
  const unsaved = host.unsavedRooms;
  await attempt(() => {
    if (unsaved === 0) return;
    const kept = host.spool?.flush() ?? false;
    log[kept ? "warn" : "error"]("unsaved_at_exit", { rooms: unsaved, in_spool: kept });
  });
  await attempt(() => host.spool?.close());
  host.spool = undefined;
  await attempt(() => Promise.race([server.shutdown(), until(() => false, DRAIN_RESERVE / 2)]));
  log.info("drained", { unsaved_rooms: unsaved, failed_steps: failures.length });
  if (failures.length > 0) throw new AggregateError(failures, "the stop was not clean");
}
