// What goes over the wire, as the OpenAPI document of the API describes it. A test compares each type
// with its schema (openapi.test.ts).

/** What a change did. `reset` is not one of them: see `Reset`. */
export const CHANGE_KINDS = ["delete", "delete_workspace", "move", "patch", "put", "replace", "update"] as const;
export type ChangeKind = (typeof CHANGE_KINDS)[number];

/** One row of the workspace's log. Clocks are +1 each, without gaps. */
export interface Change {
  readonly clock: number;
  readonly kind: ChangeKind;
  readonly path: string;
  /** The `sub` of the writer's token, or `relay:<label>` for edits of several people. */
  readonly actor: string;
  /** In ms since 1970. */
  readonly at: number;
}

/** The cursor could not be resumed: read the current state; the changes after `head` follow. */
export interface Reset {
  readonly kind: "reset";
  readonly head: number;
  readonly floor: number;
}

/** What an iterator of changes gives. */
export type FeedItem = Change | Reset;

/** What is at a path. A list leaves `value` out, and a document has none. */
export interface Node<Value = unknown> {
  readonly path: string;
  readonly kind: "document" | "record";
  /** The clock of its last change: what `ifMatch` takes. */
  readonly clock: number;
  readonly value?: Value;
}

export interface Precondition {
  /** Only if the node is at this clock; `*`: only if it exists. */
  readonly ifMatch?: number | "*";
  /** Only if the node does not exist. */
  readonly ifNoneMatch?: "*";
}

/** One of several writes that happen together or not at all. */
export type Op = Precondition & { readonly path: string } & (
  | { readonly op: "delete" }
  | { readonly op: "patch"; readonly patch: unknown }
  | { readonly op: "put"; readonly value: unknown }
);

export interface WriteAnswer {
  readonly clock: number;
  readonly path: string;
}

export interface OpsAnswer {
  /** The clocks of the changes, in the order of the ops. */
  readonly clocks: readonly number[];
  /** The last of them. */
  readonly clock: number;
}

/** What a document showed when it was read. */
export interface DocumentRead<Content> {
  readonly content: Content;
  readonly clock: number;
  readonly epoch: number;
}

/** A page of nodes. */
export interface NodeList {
  readonly nodes: readonly Node[];
  readonly next: string | null;
  readonly head: number;
}

/** A page of the log. */
export interface ChangeList {
  readonly changes: readonly Change[];
  readonly head: number;
  readonly floor: number;
}

export interface Workspace {
  readonly id: string;
  readonly head: number;
  readonly floor: number;
}

/** Formats of text, such as `{ bold: true }`; null takes one away. */
export type Attributes = Readonly<Record<string, unknown>>;

/** Which of several equal quotes is meant, counted from 1. */
interface Occurrence {
  readonly occurrence?: number;
}

/** Text that comes new; without attributes it looks like the text before it. */
interface NewText {
  readonly text: string;
  readonly attributes?: Attributes;
}

/** One edit of a document. A quote is text that is there now; `at` counts UTF-16 code units. */
export type DocumentEdit =
  | (NewText & { readonly op: "append" })
  | (Occurrence & { readonly op: "delete"; readonly quote: string })
  | (Occurrence & { readonly op: "format"; readonly quote: string; readonly attributes: Attributes })
  | (NewText & { readonly op: "insert"; readonly at: number })
  | (NewText & Occurrence & { readonly op: "insert"; readonly before: string })
  | (NewText & Occurrence & { readonly op: "insert"; readonly after: string })
  | { readonly op: "insert"; readonly pointer: string; readonly value: unknown }
  | { readonly op: "put"; readonly pointer: string; readonly value: unknown }
  | { readonly op: "remove"; readonly pointer: string }
  | (Occurrence & { readonly op: "replace"; readonly quote: string; readonly with: string })
  | { readonly op: "set"; readonly text: string };

export interface EditAnswer {
  readonly clock: number;
  readonly epoch: number;
  /** Of the document with the edits, in base64url. */
  readonly stateVector: string;
}

/** What appending an update of a document did. */
export interface UpdateAnswer {
  readonly clock: number;
  readonly epoch: number;
}

/** Somebody who is in the workspace. */
export interface PresenceEntry {
  readonly sub: string;
  readonly kind: "agent" | "human" | "service";
  /** Null for a person who is connected to the room and has said no more. */
  readonly session: string | null;
  readonly state: Readonly<Record<string, unknown>> | null;
  /** In ms since 1970; null while a socket is open. */
  readonly expiresAt: number | null;
  /** Whether it is the session that asked. */
  readonly self: boolean;
}

export interface PresenceList {
  readonly presence: readonly PresenceEntry[];
  /** Humans other than the caller, each once, in however many tabs. */
  readonly otherHumans: number;
  /** False when people whom only the room knows are missing. */
  readonly complete: boolean;
}

/** A token for one workspace and purpose; `expiresAt` in ms since 1970. */
export interface TokenAnswer {
  readonly token: string;
  readonly expiresAt: number;
  /** What browsers seal their signaling with; for a relay token of who may write. */
  readonly peerSecret?: string;
}

/** What other peers sent to one. */
export interface SignalList {
  readonly signals: readonly Signal[];
}

/** `from` is the sender's word, `sub` is from its token. */
export interface Signal {
  readonly id: number;
  readonly from: string;
  readonly sub: string;
  readonly topic: string;
  readonly data: unknown;
}
