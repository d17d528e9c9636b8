// RelayWalker: which relay of the list to use, when to try again, and when to stop (S1). A pure
// function: events in, a state and effects out. Time, chance and the browser's own state are inputs.
//
//            start            due            opened          synced
//   idle ──────────► waiting ─────► connecting ─────► open ─────────► synced
//     ▲                 ▲  ▲            │ failed        │ closed         │ closed
//     │ disconnect      │  └────────────┴───────────────┴────────────────┘
//   (any)      wake ┌───┴───┐                  stop band, or `stop`
//                   │offline│                  ──────────────────► stopped, until `restart`
//                   └───────┘
//
// Two choices that S1 leaves open:
// - An entry is fresh if it was not tried since a connection last was stable. A fresh entry is tried
//   at once, everything else after a delay of at least `minDelayMs`. So between two stable connections
//   there are at most as many tries without a delay as there are entries, and no busy loop.
// - 1012 is no strike. From the second in a row on, with no sync in between, it is: that relay does
//   not come back.
import type { StopReason } from "./close-codes.ts";
import { TABLE } from "./walker-table.ts";

/** What the walker knows of its way; kept across connections, and across `disconnect`. */
export interface Position {
  /** The entry in use, or to be tried next. */
  readonly index: number;
  /** Abnormal closes in a row after an open. */
  readonly strikes: number;
  /** Closes with 1012 in a row, with no sync in between. */
  readonly restarts: number;
  /** Delayed tries in a row: the exponent of the backoff. */
  readonly failures: number;
  /** Entries that were not tried since a connection last was stable, besides this one. */
  readonly fresh: number;
  /** A token was called expired, and replaced, since the last sync. */
  readonly refreshed: boolean;
  /** The earlier entry that the next probe is for. */
  readonly probe: number;
}

export type WalkerState =
  | { readonly kind: "connecting"; readonly at: Position }
  | { readonly kind: "idle"; readonly at: Position }
  | { readonly kind: "offline"; readonly at: Position }
  | { readonly kind: "open"; readonly at: Position }
  | { readonly kind: "stopped"; readonly at: Position; readonly reason: StopReason }
  | { readonly kind: "synced"; readonly at: Position; readonly since: number }
  | { readonly kind: "waiting"; readonly at: Position };

/** How a socket failed before it was open. */
export type FailTrigger = "close_before_open" | "error_before_open" | "open_timeout";
/** Why the walker changed its entry. */
export type AdvanceTrigger = FailTrigger | "abnormal_closes" | "recovered";

export type WalkerEvent =
  /** The socket ended after it was open; `offline`: so is the browser, and it is not the relay's fault. */
  | { readonly kind: "closed"; readonly code: number; readonly offline?: boolean }
  /** The application wants no connection for now. */
  | { readonly kind: "disconnect" }
  /** The delay of the last `connect` is over. */
  | { readonly kind: "due" }
  | { readonly kind: "failed"; readonly trigger: FailTrigger }
  /** The delay is over, or a try failed, and the browser says that it is offline. */
  | { readonly kind: "offline" }
  | { readonly kind: "opened" }
  | { readonly kind: "probe_failed" }
  /** The probe's socket opened and synced: the earlier entry works again. */
  | { readonly kind: "probe_synced" }
  /** As `start`, and the one way out of `stopped`. */
  | { readonly kind: "restart" }
  | { readonly kind: "start" }
  /** The application refuses to go on with this document. */
  | { readonly kind: "stop"; readonly reason: StopReason }
  /** The relay answered what it was asked: the connection is good. */
  | { readonly kind: "synced" }
  /** There is no token; `final`: and there will be none. */
  | { readonly kind: "token_failed"; readonly final: boolean }
  /** The browser is online again, or the page visible: waiting on is pointless. */
  | { readonly kind: "wake" };

export type TelemetryEvent =
  | {
      readonly name: "relay_advance";
      readonly fromLabel: string;
      readonly toLabel: string;
      readonly trigger: AdvanceTrigger;
      readonly at: number;
    }
  | { readonly name: "relay_cycle_all_failed"; readonly labels: readonly string[]; readonly at: number };

export type Effect =
  /** Make the probe's socket the one in use, and close the old one. */
  | { readonly kind: "adoptProbe" }
  | { readonly kind: "cancelProbe" }
  /** Close the socket in use, or give up opening it, or waiting to. */
  | { readonly kind: "closeSocket" }
  /** Say `due` after this time. Replaces an earlier `connect`. */
  | { readonly kind: "connect"; readonly index: number; readonly afterMs: number }
  | { readonly kind: "emit"; readonly event: TelemetryEvent }
  | { readonly kind: "openSocket"; readonly index: number }
  /** After this time open a second socket, to this entry. Replaces an earlier probe. */
  | { readonly kind: "probe"; readonly index: number; readonly afterMs: number }
  /** Fetch another token for the next try; `required`: the old one must not be used again. */
  | { readonly kind: "refreshToken"; readonly required: boolean }
  | { readonly kind: "stop"; readonly reason: StopReason };

/** Times in ms. */
export interface WalkerTimes {
  /** First ceiling of the backoff; each further failure doubles it. */
  readonly baseMs: number;
  readonly capMs: number;
  /** The least delay of a try that is delayed at all. */
  readonly minDelayMs: number;
  /** Over which time the clients of a relay that restarts come back. */
  readonly restartSpreadMs: number;
  /** The least delay after 4429. */
  readonly rateLimitMs: number;
  /** How soon to try after `wake`, at most. */
  readonly wakeSpreadMs: number;
  /** How long a connection has been synced when it counts as stable. */
  readonly stableMs: number;
  /** The mean time between two probes of earlier entries. */
  readonly probeMs: number;
}

export const WALKER_TIMES: WalkerTimes = {
  // After a crash all clients of a relay come at once: the first 2 s thin 1,000 of them to 50 in
  // 100 ms, and one person waits 1 s in the mean.
  baseMs: 2_000,
  // A relay that is down for minutes is found within half a minute of its return.
  capMs: 30_000,
  minDelayMs: 100,
  // 500 clients become 83 a second.
  restartSpreadMs: 6_000,
  rateLimitMs: 5_000,
  wakeSpreadMs: 1_000,
  // Long enough that a relay which dies of what a client sends is backed off from.
  stableMs: 10_000,
  // A fallback works as well, so that leaving it is no hurry; a probe is one connection.
  probeMs: 300_000,
};

export interface WalkerConfig {
  /** The labels of the list, in its order; at least one. */
  readonly labels: readonly string[];
  /** The pinned entry: no advance, no probe, no cycle event. */
  readonly pinned: number | null;
  readonly times: WalkerTimes;
}

/** What a step takes from outside. */
export interface WalkerInput {
  readonly config: WalkerConfig;
  /** Wall time in ms. */
  readonly now: number;
  /** From 0 to below 1. */
  readonly random: number;
}

export interface Step {
  readonly state: WalkerState;
  readonly effects: readonly Effect[];
}

/** The state before anything happened. */
export function initialState(config: WalkerConfig): WalkerState {
  const at = { index: config.pinned ?? 0, strikes: 0, restarts: 0, failures: 0, fresh: 0, refreshed: false, probe: 0 };
  return { kind: "idle", at };
}

/** The one transition function. An event that means nothing in a state returns that state itself. */
export function step(state: WalkerState, event: WalkerEvent, input: WalkerInput): Step {
  // The table's type ties each cell to its state and event; TypeScript cannot follow that through an
  // index by two unions.
  const cell = TABLE[state.kind][event.kind] as (state: WalkerState, event: WalkerEvent, input: WalkerInput) => Step;
  return cell(state, event, input);
}
