// The one stream of changes that all agents of this process and workspace share. It is open while
// somebody reads, and is opened again after the last clock that it has seen (F3). It keeps the newest
// changes; who is further behind reads pages by itself (change-reader.ts).
import { jsonOf } from "../api/api.ts";
import type { Api, Failure } from "../api/api.ts";
import { reopen } from "../api/backoff.ts";
import type { StreamEnd } from "../api/backoff.ts";
import { Deadline, pause } from "../api/deadline.ts";
import * as operations from "../api/operations.ts";
import { EventParser } from "./event-parser.ts";
import type { ServerEvent } from "./event-parser.ts";
import { CALL_LIMIT_MS, LINGER_MS, PAGE_LIMIT, SILENCE_MS } from "../api/limits.ts";
import { ProblemError, UnreachableError } from "../api/problem.ts";
import { parseObject } from "../json.ts";
import { RecentChanges, isClock, parseChange } from "./recent-changes.ts";
import type { ChangeList, Reset } from "../api/types.ts";

/** Somebody who reads the feed, as the feed sees it. */
export interface Listener {
  readonly api: Api;
  /** There may be something new. */
  wake(): void;
  /** Nothing new will come after what is kept. */
  fail(error: unknown): void;
}

/** How reading a stream ended. `deleted`: nobody gets one any more. `refused`: whoever uses this token gets none. */
type Outcome = StreamEnd | { readonly kind: "deleted" | "refused"; readonly error: unknown };

/** What came makes no sense. The stream counts as lost, so nobody reads this. */
const NONSENSE = new Error("not a stream of changes");

const LOST: StreamEnd = { kind: "lost", retryAfterMs: null };

/** By address and workspace: this is what makes it one for the process. */
const FEEDS = new Map<string, ChangeFeed>();

/** The feed of a workspace; `api` is one of its users from now on, until `leave`. */
export function feedOf(api: Api): ChangeFeed {
  const feed = FEEDS.get(api.key) ?? new ChangeFeed(api.key);
  FEEDS.set(api.key, feed);
  return feed.join(api);
}

/** The agent was closed. */
export function leaveFeed(api: Api): void {
  FEEDS.get(api.key)?.leave(api);
}

export class ChangeFeed {
  readonly recent = new RecentChanges();
  /** The last cursor that could not be resumed, and how many of them there were. */
  lastReset: Reset | null = null;
  resets = 0;
  readonly #key: string;
  readonly #users = new Set<Api>();
  readonly #listeners = new Set<Listener>();
  readonly #stop = new AbortController();
  #running = false;
  #lingering = new AbortController();

  constructor(key: string) {
    this.#key = key;
  }

  join(api: Api): this {
    this.#users.add(api);
    return this;
  }

  /** The last one takes the stream along, which else would linger. */
  leave(api: Api): void {
    if (this.#users.delete(api) && this.#users.size === 0) this.#close();
  }

  /** The first listener opens the stream. */
  attach(listener: Listener): void {
    this.#lingering.abort();
    this.#listeners.add(listener);
    if (this.#running) return;
    this.#running = true;
    void this.#follow();
  }

  detach(listener: Listener): void {
    if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return;
    const lingering = (this.#lingering = new AbortController());
    void pause(listener.api.environment, LINGER_MS, lingering.signal).then(() => {
      if (!lingering.signal.aborted) this.#close();
    });
  }

  #close(): void {
    this.#stop.abort();
    this.#lingering.abort();
    if (FEEDS.get(this.#key) === this) FEEDS.delete(this.#key);
  }

  async #follow(): Promise<void> {
    const { signal } = this.#stop;
    let failures = 0;
    while (!signal.aborted) {
      // The oldest listener's token opens it; if that fails, the next one's, since it may be this user who gets no
      // answer. Without a listener it was only lingering.
      const listeners = [...this.#listeners];
      const leader = listeners[failures % Math.max(1, listeners.length)];
      if (leader === undefined) break;
      const { api } = leader;
      const stream = new OneStream(this, api, signal);
      const outcome = await stream.read();
      if (signal.aborted) break;
      if ("error" in outcome) this.#end((listener) => outcome.kind === "deleted" || listener.api === api, outcome.error);
      else {
        const again = reopen(failures, outcome, stream.livedMs, api.environment.random());
        failures = again.failures;
        await pause(api.environment, again.delayMs, signal);
      }
    }
    this.#close();
  }

  /** Tells listeners that there is no more for them. */
  #end(concerns: (listener: Listener) => boolean, error: unknown): void {
    for (const listener of [...this.#listeners].filter(concerns)) {
      this.#listeners.delete(listener);
      listener.fail(error);
    }
  }

  wakeAll(): void {
    for (const listener of this.#listeners) listener.wake();
  }

  /** A cursor could not be resumed, so nobody's can. */
  reset(head: number, floor: number): void {
    this.recent.start(head);
    this.lastReset = { kind: "reset", head, floor };
    this.resets += 1;
  }
}

/** One response of the server, from the request to its end. */
class OneStream {
  readonly #feed: ChangeFeed;
  readonly #api: Api;
  readonly #deadline: Deadline;
  #openedAt: number | null = null;

  constructor(feed: ChangeFeed, api: Api, signal: AbortSignal) {
    this.#feed = feed;
    this.#api = api;
    this.#deadline = new Deadline(api.environment, signal);
  }

  /** How long it was open, or has been. */
  get livedMs(): number {
    return this.#openedAt === null ? 0 : this.#api.environment.now() - this.#openedAt;
  }

  /** Never throws. */
  async read(): Promise<Outcome> {
    this.#deadline.arm(CALL_LIMIT_MS);
    try {
      const response = await this.#api.openStream(this.#feed.recent.head, this.#deadline.signal);
      if ("error" in response) return refusal(response);
      if (response.status === 204) return { kind: "refused", error: new UnreachableError("The server asked to stop (HTTP 204).", 204) };
      if (response.body === null || !response.headers.get("content-type")?.startsWith("text/event-stream")) return LOST;
      this.#openedAt = this.#api.environment.now();
      return await this.#readBody(response.body);
    } catch {
      // A connection that broke, silence, or an answer that makes no sense: each is a stream that was lost.
      return LOST;
    } finally {
      // Also ends a response that has more to say.
      this.#deadline.end();
      this.#feed.wakeAll();
    }
  }

  async #readBody(body: ReadableStream<Uint8Array>): Promise<Outcome> {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    const parser = new EventParser();
    for (;;) {
      this.#deadline.arm(SILENCE_MS);
      const { value, done } = await reader.read();
      // What is left in the parser is half an event: it comes again.
      if (done) return LOST;
      for (const event of parser.push(decoder.decode(value, { stream: true }))) {
        const outcome = await this.#take(event);
        if (outcome !== null) return outcome;
      }
      this.#feed.wakeAll();
    }
  }

  async #take({ name, data }: ServerEvent): Promise<Outcome | null> {
    const { recent } = this.#feed;
    const value = parseObject(data) ?? {};
    const head = value["head"];
    switch (name) {
      case "change": {
        const change = parseChange(value);
        if (change === null) throw NONSENSE;
        if (recent.head === null) recent.start(change.clock - 1);
        if (recent.push(change) === "gap") await this.#fill(change.clock);
        return null;
      }
      case "head":
        if (!isClock(head)) throw NONSENSE;
        if (recent.head === null) recent.start(head);
        else if (head > recent.head) await this.#fill(head);
        return null;
      case "reset": {
        const { floor } = value;
        if (!isClock(head) || !isClock(floor)) throw NONSENSE;
        this.#feed.reset(head, floor);
        return null;
      }
      case "bye": {
        const retry = value["retry"];
        return { kind: "bye", retryMs: typeof retry === "number" && retry >= 0 ? retry : null };
      }
      case "deleted":
        return { kind: "deleted", error: workspaceDeleted() };
      default:
        return null;
    }
  }

  /** Reads what the stream left out, up to this clock. It never should; then the log has the last word. */
  async #fill(to: number): Promise<void> {
    const { recent } = this.#feed;
    for (let since = recent.head; since !== null && since < to; since = recent.head) {
      this.#deadline.arm(SILENCE_MS);
      const answer = await this.#api.call(operations.listChanges, { query: { since, limit: PAGE_LIMIT } }, { signal: this.#deadline.signal });
      for (const entry of jsonOf<ChangeList>(answer).changes) {
        const change = parseChange(entry);
        if (change === null || recent.push(change) === "gap") throw NONSENSE;
      }
      if (recent.head === since) throw NONSENSE;
      this.#feed.wakeAll();
    }
  }
}

function refusal({ error, passes, retryAfterMs }: Failure): Outcome {
  return passes ? { kind: "lost", retryAfterMs } : { kind: "refused", error };
}

function workspaceDeleted(): ProblemError {
  return new ProblemError({ code: "workspace_deleted", status: 410, detail: "The workspace was deleted.", extra: {} });
}
