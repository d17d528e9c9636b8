// One tab of a browser in a workspace: what it does when it leads, what it asks of the leader when it
// follows, and how one becomes the other.
import { firstAccount, tokensOf } from "./account.ts";
import { Api } from "./api/api.ts";
import { unlessAborted } from "./api/deadline.ts";
import type { FeedItem, PresenceList } from "./api/types.ts";
import type { PageEnvironment } from "./browser.ts";
import { Database } from "./database.ts";
import type { SharedDocument } from "./documents/document.ts";
import type { DocumentContext } from "./documents/keeper.ts";
import { OpenDocuments } from "./documents/open-documents.ts";
import type { DocumentTab } from "./documents/open-documents.ts";
import type { DocumentSpeech } from "./documents/types.ts";
import { StatusEmitter } from "./emitter.ts";
import { ChangeStream } from "./feed/change-stream.ts";
import { Presence } from "./feed/presence.ts";
import type { PresenceState } from "./feed/presence.ts";
import { Ops } from "./ops/apply-op.ts";
import type { Coalesced } from "./ops/coalescer.ts";
import { Outbox } from "./ops/outbox.ts";
import type { OutboxEntry } from "./ops/outbox.ts";
import { senderOf } from "./ops/sender.ts";
import type { Sender, WriteReceipt } from "./ops/sender.ts";
import { scopeTokensOf } from "./scope-tokens.ts";
import { IndexedDbStore } from "./store.ts";
import { SyncProvider } from "./sync-provider.ts";
import { sessionOfTab } from "./tab-session.ts";
import { TabCompany } from "./tabs/company.ts";
import type { Role } from "./tabs/types.ts";
import { TokenRefusedError } from "./token-source.ts";
import type { WorkspaceClientOptions, WorkspaceEvents, WorkspaceStatus } from "./workspace-client.ts";

type TabOptions = WorkspaceClientOptions & { readonly environment: PageEnvironment };

/** The page was in the back/forward cache meanwhile; it is asked for again. */
const AWAY = new Error("The page was away.");

const CLOSED = Object.assign(new Error("The client is closed; make a new one."), { code: "closed" });

export class WorkspaceTab extends StatusEmitter<WorkspaceEvents> implements DocumentTab {
  readonly id: string;
  readonly api: Api;
  readonly ops: Ops;
  readonly #options: TabOptions;
  readonly #environment: PageEnvironment;
  readonly #outbox: Outbox;
  readonly #stream: ChangeStream;
  readonly #presence: Presence;
  readonly #documents: OpenDocuments;
  readonly #ending = new AbortController();
  readonly #toApi: Sender;
  readonly #unwatch: () => void;
  #account: string | null;
  /** The other tabs, once it is known whose tab this is. */
  #company: Promise<TabCompany> | null = null;
  #known: TabCompany | null = null;
  #database: Database | null = null;
  #context: DocumentContext | null = null;
  /** Tells writes that were sent to a leader that this tab leads now. */
  #leading = new AbortController();
  #cursor: number | undefined;
  #told: PresenceList | null = null;
  #shown: PresenceState | null | undefined;
  #isSignedOut = false;
  /** The page is back from the back/forward cache. */
  #restore = () => {};

  constructor(options: TabOptions) {
    super();
    const { api, workspace, token, environment } = options;
    this.#options = options;
    this.#environment = environment;
    this.id = environment.uuid();
    this.#account = options.account ?? null;
    this.api = new Api({ api, workspace, getToken: tokensOf(token, () => this.#account) }, environment);
    this.#toApi = senderOf(this.api);
    this.#outbox = new Outbox(environment.uuid, () => this.ops.handleStored());
    this.ops = new Ops({ environment, outbox: this.#outbox, times: options.coalescer, send: (entry, how) => this.#send(entry, how) });
    this.#presence = new Presence({ api: this.api, environment, session: sessionOfTab(environment), account: () => this.#account });
    this.#documents = new OpenDocuments(this);
    this.#stream = new ChangeStream(this.api, environment);
    this.ops.on("change", () => this.#tell());
    this.ops.on("refused", (refusal) => this.emit("refused", refusal));
    this.#stream.on("state", () => this.#tell());
    this.#stream.on("item", (item) => this.#deliver(item));
    this.#presence.on("change", (list) => this.#deliverPresence(list));
    this.#unwatch = environment.watch((change) => {
      if (change === "hidden") this.ops.hide();
      // Others would see somebody for minutes who is gone.
      if (change === "closing") this.#presence.close();
      if (change === "stored") this.#store();
      if (change === "restored") this.#restore();
      if (change === "visible" || change === "online") this.#wake();
    });
  }

  get status(): WorkspaceStatus {
    const loss = this.#database?.loss ?? null;
    return {
      account: this.#account,
      role: this.role,
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

  get role(): Role | null {
    return this.#known?.election.role ?? null;
  }

  #tell(): void {
    this.tell(this.status);
  }

  start(): void {
    this.#company ??= this.#begin();
    this.#company.catch((error) => {
      this.#isSignedOut = error instanceof TokenRefusedError;
      this.#tell();
    });
  }

  /** The user signed in, or wants another try of what was refused. */
  restart(): void {
    this.#wake();
    this.#documents.retry();
  }

  #wake(): void {
    if (this.#ending.signal.aborted) return;
    if (this.#isSignedOut) {
      this.#isSignedOut = false;
      this.#company = null;
      this.start();
    }
    this.ops.retry();
    if (this.role === "leader" && this.#stream.state === "stopped") this.#stream.start();
  }

  /**
   * The page goes into the back/forward cache. A frozen page holds nothing that others wait for; and what could
   * reach it, as a message of another tab does, would throw it out of there.
   */
  #store(): void {
    if (this.#known === null || this.#ending.signal.aborted) return;
    this.ops.hide();
    this.#presence.close();
    this.#company = new Promise<void>((settle) => (this.#restore = settle)).then(() => this.#begin());
    this.#company.catch(() => {});
    this.#leave(AWAY);
    this.#stream.release();
  }

  #leave(reason: unknown): void {
    this.#known?.leave(reason);
    this.#known = null;
  }

  /** Has the leading tab do something. */
  async call(method: string, payload: unknown): Promise<unknown> {
    for (;;) {
      const { calls } = await (this.#company ?? Promise.reject(CLOSED));
      try {
        return await calls.call(method, payload);
      } catch (error) {
        if (error !== AWAY) throw error;
      }
    }
  }

  open(path: string): SharedDocument {
    return this.#documents.open(path, this.#known?.election.leader ?? null);
  }

  async close(): Promise<void> {
    if (this.#ending.signal.aborted) return;
    this.#documents.closeAll();
    this.ops.hide();
    this.#presence.close();
    this.#stream.close(CLOSED);
    this.ops.stop();
    this.#context?.peers?.close();
    this.#unwatch();
    await this.#outbox.settled();
    this.#ending.abort(CLOSED);
    this.#leave(CLOSED);
    this.#database?.close();
  }

  say(topic: string, payload: unknown, to?: string): void {
    this.#known?.channel.say({ kind: "tell", topic, payload }, to);
  }

  watchTab(tab: string, gone: () => void): void {
    this.#known?.life.watch(tab, gone);
  }

  /** Whose tab it is comes first: locks, channels and storage are of one account. */
  async #begin(): Promise<TabCompany> {
    const { api, workspace, tabs = true } = this.#options;
    this.#account ??= await firstAccount(this.api, this.#ending.signal);
    this.#ending.signal.throwIfAborted();
    const alone = { ...this.#environment, locks: () => null, openChannel: () => null };
    const environment = tabs && this.#account !== null ? this.#environment : alone;
    const name = `yrelay ${api.replace(/\/+$/, "")} ${workspace} ${this.#account}`;
    const company = new TabCompany(environment, this.id, name, (method, payload, tab) => this.#serve(method, payload, tab));
    const { channel, election } = company;
    channel.on("message", (message) => message.kind === "tell" && this.#hear(message.topic, message.payload, message.from));
    election.on("role", (role) => (role === "leader" ? this.#lead(name) : this.#follow()));
    election.on("leader", (leader) => this.#greet(leader));
    this.#known = company;
    election.start();
    this.#tell();
    return company;
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
    this.#documents.lead(this.#context);
    this.changed();
    this.#tell();
  }

  #follow(): void {
    if (this.#ending.signal.aborted) return;
    this.#leading = new AbortController();
    const peers = this.#context?.peers;
    this.#context = null;
    this.#cursor = this.#stream.cursor ?? this.#cursor;
    this.#stream.stop();
    this.#presence.stop();
    this.#documents.follow();
    peers?.close();
    this.#outbox.detach();
    this.#database?.close();
    this.#database = null;
    this.#tell();
  }

  /** Another tab leads: it is told what is open here, and what waits here is sent to it. */
  #greet(leader: string): void {
    void this.ops.start();
    this.#documents.greet(leader);
    this.call("hello", {}).then((hello) => {
      const { cursor, presence } = hello as { cursor?: number; presence: PresenceList | null };
      this.#cursor = Math.max(this.#cursor ?? 0, cursor ?? 0) || undefined;
      if (presence !== null) this.#deliverPresence(presence);
    }, () => {});
  }

  /** Answers a tab, this one or another. What it does bears repetition. */
  async #serve(method: string, payload: unknown, tab: string): Promise<unknown> {
    const { path, state = null, reason, isSet } = payload as { path: string; state?: PresenceState | null; reason: string; isSet: boolean };
    switch (method) {
      case "apply":
        return this.#apply(payload as OutboxEntry);
      case "open":
        return this.#documents.openFor(path, tab);
      case "close":
        return this.#documents.closeFor(path, tab);
      case "flushDocument":
        return this.#documents.get(path)?.flushHere();
      case "hold":
        return this.#documents.get(path)?.hold(tab, reason, isSet);
      case "hello":
        return { cursor: this.#stream.cursor, presence: this.presenceList };
      case "show":
        this.#shown = state;
        return this.changed();
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

  /** By the API if this tab leads, else by the tab that does; whatever it was asked is asked again when this one leads. */
  #send(entry: Coalesced<OutboxEntry>, how: { readonly keepalive: boolean }): ReturnType<Sender> {
    if (this.role === "leader") return this.#toApi(entry, how);
    const { signal } = this.#leading;
    return unlessAborted(this.call("apply", entry), signal).then(
      (receipt) => receipt as WriteReceipt,
      (error) => ({ error, passes: signal.aborted || error === CLOSED, retryAfterMs: null }),
    );
  }

  #hear(topic: string, payload: unknown, from: string): void {
    if (topic === "document") {
      const speech = payload as DocumentSpeech & { readonly path: string };
      return this.#documents.get(speech.path)?.handleSpeech(speech, from);
    }
    if (this.role === "leader") return;
    if (topic === "item") this.#deliver(payload as FeedItem);
    if (topic === "presence") this.#deliverPresence(payload as PresenceList);
  }

  #deliver(item: FeedItem): void {
    this.#cursor = item.kind === "reset" ? item.head : item.clock;
    if (this.#context !== null) {
      this.say("item", item);
      this.#documents.handleChange(item);
      if (item.kind !== "reset") this.#presence.handleChange(item);
    }
    this.emit("change", item);
  }

  #deliverPresence(list: PresenceList): void {
    this.#told = list;
    if (this.#context !== null) this.say("presence", list);
    this.emit("presence", list);
  }

  /** Others see which document was opened last, unless the application says more. */
  changed(): void {
    const path = this.#documents.lastPath;
    this.#presence.show(this.#shown !== undefined ? this.#shown : path === undefined ? null : { path });
  }

  #handleLoss(loss: string | null): void {
    if (loss !== null) this.#environment.warn(`yrelay: what is written is in memory only, until it is saved (${loss}).`);
    this.ops.handleStored();
    this.#tell();
  }

  #contextOf(store: DocumentContext["store"]): DocumentContext {
    const { relays = [], p2p, workspace, pin, times, onTelemetry } = this.#options;
    const { api, ops } = this;
    const environment = this.#environment;
    const presence = this.#presence;
    const shared = { environment, workspace, relays, pin, times, onTelemetry, getToken: scopeTokensOf(api) };
    return {
      environment,
      api,
      ops,
      store,
      presence,
      account: () => this.#account,
      connect: relays.length === 0 ? null : (options) => new SyncProvider({ ...options, ...shared }),
      peers: p2p?.({ ...shared, api, presence }) ?? null,
    };
  }
}
