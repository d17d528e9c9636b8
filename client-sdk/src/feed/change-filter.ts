// What an iterator wants to hear of: the same rules as those of `?prefix=` and `?kinds=`. Filters are
// applied here, so that all iterators of a process share one stream without a filter. Pure.
import { CHANGE_KINDS } from "../api/types.ts";
import type { Change, ChangeKind } from "../api/types.ts";

export type Wanted = (change: Change) => boolean;

export interface ChangeFilter {
  /** This path and everything below it. */
  readonly prefix?: string;
  readonly kinds?: readonly ChangeKind[];
}

/** The end of the workspace passes every filter. */
export function filterOf({ prefix, kinds }: ChangeFilter): Wanted {
  const unknown = kinds?.find((kind) => !CHANGE_KINDS.includes(kind));
  if (unknown !== undefined) throw new TypeError(`${JSON.stringify(unknown)} is not a kind of change; there are ${CHANGE_KINDS.join(", ")}`);
  const top = prefix?.replace(/\/+$/, "") ?? "";
  const isWantedKind = (kind: ChangeKind) => kinds === undefined || kinds.length === 0 || kinds.includes(kind);
  return (change) => change.kind === "delete_workspace" || (isWantedKind(change.kind) && (top === "" || isBelow(change.path, top) || takesAlong(change, top)));
}

/** Changes of this path alone, and those that took it along. */
export function changesOf(path: string): Wanted {
  return (change) => change.kind === "delete_workspace" || change.path === path || takesAlong(change, path);
}

function isBelow(path: string, top: string): boolean {
  return path === top || path.startsWith(`${top}/`);
}

/** A delete or a move is one change for all that is below. */
function takesAlong({ kind, path }: Change, below: string): boolean {
  return (kind === "delete" || kind === "move") && isBelow(below, path);
}
