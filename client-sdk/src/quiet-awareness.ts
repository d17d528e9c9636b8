import type { Doc } from "yjs";
import { Awareness } from "./yjs.ts";

/** What an awareness says of a change. */
export interface AwarenessChange {
  readonly added: readonly number[];
  readonly updated: readonly number[];
  readonly removed: readonly number[];
}

/** Every client that a change is about. */
export const clientsOf = ({ added, updated, removed }: AwarenessChange): number[] => [...added, ...updated, ...removed];

/**
 * An awareness without its timer, which renews the own state every 15 s and drops others after 30 s without
 * a renewal. Here the relay says who left (W5), and nobody renews.
 */
export function quietAwareness(doc: Doc): Awareness {
  const awareness = new Awareness(doc);
  clearInterval(awareness._checkInterval);
  return awareness;
}
