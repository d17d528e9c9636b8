/**
 * What the relay counts, and its text for Prometheus. No series names a workspace, a document or a
 * person; each has the relay's label (C.78).
 *
 * @module
 */

import { LOOP_PROBE_INTERVAL } from "./limits.ts";

/** Counters. They only grow; the hot path adds to plain fields. */
export class Metrics {
  framesIn = 0;
  framesOut = 0;
  bytesIn = 0;
  bytesOut = 0;
  /** Saves that did not succeed; each is tried again unless its cause is final. */
  flushErrors = 0;
  feedReconnects = 0;
  /** Rooms that moved to another replica. */
  handovers = 0;
  /** Rooms that ended because the core trapped. */
  traps = 0;
  /** Errors that nobody caught; each is a defect. */
  unhandledErrors = 0;
  spoolSent = 0;
  spoolRefused = 0;
  /** Upgrades that were refused, by problem code. */
  readonly rejected = new Map<string, number>();
  /** Closes by the relay, by close code. */
  readonly closed = new Map<string, number>();
  /** Calls to the API that gave nothing of use, by call. */
  readonly apiErrors = new Map<string, number>();

  /** Adds one to a counter that has a label. */
  static count(counter: Map<string, number>, label: string): void {
    counter.set(label, (counter.get(label) ?? 0) + 1);
  }
}

/** What is read at the moment of a scrape. */
export interface Gauges {
  readonly connections: number;
  /** Sockets that are told to close and have not gone yet, and the bytes they have not taken. */
  readonly partingConnections: number;
  readonly stuckBytes: number;
  /** Bytes that the other sockets have not taken. */
  readonly queuedBytes: number;
  /** Frames that wait for their turn, with what each costs besides its bytes. */
  readonly waitingBytes: number;
  readonly rooms: number;
  /** Age of the oldest update that is not saved, in seconds; 0 when all is saved. */
  readonly unsavedAge: number;
  readonly spoolRows: number;
  readonly spoolRefusedRows: number;
  /** Whether it cannot be opened, or written. */
  readonly spoolFailing: boolean;
  readonly loopDelay: number;
  readonly residentBytes: number;
  readonly draining: boolean;
  /** Replicas that count, this one included, and what is passed on to others. */
  readonly members: number;
  readonly proxiedConnections: number;
}

type Series = [
  name: string,
  kind: "counter" | "gauge",
  help: string,
  values: [labels: string, value: number][],
];

/** The text format of Prometheus. */
export function renderMetrics(label: string, metrics: Metrics, gauges: Gauges): string {
  return [...gaugeSeries(gauges), ...counterSeries(metrics)].map((series) => renderSeries(label, series))
    .join("");
}

function gaugeSeries(gauges: Gauges): Series[] {
  const gauge = (name: string, help: string, value: number): Series => [name, "gauge", help, [["", value]]];
  return [
    gauge("connections", "WebSockets, those on their way out included.", gauges.connections),
    gauge("connections_parting", "WebSockets told to close that are still there.", gauges.partingConnections),
    gauge("stuck_bytes", "Bytes that those have not taken.", gauges.stuckBytes),
    gauge("queued_bytes", "Bytes that the other WebSockets have not taken.", gauges.queuedBytes),
    gauge("waiting_bytes", "Frames that wait because the relay is busy.", gauges.waitingBytes),
    gauge("rooms", "Workspaces with somebody in them or something to save.", gauges.rooms),
    gauge("unsaved_age_seconds", "Age of the oldest unsaved update.", gauges.unsavedAge),
    gauge("spool_rows", "Unsaved updates in the spool.", gauges.spoolRows),
    gauge(
      "spool_refused_rows",
      "Updates in the spool that the API refused for good.",
      gauges.spoolRefusedRows,
    ),
    gauge("spool_failing", "1 while the spool cannot be written.", gauges.spoolFailing ? 1 : 0),
    gauge("loop_delay_seconds", "Longest delay of the event loop since the last scrape.", gauges.loopDelay),
    gauge("resident_bytes", "Resident memory.", gauges.residentBytes),
    gauge("members", "Replicas of the relay that count, this one included.", gauges.members),
    gauge("proxied_connections", "WebSockets passed on to other replicas.", gauges.proxiedConnections),
    gauge("draining", "1 while the relay stops.", gauges.draining ? 1 : 0),
  ];
}

function counterSeries(metrics: Metrics): Series[] {
  const one = (name: string, help: string, value: number): Series => [name, "counter", help, [["", value]]];
  const by = (name: string, help: string, key: string, counts: Iterable<[string, number]>): Series => {
    return [name, "counter", help, [...counts].map(([value, count]) => [`,${key}="${value}"`, count])];
  };
  const ways = (
    incoming: number,
    outgoing: number,
  ): [string, number][] => [["in", incoming], ["out", outgoing]];
  return [
    by("frames_total", "WebSocket frames.", "direction", ways(metrics.framesIn, metrics.framesOut)),
    by("bytes_total", "Bytes of WebSocket frames.", "direction", ways(metrics.bytesIn, metrics.bytesOut)),
    by("rejected_total", "Upgrades refused, by problem code.", "code", metrics.rejected),
    by("closed_total", "WebSockets closed by the relay, by close code.", "code", metrics.closed),
    by("api_errors_total", "Calls to the API that failed, by call.", "call", metrics.apiErrors),
    one("flush_errors_total", "Saves that failed.", metrics.flushErrors),
    one("feed_reconnects_total", "Times a change stream was opened again.", metrics.feedReconnects),
    one("handovers_total", "Rooms that moved to another replica.", metrics.handovers),
    one("spool_sent_total", "Updates of earlier runs that were saved.", metrics.spoolSent),
    one("spool_refused_total", "Updates of earlier runs that were refused for good.", metrics.spoolRefused),
    one("traps_total", "Rooms that ended because the core trapped.", metrics.traps),
    one("unhandled_errors_total", "Errors that nobody caught.", metrics.unhandledErrors),
  ];
}

function renderSeries(label: string, [name, kind, help, values]: Series): string {
  const full = `yrelay_${name}`;
  const lines = values.map(([labels, value]) => `${full}{relay="${label}"${labels}} ${value}\n`);
  return `# HELP ${full} ${help}\n# TYPE ${full} ${kind}\n${lines.join("")}`;
}

/** Measures how late timers fire: how long the event loop was busy with something else. */
export class LoopDelay {
  #longest = 0;
  #expected = performance.now() + LOOP_PROBE_INTERVAL;
  readonly #timer = setInterval(() => {
    const now = performance.now();
    this.#longest = Math.max(this.#longest, now - this.#expected);
    this.#expected = now + LOOP_PROBE_INTERVAL;
  }, LOOP_PROBE_INTERVAL);

  /** The longest delay since the last call, in ms. */
  takeLongest(): number {
    const longest = Math.max(0, this.#longest);
    this.#longest = 0;
    return longest;
  }

  /** Ends the measuring. */
  stop(): void {
    clearInterval(this.#timer);
  }
}
