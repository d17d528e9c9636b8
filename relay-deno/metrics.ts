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
  readonly rooms: number;
  /** Age of the oldest update that is not saved, in seconds; 0 when all is saved. */
  readonly unsavedAge: number;
  readonly spoolRows: number;
  readonly spoolRefusedRows: number;
  readonly loopDelay: number;
  readonly residentBytes: number;
  readonly draining: boolean;
}

type Series = [
  name: string,
  kind: "counter" | "gauge",
  help: string,
  values: [labels: string, value: number][],
];

/** The text format of Prometheus. */
export function renderMetrics(label: string, metrics: Metrics, gauges: Gauges): string {
  const one = (value: number): [string, number][] => [["", value]];
  const by = (name: string, counter: Map<string, number>): [string, number][] =>
    [...counter].map(([value, count]) => [`,${name}="${value}"`, count]);
  const directions = (incoming: number, outgoing: number): [string, number][] => [
    [',direction="in"', incoming],
    [',direction="out"', outgoing],
  ];
  const series: Series[] = [
    ["connections", "gauge", "Open WebSockets.", one(gauges.connections)],
    [
      "connections_parting",
      "gauge",
      "WebSockets that are told to close and are still there.",
      one(gauges.partingConnections),
    ],
    ["stuck_bytes", "gauge", "Bytes that those have not taken.", one(gauges.stuckBytes)],
    ["rooms", "gauge", "Workspaces with somebody in them or something to save.", one(gauges.rooms)],
    ["frames_total", "counter", "WebSocket frames.", directions(metrics.framesIn, metrics.framesOut)],
    ["bytes_total", "counter", "Bytes of WebSocket frames.", directions(metrics.bytesIn, metrics.bytesOut)],
    ["rejected_total", "counter", "Upgrades refused, by problem code.", by("code", metrics.rejected)],
    ["closed_total", "counter", "WebSockets closed by the relay, by close code.", by("code", metrics.closed)],
    ["flush_errors_total", "counter", "Saves that failed.", one(metrics.flushErrors)],
    ["api_errors_total", "counter", "Calls to the API that failed, by call.", by("call", metrics.apiErrors)],
    [
      "feed_reconnects_total",
      "counter",
      "Times a change stream was opened again.",
      one(metrics.feedReconnects),
    ],
    ["unsaved_age_seconds", "gauge", "Age of the oldest unsaved update.", one(gauges.unsavedAge)],
    ["spool_rows", "gauge", "Unsaved updates in the spool.", one(gauges.spoolRows)],
    [
      "spool_refused_rows",
      "gauge",
      "Updates in the spool that the API refused for good.",
      one(gauges.spoolRefusedRows),
    ],
    ["spool_sent_total", "counter", "Updates of earlier runs that were saved.", one(metrics.spoolSent)],
    [
      "spool_refused_total",
      "counter",
      "Updates of earlier runs that were refused for good.",
      one(metrics.spoolRefused),
    ],
    ["traps_total", "counter", "Rooms that ended because the core trapped.", one(metrics.traps)],
    ["unhandled_errors_total", "counter", "Errors that nobody caught.", one(metrics.unhandledErrors)],
    [
      "loop_delay_seconds",
      "gauge",
      "Longest delay of the event loop since the last scrape.",
      one(gauges.loopDelay),
    ],
    ["resident_bytes", "gauge", "Resident memory.", one(gauges.residentBytes)],
    ["draining", "gauge", "1 while the relay stops.", one(gauges.draining ? 1 : 0)],
  ];
  return series.map((entry) => renderSeries(label, entry)).join("");
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
