// Time limits: a signal that ends what takes too long, and pauses that end early.
import type { Environment } from "../browser.ts";
import { Timer } from "../timer.ts";

/** The part of the surroundings that agents use. */
export type AgentEnvironment = Pick<Environment, "clearTimeout" | "fetch" | "now" | "random" | "setTimeout" | "uuid">;

/** Aborts its signal when it is not armed again in time, or with an outer signal. */
export class Deadline {
  readonly #timer: Timer;
  readonly #abort = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #end = () => this.end();

  constructor(environment: AgentEnvironment, outer: AbortSignal | undefined) {
    this.#timer = new Timer(environment);
    this.#outer = outer;
    if (outer?.aborted) this.end();
    else outer?.addEventListener("abort", this.#end);
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** From now on it has so much time. */
  arm(ms: number): void {
    if (!this.signal.aborted) this.#timer.set(ms, () => this.#abort.abort(new Error(`nothing came for ${ms} ms`)));
  }

  /** Ends what is still going on. */
  end(): void {
    this.#timer.clear();
    this.#outer?.removeEventListener("abort", this.#end);
    this.#abort.abort(this.#outer?.reason);
  }
}

/** The promise, or the signal's reason if that comes first. */
export function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((settle, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
    promise.then(settle, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

/** Waits, or until the signal is aborted. Never fails. */
export function pause(environment: AgentEnvironment, ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((settle) => {
    if (signal?.aborted) return settle();
    const done = () => {
      environment.clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      settle();
    };
    const timer = environment.setTimeout(done, ms);
    signal?.addEventListener("abort", done);
  });
}

/** What somebody answers, unless that takes too long: then a `TimeoutError` that says who. */
export function answerWithin<T>(environment: Pick<AgentEnvironment, "clearTimeout" | "setTimeout">, answer: Promise<T>, limitMs: number, who: string): Promise<T> {
  return new Promise((settle, reject) => {
    const timer = environment.setTimeout(() => reject(new DOMException(`${who} did not answer within ${limitMs} ms.`, "TimeoutError")), limitMs);
    answer.then(settle, reject).finally(() => environment.clearTimeout(timer));
  });
}
