// Keeps one document for all tabs of a browser, in the tab that leads: on the device, over REST and the
// feed, and over a relay while that is worth a socket. Each way alone carries the document.
import type { Awareness } from "y-protocols/awareness";
import type * as Y from "yjs";
import type { Api } from "../api/api.ts";
import { unlessAborted } from "../api/deadline.ts";
import type { FeedItem } from "../api/types.ts";
import { isReturn } from "../browser.ts";
import type { PageEnvironment } from "../browser.ts";
import { ConnectionPolicy } from "../connection-policy.ts";
import { StatusEmitter } from "../emitter.ts";
import type { Presence } from "../feed/presence.ts";
import { changesOf } from "../feed/change-filter.ts";
import type { Ops, OpsEvents } from "../ops/apply-op.ts";
import type { Peers, SharedWithPeers } from "../p2p.ts";
import type { DocumentStore } from "../store.ts";
import { FlushError } from "../receipts.ts";
import { SyncSession } from "../sync-session.ts";
import { applyUpdate, encodeStateAsUpdate, encodeStateVector } from "../yjs.ts";
import { RelayLink } from "./relay-link.ts";
import type { Connect } from "./relay-link.ts";
import { missingOnServer, readDocument } from "./rest-document.ts";
import type { ServerCopy } from "./rest-document.ts";
import { REST_ORIGIN, STORE_ORIGIN } from "./types.ts";
import type { DocumentEvents, DocumentReceipt, DocumentStatus, SaveLevel } from "./types.ts";

/** What a keeper uses; it belongs to the workspace client. */
export interface DocumentContext {
  readonly environment: PageEnvironment;
  readonly api: Api;
  readonly ops: Ops;
  readonly store: DocumentStore | null;
  readonly presence: Presence;
  readonly account: () => string | null;
  /** `null` where there are no relays. */
  readonly connect: Connect | null;
  /** `null` where browsers do not connect to each other. */
  readonly peers: Peers | null;
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

export class DocumentKeeper extends StatusEmitter<Events> {
  readonly policy = new ConnectionPolicy();
  readonly #context: DocumentContext;
  readonly #kept: KeptDocument;
  readonly #surface: string;
  readonly #ending = new AbortController();
  readonly #ends: (() => void)[];
  readonly #link: RelayLink | null;
  readonly #peers: SharedWithPeers | null;
  #epoch: number | undefined;
  #clock = 0;
  #isLoaded = false;
  #isReadOnly = false;
  #reason: string | undefined;
  /** Why the API does not take edits of this copy, which it lacks since. */
  #refusal: string | undefined;
  /** The server may lack something of this copy that is in no outbox: it is compared as a whole. */
  #needsAll: boolean;
  /** The device's copy is marked as one that may have unsaved edits, so that the next page compares it. */
  #isMarked = false;
  /** All of this copy has been given to the device. */
  #isOnDevice = false;
  #pulling: Promise<void> | null = null;
  #pullsAgain = false;
  /** Changes by this account while an edit was on its way: its own, or not. */
  #unclear = new Set<number>();
  #own = new Set<number>();

  constructor(context: DocumentContext, kept: KeptDocument) {
    super();
    this.#context = context;
    this.#kept = kept;
    this.#surface = `docs/${kept.path}`;
    this.#needsAll = kept.isTakeover;
    this.#link = context.connect === null ? null : this.#linkOver(context.connect);
    this.#peers = context.peers?.open(kept, { changed: () => this.evaluate(), forgot: () => this.#link?.askForPeople() }) ?? null;
    const { environment, ops, presence } = context;
    this.#ends = [
      ops.on("saved", (saved) => this.#handleSaved(saved)),
      ops.on("refused", ({ surface, error }) => surface === this.#surface && this.#handleRefusal(error)),
      ops.on("superseded", ({ surface }) => surface === this.#surface && this.#compare()),
      ops.on("change", () => this.#tell()),
      presence.on("change", () => this.evaluate()),
      environment.watch((change) => isReturn(change) && this.evaluate()),
    ];
  }

  get status(): DocumentStatus {
    const { connection } = this;
    const reason = this.#reason ?? this.#refusal;
    const label = connection === "live" ? this.#link?.label : undefined;
    const more = { ...(label === undefined ? {} : { label }), ...(reason === undefined ? {} : { reason }) };
    return { connection, save: this.#save, isLoaded: this.#isLoaded, isReadOnly: this.#isReadOnly, ...more };
  }

  get connection(): DocumentStatus["connection"] {
    if (this.#isFinal) return "stopped";
    if (this.#link?.isLive) return "live";
    if (this.#link?.isDraining) return "draining";
    if (!this.#isLoaded || this.#link?.isOpen) return "connecting";
    return this.#peers?.reach === "carries" ? "peer" : "feed";
  }

  /** Reads what the device has, then the server. */
  async start(): Promise<void> {
    const { path, doc } = this.#kept;
    const { store } = this.#context;
    const stored = (await store?.load(path)) ?? null;
    if (this.#ending.signal.aborted) return;
    if (this.#needsAll) {
      this.#mark(true);
      store?.append(path, encodeStateAsUpdate(doc));
    }
    this.#isOnDevice = true;
    if (stored !== null) {
      this.#epoch ??= stored.epoch;
      this.#needsAll ||= stored.hasUnsaved;
      this.#isMarked ||= stored.hasUnsaved;
      applyUpdate(doc, stored.update, STORE_ORIGIN);
    }
    this.evaluate();
    await this.#pull();
  }

  /** Another tab keeps it from now on, or nobody has it open. Edits stay where they are safe. */
  stop(): void {
    if (this.#ending.signal.aborted) return;
    this.#ending.abort();
    this.#link?.close();
    this.#peers?.close();
    for (const end of this.#ends) end();
  }

  /** A change of this copy, from wherever it came. */
  handleUpdate(update: Uint8Array, origin: unknown): void {
    const { store } = this.#context;
    const { path } = this.#kept;
    if (this.#isFinal || origin === STORE_ORIGIN) return;
    const isEdit = origin !== REST_ORIGIN && !(origin instanceof SyncSession);
    // Both are stored together, whatever becomes of the outbox and of relays.
    if (isEdit) this.#mark(true);
    store?.append(path, update);
    if (!isEdit) return;
    if (!this.#link?.isLive) return this.#write(update);
    this.#link.sent(update);
    this.#tell();
  }

  handleChange(item: FeedItem): void {
    if (item.kind === "reset") return void this.#pull();
    const isOwn = this.#own.has(item.clock);
    for (const clock of this.#own) if (clock <= item.clock) this.#own.delete(clock);
    if (isOwn || !changesOf(this.#kept.path)(item)) return;
    if (item.actor === this.#context.account() && this.#context.ops.isWaiting(this.#surface)) this.#unclear.add(item.clock);
    // A relay tells by itself, unless the document is another one now.
    else if (!this.#link?.isLive || item.kind !== "update") void this.#pull();
  }

  /** Whether a socket is worth it, now. */
  evaluate(): void {
    const { environment, presence } = this.#context;
    if (this.#ending.signal.aborted || this.#isFinal) return;
    const isCarried = this.#peers !== null && this.#peers.reach !== "lacks";
    const opens = this.policy.evaluate({ otherHumans: presence.otherHumans, isYjs: true, isCarried }, environment.isHidden());
    if (opens) this.#link?.open(this.#epoch);
    else this.#link?.close();
    this.#tell();
  }

  /** Resolves when every edit so far is committed. Rejects when it is refused, or the document is stopped. */
  async flush(signal?: AbortSignal): Promise<DocumentReceipt> {
    signal?.throwIfAborted();
    if (this.#isFinal) throw this.#notSaved();
    // If the relay is lost meanwhile, its edits wait in the outbox.
    const relayed = await this.#link?.flush(signal);
    if (relayed) return relayed;
    if (this.#isFinal) throw this.#notSaved();
    if (this.#needsAll || !this.#isLoaded) await unlessAborted(this.#pull(), signal ?? this.#ending.signal);
    if (this.#needsAll || this.#refusal !== undefined) throw this.#notSaved();
    const receipt = this.#context.ops.isWaiting(this.#surface) ? await this.#context.ops.flush(this.#surface, signal) : null;
    // An edit was superseded: what the server lacks is sent, and waited for.
    if (this.#needsAll) return this.flush(signal);
    return { clock: Math.max(receipt?.clock ?? 0, this.#clock), epoch: receipt?.epoch ?? this.#epoch ?? 0 };
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
    if (this.#link?.isSaved) return "saved";
    const isBeyondOutbox = this.#needsAll || this.#refusal !== undefined;
    if (!ops.isWaiting(this.#surface) && !this.#link?.hasUnsaved && !isBeyondOutbox) return "saved";
    if (this.#link?.isLive) return "relayed";
    if (isBeyondOutbox && !(this.#isOnDevice && this.#context.store?.isStored(this.#kept.path))) return "pending";
    return ops.isStored(this.#surface) ? "local" : "pending";
  }

  #write(update: Uint8Array): void {
    const epoch = this.#epoch === undefined ? {} : { epoch: this.#epoch };
    void this.#context.ops.applyOp({ op: "update", path: this.#kept.path, update, ...epoch });
  }

  #mark(isMarked: boolean): void {
    if (isMarked === this.#isMarked) return;
    this.#isMarked = isMarked;
    this.#note();
  }

  #note(): void {
    const epoch = this.#epoch === undefined ? {} : { epoch: this.#epoch };
    this.#context.store?.note({ path: this.#kept.path, hasUnsaved: this.#isMarked, ...epoch });
  }

  #learnEpoch(epoch: number | undefined): void {
    // 0 stands for not known.
    if (epoch === undefined || epoch === 0 || epoch === this.#epoch) return;
    this.#epoch = epoch;
    this.#note();
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
    if (code === "epoch_changed") return this.#recover(code);
    this.#refusal = code;
    this.#isReadOnly ||= code === "forbidden";
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
      const server = await readDocument(api, path, isWhole ? null : encodeStateVector(doc), this.#ending.signal);
      if (this.#isAnother(server)) return this.#recover(server === null ? "deleted" : "epoch_changed");
      this.#reason = undefined;
      this.#learnEpoch(server?.epoch);
      if (server !== null) {
        this.#clock = Math.max(this.#clock, server.clock);
        applyUpdate(doc, server.update, REST_ORIGIN);
      }
      if (isWhole) {
        const missing = missingOnServer(doc, server?.update ?? null, ops.waiting(this.#surface));
        this.#needsAll = false;
        if (missing !== null) this.#write(missing);
      }
      this.#isLoaded = true;
    } catch (error) {
      if (this.#ending.signal.aborted) return;
      this.#reason = codeOf(error);
      if (this.#isFinal) this.#link?.close();
    }
    this.#tell();
  }

  /** What the server lacks of this copy is found out, and sent. */
  #compare(): void {
    this.#needsAll = true;
    void this.#pull();
  }

  /** Where there was a document there is none, or another one. */
  #isAnother(server: ServerCopy | null): boolean {
    return this.#epoch !== undefined && server?.epoch !== 0 && server?.epoch !== this.#epoch;
  }

  #linkOver(connect: Connect): RelayLink {
    return new RelayLink(connect, this.#kept, {
      joined: () => {
        this.#isLoaded = true;
        this.emit("joined", undefined);
      },
      lost: (unsaved) => {
        if (unsaved !== null) this.#write(unsaved);
        this.#peers?.askForPeople();
        // What others did from now on comes by the feed; what came before it is read.
        if (!this.#ending.signal.aborted && !this.#isFinal) void this.#pull();
      },
      saved: (isNews) => {
        if (!isNews && !this.#needsAll && this.#refusal === undefined) return;
        this.#learnEpoch(this.#link?.epoch);
        this.#needsAll = false;
        this.#refusal = undefined;
      },
      stopped: (reason) => this.#handleStop(reason),
      changed: ({ readOnly }) => {
        this.#isReadOnly ||= readOnly;
        this.#learnEpoch(this.#link?.epoch);
        this.#tell();
      },
    });
  }

  /** The relays are of no use; REST may be, and says so itself if it is not. */
  #handleStop(reason: string | undefined): void {
    if (reason === "epoch_changed") return this.#recover(reason);
    this.policy.block("stopped");
    this.#link?.close();
    if (reason === "deleted") void this.#pull();
    this.#tell();
  }

  #recover(reason: "deleted" | "epoch_changed"): void {
    if (this.#isFinal) return;
    const { path, doc } = this.#kept;
    const hasUnsaved = this.#save !== "saved";
    const epoch = this.#epoch === undefined ? {} : { epoch: this.#epoch };
    this.#reason = reason;
    this.#link?.close({ forgets: true });
    this.#context.store?.drop(path);
    this.emit("recovery", { document: encodeStateAsUpdate(doc), hasUnsaved, ...epoch });
    this.#tell();
  }

  /** Peers get what may be written, of an epoch that the server has confirmed. */
  #tellPeers(): void {
    const isTheirs = this.#isLoaded && !this.#isFinal && !this.#isReadOnly && this.#refusal === undefined;
    this.#peers?.setEpoch(isTheirs ? (this.#epoch ?? null) : null);
  }

  #tell(): void {
    if (!this.#ending.signal.aborted) this.#tellPeers();
    const { status } = this;
    if (status.save === "saved" && this.#isOnDevice && !this.#isFinal) this.#mark(false);
    this.tell(status);
  }
}

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : "unreachable";
}
