// What is known of a document, and what tabs say to each other about it.
import type { RecoveryCopy } from "../sync-provider.ts";

/**
 * `pending`: some edits are in memory only. `local`: they are on this device. `relayed`: a relay has
 * them. `saved`: the database has every edit; nothing but a receipt says so.
 */
export type SaveLevel = "local" | "pending" | "relayed" | "saved";

/**
 * `feed`: by REST and the change feed, without a socket. `live`: over a relay. `draining`: by REST, until a relay
 * that restarts is back. `peer`: from browser to browser.
 */
export type DocumentConnection = "connecting" | "draining" | "feed" | "live" | "peer" | "stopped";

export interface DocumentStatus {
  readonly connection: DocumentConnection;
  /** The relay that carries it, while it is `live`. */
  readonly label?: string;
  readonly save: SaveLevel;
  /** The document has been read from the server, or is known to be new. */
  readonly isLoaded: boolean;
  readonly isReadOnly: boolean;
  /** Why it is stopped, or why the server was not read: a code of the API or of a relay. */
  readonly reason?: string;
}

export const OPENING: DocumentStatus = { connection: "connecting", save: "saved", isLoaded: false, isReadOnly: false };

export type DocumentEvents = {
  status: DocumentStatus;
  /** The document is another one now, or gone. The copy must not be merged into what is there: offer it to its author. */
  recovery: RecoveryCopy;
};

/** The receipt of a document's edits. */
export interface DocumentReceipt {
  readonly clock: number;
  readonly epoch: number;
}

export type DocumentSpeech =
  | { readonly kind: "awareness"; readonly update: Uint8Array }
  | { readonly kind: "recovery"; readonly copy: RecoveryCopy }
  /** The relay has forgotten everybody: say again that you are here. */
  | { readonly kind: "renew" }
  /** `seen`: how many edits of each tab the status speaks of. */
  | { readonly kind: "status"; readonly status: DocumentStatus; readonly seen: Readonly<Record<string, number>> }
  | { readonly kind: "step1"; readonly vector: Uint8Array }
  | { readonly kind: "step2"; readonly update: Uint8Array; readonly count: number }
  | { readonly kind: "update"; readonly update: Uint8Array; readonly count: number };

/** The origin of what another tab of this browser did. */
export class TabOrigin {
  readonly tab: string;

  constructor(tab: string) {
    this.tab = tab;
  }
}

/** Origins of what is no edit. */
export const STORE_ORIGIN = Symbol("from this device");
export const REST_ORIGIN = Symbol("from the API");
