// Keeps one document for all tabs of a browser, in the tab that leads: on the device, over REST and the
// feed, and over a relay while that is worth a socket. Each way alone carries the document.
import type { Awareness } from "y-protocols/awareness";
import * as Y from "yjs";
import type { Api } from "../api/api.ts";
import { unlessAborted } from "../api/deadline.ts";
import type { FeedItem } from "../api/types.ts";
import type { PageEnvironment } from "../browser.ts";
import { ConnectionPolicy } from "../connection-policy.ts";
import { Emitter } from "../emitter.ts";
import type { Presence } from "../feed/presence.ts";
import { changesOf } from "../feed/change-filter.ts";
import type { Ops, OpsEvents } from "../ops/apply-op.ts";
import type { DocumentStore } from "../store.ts";
import { FlushError } from "../receipts.ts";
import type { SyncProvider, SyncProviderOptions, SyncStatus } from "../sync-provider.ts";
import { SyncSession } from "../sync-session.ts";
import { missingOnServer, readDocument } from "./rest-document.ts";
import type { ServerCopy } from "./rest-document.ts";
import { REST_ORIGIN, STORE_ORIGIN, TabOrigin } from "./types.ts";
import type { DocumentEvents, DocumentReceipt, DocumentStatus, SaveLevel } from "./types.ts";

/** What a keeper uses; it belongs to the workspace client. */
export interface DocumentContext {
  readonly environment: PageEnvironment;
  readonly api: Api;
  readonly ops: Ops;
  readonly store: DocumentStore | null;
  readonly presence: Presence;
  readonly account: () => string | null;
  /** Makes the connection over relays; `null` where there are none. */
  readonly connect: ((options: Pick<SyncProviderOptions, "awareness" | "doc" | "document" | "epoch" | "isNeighbour">) => SyncProvider) | null;
}

export interface KeptDocument {
  readonly path: string;
  readonly doc: Y.Doc;
  readonly awareness: Awareness;
  /** It was edited before it was kept, here or in other tabs: what the server lacks is found out. */
  readonly isTakeover: boolean;
}

type Events = DocumentEvents & {
  /** A relay was joined: it knows nobody of this browser yet. */
  joined: undefined;
};

/** Codes after which another try is pointless. */
const FINAL: ReadonlySet<string> = new Set(["deleted", "epoch_changed", "forbidden"]);

export class DocumentKeeper extends Emitter<Events> {
  readonly policy = new ConnectionPolicy();
  readonly #context: DocumentContext;
  readonly #kept: KeptDocument;
  readonly #surface: string;
  readonly #ending = new AbortController();
  readonly #ends: (() => void)[];
  #provider: SyncProvider | null = null;
  /** Aborted when the relay is lost: what waits for its receipt asks elsewhere. */
  #live: AbortController | null = null;
  /** Edits that a relay got, and has not said to be saved. */
  #relayed: Uint8Array[] = [];
  #epoch: number | undefined;
  #clock = 0;
  #isLoaded = false;
  #isReadOnly = false;
  #reason: string | undefined;
  /** Why the API does not take edits of this copy, which it lacks since. */
  #refusal: string | undefined;
  #needsAll: boolean;
  #pulling: Promise<void> | null = null;
  #pullsAgain = false;
  /** Changes by this account while an edit was on its way: its own, or not. */
  #unclear = new Set<number>();
  #own = new Set<number>();
  #told = "";

  constructor(context: DocumentContext, kept: KeptDocument) {
    super();
    this.#context = context;
    this.#kept = kept;
    this.#surface = `docs/${kept.path}`;
    this.#needsAll = kept.isTakeover;
    const { environment, ops, presence } = context;
    this.#ends = [
      ops.on("saved", (saved) => this.#handleSaved(saved)),
      ops.on("refused", ({ surface, error }) => surface === this.#surface && this.#handleRefusal(error)),
      ops.on("change", () => this.#tell()),
      presence.on("change", () => this.evaluate()),
      environment.watch((change) => {
        if (change !== "hidden" && change !== "offline") this.evaluate();
      }),
    ];
  }

  get status(): DocumentStatus {
    const { connection } = this;
    const reason = this.#reason ?? this.#refusal;
    return { connection, save: this.#save, isLoaded: this.#isLoaded, isReadOnly: this.#isReadOnly, ...(reason === undefined ? {} : { reason }) };
  }

  get connection(): DocumentStatus["connection"] {
    if (this.#isFinal) return "stopped";
    if (this.#live !== null) return "live";
    return this.#provider === null && this.#isLoaded ? "feed" : "connecting";
  }

  /** Reads what the device has, then the server. */
  async start(): Promise<void> {
    const { path, doc } = this.#kept;
    const { store } = this.#context;
    const stored = (await store?.load(path)) ?? null;
    if (this.#ending.signal.aborted) return;
    if (this.#needsAll) store?.append(path, Y.encodeStateAsUpdate(doc));
    if (stored !== null) {
      this.#epoch ??= stored.epoch;
      this.#needsAll ||= stored.hasUnsaved;
      Y.applyUpdate(doc, stored.update, STORE_ORIGIN);
    }
    this.evaluate();
    await this.#pull();
  }

  /** Another tab keeps it from now on, or nobody has it open. Edits stay where they are safe. */
  stop(): void {
    if (this.#ending.signal.aborted) return;
    this.#ending.abort();
    this.#disconnect();
    for (const end of this.#ends) end();
  }

  /** A change of this copy, from wherever it came. */
  handleUpdate(update: Uint8Array, origin: unknown): void {
    const { store } = this.#context;
    const { path } = this.#kept;
    if (this.#isFinal || origin === STORE_ORIGIN) return;
    store?.append(path, update);
    if (origin === REST_ORIGIN || origin instanceof SyncSession) return;
    if (this.#live === null) return this.#write(update);
    if (this.#relayed.push(update) === 1) this.#note(true);
    this.#tell();
  }

  handleChange(item: FeedItem): void {
    if (item.kind === "reset") return void this.#pull();
    const isOwn = this.#own.has(item.clock);
    for (const clock of this.#own) if (clock <= item.clock) this.#own.delete(clock);
    if (isOwn || !changesOf(this.#kept.path)(item)) return;
    if (item.actor === this.#context.account() && this.#context.ops.isWaiting(this.#surface)) this.#unclear.add(item.clock);
    // A relay tells by itself, unless the document is another one now.
    else if (this.#live === null || item.kind !== "update") void this.#pull();
  }

  /** Whether a socket is worth it, now. */
  evaluate(): void {
    const { environment, presence, connect } = this.#context;
    if (this.#ending.signal.aborted || this.#isFinal || connect === null) return;
    const opens = this.policy.evaluate({ otherHumans: presence.otherHumans, isYjs: true }, environment.isHidden());
    if (opens && this.#provider === null) this.#connect(connect);
    if (!opens && this.#provider !== null) this.#disconnect();
    this.#tell();
  }

  /** Resolves when every edit so far is committed. Rejects when it is refused, or the document is stopped. */
  async flush(signal?: AbortSignal): Promise<DocumentReceipt> {
    for (;;) {
      signal?.throwIfAborted();
      if (this.#isFinal) throw this.#notSaved();
      const [live, provider] = [this.#live, this.#provider];
      if (live === null || provider === null) break;
      try {
        return await provider.flush(signal === undefined ? live.signal : AbortSignal.any([signal, live.signal]));
      } catch (error) {
        // Lost: its edits wait in the outbox now.
        if (!live.signal.aborted) throw error;
      }
    }
    if (this.#needsAll || !this.#isLoaded) await unlessAborted(this.#pull(), signal ?? this.#ending.signal);
    if (this.#needsAll || this.#refusal !== undefined) throw this.#notSaved();
    const receipt = this.#context.ops.isWaiting(this.#surface) ? await this.#context.ops.flush(this.#surface, signal) : null;
    return { clock: receipt?.clock ?? this.#clock, epoch: receipt?.epoch ?? this.#epoch ?? 0 };
  }

  /** The user signed in again, or wants another try. */
  retry(): void {
    this.policy.block("stopped", false);
    this.evaluate();
    if (this.#isFinal) return;
    // What was refused is looked for and sent again.
    this.#needsAll ||= this.#refusal !== undefined;
    this.#refusal = undefined;
    this.#isReadOnly = false;
    if (this.#needsAll || this.#reason !== undefined) void this.#pull();
  }

  #notSaved(): FlushError {
    return new FlushError(this.#refusal ?? this.#reason ?? "unreachable");
  }

  get #isFinal(): boolean {
    return this.#reason !== undefined && FINAL.has(this.#reason);
  }

  get #save(): SaveLevel {
    const { ops } = this.#context;
    const isLive = this.#live !== null;
    if (isLive && this.#provider?.status.save === "saved") return "saved";
    const isBeyondOutbox = this.#needsAll || this.#refusal !== undefined;
    if (!ops.isWaiting(this.#surface) && this.#relayed.length === 0 && !isBeyondOutbox) return "saved";
    if (isLive) return "relayed";
    if (isBeyondOutbox && this.#context.store?.isStored(this.#kept.path) !== true) return "pending";
    return ops.isStored(this.#surface) ? "local" : "pending";
  }

  #write(update: Uint8Array): void {
    const epoch = this.#epoch === undefined ? {} : { epoch: this.#epoch };
    void this.#context.ops.applyOp({ op: "update", path: this.#kept.path, update, ...epoch });
  }

  #note(hasUnsaved: boolean): void {
    const epoch = this.#epoch === undefined ? {} : { epoch: this.#epoch };
    this.#context.store?.note({ path: this.#kept.path, hasUnsaved, ...epoch });
  }

  #learnEpoch(epoch: number | undefined): void {
    // 0 stands for not known.
    if (epoch === undefined || epoch === 0 || epoch === this.#epoch) return;
    this.#epoch = epoch;
    this.#note(this.#relayed.length > 0);
  }

  #handleSaved({ surface, receipt }: OpsEvents["saved"]): void {
    if (surface !== this.#surface) return;
    this.#clock = Math.max(this.#clock, receipt.clock);
    this.#learnEpoch(receipt.epoch);
    if (!this.#unclear.delete(receipt.clock)) this.#own.add(receipt.clock);
    if (this.#unclear.size > 0 && !this.#context.ops.isWaiting(this.#surface)) {
      this.#unclear.clear();
      void this.#pull();
    }
    // There is a document now, whatever a read that began earlier says.
    if (!this.#isLoaded) void this.#pull();
    this.#tell();
  }

  #handleRefusal(error: unknown): void {
    const code = codeOf(error);
    if (code === "epoch_changed") return this.#recover("epoch_changed");
    this.#refusal = code;
    this.#isReadOnly ||= code === "forbidden";
    this.#note(true);
    this.#tell();
  }

  /** One at a time; what happened meanwhile is read after it. */
  #pull(): Promise<void> {
    if (this.#pulling !== null) this.#pullsAgain = true;
    this.#pulling ??= this.#pullAll().finally(() => (this.#pulling = null));
    return this.#pulling;
  }

  async #pullAll(): Promise<void> {
    do {
      this.#pullsAgain = false;
      await this.#pullOnce();
    } while (this.#pullsAgain && !this.#ending.signal.aborted && !this.#isFinal);
  }

  async #pullOnce(): Promise<void> {
    const { api, ops } = this.#context;
    const { path, doc } = this.#kept;
    const isWhole = this.#needsAll;
    try {
      const server = await readDocument(api, path, isWhole ? null : Y.encodeStateVector(doc), this.#ending.signal);
      if (this.#isAnother(server)) return this.#recover(server === null ? "deleted" : "epoch_changed");
      this.#reason = undefined;
      this.#learnEpoch(server?.epoch);
      if (server !== null) {
        this.#clock = Math.max(this.#clock, server.clock);
        Y.applyUpdate(doc, server.update, REST_ORIGIN);
      }
      if (isWhole) this.#sendMissing(missingOnServer(doc, server?.update ?? null, ops.waiting(this.#surface)));
      this.#isLoaded = true;
    } catch (error) {
      if (this.#ending.signal.aborted) return;
      this.#reason = codeOf(error);
      if (this.#isFinal) this.#disconnect();
    }
    this.#tell();
  }

  #sendMissing(missing: Uint8Array | null): void {
    this.#needsAll = false;
    if (missing !== null) this.#write(missing);
    // The outbox has it, and behind that the device.
    this.#note(false);
  }

  /** Where there was a document there is none, or another one. */
  #isAnother(server: ServerCopy | null): boolean {
    return this.#epoch !== undefined && (server === null || (server.epoch !== 0 && server.epoch !== this.#epoch));
  }

  #connect(connect: NonNullable<DocumentContext["connect"]>): void {
    const { path, doc, awareness } = this.#kept;
    const isNeighbour = (origin: unknown) => origin instanceof TabOrigin;
    const provider = connect({ doc, document: path, awareness, isNeighbour, ...(this.#epoch === undefined ? {} : { epoch: this.#epoch }) });
    this.#provider = provider;
    provider.on("status", (status) => this.#handleStatus(provider, status));
  }

  #disconnect(): void {
    const provider = this.#provider;
    this.#provider = null;
    this.#lose();
    provider?.destroy();
  }

  #handleStatus(provider: SyncProvider, { connection, save, readOnly, reason }: SyncStatus): void {
    if (provider !== this.#provider) return;
    this.#isReadOnly ||= readOnly;
    this.#learnEpoch(provider.epoch);
    if (connection === "synced") this.#join(save === "saved");
    else if (connection === "stopped" && reason === "epoch_changed") this.#recover(reason);
    else {
      this.#lose();
      if (connection === "stopped") this.#handleStop(reason);
    }
    this.#tell();
  }

  #join(isSaved: boolean): void {
    if (isSaved && (this.#relayed.length > 0 || this.#needsAll || this.#refusal !== undefined)) {
      this.#relayed = [];
      this.#needsAll = false;
      this.#refusal = undefined;
      this.#note(false);
    }
    if (this.#live !== null) return;
    this.#live = new AbortController();
    this.#isLoaded = true;
    this.emit("joined", undefined);
  }

  /** No relay has this document any more: what it had not saved goes the other way, and others are heard by it. */
  #lose(): void {
    if (this.#live === null) return;
    const unsaved = this.#relayed;
    this.#relayed = [];
    if (unsaved.length > 0) this.#write(Y.mergeUpdates(unsaved));
    this.#live.abort();
    this.#live = null;
    if (!this.#ending.signal.aborted) void this.#pull();
  }

  /** The relays are of no use; REST may be, and says so itself if it is not. */
  #handleStop(reason: string | undefined): void {
    this.policy.block("stopped");
    this.#disconnect();
    if (reason === "deleted") void this.#pull();
  }

  #recover(reason: "deleted" | "epoch_changed"): void {
    if (this.#isFinal) return;
    const { path, doc } = this.#kept;
    const hasUnsaved = this.#save !== "saved";
    const epoch = this.#epoch === undefined ? {} : { epoch: this.#epoch };
    this.#reason = reason;
    this.#relayed = [];
    this.#disconnect();
    this.#context.store?.drop(path);
    this.emit("recovery", { document: Y.encodeStateAsUpdate(doc), hasUnsaved, ...epoch });
    this.#tell();
  }

  #tell(): void {
    const { status } = this;
    const json = JSON.stringify(status);
    if (json === this.#told) return;
    this.#told = json;
    this.emit("status", status);
  }
}

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : "unreachable";
}
