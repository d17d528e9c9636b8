/**
 * The core, compiled from Rust by `cargo xtask build`. No other file names the generated module.
 *
 * @module
 */

import { mergeUpdates as mergePacked } from "./wasm/yrelay.js";

export { Gate, problem, problemStatus, Room as Core, StoredDocument } from "./wasm/yrelay.js";

/** What `Core.next` says is to be done; the getters that hold its values are named with each. */
export const Action = {
  None: 0,
  /** Send the frame that was just handed in, as it came. `to` names one receiver after the other, then 0. */
  SendInput: 1,
  /** Send a binary frame: `to`, `bytes`. */
  SendBytes: 2,
  /** Send a text frame: `to`, `message`. */
  SendText: 3,
  /** Close a connection: `session`, `code`, `message`. */
  Close: 4,
  /** Read a document: `message` is its path, `number` names the answer. */
  Load: 5,
  /** Read what was appended past `after`: `message`, `number`. */
  Pull: 6,
  /** Append an update: `message`, `bytes`, `epoch`, `actor`, `after`; `number` names the answer. */
  Persist: 7,
  /** Follow the workspace's changes while `number` is not 0. */
  Lease: 8,
  /** Put an update into the spool: `message`, `bytes`, `epoch`, `actor`, `number`. */
  Keep: 9,
  /** Forget a document's updates in the spool up to `number`: `message`. */
  Release: 10,
  /** Call `spool` soon: something waits for it. */
  Spool: 11,
} as const;

/** One update with the effect of several. Throws for bytes that are no updates. */
export function mergeUpdates(updates: readonly Uint8Array[]): Uint8Array {
  const lengths = Uint32Array.from(updates, (update) => update.length);
  const packed = new Uint8Array(lengths.reduce((sum, length) => sum + length, 0));
  let at = 0;
  for (const update of updates) {
    packed.set(update, at);
    at += update.length;
  }
  return mergePacked(packed, lengths);
}
