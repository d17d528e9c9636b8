/**
 * Requests to answers: the health of the relay, and upgrades. Everything that can be refused is
 * refused here, before there is a socket (section 3).
 *
 * @module
 */

import { ADMISSION_PATH, type Caller, type Cluster, CLUSTER_PATH, type Place } from "./cluster/cluster.ts";
import { type Gate, problem, problemStatus } from "./core.ts";
import { IDLE_TIMEOUT } from "./limits.ts";
import { type Log, messageOf } from "./log.ts";
import { Metrics } from "./metrics.ts";
import type { Visitor } from "./room.ts";
import type { RoomHost } from "./room_host.ts";
import type { Storage, WorkspaceState } from "./storage.ts";
import type { Verifier } from "./verify.ts";

/** What the handler works with. */
export interface HandlerParts {
  readonly gate: Gate;
  readonly verify: Verifier;
  readonly storage: Storage;
  readonly host: RoomHost;
  readonly metrics: Metrics;
  readonly log: Log;
  /** Why nobody is let in, or undefined. */
  readonly unready: () => string | undefined;
  /** The text of `/metrics`; undefined when it is off. */
  readonly metricsText: (() => string) | undefined;
  /** The other replicas, if there may be some. */
  readonly cluster?: Cluster | undefined;
  /** Whether there is the development route. */
  readonly dev: boolean;
}

/** Who may come in. */
interface Admitted {
  readonly workspace: string;
  /** The sub-protocol to answer with. */
  readonly echo: string | undefined;
  readonly visitor: Visitor;
  /** Whether the API said that the workspace is there. */
  readonly isKnown: boolean;
}

/** Answers requests. It never throws. */
export class Handler {
  readonly #parts: HandlerParts;
  /** Lookups on their way: a storm of reconnects asks once for each workspace. */
  readonly #lookups = new Map<string, Promise<WorkspaceState>>();

  constructor(parts: HandlerParts) {
    this.#parts = parts;
  }

  /** Answers one request. */
  async handle(request: Request): Promise<Response> {
    try {
      return await this.#answer(request);
    } catch (error) {
      this.#parts.metrics.unhandledErrors += 1;
      this.#parts.log.error("request_failed", { cause: messageOf(error) });
      return refuse("internal");
    }
  }

  #answer(request: Request): Response | Promise<Response> {
    const target = targetOf(request.url);
    const path = target.split("?", 1)[0] ?? "";
    if (path === "/ws" || path.startsWith("/ws/")) return this.#upgrade(request, target);
    const { cluster } = this.#parts;
    if (cluster && (path === CLUSTER_PATH || path === ADMISSION_PATH)) {
      return this.#tellPeer(cluster, request, path);
    }
    const answer = this.#page(path);
    if (!answer) return refuse("not_found", "A relay has no API; see its Worker.");
    if (request.method === "GET") return answer();
    if (request.method === "HEAD") return new Response(null, answer());
    return refuse("method_not_allowed", undefined, { allow: "GET, HEAD" });
  }

  #page(path: string): (() => Response) | undefined {
    const { unready, metricsText, dev, host } = this.#parts;
    if (path === "/healthz") return () => Response.json({ status: "ok" }, { headers: NO_STORE });
    if (path === "/readyz") {
      return () => {
        const cause = unready() ?? (host.isLeaving ? STOPPING : undefined);
        return cause === undefined
          ? Response.json({ status: "ok" }, { headers: NO_STORE })
          : refuse("storage_unavailable", cause);
      };
    }
    if (path === "/metrics" && metricsText) {
      const headers = { ...NO_STORE, "content-type": "text/plain; version=0.0.4; charset=utf-8" };
      return () => new Response(metricsText(), { headers });
    }
    const workspace = dev ? /^\/__dev\/rooms\/([\w-]+)$/.exec(path)?.[1] : undefined;
    if (workspace === undefined) return undefined;
    return () => {
      const room = host.find(workspace);
      return Response.json({ clients: room?.clients ?? 0, instance: room?.instance ?? "" });
    };
  }

  /** Everything that can fail comes before `upgradeWebSocket`: its response has to be returned. */
  async #upgrade(request: Request, target: string): Promise<Response> {
    const { host, cluster } = this.#parts;
    // What another replica passed on stays here, so that nothing goes round in circles.
    const isPassedOn = await cluster?.isPeer(request, target);
    if (isPassedOn === false) return this.#reject("unauthorized", NO_PEER);
    const header = (name: string) => request.headers.get(name) ?? undefined;
    const caller = { target, origin: header("origin"), protocols: header("sec-websocket-protocol") };
    const admitted = await this.#admit(request.method, caller, header("upgrade"), isPassedOn);
    if (admitted instanceof Response) return admitted;
    const refused = this.#badHandshake(request);
    if (refused) return refused;
    const { workspace, echo, visitor, isKnown } = admitted;
    const place: Place = cluster && !isPassedOn ? await cluster.place(workspace, caller) : "here";
    if (place instanceof Response) return place;
    // Later than the first time: a room may have filled up meanwhile.
    const full = place === "here" ? this.#full(workspace, visitor.session) : undefined;
    if (full) return full;
    let upgrade: Deno.WebSocketUpgrade;
    try {
      upgrade = Deno.upgradeWebSocket(request, { idleTimeout: IDLE_TIMEOUT });
    } catch (error) {
      if (place !== "here") place.close();
      return this.#reject("bad_request", `This is no WebSocket handshake: ${messageOf(error)}.`);
    }
    // Not by the option `protocol`, which finds it only in a list with one space after each comma.
    if (echo !== undefined) upgrade.response.headers.set("sec-websocket-protocol", echo);
    if (place === "here") host.take(upgrade.socket, workspace, visitor, isKnown);
    else cluster?.join(workspace, upgrade.socket, place);
    return upgrade.response;
  }

  /** Checks who comes and whether there is a workspace for them. */
  async #admit(
    method: string,
    caller: Caller,
    upgrade: string | undefined,
    isPassedOn = false,
  ): Promise<Admitted | Response> {
    const { gate, verify, host } = this.#parts;
    const now = Math.floor(Date.now() / 1000);
    using admission = gate.check(method, caller.target, caller.origin, upgrade, caller.protocols, now);
    const isGood = admission.problem === undefined && await verify(admission.message, admission.signature);
    const session = admission.accept(isGood);
    if (session === undefined) {
      const body = admission.problem ?? problem("internal");
      Metrics.count(this.#parts.metrics.rejected, JSON.parse(body).code);
      return new Response(body, { status: admission.status, headers: pairs(admission.headers) });
    }
    const { workspace, echo, person, expiresAt } = admission;
    const state = host.isKnown(workspace)
      ? "there"
      // The replica that passed it on has asked: twice as long without the API would count as no answer at all.
      : isPassedOn
      ? "unknown"
      : await this.#lookUp(workspace);
    const refusal = this.#refusal(workspace, session, state);
    return refusal ??
      { workspace, echo, visitor: { session, person, expiresAt }, isKnown: state === "there" };
  }

  /** Tells another replica who this one is, or why it did not take a connection. */
  async #tellPeer(cluster: Cluster, request: Request, path: string): Promise<Response> {
    if (await cluster.isPeer(request, path) !== true) return this.#reject("unauthorized", NO_PEER);
    if (path === CLUSTER_PATH) {
      return request.method === "GET"
        ? Response.json(cluster.answer(), { headers: NO_STORE })
        : refuse("method_not_allowed", undefined, { allow: "GET" });
    }
    if (request.method !== "POST") return refuse("method_not_allowed", undefined, { allow: "POST" });
    let caller: Caller;
    try {
      caller = await request.json();
    } catch (error) {
      // Such as one that no longer waits for the answer.
      return this.#reject("bad_request", `The body cannot be read: ${messageOf(error)}.`);
    }
    const admitted = await this.#admit("GET", caller, "websocket", true);
    return admitted instanceof Response ? admitted : new Response(null, { status: 204, headers: NO_STORE });
  }

  #refusal(workspace: string, session: string, state: WorkspaceState): Response | undefined {
    if (state === "missing") return this.#reject("workspace_not_found");
    if (state === "deleted") return this.#reject("workspace_deleted");
    const cause = this.#parts.unready();
    if (cause !== undefined) return this.#reject("storage_unavailable", `${cause} Use the next relay.`);
    return this.#full(workspace, session);
  }

  #full(workspace: string, session: string): Response | undefined {
    const refusal = this.#parts.host.refuses(workspace, session);
    return refusal && this.#reject(refusal.code, refusal.detail);
  }

  /** The runtime does not look at the version. */
  #badHandshake(request: Request): Response | undefined {
    if (request.headers.get("sec-websocket-version") === VERSION) return undefined;
    const detail = "Only version 13 of the WebSocket protocol is spoken here.";
    return this.#reject("upgrade_required", detail, { "sec-websocket-version": VERSION });
  }

  #reject(code: string, detail?: string, headers?: Record<string, string>): Response {
    Metrics.count(this.#parts.metrics.rejected, code);
    return refuse(code, detail, headers);
  }

  #lookUp(workspace: string): Promise<WorkspaceState> {
    const running = this.#lookups.get(workspace);
    if (running) return running;
    const lookup = this.#parts.storage.workspace(workspace).finally(() => this.#lookups.delete(workspace));
    this.#lookups.set(workspace, lookup);
    return lookup;
  }
}

/** A refusal of the relay's own. */
function refuse(code: string, detail?: string, headers: Record<string, string> = {}): Response {
  const status = problemStatus(code);
  const retry = status === 429 || status === 503 ? { "retry-after": RETRY_AFTER } : {};
  return new Response(problem(code, detail), {
    status,
    headers: { ...NO_STORE, "content-type": "application/problem+json", ...retry, ...headers },
  });
}

/** Path and query as they were sent: `URL` would resolve `..` and decode nothing the same way. */
function targetOf(url: string): string {
  const start = url.indexOf("/", url.indexOf("://") + 3);
  return start < 0 ? "/" : url.slice(start);
}

/** Names and values in turn, as pairs. */
function pairs(flat: readonly string[]): [string, string][] {
  return flat.flatMap((name, index) =>
    index % 2 === 0 ? [[name, flat[index + 1] ?? ""] as [string, string]] : []
  );
}

/** Why `/readyz` is 503 at the end. */
export const STOPPING = "The relay is stopping.";

const NO_PEER = "This is for the other replicas of the relay, which have its RELAY_CLUSTER_SECRET.";

const NO_STORE = { "cache-control": "no-store" };

/** The one version of the protocol, RFC 6455. */
const VERSION = "13";

/** Seconds until a relay that is full or not ready is worth another try. */
const RETRY_AFTER = "2";
