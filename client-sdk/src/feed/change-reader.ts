// One iterator of changes: a cursor of its own over the shared feed. What the feed no longer keeps, or
// never had, it reads by pages; so it may be as slow as it likes, and memory does not grow with it.
import { jsonOf } from "../api/api.ts";
import type { Api } from "../api/api.ts";
import * as operations from "../api/operations.ts";
import { ProblemError, notTheApi } from "../api/problem.ts";
import { feedOf } from "./change-feed.ts";
import type { ChangeFeed, Listener } from "./change-feed.ts";
import type { Wanted } from "./change-filter.ts";
import { PAGE_LIMIT } from "../api/limits.ts";
import { isClock, parseChange } from "./recent-changes.ts";
import type { Change, ChangeList, FeedItem, Reset, Workspace } from "../api/types.ts";

/** Whose iterators they are. */
export interface ReaderOwner {
  readonly api: Api;
  /** Those that have begun and not ended. */
  readonly readers: Set<ChangeReader>;
  /** Why no more of them begin. */
  closed: Error | null;
}

export interface ReaderOptions {
  /** The clock of the last change that the caller knows; from now on when it is left out. */
  readonly since?: number | undefined;
  readonly wanted: Wanted;
  readonly signal?: AbortSignal | undefined;
}

/** Nothing happens before the first `next`, so that an iterator which nobody uses costs nothing. */
export class ChangeReader implements AsyncIterableIterator<FeedItem, undefined>, Listener {
  readonly #owner: ReaderOwner;
  readonly #options: ReaderOptions;
  readonly #ending = new AbortController();
  readonly #abort = () => this.#end(this.#options.signal?.reason);
  #feed: ChangeFeed | null = null;
  #resets = 0;
  #cursor: number | null = null;
  #page: readonly unknown[] = [];
  #pageIndex = 0;
  #failure: { readonly error: unknown } | null = null;
  #hasThrown = false;
  #wake = () => {};
  /** Calls of `next` take turns. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(owner: ReaderOwner, options: ReaderOptions) {
    if (options.since !== undefined && !isClock(options.since)) throw new TypeError(`${options.since} is not a clock; give the \`clock\` of a change, or 0`);
    this.#owner = owner;
    this.#options = options;
  }

  get api(): Api {
    return this.#owner.api;
  }

  /** The clock of the last change that it has passed; `null` before it has begun. */
  get cursor(): number | null {
    return this.#cursor;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Rejects when there is nothing more for a reason; the signal's reason is one. */
  next(): Promise<IteratorResult<FeedItem, undefined>> {
    const result = this.#turn.then(() => this.#next());
    this.#turn = result.catch(() => {});
    return result;
  }

  /** Ends it, also while `next` waits. */
  async return(): Promise<IteratorResult<FeedItem, undefined>> {
    this.close();
    return { value: undefined, done: true };
  }

  close(): void {
    this.#end(CLOSED);
  }

  wake(): void {
    this.#wake();
  }

  fail(error: unknown): void {
    this.#failure ??= { error };
    this.#wake();
  }

  #end(reason: unknown): void {
    if (this.#ending.signal.aborted) return;
    this.#ending.abort(reason);
    this.#options.signal?.removeEventListener("abort", this.#abort);
    this.#owner.readers.delete(this);
    this.#feed?.detach(this);
    this.#turnTo([]);
    this.#wake();
  }

  async #next(): Promise<IteratorResult<FeedItem, undefined>> {
    const { signal } = this.#ending;
    try {
      for (;;) {
        signal.throwIfAborted();
        const item = this.#feed === null ? await this.#start() : await this.#step(this.#feed);
        if (item !== null) return { value: item, done: false };
      }
    } catch (error) {
      const reason: unknown = signal.aborted ? signal.reason : error;
      this.close();
      // Said once; from then on it is at its end.
      if (reason !== CLOSED && !this.#hasThrown) {
        this.#hasThrown = true;
        throw reason;
      }
      return { value: undefined, done: true };
    }
  }

  /** With this agent's own token: who may not read the workspace does not read it over the shared stream either. */
  async #start(): Promise<FeedItem | null> {
    const { since, signal } = this.#options;
    signal?.throwIfAborted();
    if (this.#owner.closed !== null) throw this.#owner.closed;
    signal?.addEventListener("abort", this.#abort);
    this.#owner.readers.add(this);
    this.#feed = feedOf(this.api);
    this.#resets = this.#feed.resets;
    this.#feed.attach(this);
    if (since !== undefined) {
      this.#cursor = since;
      return this.#readPage();
    }
    const answer = await this.api.call(operations.readWorkspace, {}, this.#untilEnd);
    this.#cursor = jsonOf<Workspace>(answer).head;
    return null;
  }

  /** One step forward; `null` when it led to nothing that is wanted. */
  async #step(feed: ChangeFeed): Promise<FeedItem | null> {
    if (this.#resets !== feed.resets && feed.lastReset !== null) {
      this.#resets = feed.resets;
      return this.#reset(feed.lastReset);
    }
    if (this.#pageIndex < this.#page.length) return this.#take(this.#page[this.#pageIndex++]);
    const next = feed.recent.after(this.#cursor ?? 0);
    if (next === "behind") return this.#readPage();
    if (next !== undefined) return this.#take(next);
    if (this.#failure !== null) throw this.#failure.error;
    await new Promise<void>((settle) => (this.#wake = settle));
    return null;
  }

  #take(entry: unknown): Change | null {
    const change = parseChange(entry);
    if (change === null || change.clock !== (this.#cursor ?? 0) + 1) throw notTheApi("The log has a gap", 200);
    this.#cursor = change.clock;
    return this.#options.wanted(change) ? change : null;
  }

  async #readPage(): Promise<Reset | null> {
    try {
      const query = { since: this.#cursor ?? 0, limit: PAGE_LIMIT };
      const answer = await this.api.call(operations.listChanges, { query }, this.#untilEnd);
      this.#turnTo(jsonOf<ChangeList>(answer).changes);
      return null;
    } catch (error) {
      if (!(error instanceof ProblemError) || error.code !== "cursor_gone") throw error;
      const { head, floor } = error.extra;
      if (!isClock(head) || !isClock(floor)) throw error;
      return this.#reset({ kind: "reset", head, floor });
    }
  }

  #turnTo(page: readonly unknown[]): void {
    this.#page = page;
    this.#pageIndex = 0;
  }

  #reset(reset: Reset): Reset {
    this.#turnTo([]);
    this.#cursor = reset.head;
    return reset;
  }

  /** An iterator outlives an API that is away, as its stream does. */
  get #untilEnd(): { signal: AbortSignal; tries: number } {
    return { signal: this.#ending.signal, tries: Infinity };
  }
}

/** The reason of an end that is no error. */
const CLOSED = Symbol("closed");
