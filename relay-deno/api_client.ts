/**
 * Calls to the Worker's REST API. Every call has a deadline, and only a few run at once.
 *
 * A call that gets no answer is `undefined`, not an error: for this relay the API being away is a
 * state to live with (D4).
 *
 * @module
 */

import { bytesOf } from "./body.ts";
import { MAX_API_CALLS } from "./limits.ts";
import { type Log, messageOf } from "./log.ts";

/** An answer, read to its end. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Uint8Array<ArrayBuffer>;
  /** The code of a problem; empty for other answers. */
  readonly code: string;
}

/** What a call consists of. */
export interface Call {
  readonly method: "DELETE" | "GET" | "POST" | "PUT";
  /** Below the API's address, encoded. */
  readonly path: string;
  readonly headers?: Record<string, string>;
  readonly body?: Uint8Array;
  /** In ms, waiting for a place included. */
  readonly deadline: number;
}

/** How to reach the API. */
export interface ApiOptions {
  readonly url: string;
  readonly token: string;
  readonly log: Log;
  readonly maxCalls?: number;
}

/** A client of the API. */
export class ApiClient {
  readonly #options: ApiOptions;
  readonly #waiting: (() => void)[] = [];
  /** Calls in a row without an answer. An outage is two lines of the log, however long it is. */
  #failures = 0;
  #free: number;

  constructor(options: ApiOptions) {
    this.#options = options;
    this.#free = options.maxCalls ?? MAX_API_CALLS;
  }

  /** Makes a call; `undefined` when there is no answer in time. */
  async call(call: Call): Promise<Answer | undefined> {
    const signal = AbortSignal.timeout(call.deadline);
    if (!await this.#enter(signal)) return this.#failed("too many calls wait for it already");
    try {
      const { method, path, headers, body } = call;
      const response = await this.#fetch(path, {
        method,
        headers: { ...headers },
        signal,
        ...(body === undefined ? {} : { body: body as Uint8Array<ArrayBuffer> }),
      });
      const bytes = await bytesOf(response, signal);
      this.#succeeded();
      return {
        status: response.status,
        headers: response.headers,
        body: bytes,
        code: codeOf(response, bytes),
      };
    } catch (error) {
      return this.#failed(messageOf(error));
    } finally {
      this.#leave();
    }
  }

  /** Opens a stream of events. It takes no place of a call and ends with the signal. Throws. */
  stream(path: string, signal: AbortSignal): Promise<Response> {
    return this.#fetch(path, { headers: { accept: "text/event-stream" }, signal });
  }

  #fetch(path: string, init: RequestInit): Promise<Response> {
    const headers = { ...init.headers, authorization: `Bearer ${this.#options.token}` };
    // The token is for this address alone: it follows no redirect.
    return fetch(`${this.#options.url}${path}`, { ...init, headers, redirect: "error" });
  }

  #failed(cause: string): undefined {
    if (this.#failures === 0) this.#options.log.warn("api_unreachable", { cause });
    this.#failures += 1;
  }

  #succeeded(): void {
    if (this.#failures > 0) this.#options.log.info("api_reachable", { failed_calls: this.#failures });
    this.#failures = 0;
  }

  /** Waits for a place. `false` when the deadline comes first. */
  #enter(signal: AbortSignal): Promise<boolean> {
    if (this.#free > 0) {
      this.#free -= 1;
      return Promise.resolve(true);
    }
    return new Promise((settle) => {
      const enter = () => {
        signal.removeEventListener("abort", giveUp);
        settle(true);
      };
      const giveUp = () => {
        const place = this.#waiting.indexOf(enter);
        if (place >= 0) this.#waiting.splice(place, 1);
        settle(false);
      };
      this.#waiting.push(enter);
      signal.addEventListener("abort", giveUp, { once: true });
    });
  }

  #leave(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free += 1;
  }
}

/** A path of several segments, encoded for an address. */
export function encodePath(path: string): string {
  return path.split("/").map(encodeURIComponent).join("/");
}

/** The JSON of an answer; `undefined` for what is none. */
export function jsonOf(bytes: Uint8Array): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return typeof value === "object" && value !== null ? value as Record<string, unknown> : undefined;
  } catch {
    return undefined;
  }
}

function codeOf(response: Response, bytes: Uint8Array): string {
  if (!response.headers.get("content-type")?.startsWith("application/problem+json")) return "";
  const code = jsonOf(bytes)?.["code"];
  return typeof code === "string" ? code : "";
}
