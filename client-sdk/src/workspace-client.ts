// WorkspaceClient: what a page has of a workspace. One tab of a browser leads and does the work for all
// of them; which one, and over which way an edit travels, an application need not know.
import { jsonOf } from "./api/api.ts";
import type { Api, ApiOptions } from "./api/api.ts";
import { listNodes } from "./api/list-nodes.ts";
import type { ListOptions } from "./api/list-nodes.ts";
import * as operations from "./api/operations.ts";
import { encodePath } from "./api/operations.ts";
import type { FeedItem, Node, PresenceList } from "./api/types.ts";
import { browserEnvironment } from "./browser.ts";
import type { PageEnvironment } from "./browser.ts";
import type { StorageLoss, StorageState } from "./database.ts";
import type { SharedDocument } from "./documents/document.ts";
import { filterOf } from "./feed/change-filter.ts";
import type { ChangeFilter } from "./feed/change-filter.ts";
import type { StreamState } from "./feed/change-stream.ts";
import type { PresenceState } from "./feed/presence.ts";
import type { ApplyOptions, Refusal } from "./ops/apply-op.ts";
import type { CoalescerTimes } from "./ops/coalescer.ts";
import type { Write } from "./ops/merge.ts";
import type { WriteReceipt } from "./ops/sender.ts";
import type { ConnectPeers } from "./p2p.ts";
import type { Relay } from "./relay-list.ts";
import type { DocumentStore } from "./store.ts";
import type { SyncProviderOptions } from "./sync-provider.ts";
import type { Role } from "./tabs/types.ts";
import { WorkspaceTab } from "./workspace-tab.ts";

export interface WorkspaceClientOptions extends Pick<SyncProviderOptions, "onTelemetry" | "pin" | "times"> {
  readonly api: string;
  readonly workspace: string;
  /** Gives an API token. */
  readonly token: ApiOptions["getToken"];
  /** Without any, documents go by REST and the feed alone. */
  readonly relays?: readonly Relay[];
  /** Who this is: the `sub` of the tokens. Without it the first token says so, and until then nothing is read from the device. */
  readonly account?: string;
  /** Keep documents and unsent writes on the device. On by default. */
  readonly storage?: boolean;
  /** Where to keep documents instead; `null`: nowhere. */
  readonly store?: DocumentStore | null;
  /** Share the work with other tabs. On by default. */
  readonly tabs?: boolean;
  /** Connect to other people's browsers directly, and do without a relay while that reaches everybody. Off by default. */
  readonly p2p?: ConnectPeers | null;
  readonly coalescer?: CoalescerTimes;
  readonly environment?: PageEnvironment;
}

export interface WorkspaceStatus {
  readonly account: string | null;
  /** Whether this tab leads; `null` while that is not known. */
  readonly role: Role | null;
  readonly storage: StorageState;
  /** Why `storage` is `memory`, if it should not be. */
  readonly storageLoss?: StorageLoss;
  readonly stream: StreamState;
  /** Writes of this tab that are not answered yet. */
  readonly waiting: number;
  /** The user has to sign in again; then call `restart`. */
  readonly needsSignIn: boolean;
}

export type WorkspaceEvents = {
  /** A change of the workspace, or that changes were missed. */
  change: FeedItem;
  presence: PresenceList;
  /** A write was refused for good. */
  refused: Refusal;
  status: WorkspaceStatus;
};

/** Who else is here. */
export interface WorkspacePresence {
  readonly list: PresenceList | null;
  readonly otherHumans: number | null;
  /** Says what this user does, for others to show. By default it is `{path}` of the document opened last. */
  show(state: PresenceState | null): void;
  refresh(): Promise<PresenceList | null>;
}

export class WorkspaceClient {
  readonly presence: WorkspacePresence;
  readonly #api: Api;
  readonly #tab: WorkspaceTab;

  /** Throws a `TypeError` for options that cannot be meant. */
  constructor({ environment = browserEnvironment(), ...options }: WorkspaceClientOptions) {
    const tab = new WorkspaceTab({ ...options, environment });
    this.#tab = tab;
    this.#api = tab.api;
    this.presence = {
      get list() {
        return tab.presenceList;
      },
      get otherHumans() {
        return tab.presenceList?.otherHumans ?? null;
      },
      show: (state) => void tab.call("show", { state }).catch(() => {}),
      refresh: () => tab.call("refresh", {}) as Promise<PresenceList | null>,
    };
    tab.start();
  }

  get status(): WorkspaceStatus {
    return this.#tab.status;
  }

  /** Calls back at each event of this type; answers how to end that. */
  on<Type extends keyof WorkspaceEvents>(type: Type, listener: (payload: WorkspaceEvents[Type]) => void): () => void {
    return this.#tab.on(type, listener);
  }

  /** A document, which every tab that opens it shares. The same path gives the same object until it is closed. */
  openDoc(path: string): SharedDocument {
    encodePath(path);
    return this.#tab.open(path);
  }

  /**
   * Asks for a write. Resolves when it is committed, rejects when it is refused; while the API is away it
   * waits, also for the next page of this account. Throws a `TypeError` for what is no write.
   */
  applyOp(write: Write, options: Pick<ApplyOptions, "surface"> = {}): Promise<WriteReceipt> {
    return this.#tab.ops.applyOp(write, options);
  }

  /** Sends what waits in this tab. Resolves with the newest receipt when all of it is committed; `null`: nothing was ever written. */
  flush(signal?: AbortSignal): Promise<WriteReceipt | null> {
    return this.#tab.ops.flush(undefined, signal);
  }

  /** A node with its value, as it is stored now. */
  async node<Value = unknown>(path: string, { signal }: { readonly signal?: AbortSignal } = {}): Promise<Node<Value>> {
    return jsonOf(await this.#api.call(operations.readNode, { path }, { signal }));
  }

  /** Every node below `prefix`, in the order of the paths, without values. Pages are read as they are needed. */
  list(options: ListOptions = {}): AsyncGenerator<Node, void, undefined> {
    return listNodes(this.#api, options);
  }

  /** Calls back at each change that the filter lets pass, and at each reset; answers how to end that. */
  changes(listener: (item: FeedItem) => void, filter: ChangeFilter = {}): () => void {
    const wanted = filterOf(filter);
    return this.on("change", (item) => (item.kind === "reset" || wanted(item)) && listener(item));
  }

  /** After signing in again, or to try again what was refused to this user. */
  restart(): void {
    this.#tab.restart();
  }

  /** Ends it. What is not saved stays on the device for the next one of this account. */
  close(): Promise<void> {
    return this.#tab.close();
  }
}
