// A document as an application has it: a plain Doc and Awareness, a status and `flush`. The tabs of a
// browser keep it equal among themselves (L1); the one that leads keeps it for all of them (keeper.ts).
import type { Awareness } from "y-protocols/awareness";
import { Doc } from "yjs";
import { unlessAborted } from "../api/deadline.ts";
import type { FeedItem } from "../api/types.ts";
import { StatusEmitter } from "../emitter.ts";
import { clientsOf, quietAwareness } from "../quiet-awareness.ts";
import type { AwarenessChange } from "../quiet-awareness.ts";
import { SyncSession } from "../sync-session.ts";
import { applyAwarenessUpdate, applyUpdate, encodeAwarenessUpdate, encodeStateAsUpdate, encodeStateVector, removeAwarenessStates } from "../yjs.ts";
import { DocumentKeeper } from "./keeper.ts";
import type { DocumentContext } from "./keeper.ts";
import { OPENING, REST_ORIGIN, STORE_ORIGIN, TabOrigin } from "./types.ts";
import type { DocumentEvents, DocumentReceipt, DocumentSpeech, DocumentStatus } from "./types.ts";

/** What a document needs of its tab; it belongs to the workspace client. */
export interface DocumentHost {
  readonly tab: string;
  say(speech: DocumentSpeech, to?: string): void;
  /** Has the leader answer when every edit that was told so far is committed. */
  flush(): Promise<DocumentReceipt>;
  /** Has the leader hold a socket. */
  hold(reason: string, isSet: boolean): void;
  closed(document: SharedDocument): void;
}

export class SharedDocument extends StatusEmitter<DocumentEvents> {
  readonly path: string;
  readonly doc: Doc;
  readonly awareness: Awareness;
  readonly #host: DocumentHost;
  #keeper: DocumentKeeper | null = null;
  /** It changed while it was not kept here: what it has then may be nowhere else. */
  #isUnkept = false;
  #status: DocumentStatus = OPENING;
  /** Edits of this tab, and of each tab so far as the leader has them. */
  #made = 0;
  #seen: Record<string, number> = {};
  #clients = new Map<string, Set<number>>();
  readonly #holds = new Set<string>();
  #isClosed = false;

  constructor(host: DocumentHost, path: string, doc: Doc = new Doc()) {
    super();
    this.#host = host;
    this.path = path;
    this.doc = doc;
    this.awareness = quietAwareness(doc);
    doc.on("update", this.#handleUpdate);
    doc.on("destroy", this.#handleDestroy);
    this.awareness.on("update", this.#handleAwareness);
  }

  get status(): DocumentStatus {
    const isSeen = (this.#seen[this.#host.tab] ?? 0) >= this.#made;
    return this.#keeper !== null || isSeen || this.#status.connection === "stopped" ? this.#status : { ...this.#status, save: "pending" };
  }

  /**
   * Resolves when every edit so far is committed. It waits while the API and the relays are away; give a
   * signal to wait no longer. Rejects when the edits are refused.
   */
  flush(signal?: AbortSignal): Promise<DocumentReceipt> {
    if (this.#isClosed) return Promise.reject(Object.assign(new Error("The document is closed; open it again."), { code: "closed" }));
    return unlessAborted(this.#host.flush(), signal);
  }

  /** Holds a socket whatever the company, until the reason is taken back. */
  holdSocket(reason: string, isSet = true): void {
    if (isSet) this.#holds.add(reason);
    else this.#holds.delete(reason);
    this.#host.hold(reason, isSet);
  }

  /** A tab holds a socket, or does so no more. Counts while this tab leads. */
  hold(tab: string, reason: string, isSet: boolean): void {
    this.#keeper?.policy.hold(`${tab} ${reason}`, isSet);
    this.#keeper?.evaluate();
  }

  /** Ends it in this tab. Edits that are not saved stay in the outbox. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.awareness.setLocalState(null);
    this.doc.off("update", this.#handleUpdate);
    this.doc.off("destroy", this.#handleDestroy);
    this.awareness.off("update", this.#handleAwareness);
    this.#keeper?.stop();
    this.#keeper = null;
    this.awareness.destroy();
    this.#host.closed(this);
  }

  /** This tab keeps the document from now on; it asks the others for what they have. */
  lead(context: DocumentContext): void {
    if (this.#keeper !== null || this.#isClosed) return;
    const { path, doc, awareness } = this;
    const keeper = new DocumentKeeper(context, { path, doc, awareness, isTakeover: this.#isUnkept });
    this.#keeper = keeper;
    this.#isUnkept = false;
    // What the last leader said of itself is over.
    this.#status = keeper.status;
    keeper.on("status", (status) => this.#setStatus(status));
    keeper.on("recovery", (copy) => {
      this.emit("recovery", copy);
      this.#host.say({ kind: "recovery", copy });
    });
    keeper.on("joined", () => this.#host.say({ kind: "renew" }));
    this.#host.say({ kind: "step1", vector: encodeStateVector(doc) });
    for (const reason of this.#holds) this.hold(this.#host.tab, reason, true);
    void keeper.start();
  }

  /** Another tab keeps it. */
  follow(): void {
    this.#keeper?.stop();
    this.#keeper = null;
    this.#isUnkept = true;
    this.#status = { ...this.#status, connection: "connecting" };
    this.#seen = {};
  }

  /** There is a leader to be in step with. */
  greet(leader: string): void {
    if (this.#keeper !== null || this.#isClosed) return;
    this.#host.say({ kind: "step1", vector: encodeStateVector(this.doc) }, leader);
    for (const reason of this.#holds) this.#host.hold(reason, true);
    if (this.awareness.getLocalState() !== null) this.#renew();
  }

  /** The leader's flush, for whichever tab asks. */
  flushHere(): Promise<DocumentReceipt> {
    return this.#keeper === null ? Promise.reject(new Error("This tab does not lead.")) : this.#keeper.flush();
  }

  handleChange(item: FeedItem): void {
    this.#keeper?.handleChange(item);
  }

  /** Tries again what was refused to this user. */
  retry(): void {
    this.#keeper?.retry();
  }

  handleSpeech(speech: DocumentSpeech, from: string): void {
    const { doc } = this;
    switch (speech.kind) {
      case "step1":
        // Followers answer the leader, and the leader everybody; and it asks back what it lacks itself.
        this.#host.say({ kind: "step2", update: encodeStateAsUpdate(doc, speech.vector), count: this.#made }, from);
        if (this.#keeper !== null) this.#host.say({ kind: "step1", vector: encodeStateVector(doc) }, from);
        return this.#sayStatus();
      case "step2":
        return this.#take(from, speech, true);
      case "update":
        return this.#take(from, speech, false);
      case "awareness":
        return applyAwarenessUpdate(this.awareness, speech.update, new TabOrigin(from));
      case "renew":
        return this.#renew();
      case "recovery":
        return this.#keeper === null ? this.emit("recovery", speech.copy) : undefined;
      case "status":
        if (this.#keeper !== null) return;
        this.#seen = { ...speech.seen };
        return this.#setStatus(speech.status);
    }
  }

  /** A tab is gone without a word: so are the people in it. */
  forgetTab(tab: string): void {
    const clients = [...(this.#clients.get(tab) ?? [])];
    this.#clients.delete(tab);
    removeAwarenessStates(this.awareness, clients, new TabOrigin(tab));
    this.#sayAwareness(clients.filter((client) => this.awareness.meta.has(client)));
  }

  /** What was told to this tab alone is told on, so that all tabs have it. */
  #take(from: string, { update, count }: { readonly update: Uint8Array; readonly count: number }, isDirect: boolean): void {
    applyUpdate(this.doc, update, new TabOrigin(from));
    this.#seen[from] = Math.max(this.#seen[from] ?? 0, count);
    if (isDirect && this.#keeper !== null && update.length > EMPTY_UPDATE_BYTES) this.#host.say({ kind: "update", update, count: this.#made });
    if (this.#keeper !== null) this.#setStatus(this.#keeper.status);
  }

  readonly #handleUpdate = (update: Uint8Array, origin: unknown): void => {
    if (!(origin instanceof TabOrigin)) {
      if (origin !== REST_ORIGIN && origin !== STORE_ORIGIN && !(origin instanceof SyncSession)) this.#made += 1;
      this.#host.say({ kind: "update", update, count: this.#made });
    }
    if (this.#keeper !== null) return this.#keeper.handleUpdate(update, origin);
    this.#isUnkept = true;
    this.tell(this.status);
  };

  readonly #handleDestroy = (): void => this.close();

  readonly #handleAwareness = (change: AwarenessChange, origin: unknown): void => {
    const clients = clientsOf(change);
    const own = this.awareness.clientID;
    if (origin instanceof TabOrigin) {
      this.#countClients(origin.tab, change);
      // Somebody said that this tab's person is gone: it is not, and its clock was raised by that.
      if (clients.includes(own)) this.#sayAwareness([own]);
    } else this.#sayAwareness(this.#keeper === null ? clients.filter((client) => client === own) : clients);
  };

  #countClients(tab: string, { added, removed }: AwarenessChange): void {
    const clients = this.#clients.get(tab) ?? new Set();
    for (const client of added) clients.add(client);
    for (const client of removed) clients.delete(client);
    this.#clients.set(tab, clients);
  }

  #sayAwareness(clients: number[]): void {
    if (clients.length > 0) this.#host.say({ kind: "awareness", update: encodeAwarenessUpdate(this.awareness, clients) });
  }

  #renew(): void {
    const state = this.awareness.getLocalState();
    if (state !== null && this.#keeper === null) this.awareness.setLocalState(state);
  }

  #setStatus(status: DocumentStatus): void {
    this.#status = status;
    this.#sayStatus();
    this.tell(this.status);
  }

  #sayStatus(): void {
    if (this.#keeper !== null) this.#host.say({ kind: "status", status: this.#status, seen: this.#seen });
  }
}

/** An update without structs and deletes. */
const EMPTY_UPDATE_BYTES = 2;
