// SyncProvider: keeps one Y.Doc and its Awareness in sync over a list of relays.
import type { Awareness } from "y-protocols/awareness";
import type * as Y from "yjs";
import { browserEnvironment } from "./browser.ts";
import type { Environment } from "./browser.ts";
import type { StopReason } from "./close-codes.ts";
import { StatusEmitter } from "./emitter.ts";
import { parseObject } from "./json.ts";
import { clientsOf, quietAwareness } from "./quiet-awareness.ts";
import type { AwarenessChange } from "./quiet-awareness.ts";
import { FlushError, Receipts } from "./receipts.ts";
import type { Receipt, SaveState } from "./receipts.ts";
import { RelaySocket } from "./relay-socket.ts";
import type { Channel, Receiver, RelaySocketOptions, RelayStatus } from "./relay-socket.ts";
import { SyncSession } from "./sync-session.ts";
import { encodeStateAsUpdate, removeAwarenessStates } from "./yjs.ts";

export interface SyncProviderOptions extends Pick<RelaySocketOptions, "environment" | "getToken" | "onTelemetry" | "pin" | "relays" | "times"> {
  readonly doc: Y.Doc;
  readonly workspace: string;
  /** The document's path, such as `notes/intro`. */
  readonly document: string;
  /** One that the application made; its own timers are then the application's business. */
  readonly awareness?: Awareness;
  /** Tells awareness states that come from further tabs of this browser by their origin: this connection speaks for them too. */
  readonly isNeighbour?: (origin: unknown) => boolean;
  /** The epoch that a stored copy of the document comes from. */
  readonly epoch?: number | undefined;
  /** Hear of the workspace's changes by the event `change`. */
  readonly changes?: boolean;
  /** Ask for receipts when edits rest, so that `save` becomes `saved` by itself. On by default. */
  readonly autoSave?: boolean;
  /** Connect at once. On by default. */
  readonly connect?: boolean;
}

export interface SyncStatus {
  readonly connection: RelayStatus["kind"];
  /** The relay in use, or tried next. */
  readonly label: string;
  readonly save: SaveState;
  /** The relay takes no edits from this user. */
  readonly readOnly: boolean;
  /** Why `connection` is `stopped`. */
  readonly reason?: StopReason;
}

/** A copy that must not be merged into the document of today (4409). */
export interface RecoveryCopy {
  /** The whole copy, as an update for an empty `Y.Doc`. */
  readonly document: Uint8Array;
  /** Whether it has edits that no receipt covers. */
  readonly hasUnsaved: boolean;
  /** The epoch that it comes from, if known. */
  readonly epoch?: number;
}

export type SyncProviderEvents = {
  status: SyncStatus;
  /** A change of the workspace, as in PROTOCOL.md; with `hint: true` a reason to look at the feed. */
  change: Readonly<Record<string, unknown>>;
  recovery: RecoveryCopy;
  /** An open connection ended; code 0 is a dead link. */
  close: { readonly label: string; readonly code: number };
  /** The relay refused a text frame. */
  refusal: { readonly code: string; readonly detail: string };
};

export class SyncProvider extends StatusEmitter<SyncProviderEvents> {
  readonly doc: Y.Doc;
  readonly awareness: Awareness;
  readonly #options: SyncProviderOptions;
  readonly #environment: Environment;
  readonly #socket: RelaySocket;
  readonly #receipts: Receipts;
  readonly #sessions = new Set<SyncSession>();
  /** Client ids of further tabs. */
  readonly #neighbours = new Set<number>();
  #active: SyncSession | null = null;
  #epoch: number | undefined;
  #readOnly = false;
  #destroyed = false;

  constructor(options: SyncProviderOptions) {
    super();
    this.#options = options;
    this.#epoch = options.epoch;
    this.doc = options.doc;
    this.awareness = options.awareness ?? quietAwareness(options.doc);
    this.#environment = options.environment ?? browserEnvironment();
    this.#receipts = new Receipts({
      environment: this.#environment,
      ask: (id) => this.#active?.say({ type: "flush", id }),
      onChange: () => this.tell(this.status),
      auto: options.autoSave ?? true,
    });
    this.#socket = new RelaySocket({
      ...options,
      environment: this.#environment,
      address: () => this.#address(),
      attach: (channel, isProbe) => this.#attach(channel, isProbe),
      onStatus: (status) => this.#handleStatus(status),
      onClose: (label, code) => this.emit("close", { label, code }),
    });
    this.doc.on("update", this.#handleUpdate);
    this.doc.on("destroy", this.#handleDocDestroy);
    this.awareness.on("change", this.#handleAwarenessChange);
    this.awareness.on("update", this.#handleAwarenessUpdate);
    if (options.connect ?? true) this.connect();
  }

  get status(): SyncStatus {
    const relay = this.#socket.status;
    const reason = relay.kind === "stopped" ? { reason: relay.reason } : {};
    return { connection: relay.kind, label: relay.label, save: this.#receipts.state, readOnly: this.#readOnly, ...reason };
  }

  /** The document's epoch as far as it is known: store it with an offline copy, and give it to the next provider. */
  get epoch(): number | undefined {
    return this.#epoch;
  }

  connect(): void {
    this.#socket.connect();
  }

  /** Closes the connection; edits are kept, and sent after the next `connect`. */
  disconnect(): void {
    this.#socket.disconnect();
  }

  /** Tries again after a stop. After `epoch_changed` make a new provider with a new document instead. */
  restart(): void {
    this.#socket.restart();
  }

  /**
   * Resolves when every edit made so far is committed. It waits for a connection, across relays if need be;
   * give a signal to wait no longer. Rejects with a `FlushError` when no receipt can come.
   */
  flush(signal?: AbortSignal): Promise<Receipt> {
    const { connection, reason } = this.status;
    if (this.#destroyed) return Promise.reject(new FlushError("destroyed"));
    if (connection === "stopped") return Promise.reject(new FlushError(reason ?? "refused"));
    return this.#receipts.flush(signal);
  }

  /** Asks who is there: somebody else has taken people out of the awareness. */
  askForPeople(): void {
    this.#active?.queryAwareness();
  }

  /** Ends it. The document stays the application's. */
  destroy(): void {
    if (this.#destroyed) return;
    this.#destroyed = true;
    this.doc.off("update", this.#handleUpdate);
    this.doc.off("destroy", this.#handleDocDestroy);
    this.awareness.off("change", this.#handleAwarenessChange);
    this.awareness.off("update", this.#handleAwarenessUpdate);
    this.#socket.destroy();
    this.#receipts.reject("destroyed");
    if (this.#options.awareness === undefined) this.awareness.destroy();
  }

  #address(): string {
    const segments = [this.#options.workspace, ...this.#options.document.split("/")].map(encodeURIComponent);
    return `/${segments.join("/")}${this.#epoch === undefined ? "" : `?epoch=${this.#epoch}`}`;
  }

  #attach(channel: Channel, isProbe: boolean): Receiver {
    const { doc, awareness } = this;
    const ownClients = () => [awareness.clientID, ...this.#neighbours];
    const session = new SyncSession({ doc, awareness, channel, isProbe, ownClients }, {
      // A probe's is synced when it is adopted.
      synced: () => session === this.#active && this.#receipts.handleSynced(),
      readOnly: () => this.#becomeReadOnly(),
      tooLarge: () => this.#socket.stop("frame_too_large"),
    });
    this.#sessions.add(session);
    if (!isProbe) this.#begin(session);
    return {
      handleFrame: (frame) => session.handleFrame(frame),
      handleText: (text) => session === this.#active && this.#handleText(text),
      handleAdopt: () => {
        this.#begin(session);
        session.adopt();
        this.#receipts.handleSynced();
      },
      handleEnd: () => this.#end(session),
    };
  }

  #begin(session: SyncSession): void {
    this.#active = session;
    if (this.#options.changes) session.say({ type: "hello", changes: true });
  }

  #end(session: SyncSession): void {
    this.#sessions.delete(session);
    if (session !== this.#active) return;
    this.#active = null;
    this.#forgetOthers();
    this.#receipts.handleEnd();
  }

  /** Without a connection nobody knows who is there. Their clocks go too, else a state that comes again would count as old. */
  #forgetOthers(): void {
    const others = [...this.awareness.getStates().keys()].filter((id) => id !== this.awareness.clientID && !this.#neighbours.has(id));
    removeAwarenessStates(this.awareness, others, this);
    for (const id of others) this.awareness.meta.delete(id);
  }

  #handleStatus(status: RelayStatus): void {
    if (status.kind === "stopped") {
      this.#receipts.reject(status.reason);
      if (status.reason === "epoch_changed") this.emit("recovery", this.#recoveryCopy());
    }
    this.tell(this.status);
  }

  #recoveryCopy(): RecoveryCopy {
    const epoch = this.#epoch === undefined ? {} : { epoch: this.#epoch };
    return { document: encodeStateAsUpdate(this.doc), hasUnsaved: this.#receipts.state !== "saved", ...epoch };
  }

  #becomeReadOnly(): void {
    this.#readOnly = true;
    this.#receipts.reject("forbidden");
    this.tell(this.status);
  }

  #handleText(text: string): void {
    const message = parseObject(text);
    switch (message?.["type"]) {
      case "receipt":
        return this.#handleReceipt(message);
      case "flush_failed":
        this.#learnEpoch(message["epoch"]);
        if (message["reason"] === "forbidden") this.#becomeReadOnly();
        return this.#receipts.handleFailure(message["id"], String(message["reason"]));
      case "change":
        return this.emit("change", message);
      case "error":
        return this.emit("refusal", { code: String(message["code"]), detail: String(message["detail"]) });
    }
  }

  #handleReceipt({ id, clock, epoch }: Readonly<Record<string, unknown>>): void {
    this.#learnEpoch(epoch);
    this.#receipts.handleReceipt(id, { clock: Number(clock), epoch: Number(epoch) });
  }

  /** From a receipt, or from its refusal to who may only read. 0 stands for not known. */
  #learnEpoch(epoch: unknown): void {
    if (typeof epoch === "number" && epoch > 0) this.#epoch = epoch;
  }

  readonly #handleUpdate = (update: Uint8Array, origin: unknown): void => {
    for (const session of this.#sessions) session.sendUpdate(update, origin);
    if (!(origin instanceof SyncSession && this.#sessions.has(origin))) this.#receipts.handleEdit();
  };

  readonly #handleDocDestroy = (): void => this.destroy();

  /** Only real changes are sent, so no timer of an awareness keeps a room awake (W6). */
  readonly #handleAwarenessChange = (change: AwarenessChange, origin: unknown): void => {
    if (origin instanceof SyncSession) return;
    if (this.#options.isNeighbour?.(origin)) this.#active?.sendAwareness(this.#heardOfNeighbours(change));
    else if (this.#isOwn(change)) this.#active?.sendAwareness([this.awareness.clientID]);
  };

  #heardOfNeighbours(change: AwarenessChange): readonly number[] {
    for (const client of [...change.added, ...change.updated]) this.#neighbours.add(client);
    const heard = clientsOf(change).filter((client) => this.#neighbours.has(client));
    for (const client of change.removed) this.#neighbours.delete(client);
    return heard;
  }

  /** The relay said that this client is gone: it is not. Its clock was raised by the update itself. */
  readonly #handleAwarenessUpdate = (change: AwarenessChange, origin: unknown): void => {
    if (origin instanceof SyncSession && this.#isOwn(change)) this.#active?.sendAwareness([this.awareness.clientID]);
  };

  #isOwn(change: AwarenessChange): boolean {
    return clientsOf(change).includes(this.awareness.clientID);
  }
}
