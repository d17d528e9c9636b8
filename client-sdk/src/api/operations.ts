// The operations of the API that agents and pages call, and their addresses. A test compares the table with
// the OpenAPI document, and the compiler compares the calls with the table.

interface Operation {
  readonly method: "DELETE" | "GET" | "PATCH" | "POST" | "PUT";
  readonly path: string;
  readonly query: readonly string[];
  readonly headers: readonly string[];
  /** The media type of the body. */
  readonly body?: string;
}

const NODE = "/api/workspaces/{workspaceId}/nodes/{path}";
const DOCUMENT = "/api/workspaces/{workspaceId}/docs/{path}";
const PRESENCE = "/api/workspaces/{workspaceId}/presence";
const SIGNAL = "/api/workspaces/{workspaceId}/p2p/signal";
const WRITE_HEADERS = ["If-Match", "If-None-Match", "Idempotency-Key"] as const;

/** By the `operationId` of the OpenAPI document. */
export const OPERATIONS = {
  applyOps: { method: "POST", path: "/api/workspaces/{workspaceId}/ops", query: [], headers: ["Idempotency-Key"], body: "application/json" },
  deleteNode: { method: "DELETE", path: NODE, query: [], headers: WRITE_HEADERS },
  deletePresence: { method: "DELETE", path: PRESENCE, query: ["session"], headers: [] },
  editDocument: { method: "POST", path: `${DOCUMENT}/edits`, query: ["epoch"], headers: ["Idempotency-Key"], body: "application/json" },
  listChanges: { method: "GET", path: "/api/workspaces/{workspaceId}/changes", query: ["since", "limit"], headers: [] },
  listNodes: { method: "GET", path: "/api/workspaces/{workspaceId}/nodes", query: ["prefix", "after", "limit"], headers: [] },
  listSignals: { method: "GET", path: SIGNAL, query: ["peer", "topic", "after"], headers: [] },
  listPresence: { method: "GET", path: PRESENCE, query: ["session"], headers: [] },
  mintToken: { method: "POST", path: "/api/workspaces/{workspaceId}/tokens", query: [], headers: [], body: "application/json" },
  patchNode: { method: "PATCH", path: NODE, query: [], headers: WRITE_HEADERS, body: "application/merge-patch+json" },
  postUpdate: { method: "POST", path: `${DOCUMENT}/updates`, query: ["epoch"], headers: ["Idempotency-Key"], body: "application/octet-stream" },
  putNode: { method: "PUT", path: NODE, query: [], headers: WRITE_HEADERS, body: "application/json" },
  putPresence: { method: "PUT", path: PRESENCE, query: [], headers: [], body: "application/json" },
  readDocument: { method: "GET", path: DOCUMENT, query: ["root", "sv"], headers: ["Accept"] },
  readNode: { method: "GET", path: NODE, query: [], headers: [] },
  readWorkspace: { method: "GET", path: "/api/workspaces/{workspaceId}", query: [], headers: [] },
  sendSignal: { method: "POST", path: SIGNAL, query: [], headers: [], body: "application/json" },
  streamChanges: { method: "GET", path: "/api/workspaces/{workspaceId}/changes/stream", query: ["since"], headers: [] },
} as const satisfies Record<string, Operation>;

export type OperationId = keyof typeof OPERATIONS;
type Value = number | string | undefined;

/** What one call adds to its operation. Members that are undefined are left out. */
export interface Input<Id extends OperationId> {
  readonly path?: string;
  readonly query?: { readonly [Name in (typeof OPERATIONS)[Id]["query"][number]]?: Value };
  readonly headers?: { readonly [Name in (typeof OPERATIONS)[Id]["headers"][number]]?: string | undefined };
  /** JSON text, or bytes. */
  readonly body?: Uint8Array<ArrayBuffer> | string;
  /** The page is going away: the call outlives it. Browsers take bodies up to 64 KiB this way. */
  readonly keepalive?: boolean;
}

const WORKSPACE_ID = /^[A-Za-z0-9_-]{1,64}$/;

/** The address of a call, below the API's origin. */
export function addressOf<Id extends OperationId>(id: Id, workspace: string, { path, query }: Input<Id>): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries<Value>(query ?? {})) if (value !== undefined) found.set(name, String(value));
  // As functions: a `$` in a path means nothing.
  const address = OPERATIONS[id].path.replace("{workspaceId}", () => workspace).replace("{path}", () => encodePath(path ?? ""));
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
