// One document's connection over the relays (L3), while it is worth one. What a relay got and has not
// saved is remembered here, and handed over when the relay is lost.
import type { Awareness } from "y-protocols/awareness";
import type * as Y from "yjs";
import type { SyncProvider, SyncProviderOptions, SyncStatus } from "../sync-provider.ts";
import { mergeUpdates } from "../yjs.ts";
import { TabOrigin } from "./types.ts";
import type { DocumentReceipt } from "./types.ts";

/** Makes the connection over relays. */
export type Connect = (options: Pick<SyncProviderOptions, "awareness" | "doc" | "document" | "epoch" | "isNeighbour">) => SyncProvider;

export interface LinkEvents {
  /** A relay has the document, and everything that this copy had. */
  joined(): void;
  /** No relay has it any more. These edits are not saved. */
  lost(unsaved: Uint8Array | null): void;
  /** A receipt covers every edit of this copy; `isNews`: some were not saved before. */
  saved(isNews: boolean): void;
  /** For good, with the reason. */
  stopped(reason: string | undefined): void;
  /** Anything else of its status. */
  changed(status: SyncStatus): void;
}

export class RelayLink {
  readonly #connect: Connect;
  readonly #parts: { readonly path: string; readonly doc: Y.Doc; readonly awareness: Awareness };
  readonly #events: LinkEvents;
  #provider: SyncProvider | null = null;
  /** Aborted when the relay is lost: what waits for its receipt asks elsewhere. */
  #live: AbortController | null = null;
  #unsaved: Uint8Array[] = [];

  constructor(connect: Connect, parts: { path: string; doc: Y.Doc; awareness: Awareness }, events: LinkEvents) {
    this.#connect = connect;
    this.#parts = parts;
    this.#events = events;
  }

  get isOpen(): boolean {
    return this.#provider !== null;
  }

  /** A relay is in sync with this copy, and gets its edits. */
  get isLive(): boolean {
    return this.#live !== null;
  }

  /** The relay restarts, and is expected back within seconds. */
  get isDraining(): boolean {
    return this.#provider?.status.connection === "draining";
  }

  get isSaved(): boolean {
    return this.isLive && this.#provider?.status.save === "saved";
  }

  /** Edits went to a relay that has not said that they are saved. */
  get hasUnsaved(): boolean {
    return this.#unsaved.length > 0;
  }

  /** The relay that it is live on. */
  get label(): string | undefined {
    return this.isLive ? (this.#provider?.status.label ?? undefined) : undefined;
  }

  get epoch(): number | undefined {
    return this.#provider?.epoch;
  }

  open(epoch: number | undefined): void {
    if (this.#provider !== null) return;
    const { path, doc, awareness } = this.#parts;
    const isNeighbour = (origin: unknown) => origin instanceof TabOrigin;
    const provider = this.#connect({ doc, document: path, awareness, isNeighbour, epoch });
    this.#provider = provider;
    provider.on("status", (status) => this.#handle(provider, status));
  }

  /** Ends the connection; what is not saved is handed over, unless it is of no use any more. */
  close({ forgets = false } = {}): void {
    const provider = this.#provider;
    this.#provider = null;
    if (forgets) this.#unsaved = [];
    this.#lose();
    provider?.destroy();
  }

  /** People may be missing in the awareness whom the relay knows. */
  askForPeople(): void {
    if (this.isLive) this.#provider?.askForPeople();
  }

  /** The provider has sent this edit; it is not saved until a receipt says so. */
  sent(update: Uint8Array): void {
    this.#unsaved.push(update);
  }

  /** The receipt of every edit so far; `null` when there is no relay to give one. */
  async flush(signal?: AbortSignal): Promise<DocumentReceipt | null> {
    const [live, provider] = [this.#live, this.#provider];
    if (live === null || provider === null) return null;
    try {
      return await provider.flush(signal === undefined ? live.signal : AbortSignal.any([signal, live.signal]));
    } catch (error) {
      if (live.signal.aborted) return null;
      throw error;
    }
  }

  #handle(provider: SyncProvider, status: SyncStatus): void {
    if (provider !== this.#provider) return;
    if (status.connection === "synced") this.#join(status.save === "saved");
    else this.#lose();
    if (status.connection === "stopped") this.#events.stopped(status.reason);
    else this.#events.changed(status);
  }

  #join(isSaved: boolean): void {
    if (isSaved) {
      const isNews = this.hasUnsaved;
      this.#unsaved = [];
      this.#events.saved(isNews);
    }
    if (this.#live !== null) return;
    this.#live = new AbortController();
    this.#events.joined();
  }

  #lose(): void {
    if (this.#live === null) return;
    const unsaved = this.#unsaved;
    this.#unsaved = [];
    const live = this.#live;
    this.#live = null;
    this.#events.lost(unsaved.length === 0 ? null : mergeUpdates(unsaved));
    live.abort();
  }
}
