/**
 * The change stream of one workspace, followed for as long as its room has listeners (D3).
 *
 * It resumes after the last clock it has seen. What it cannot resume it says with `reset`. A stream
 * that falls silent, ends or fails is opened again with jitter; only the end of the workspace ends
 * the following.
 *
 * @module
 */

import { backoff, pause } from "./backoff.ts";
import { jsonOf } from "./api_client.ts";
import { piecesOf } from "./body.ts";
import { FEED_RETRY, FEED_SILENCE } from "./limits.ts";
import { type Log, messageOf } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import { EventParser, type ServerEvent } from "./sse.ts";

/** Who is told. */
export interface FeedListener {
  /** A change, as the JSON that came. */
  change(json: string): void;
  /** Whatever happened up to this clock is not told one by one. */
  reset(head: number): void;
  /** The workspace is gone; nothing follows. */
  deleted(head: number): void;
}

/** How to reach a stream, and the delays, which tests shorten. */
export interface FeedOptions {
  readonly open: (since: number | undefined, signal: AbortSignal) => Promise<Response>;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly silence?: number;
  readonly retry?: { min: number; max: number };
}

/** What reading a stream came to: how long to wait before the next, or that there is no next. */
type Outcome = { wait: number } | "deleted";

/** Follows a workspace from its construction until `stop`. */
export class Feed {
  /** Settles when nothing more will be told. */
  readonly ended: Promise<void>;
  readonly #options: Required<FeedOptions>;
  readonly #listener: FeedListener;
  readonly #stop = new AbortController();
  #cursor: number | undefined;
  #failures = 0;

  constructor(listener: FeedListener, options: FeedOptions) {
    this.#listener = listener;
    this.#options = { silence: FEED_SILENCE, retry: FEED_RETRY, ...options };
    this.ended = this.#follow();
  }

  /** Ends it; nothing is told from now on. */
  stop(): void {
    this.#stop.abort();
  }

  async #follow(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const outcome = await this.#read();
      if (outcome === "deleted" || signal.aborted) return;
      await pause(outcome.wait, signal);
      this.#options.metrics.feedReconnects += 1;
    }
  }

  /** Opens one stream and reads it to its end. Never throws. */
  async #read(): Promise<Outcome> {
    // One for each stream: silence ends this one alone.
    const watchdog = new Watchdog(this.#stop.signal, this.#options.silence);
    try {
      const response = await this.#options.open(this.#cursor, watchdog.signal);
      if (!response.ok) return await this.#refused(response);
      const parser = new EventParser();
      const text = response.body?.pipeThrough(new TextDecoderStream()) ?? null;
      for await (const piece of piecesOf(text, watchdog.signal)) {
        watchdog.alive();
        for (const event of parser.push(piece)) {
          if (this.#stop.signal.aborted) return { wait: 0 };
          const outcome = this.#take(event);
          if (outcome) return outcome;
        }
      }
      return this.#failed("the stream ended without a word");
    } catch (error) {
      return this.#failed(messageOf(error));
    } finally {
      // Also when events remain: it ends the request.
      watchdog.end();
    }
  }

  #take({ name, data, id }: ServerEvent): Outcome | undefined {
    this.#failures = 0;
    const isStart = this.#cursor === undefined;
    if (id !== undefined && /^\d+$/.test(id)) this.#cursor = Number(id);
    if (name === "change") this.#listener.change(data);
    // A head tells a reader without a cursor where it starts: what came before is not told.
    else if (name === "reset" || (name === "head" && isStart)) this.#listener.reset(this.#cursor ?? 0);
    else if (name === "bye") return { wait: Math.random() * numberIn(data, "retry") };
    else if (name === "deleted") {
      this.#listener.deleted(numberIn(data, "head"));
      return "deleted";
    }
    return undefined;
  }

  async #refused(response: Response): Promise<Outcome> {
    const problem = jsonOf(new Uint8Array(await response.arrayBuffer()));
    const code = problem?.["code"];
    if (code === "workspace_deleted" || code === "workspace_not_found") {
      this.#listener.deleted(this.#cursor ?? 0);
      return "deleted";
    }
    return this.#failed(`the stream was answered with ${response.status}`);
  }

  #failed(cause: string): Outcome {
    const wait = backoff(this.#failures, this.#options.retry);
    // The first of a row: an outage fails again and again for the same reason.
    if (this.#failures === 0 && !this.#stop.signal.aborted) {
      this.#options.log.warn("feed_interrupted", { cause });
    }
    this.#failures += 1;
    return { wait };
  }
}

/** Aborts its signal when nothing is heard for too long, or with the outer signal. */
class Watchdog {
  readonly #abort = new AbortController();
  readonly #outer: AbortSignal;
  readonly #silence: number;
  readonly #end = () => this.end();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(outer: AbortSignal, silence: number) {
    this.#outer = outer;
    this.#silence = silence;
    outer.addEventListener("abort", this.#end);
    this.alive();
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  alive(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#abort.abort(new Error("the stream fell silent")), this.#silence);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#outer.removeEventListener("abort", this.#end);
    this.#abort.abort();
  }
}

function numberIn(json: string, member: string): number {
  const value = jsonOf(new TextEncoder().encode(json))?.[member];
  return typeof value === "number" ? value : 0;
}
