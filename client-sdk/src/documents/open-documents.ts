// The documents that are open in a tab: those of the tab itself, and in the tab that leads those of
// others, which it keeps for them.
import type { FeedItem } from "../api/types.ts";
import type { Role } from "../tabs/types.ts";
import { SharedDocument } from "./document.ts";
import type { DocumentHost } from "./document.ts";
import type { DocumentContext } from "./keeper.ts";
import type { DocumentReceipt } from "./types.ts";

/** The tab that they are open in. */
export interface DocumentTab {
  readonly id: string;
  readonly role: Role | null;
  /** Has the leader do something. */
  call(method: string, payload: unknown): Promise<unknown>;
  /** Tells the other tabs, or one of them. */
  say(topic: string, payload: unknown, to?: string): void;
  /** Calls back when another tab is gone. */
  watchTab(tab: string, gone: () => void): void;
  /** Which documents are open has changed. */
  changed(): void;
}

interface Opened {
  readonly document: SharedDocument;
  /** Open in this tab. */
  isOwn: boolean;
  /** Other tabs that have it open. */
  readonly tabs: Set<string>;
}

export class OpenDocuments {
  readonly #tab: DocumentTab;
  readonly #opened = new Map<string, Opened>();
  /** While this tab leads. */
  #context: DocumentContext | null = null;

  constructor(tab: DocumentTab) {
    this.#tab = tab;
  }

  /** The path of the one that was opened last. */
  get lastPath(): string | undefined {
    return [...this.#opened.keys()].at(-1);
  }

  get(path: string): SharedDocument | undefined {
    return this.#opened.get(path)?.document;
  }

  /** Opens one in this tab. If the leader keeps it for others already, that one is it. */
  open(path: string, leader: string | null): SharedDocument {
    const opened = this.#opened.get(path) ?? this.#add(path);
    if (opened.isOwn) return opened.document;
    opened.isOwn = true;
    if (this.#tab.role === "follower") this.#join(path, opened.document, leader);
    this.#tab.changed();
    return opened.document;
  }

  /** Another tab has it open: the leader keeps it for that tab. */
  openFor(path: string, tab: string): void {
    if (tab === this.#tab.id) return;
    const opened = this.#opened.get(path) ?? this.#add(path);
    opened.tabs.add(tab);
    this.#tab.watchTab(tab, () => this.#forgetTab(tab));
    this.#tab.changed();
  }

  closeFor(path: string, tab: string): void {
    const opened = this.#opened.get(path);
    opened?.tabs.delete(tab);
    opened?.document.forgetTab(tab);
    if (opened !== undefined && !opened.isOwn && opened.tabs.size === 0) this.#drop(path, opened.document);
    this.#tab.changed();
  }

  lead(context: DocumentContext): void {
    this.#context = context;
    for (const { document } of this.#opened.values()) document.lead(context);
  }

  follow(): void {
    this.#context = null;
    for (const [path, { document, isOwn }] of [...this.#opened]) {
      if (isOwn) document.follow();
      else this.#drop(path, document);
    }
  }

  /** Another tab leads. */
  greet(leader: string): void {
    for (const [path, { document }] of this.#opened) this.#join(path, document, leader);
  }

  handleChange(item: FeedItem): void {
    for (const { document } of this.#opened.values()) document.handleChange(item);
  }

  retry(): void {
    for (const { document } of this.#opened.values()) document.retry();
  }

  closeAll(): void {
    for (const [path, { document }] of [...this.#opened]) this.#drop(path, document);
  }

  #add(path: string): Opened {
    const host: DocumentHost = {
      tab: this.#tab.id,
      say: (speech, to) => this.#tab.say("document", { path, ...speech }, to),
      flush: () => this.#flush(path),
      hold: (reason, isSet) => void this.#tab.call("hold", { path, reason, isSet }).catch(() => {}),
      closed: (document) => this.#closed(document),
    };
    const opened: Opened = { document: new SharedDocument(host, path), isOwn: false, tabs: new Set() };
    this.#opened.set(path, opened);
    if (this.#context !== null) opened.document.lead(this.#context);
    return opened;
  }

  #join(path: string, document: SharedDocument, leader: string | null): void {
    void this.#tab.call("open", { path }).catch(() => {});
    if (leader !== null) document.greet(leader);
  }

  /** The receipt of whichever tab leads, also when that changes meanwhile. */
  async #flush(path: string): Promise<DocumentReceipt> {
    for (;;) {
      const context = this.#context;
      try {
        return (await this.#tab.call("flushDocument", { path })) as DocumentReceipt;
      } catch (error) {
        if (context === this.#context || !this.#opened.has(path)) throw error;
      }
    }
  }

  /** This tab has it open no more. For others that have, it goes on as another object. */
  #closed(document: SharedDocument): void {
    const { path } = document;
    const opened = this.#opened.get(path);
    if (opened?.document !== document) return;
    this.#opened.delete(path);
    if (this.#tab.role === "follower") void this.#tab.call("close", { path }).catch(() => {});
    else for (const tab of opened.tabs) this.openFor(path, tab);
    this.#tab.changed();
  }

  /** No tab needs it here. */
  #drop(path: string, document: SharedDocument): void {
    this.#opened.delete(path);
    document.close();
  }

  #forgetTab(tab: string): void {
    for (const path of [...this.#opened.keys()]) this.closeFor(path, tab);
  }
}
