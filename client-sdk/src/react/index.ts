// The entry "./react": hooks over a WorkspaceClient. Everything that is loaded, opened or counted is in the
// entries, which know nothing of React; here they become state of components.
import { createContext, createElement, useCallback, useContext, useSyncExternalStore } from "react";
import type { ReactElement, ReactNode } from "react";
import { encodePath } from "../api/operations.ts";
import type { PresenceList } from "../api/types.ts";
import type { DocumentStatus } from "../documents/types.ts";
import type { PresenceState } from "../feed/presence.ts";
import type { WorkspaceClient, WorkspaceStatus } from "../workspace-client.ts";
import { DocumentEntry, NO_DOCUMENT } from "./document-entry.ts";
import type { DocumentView } from "./document-entry.ts";
import { LOADING_NODE, NodeEntry } from "./node-entry.ts";
import type { NodeView } from "./node-entry.ts";
import { SharedEntries } from "./shared-entries.ts";
import type { Entry } from "./shared-entries.ts";

export type { DocumentView } from "./document-entry.ts";
export type { NodeView } from "./node-entry.ts";

/** `undefined`: there is no provider. */
const Workspace = createContext<WorkspaceClient | null | undefined>(undefined);

export interface WorkspaceProviderProps {
  /** `null` while there is none: on a server, or before signing in. It is not closed here. */
  readonly client: WorkspaceClient | null;
  readonly children?: ReactNode;
}

/** Gives a client to the hooks below it. */
export function WorkspaceProvider({ client, children }: WorkspaceProviderProps): ReactElement {
  return createElement(Workspace.Provider, { value: client }, children);
}

/** The client; `null` while there is none. */
export function useWorkspace(): WorkspaceClient | null {
  const client = useContext(Workspace);
  if (client === undefined) throw new Error("There is no WorkspaceProvider around this component; put one near the root, with your WorkspaceClient.");
  return client;
}

/** A node with its value, read anew when it changes, and after a failure when the API may be there again. */
export function useNode<Value = unknown>(path: string): NodeView<Value> & { readonly reload: () => void } {
  const client = useWorkspace();
  const view = useEntry(NODES, path, LOADING_NODE) as NodeView<Value>;
  const reload = useCallback(() => void (client && NODES.peek(client, path)?.reload()), [client, path]);
  return { ...view, reload };
}

/** An open document. It is open while a component uses it, and closed with the last one. */
export function useDoc(path: string): DocumentView & { readonly reopen: () => void } {
  const client = useWorkspace();
  const view = useEntry(DOCUMENTS, path, NO_DOCUMENT);
  const reopen = useCallback(() => void (client && DOCUMENTS.peek(client, path)?.reopen()), [client, path]);
  return { ...view, reopen };
}

/** Who is in the workspace; `show` says what this user does. */
export function usePresence(): { readonly list: PresenceList | null; readonly otherHumans: number | null; readonly show: (state: PresenceState | null) => void } {
  const client = useWorkspace();
  const subscribe = useCallback((changed: () => void) => client?.on("presence", changed) ?? NOTHING, [client]);
  const list = useSyncExternalStore(subscribe, () => client?.presence.list ?? null, () => null);
  const show = useCallback((state: PresenceState | null) => client?.presence.show(state), [client]);
  return { list, otherHumans: list?.otherHumans ?? null, show };
}

/** How the workspace is: who leads, what waits, whether to sign in. `null` until the component is mounted, and while there is no client. */
export function useSyncStatus(): WorkspaceStatus | null;
/** How a document is, which is open meanwhile. */
export function useSyncStatus(path: string): DocumentStatus;
export function useSyncStatus(path?: string): DocumentStatus | WorkspaceStatus | null {
  const view = useEntry<StatusView>(path === undefined ? WORKSPACES : DOCUMENTS, path ?? null, path === undefined ? NO_STATUS : NO_DOCUMENT);
  return view.status;
}

interface StatusView {
  readonly status: DocumentStatus | WorkspaceStatus | null;
}

const NO_STATUS: StatusView = { status: null };

class WorkspaceEntry implements Entry<StatusView> {
  view: StatusView;
  readonly #client: WorkspaceClient;
  #stop: () => void = NOTHING;

  constructor(client: WorkspaceClient) {
    this.#client = client;
    this.view = { status: client.status };
  }

  start(changed: () => void): void {
    this.#stop = this.#client.on("status", (status) => {
      this.view = { status };
      changed();
    });
  }

  stop(): void {
    this.#stop();
  }
}

const NODES = new SharedEntries((client: WorkspaceClient, path: string) => new NodeEntry(client, path));
const DOCUMENTS = new SharedEntries((client: WorkspaceClient, path: string) => new DocumentEntry(client, path));
const WORKSPACES = new SharedEntries((client: WorkspaceClient, _key: string) => new WorkspaceEntry(client));

/** A path of `null` is the workspace itself. Throws a `TypeError` for a path that cannot be one. */
function useEntry<View>(entries: SharedEntries<WorkspaceClient, Entry<View>>, path: string | null, before: View): View {
  const client = useWorkspace();
  if (path !== null) encodePath(path);
  const key = path ?? "";
  const subscribe = useCallback((changed: () => void) => (client === null ? NOTHING : entries.listen(client, key, changed)), [client, entries, key]);
  const look = () => (client === null ? before : (entries.peek(client, key)?.view ?? before));
  return useSyncExternalStore(subscribe, look, () => before);
}

function NOTHING(): void {}
