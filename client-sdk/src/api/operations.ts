// The operations of the API that agents and pages call, and their addresses. A test compares the table with
// the OpenAPI document, and the compiler compares the calls with the table.

/** The `operationId` of the OpenAPI document, method, address below the workspace's, and the media type of the body. */
export type Operation<Id extends string = string> = readonly [id: Id, method: "DELETE" | "GET" | "PATCH" | "POST" | "PUT", path: string, body?: string];

const JSON_TYPE = "application/json";

// One by one, so that a page carries no operation that only agents call.
export const applyOps = ["applyOps", "POST", "/ops", JSON_TYPE] as const;
export const deleteNode = ["deleteNode", "DELETE", "/nodes/{path}"] as const;
export const deletePresence = ["deletePresence", "DELETE", "/presence"] as const;
export const editDocument = ["editDocument", "POST", "/docs/{path}/edits", JSON_TYPE] as const;
export const listChanges = ["listChanges", "GET", "/changes"] as const;
export const listNodes = ["listNodes", "GET", "/nodes"] as const;
export const listPresence = ["listPresence", "GET", "/presence"] as const;
export const listSignals = ["listSignals", "GET", "/p2p/signal"] as const;
export const mintToken = ["mintToken", "POST", "/tokens", JSON_TYPE] as const;
export const patchNode = ["patchNode", "PATCH", "/nodes/{path}", "application/merge-patch+json"] as const;
export const postUpdate = ["postUpdate", "POST", "/docs/{path}/updates", "application/octet-stream"] as const;
export const putNode = ["putNode", "PUT", "/nodes/{path}", JSON_TYPE] as const;
export const putPresence = ["putPresence", "PUT", "/presence", JSON_TYPE] as const;
export const readDocument = ["readDocument", "GET", "/docs/{path}"] as const;
export const readNode = ["readNode", "GET", "/nodes/{path}"] as const;
export const readWorkspace = ["readWorkspace", "GET", ""] as const;
export const sendSignal = ["sendSignal", "POST", "/p2p/signal", JSON_TYPE] as const;
export const streamChanges = ["streamChanges", "GET", "/changes/stream"] as const;

type KeyHeader = "Idempotency-Key";
type WriteHeader = KeyHeader | "If-Match" | "If-None-Match";

/** The query of each operation that has one. Types alone: a page carries no list that only checks need. */
interface Queries {
  readonly deletePresence: "session";
  readonly editDocument: "epoch";
  readonly listChanges: "limit" | "since";
  readonly listNodes: "after" | "limit" | "prefix";
  readonly listPresence: "session";
  readonly listSignals: "after" | "peer" | "topic";
  readonly postUpdate: "epoch";
  readonly readDocument: "root" | "sv";
  readonly streamChanges: "since";
}

/** The headers of each operation that has some of its own. */
interface Headers {
  readonly applyOps: KeyHeader;
  readonly deleteNode: WriteHeader;
  readonly editDocument: KeyHeader;
  readonly patchNode: WriteHeader;
  readonly postUpdate: KeyHeader;
  readonly putNode: WriteHeader;
  readonly readDocument: "Accept";
}

export type QueryName<Id extends string> = Id extends keyof Queries ? Queries[Id] : never;
export type HeaderName<Id extends string> = Id extends keyof Headers ? Headers[Id] : never;
type Value = number | string | undefined;

/** What one call adds to its operation. Members that are undefined are left out. */
export interface Input<Id extends string> {
  readonly path?: string;
  readonly query?: { readonly [Name in QueryName<Id>]?: Value };
  readonly headers?: { readonly [Name in HeaderName<Id>]?: string | undefined };
  /** JSON text, or bytes. */
  readonly body?: Uint8Array<ArrayBuffer> | string | undefined;
  /** The page is going away: the call outlives it. Browsers take bodies up to 64 KiB this way. */
  readonly keepalive?: boolean;
}

const WORKSPACE_ID = /^[A-Za-z0-9_-]{1,64}$/;

/** The address of a call, below the API's origin. */
export function addressOf<Id extends string>([, , template]: Operation<Id>, workspace: string, { path, query }: Input<Id>): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries<Value>(query ?? {})) if (value !== undefined) found.set(name, String(value));
  // As a function: a `$` in a path means nothing.
  const address = `/api/workspaces/${workspace}${template.replace("{path}", () => encodePath(path ?? ""))}`;
  return found.size === 0 ? address : `${address}?${found}`;
}

export function checkWorkspaceId(id: string): void {
  if (!WORKSPACE_ID.test(id)) throw new TypeError(`${JSON.stringify(id)} is not a workspace id; give 1 to 64 of A-Z a-z 0-9 _ -`);
}

/**
 * A path as a part of an address. What the API would refuse is found there, except what never gets
 * there as it is: `fetch` resolves `..`, so that deleting `..` would be a call to another address.
 */
export function encodePath(path: string): string {
  const segments = path.split("/");
  if (segments.some((segment) => segment === "" || segment === "." || segment === "..")) {
    throw new TypeError(`${JSON.stringify(path)} is not a path; leave out empty, "." and ".." segments`);
  }
  try {
    return segments.map(encodeURIComponent).join("/");
  } catch (error) {
    throw new TypeError(`${JSON.stringify(path)} is not a path: it has half of a surrogate pair`, { cause: error });
  }
}
