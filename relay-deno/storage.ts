/**
 * What a room asks of storage, over the API: the counterpart of the Durable Object's
 * `room_storage`. Nothing here throws; what fails is named as the room knows it.
 *
 * @module
 */

import { type Answer, type ApiClient, encodePath, jsonOf } from "./api_client.ts";
import { Appends } from "./appends.ts";
import { LOOKUP_DEADLINE, STORAGE_DEADLINE } from "./limits.ts";
import type { Log } from "./log.ts";
import { Metrics } from "./metrics.ts";

/** Why storage did not do it; the room's own names. */
export type StoreError = "deleted" | "epoch_changed" | "too_large" | "unavailable";

/** A document, or what was appended to it past a clock. Without an epoch it does not exist. */
export interface Stored {
  readonly clock: number;
  readonly epoch: number | undefined;
  readonly update: Uint8Array;
}

/** A committed append. */
export interface Saved {
  readonly clock: number;
  readonly epoch: number;
  /** Whether others appended something that the room does not have. */
  readonly missed: boolean;
}

/** An append. */
export interface Append {
  readonly workspace: string;
  readonly document: string;
  readonly update: Uint8Array;
  readonly epoch: number | undefined;
  readonly author: string;
  /** The clock that the room has; undefined when nobody asks. */
  readonly after: number | undefined;
  /** Names the append, so that it is done once however often it is sent. */
  readonly key: string;
}

/** A person on a socket of this relay. */
export interface Present {
  readonly workspace: string;
  readonly sub: string;
  /** Names the relay in the person's row. */
  readonly session: string;
}

/** Whether something was said: for good, not at all, or nobody knows. */
export type Said = "said" | "refused" | "unknown";

/** Whether a workspace is there, as far as the API says in time. */
export type WorkspaceState = "there" | "missing" | "deleted" | "unknown";

/** The stored documents of all workspaces. */
export class Storage {
  readonly #api: ApiClient;
  readonly #appends: Appends;
  readonly #metrics: Metrics;
  readonly #log: Log;

  constructor(api: ApiClient, metrics: Metrics, log: Log) {
    this.#api = api;
    this.#appends = new Appends(api);
    this.#metrics = metrics;
    this.#log = log;
  }

  /** Asks whether there is a workspace. */
  async workspace(workspace: string): Promise<WorkspaceState> {
    const path = workspacePath(workspace);
    const answer = await this.#api.call({ method: "GET", path, deadline: LOOKUP_DEADLINE });
    if (answer?.status === 200) return "there";
    if (answer?.code === "workspace_not_found") return "missing";
    if (answer?.code === "workspace_deleted") return "deleted";
    this.#failed("workspace", answer);
    return "unknown";
  }

  /** Reads a document, or what was appended past a clock. */
  async read(workspace: string, document: string, after?: number): Promise<Stored | StoreError> {
    const query = after === undefined ? "" : `?since=${after}`;
    const answer = await this.#api.call({
      method: "GET",
      path: `${documentPath(workspace, document)}${query}`,
      headers: { accept: "application/octet-stream" },
      deadline: STORAGE_DEADLINE,
    });
    if (answer?.status === 200) {
      const clock = /^(?:W\/)?"(\d+)"$/.exec(answer.headers.get("etag") ?? "")?.[1];
      const epoch = answer.headers.get("yrelay-epoch");
      if (clock !== undefined && epoch !== null) {
        return { clock: Number(clock), epoch: Number(epoch), update: answer.body };
      }
    }
    // A record at this path is no document either.
    if (answer?.code === "node_not_found" || answer?.code === "wrong_node_kind") {
      return { clock: 0, epoch: undefined, update: new Uint8Array(0) };
    }
    return this.#error(after === undefined ? "load" : "pull", answer);
  }

  /** Appends an update, together with others that are appended at once. */
  async append(append: Append): Promise<Saved | StoreError> {
    const answer = await this.send(append);
    const saved = answer && answer.status < 300 ? jsonOf(answer.body) : undefined;
    if (typeof saved?.["clock"] === "number" && typeof saved["epoch"] === "number") {
      return { clock: saved["clock"], epoch: saved["epoch"], missed: saved["missed"] !== false };
    }
    this.#metrics.flushErrors += 1;
    return this.#error("persist", answer);
  }

  /** The same without a judgement of the answer. */
  send({ workspace, document, update, epoch, author, after, key }: Append): Promise<Answer | undefined> {
    const query = new URLSearchParams();
    if (after !== undefined) query.set("since", String(after));
    if (epoch !== undefined) query.set("epoch", String(epoch));
    return this.#appends.send({
      method: "POST",
      path: `${documentPath(workspace, document)}/updates${query.size > 0 ? `?${query}` : ""}`,
      headers: {
        "content-type": "application/octet-stream",
        "idempotency-key": key,
        "yrelay-author": encodeURIComponent(author),
      },
      body: update,
      deadline: STORAGE_DEADLINE,
    });
  }

  /** Says that a person is here, for so many seconds. */
  async present({ workspace, sub, session }: Present, ttl: number): Promise<Said> {
    const answer = await this.#api.call({
      method: "PUT",
      path: `${workspacePath(workspace)}/presence`,
      headers: { "content-type": "application/json", "yrelay-author": encodeURIComponent(sub) },
      body: new TextEncoder().encode(JSON.stringify({ session, ttl })),
      deadline: LOOKUP_DEADLINE,
    });
    return this.#said(answer);
  }

  /** Says that a person is not here any more. */
  async absent({ workspace, sub, session }: Present): Promise<Said> {
    const answer = await this.#api.call({
      method: "DELETE",
      path: `${workspacePath(workspace)}/presence?session=${encodeURIComponent(session)}`,
      headers: { "yrelay-author": encodeURIComponent(sub) },
      deadline: LOOKUP_DEADLINE,
    });
    return this.#said(answer);
  }

  /** An API that does not know of persons on sockets answers with a list: it was told something else. */
  #said(answer: Answer | undefined): Said {
    if (answer?.status === 204) return "said";
    this.#failed("presence", answer);
    const mayPass = answer === undefined || answer.status === 429 || answer.status >= 500;
    return mayPass ? "unknown" : "refused";
  }

  /** Opens the workspace's change stream after a clock, or from now on. */
  changes(workspace: string, since: number | undefined, signal: AbortSignal): Promise<Response> {
    const query = since === undefined ? "" : `?since=${since}`;
    return this.#api.stream(`${workspacePath(workspace)}/changes/stream${query}`, signal);
  }

  #error(call: string, answer: Answer | undefined): StoreError {
    this.#failed(call, answer);
    if (answer?.code === "epoch_changed") return "epoch_changed";
    if (answer?.status === 413) return "too_large";
    // Only what the API says itself: a 404 of something in between deletes nothing.
    if (answer?.code === "workspace_not_found" || answer?.code === "workspace_deleted") return "deleted";
    return "unavailable";
  }

  #failed(call: string, answer: Answer | undefined): void {
    Metrics.count(this.#metrics.apiErrors, call);
    // That there was no answer is logged by the client.
    if (answer) this.#log.warn("api_error", { call, status: answer.status, code: answer.code });
  }
}

function workspacePath(workspace: string): string {
  return `/api/workspaces/${encodeURIComponent(workspace)}`;
}

function documentPath(workspace: string, document: string): string {
  return `${workspacePath(workspace)}/docs/${encodePath(document)}`;
}
