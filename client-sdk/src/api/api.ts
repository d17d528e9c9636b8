// Calls to the API of one workspace: the token, time limits, retries. What the calls mean is the
// business of its users: agents, the outbox, documents.
import { parseObject } from "../json.ts";
import { TokenRefusedError } from "../token-source.ts";
import { ApiToken } from "./api-token.ts";
import type { ApiTokenProvider } from "./api-token.ts";
import { mayPass, parseRetryAfter, retryDelay } from "./backoff.ts";
import { Deadline, pause, unlessAborted } from "./deadline.ts";
import type { AgentEnvironment } from "./deadline.ts";
import { CALL_LIMIT_MS, MAX_RETRY_AFTER_MS, MAX_TRIES } from "./limits.ts";
import { addressOf, checkWorkspaceId } from "./operations.ts";
import * as operations from "./operations.ts";
import type { Input, Operation } from "./operations.ts";
import { UnreachableError, errorOf, notTheApi, parseProblem } from "./problem.ts";

export interface ApiOptions {
  readonly api: string;
  readonly workspace: string;
  readonly getToken: ApiTokenProvider;
}

/** How long to go on with one call. */
export interface CallLimits {
  readonly signal?: AbortSignal | undefined;
  /** `Infinity`: until the signal; refusals that will not pass end it all the same. */
  readonly tries?: number;
}

/** A 2xx, read to its end. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly bytes: Uint8Array;
  readonly text: string;
}

/** Anything else, and whether it may pass by itself. */
export interface Failure {
  readonly error: unknown;
  readonly passes: boolean;
  readonly retryAfterMs: number | null;
}

/** A call as each try of it makes it, but for the token. */
interface ApiRequest {
  readonly id: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly init: RequestInit;
}

export class Api {
  readonly environment: AgentEnvironment;
  readonly workspace: string;
  readonly #origin: string;
  readonly #token: ApiToken;

  /** Throws a `TypeError` for an address or an id that cannot be meant. */
  constructor({ api, workspace, getToken }: ApiOptions, environment: AgentEnvironment) {
    if (!URL.canParse(api) || !/^https?:$/.test(new URL(api).protocol)) throw new TypeError("`api` is not an address; write https://<host>");
    checkWorkspaceId(workspace);
    this.#origin = api.replace(/\/+$/, "");
    this.environment = environment;
    this.workspace = workspace;
    this.#token = new ApiToken(getToken, environment);
  }

  /** The same for all agents that may share a stream. */
  get key(): string {
    return `${this.#origin} ${this.workspace}`;
  }

  /** The token that calls use. Rejects as the application's provider does. */
  token(): Promise<string> {
    return this.#token.current();
  }

  /**
   * Makes a call, and makes it again while that may help. A call that changes something has its
   * idempotency key in `input`, the same at each try, so that it happens once.
   */
  async call<Id extends string>(operation: Operation<Id>, input: Input<Id>, { signal, tries = MAX_TRIES }: CallLimits = {}): Promise<Answer> {
    const request = this.#request(operation, input);
    for (let failures = 0; ; failures += 1) {
      signal?.throwIfAborted();
      const outcome = await this.#attempt(request, signal);
      if (!("error" in outcome)) return outcome;
      signal?.throwIfAborted();
      const { error, passes, retryAfterMs } = outcome;
      if (!passes || failures + 1 >= this.#triesFor(error, tries)) throw error;
      if (tries !== Infinity && (retryAfterMs ?? 0) > MAX_RETRY_AFTER_MS) throw error;
      await pause(this.environment, retryDelay(failures, this.environment.random(), retryAfterMs), signal);
    }
  }

  /** Makes a call once, for callers that decide themselves what follows. Never throws. */
  attempt<Id extends string>(operation: Operation<Id>, input: Input<Id>, signal?: AbortSignal): Promise<Answer | Failure> {
    return this.#attempt(this.#request(operation, input), signal);
  }

  /** Opens the stream of changes after a clock, or from now on. One try. */
  openStream(since: number | null, signal: AbortSignal): Promise<Failure | Response> {
    return this.#send(this.#request(operations.streamChanges, { query: { since: since ?? undefined } }), signal);
  }

  /** A defect of the server rarely goes away: `internal` is tried once more, then reported. */
  #triesFor(error: unknown, tries: number): number {
    const isDefect = (error as { status?: unknown })?.status === 500;
    return isDefect && tries !== Infinity ? Math.min(tries, 2) : tries;
  }

  async #attempt(request: ApiRequest, signal: AbortSignal | undefined): Promise<Answer | Failure> {
    const deadline = new Deadline(this.environment, signal);
    deadline.arm(CALL_LIMIT_MS);
    try {
      const response = await this.#send(request, deadline.signal);
      if ("error" in response) return response;
      return answerOf(response.status, response.headers, new Uint8Array(await response.arrayBuffer()));
    } catch (error) {
      return unanswered(request, error);
    } finally {
      deadline.end();
    }
  }

  /** One request; a second one with another token when this one's is refused. A 2xx comes unread. */
  async #send(request: ApiRequest, signal: AbortSignal): Promise<Failure | Response> {
    for (let renewals = 0; ; renewals += 1) {
      let token: string;
      try {
        token = await unlessAborted(this.#token.current(), signal);
      } catch (error) {
        return { error, passes: !(error instanceof TokenRefusedError), retryAfterMs: null };
      }
      try {
        const headers = { ...request.headers, authorization: `Bearer ${token}` };
        // The token is for this address alone: it follows no redirect.
        const response = await this.environment.fetch(request.url, { ...request.init, headers, redirect: "manual", signal });
        if (response.ok) return response;
        const failure = await this.#refused(request, response);
        if (response.status !== 401) return failure;
        this.#token.renew(token);
        if (renewals > 0) return failure;
      } catch (error) {
        return unanswered(request, error);
      }
    }
  }

  /** Throws a `TypeError` for a path that is none. */
  #request<Id extends string>(operation: Operation<Id>, input: Input<Id>): ApiRequest {
    const [id, method, , type] = operation;
    const { body = null, keepalive = false } = input;
    const headers: Record<string, string> = type === undefined ? {} : { "content-type": type };
    for (const [name, value] of Object.entries<string | undefined>(input.headers ?? {})) if (value !== undefined) headers[name.toLowerCase()] = value;
    return { id, url: this.#origin + addressOf(operation, this.workspace, input), headers, init: { method, body, keepalive } };
  }

  async #refused({ id }: ApiRequest, response: Response): Promise<Failure> {
    const { status, headers } = response;
    const problem = parseProblem(status, headers.get("content-type"), await response.text());
    const error = problem === null ? notTheApi(`${id}: HTTP ${status} without a problem`, status) : errorOf(problem);
    return { error, passes: mayPass(status), retryAfterMs: parseRetryAfter(headers.get("retry-after"), this.environment.now()) };
  }
}

function unanswered({ id, init }: ApiRequest, cause: unknown): Failure {
  const hint = init.method === "GET" ? "" : " It may have happened; repeat it with the same idempotency key.";
  return { error: new UnreachableError(`${id}: no answer from the API (or this origin is not allowed).${hint}`, null, cause), passes: true, retryAfterMs: null };
}

function answerOf(status: number, headers: Headers, bytes: Uint8Array): Answer {
  return { status, headers, bytes, text: new TextDecoder().decode(bytes) };
}

/** The JSON object that an answer is. */
export function jsonOf<Body>(answer: Answer): Body {
  const body = parseObject(answer.text);
  if (body === null) throw notTheApi("The answer is not a JSON object", answer.status);
  return body as Body;
}
