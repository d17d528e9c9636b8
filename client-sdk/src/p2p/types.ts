// The options of direct connections between browsers (L2), and their bounds.
import type { IceServer } from "../browser.ts";

export interface P2pOptions {
  /** Without any, only browsers that reach each other's own addresses connect; the others use a relay. */
  readonly iceServers?: readonly IceServer[];
}

/** Bytes of one piece: larger ones hold up what comes behind them, and not every platform takes them (RFC 8831, 6.6). */
export const MAX_PIECE_BYTES = 16 * 1024;
/** When so much waits in the platform, the rest waits here, where it can be counted. */
export const HIGH_WATER_BYTES = 1024 * 1024;
/** The platform asks for more when so little is left. */
export const LOW_WATER_BYTES = 256 * 1024;
/** A peer that is so far behind is let go: the relay and the API bring it what it lacks. */
export const MAX_WAITING_BYTES = 8 * 1024 * 1024;
/** A text message lists the open documents: 100 paths of 512 bytes, escaped. */
export const MAX_TEXT_LENGTH = 256 * 1024;
export const MAX_DOCUMENTS = 100;

/** Every browser sends each edit to every other one: past so many a relay does it better. */
export const MAX_PEERS = 8;

/** Times in ms. */
export const P2P_TIMES = {
  /** How long candidates are gathered: those of a STUN server that does not answer are not waited for. */
  gatherMs: 2_000,
  /** A connection that takes longer is given up; the relay carries the document since `graceMs` (P04). */
  attemptMs: 15_000,
  /** Over HTTP the other side may look later: an offer waits for it as long as the server keeps it. */
  httpAttemptMs: 60_000,
  /** How long a new peer is waited for before a relay carries the document. */
  graceMs: 5_000,
  /** A connection that was cut before counts again when it has lasted. */
  steadyMs: 10_000,
  /** How long a peer may take to be heard on the relay before it is sought over HTTP. */
  relayMs: 3_000,
  /** Looks into the inbox: the first ones, and the later ones of an attempt. */
  pollMs: 1_000,
  slowPollMs: 5_000,
  /** The first pause after a failed attempt; it doubles with each. */
  retryMs: 15_000,
  retryCapMs: 300_000,
  /** Who is connected and not in the list for so long has no place here any more (A4). */
  unlistedMs: 60_000,
} as const;
