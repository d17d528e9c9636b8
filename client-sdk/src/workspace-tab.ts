// One tab of a browser in a workspace: what it does when it leads, what it asks of the leader when it
// follows, and how one becomes the other.
import { tokensOf, subjectOf } from "./account.ts";
import { Api } from "./api/api.ts";
import { retryDelay } from "./api/backoff.ts";
import { pause } from "./api/deadline.ts";
import type { FeedItem, PresenceList } from "./api/types.ts";
import type { PageEnvironment } from "./browser.ts";
import { Database } from "./database.ts";
import { SharedDocument } from "./documents/document.ts";
import type { DocumentHost } from "./documents/document.ts";
import type { DocumentContext } from "./documents/keeper.ts";
import type { DocumentReceipt, DocumentSpeech } from "./documents/types.ts";
import { ChangeStream } from "./feed/change-stream.ts";
import { Presence } from "./feed/presence.ts";
import type { PresenceState } from "./feed/presence.ts";
import { Ops } from "./ops/apply-op.ts";
import type { Refusal } from "./ops/apply-op.ts";
import { Outbox } from "./ops/outbox.ts";
import type { OutboxEntry } from "./ops/outbox.ts";
import { senderOf } from "./ops/sender.ts";
import type { Sender, WriteReceipt } from "./ops/sender.ts";
import { scopeTokensOf } from "./scope-tokens.ts";
import { IndexedDbStore } from "./store.ts";
import { SyncProvider } from "./sync-provider.ts";
import { sessionOfTab } from "./tab-session.ts";
import { TabChannel } from "./tabs/channel.ts";
import { LeaderCalls } from "./tabs/follower.ts";
import { Election } from "./tabs/leader.ts";
import { TabLife } from "./tabs/tab-life.ts";
import { TokenRefusedError } from "./token-source.ts";
import type { WorkspaceClientOptions, WorkspaceStatus } from "./workspace-client.ts";

export interface TabEvents {
  item(item: FeedItem): void;
  presence(list: PresenceList): void;
  refused(refusal: Refusal): void;
  status(): void;
}

type TabOptions = WorkspaceClientOptions & { readonly environment: PageEnvironment };

/** A document that is open here, in other tabs, or both. */
interface Opened {
  readonly document: SharedDocument;
  isOwn: boolean;
  readonly tabs: Set<string>;
}

/** What exists once it is known whose tab this is. */
interface Company {
  readonly channel: TabChannel;
  readonly election: Election;
  readonly calls: LeaderCalls;
  readonly life: TabLife;
}

const CLOSED = Object.assign(new Error("The client is closed; make a new one."), { code: "closed" });

export class WorkspaceTab {
  readonly id: string;
  readonly api: Api;
  readonly ops: Ops;
  readonly #options: TabOptions;
  readonly #environment: PageEnvironment;
  readonly #events: TabEvents;
  readonly #outbox: Outbox;
  readonly #stream: ChangeStream;
  readonly #presence: Presence;
  readonly #documents = new Map<string, Opened>();
  readonly #ending = new AbortController();
  readonly #toApi: Sender;
  readonly #unwatch: () => void;
  #account: string | null;
  #company: Promise<Company> | null = null;
  #known: Company | null = null;
  #database: Database | null = null;
  #context: DocumentContext | null = null;
  /** Tells writes that were sent to a leader that this tab leads now. */
  #leading = new AbortController();
  #cursor: number | undefined;
  #told: PresenceList | null = null;
  #shown: PresenceState | null | undefined;
  #isSignedOut = false;

  constructor(options: TabOptions, events: TabEvents) {
    const { api, workspace, token, environment } = options;
    this.#options = options;
    this.#environment = environment;
    this.#events = events;
    this.id = environment.uuid();
    this.#account = options.account ?? null;
    this.api = new Api({ api, workspace, getToken: tokensOf(token, () => this.#account) }, environment);
    this.#toApi = senderOf(this.api);
    this.#outbox = new Outbox(environment.uuid, () => this.ops.handleStored());
    this.ops = new Ops({ environment, outbox: this.#outbox, times: options.coalescer, send: (entry, how) => this.#send(entry, how) });
    this.#presence = new Presence({ api: this.api, environment, session: sessionOfTab(environment), account: () => this.#account });
    this.#stream = new ChangeStream(this.api, environment);
    this.ops.on("change", () => events.status());
    this.ops.on("refused", (refusal) => events.refused(refusal));
    this.#stream.on("state", () => events.status());
    this.#stream.on("item", (item) => this.#deliver(item));
    this.#presence.on("change", (list) => this.#deliverPresence(list));
    this.#unwatch = environment.watch((change) => {
      if (change === "hidden") this.ops.hide();
      if (change === "visible" || change === "online") this.#wake();
    });
  }

  get status(): WorkspaceStatus {
    const loss = this.#database?.loss ?? null;
    return {
      account: this.#account,
      role: this.#known?.election.role ?? null,
      storage: this.#database?.state ?? "memory",
      ...(loss === null ? {} : { storageLoss: loss }),
      stream: this.#stream.state,
      waiting: this.#outbox.size,
      needsSignIn: this.#isSignedOut || this.ops.blocked !== null,
    };
  }

  get presenceList(): PresenceList | null {
    return this.#told;
  }

  start(): void {
    this.#company ??= this.#begin();
    this.#company.catch(() => {});
  }

  /** The user signed in, or wants another try of what was refused. */
  restart(): void {
    this.#wake();
    for (const { document } of this.#documents.values()) document.retry();
  }

  #wake(): void {
    if (this.#ending.signal.aborted) return;
    if (this.#isSignedOut) {
      this.#isSignedOut = false;
      this.#company = null;
      this.start();
    }
    this.ops.retry();
    if (this.#known?.election.role === "leader" && this.#stream.state === "stopped") this.#stream.start();
  }

  /** Has the leading tab do something. */
  async call(method: string, payload: unknown): Promise<unknown> {
    const { calls } = await (this.#company ?? Promise.reject(CLOSED));
    return calls.call(method, payload);
  }

  say(speech: DocumentSpeech, to?: string): void {
    this.#known?.channel.say({ kind: "tell", topic: "document", payload: speech }, to);
  }

  open(path: string): SharedDocument {
    const opened = this.#documents.get(path) ?? this.#add(path);
    if (opened.isOwn) return opened.document;
    opened.isOwn = true;
    if (this.#known?.election.role === "follower") this.#join(path, opened.document);
    this.#showDocuments();
    return opened.document;
  }

  async close(): Promise<void> {
    if (this.#ending.signal.aborted) return;
    this.ops.hide();
    const opened = [...this.#documents.values()];
    this.#documents.clear();
    for (const { document } of opened) document.close();
    this.#presence.close();
    this.#stream.close();
    this.ops.stop();
    this.#unwatch();
    await this.#outbox.settled();
    this.#ending.abort(CLOSED);
    this.#known?.calls.close(CLOSED);
    this.#known?.election.close();
    this.#known?.life.close();
    this.#known?.channel.close();
    this.#database?.close();
  }

  /** This tab has it open no more. For others that have, it goes on as another object. */
  #closed(document: SharedDocument): void {
    const { path } = document;
    const opened = this.#documents.get(path);
    if (opened?.document !== document) return;
    this.#documents.delete(path);
    if (this.#known?.election.role === "follower") void this.call("close", { path }).catch(() => {});
    else if (opened.tabs.size > 0) this.#openFor(path, opened.tabs);
    this.#showDocuments();
  }

  /** Whose tab it is comes first: locks, channels and storage are of one account. */
  async #begin(): Promise<Company> {
    const { api, workspace, tabs = true } = this.#options;
    this.#account ??= await this.#learnAccount();
    this.#ending.signal.throwIfAborted();
    const alone = { ...this.#environment, locks: () => null, openChannel: () => null };
    const environment = tabs && this.#account !== null ? this.#environment : alone;
    const name = `yrelay ${api.replace(/\/+$/, "")} ${workspace} ${this.#account}`;
    const channel = new TabChannel({ ...environment, uuid: () => this.id as ReturnType<PageEnvironment["uuid"]> }, name);
    const election = new Election(environment, channel, name);
    const calls = new LeaderCalls({ environment, channel, election }, (method, payload, tab) => this.#serve(method, payload, tab));
    const life = new TabLife(environment, name);
    this.#known = { channel, election, calls, life };
    channel.on("message", (message) => message.kind === "tell" && this.#hear(message.topic, message.payload, message.from));
    election.on("role", (role) => (role === "leader" ? this.#lead(name) : this.#follow()));
    election.on("leader", (leader) => this.#greet(leader));
    life.live(this.id);
    election.start();
    this.#events.status();
    return this.#known;
  }

  async #learnAccount(): Promise<string | null> {
    for (let failures = 0; ; failures += 1) {
      try {
        return subjectOf(await this.api.token());
      } catch (error) {
        if (error instanceof TokenRefusedError) {
          this.#isSignedOut = true;
          this.#events.status();
          throw error;
        }
        await pause(this.#environment, retryDelay(failures, this.#environment.random(), null), this.#ending.signal);
        this.#ending.signal.throwIfAborted();
      }
    }
  }

  #lead(name: string): void {
    const { storage = true, store } = this.#options;
    const isDurable = storage && this.#account !== null;
    const environment = isDurable ? this.#environment : { ...this.#environment, indexedDB: () => null };
    const database = new Database(environment, name, (loss) => this.#handleLoss(isDurable ? loss : null));
    this.#database = database;
    this.#leading.abort();
    const own = isDurable ? new IndexedDbStore(database, () => this.ops.handleStored()) : null;
    this.#context = this.#contextOf(store === undefined ? own : store);
    void this.#outbox.attach(database).then(() => this.ops.start());
    this.#stream.start(this.#cursor);
    this.#presence.start();
    for (const { document } of this.#documents.values()) document.lead(this.#context);
    this.#showDocuments();
    this.#events.status();
  }

  #follow(): void {
    if (this.#ending.signal.aborted) return;
    this.#leading = new AbortController();
    this.#context = null;
    this.#cursor = this.#stream.cursor ?? this.#cursor;
    this.#stream.stop();
    this.#presence.stop();
    for (const [path, { document, isOwn }] of [...this.#documents]) {
      if (isOwn) document.follow();
      else this.#drop(path, document);
    }
    this.#outbox.detach();
    this.#database?.close();
    this.#database = null;
    this.#events.status();
  }

  /** Another tab leads: it is told what is open here, and what waits here is sent to it. */
  #greet(leader: string): void {
    void this.ops.start();
    for (const [path, { document }] of this.#documents) this.#join(path, document, leader);
    this.call("hello", {}).then((hello) => {
      const { cursor, presence } = hello as { cursor?: number; presence: PresenceList | null };
      this.#cursor = Math.max(this.#cursor ?? 0, cursor ?? 0) || undefined;
      if (presence !== null) this.#deliverPresence(presence);
    }, () => {});
  }

  #join(path: string, document: SharedDocument, leader: string | null = this.#known?.election.leader ?? null): void {
    void this.call("open", { path }).catch(() => {});
    if (leader !== null) document.greet(leader);
  }

  /** Answers a tab, this one or another. What it does bears repetition. */
  async #serve(method: string, payload: unknown, tab: string): Promise<unknown> {
    const { path = "", state = null, reason = "", isSet = false } = payload as { path?: string; state?: PresenceState | null; reason?: string; isSet?: boolean };
    switch (method) {
      case "apply":
        return this.#apply(payload as OutboxEntry);
      case "open":
        if (tab !== this.id) this.#openFor(path, new Set([tab]));
        return null;
      case "close":
        return this.#closeFor(path, tab);
      case "flushDocument":
        return this.#documents.get(path)?.document.flushHere();
      case "hold":
        return this.#documents.get(path)?.document.hold(tab, reason, isSet);
      case "hello":
        return { cursor: this.#stream.cursor, presence: this.presenceList };
      case "show":
        this.#shown = state;
        return this.#showDocuments();
      case "refresh":
        return this.#presence.refresh();
    }
    throw Object.assign(new Error(`The leading tab does not know ${method}; it runs another build.`), { code: "unknown_method" });
  }

  #apply({ write, surface, key }: OutboxEntry): Promise<WriteReceipt> {
    const receipt = this.ops.applyOp(write, { surface, key });
    // The other tab has waited for its pause already.
    this.ops.urge(surface);
    return receipt;
  }

  async #send(entry: OutboxEntry, how: { readonly keepalive: boolean }): ReturnType<Sender> {
    if (this.#known?.election.role === "leader") return this.#toApi(entry, how);
    const { signal } = this.#leading;
    return new Promise((settle) => {
      const passes = { error: new Error("This tab leads now."), passes: true, retryAfterMs: null };
      signal.addEventListener("abort", () => settle(passes), { once: true });
      this.call("apply", entry).then(
        (receipt) => settle(receipt as WriteReceipt),
        (error) => settle({ error, passes: error === CLOSED, retryAfterMs: null }),
      );
    });
  }

  #add(path: string): Opened {
    const host: DocumentHost = {
      tab: this.id,
      say: (speech, to) => this.say(speech, to),
      flush: () => this.#flushDocument(path),
      hold: (at, reason, isSet) => void this.call("hold", { path: at, reason, isSet }).catch(() => {}),
      closed: (document) => this.#closed(document),
    };
    const opened: Opened = { document: new SharedDocument(host, path), isOwn: false, tabs: new Set() };
    this.#documents.set(path, opened);
    if (this.#context !== null) opened.document.lead(this.#context);
    return opened;
  }

  /** Of whichever tab leads, also when that changes meanwhile. */
  async #flushDocument(path: string): Promise<DocumentReceipt> {
    for (;;) {
      const context = this.#context;
      try {
        return (await this.call("flushDocument", { path })) as DocumentReceipt;
      } catch (error) {
        if (context === this.#context || this.#ending.signal.aborted) throw error;
      }
    }
  }

  /** Other tabs have it open: the leader keeps it for them. */
  #openFor(path: string, tabs: ReadonlySet<string>): void {
    const opened = this.#documents.get(path) ?? this.#add(path);
    for (const tab of tabs) {
      opened.tabs.add(tab);
      this.#known?.life.watch(tab, () => this.#forgetTab(tab));
    }
    this.#showDocuments();
  }

  #closeFor(path: string, tab: string): null {
    const opened = this.#documents.get(path);
    opened?.tabs.delete(tab);
    opened?.document.forgetTab(tab);
    if (opened !== undefined && !opened.isOwn && opened.tabs.size === 0) this.#drop(path, opened.document);
    this.#showDocuments();
    return null;
  }

  /** No tab needs it here. */
  #drop(path: string, document: SharedDocument): void {
    this.#documents.delete(path);
    document.close();
  }

  #forgetTab(tab: string): void {
    for (const path of [...this.#documents.keys()]) this.#closeFor(path, tab);
  }

  #hear(topic: string, payload: unknown, from: string): void {
    if (topic === "document") {
      const speech = payload as DocumentSpeech;
      return this.#documents.get(speech.path)?.document.handleSpeech(speech, from);
    }
    if (this.#known?.election.role === "leader") return;
    if (topic === "item") this.#deliver(payload as FeedItem);
    if (topic === "presence") this.#deliverPresence(payload as PresenceList);
  }

  #deliver(item: FeedItem): void {
    this.#cursor = item.kind === "reset" ? item.head : item.clock;
    if (this.#context !== null) {
      this.#known?.channel.say({ kind: "tell", topic: "item", payload: item });
      for (const { document } of this.#documents.values()) document.handleChange(item);
      if (item.kind !== "reset") this.#presence.handleChange(item);
    }
    this.#events.item(item);
  }

  #deliverPresence(list: PresenceList): void {
    this.#told = list;
    if (this.#context !== null) this.#known?.channel.say({ kind: "tell", topic: "presence", payload: list });
    this.#events.presence(list);
  }

  #showDocuments(): void {
    const path = [...this.#documents.keys()].at(-1);
    this.#presence.show(this.#shown !== undefined ? this.#shown : path === undefined ? null : { path });
  }

  #handleLoss(loss: string | null): void {
    if (loss !== null) this.#environment.warn(`yrelay: what is written is in memory only, until it is saved (${loss}).`);
    this.ops.handleStored();
    this.#events.status();
  }

  #contextOf(store: DocumentContext["store"]): DocumentContext {
    const { relays = [], workspace, pin, times, onTelemetry } = this.#options;
    const { api, ops } = this;
    const environment = this.#environment;
    const more = { ...(pin === undefined ? {} : { pin }), ...(times === undefined ? {} : { times }), ...(onTelemetry === undefined ? {} : { onTelemetry }) };
    const getToken = scopeTokensOf(api);
    const connect: DocumentContext["connect"] = (options) => new SyncProvider({ ...options, ...more, environment, workspace, relays, getToken });
    return { environment, api, ops, store, presence: this.#presence, account: () => this.#account, connect: relays.length === 0 ? null : connect };
  }
}
