// Two writes of one surface as one, where that means exactly the same. Pure.
import type { Op } from "../api/types.ts";
import { isObject } from "../json.ts";
import { mergeUpdates } from "../yjs.ts";

/** What a page asks for: an op on a record, or an update of a document. */
export type Write = Op | UpdateOp;

export interface UpdateOp {
  readonly op: "update";
  readonly path: string;
  readonly update: Uint8Array;
  /** Only if the document still has this epoch. */
  readonly epoch?: number;
}

/** The API takes bodies up to 1 MiB; a merged update is not larger than its parts, but for its header. */
export const MAX_UPDATE_BYTES = 1024 * 1024 - 1024;

/** Both in one, or `null`: then they stay two, in their order. */
export function mergeWrites(earlier: Write, later: Write): Write | null {
  if (earlier.path !== later.path) return null;
  if (earlier.op === "update" || later.op === "update") return earlier.op === "update" && later.op === "update" ? joined(earlier, later) : null;
  // A precondition is about what is stored: the earlier write changes that.
  if (isConditional(later) || earlier.op === "delete" || later.op === "delete") return null;
  if (earlier.op === "put" && later.op === "put") return { ...earlier, value: later.value };
  // A put leaves nothing of what a patch did; only a condition of the patch would be lost with it.
  if (later.op === "put") return isConditional(earlier) ? null : later;
  if (earlier.op === "put") return { ...earlier, value: applyMergePatch(earlier.value, later.patch) };
  const patch = composePatches(earlier.patch, later.patch);
  return patch === undefined ? null : { ...earlier, patch };
}

function joined(earlier: UpdateOp, later: UpdateOp): UpdateOp | null {
  if (earlier.epoch !== later.epoch || earlier.update.length + later.update.length > MAX_UPDATE_BYTES) return null;
  return { ...earlier, update: mergeUpdates([earlier.update, later.update]) };
}

function isConditional({ ifMatch, ifNoneMatch }: Op): boolean {
  return ifMatch !== undefined || ifNoneMatch !== undefined;
}

/** JSON Merge Patch (RFC 7396). */
export function applyMergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const result = new Map(isObject(target) ? Object.entries(target) : []);
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) result.delete(name);
    else result.set(name, applyMergePatch(result.get(name), value));
  }
  return Object.fromEntries(result);
}

/** The patch that does what both do one after the other, or `undefined` where no merge patch can say it. */
function composePatches(earlier: unknown, later: unknown): unknown {
  if (!isObject(later)) return later;
  // "Becomes this object, whatever was there" has no merge patch.
  if (!isObject(earlier)) return undefined;
  const result = new Map(Object.entries(earlier));
  for (const [name, value] of Object.entries(later)) {
    const both = result.has(name) ? composePatches(result.get(name), value) : value;
    if (both === undefined) return undefined;
    result.set(name, both);
  }
  return Object.fromEntries(result);
}
