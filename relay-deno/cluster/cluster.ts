/**
 * Several replicas of the relay that act as one: each workspace's room lives on one of them, and who connects to
 * another is passed on (docs/decisions/0021).
 *
 * Which one that is follows from who is live. When two replicas see that differently for a moment, both have the
 * room, and both converge through the database as any two relays do (D3): so nothing here decides what is saved.
 *
 * @module
 */

import { jsonOf } from "../api_client.ts";
import { bytesOf } from "../body.ts";
import {
  HANDOVER_AGAIN,
  MAX_HANDOVERS,
  OPEN_DEADLINE,
  PEER_DEADLINE,
  PEER_SILENCE,
  PROBE_DEADLINE,
} from "../limits.ts";
import type { Log } from "../log.ts";
import type { RoomHost } from "../room_host.ts";
import { createLookup, type Peers } from "./addresses.ts";
import { type Asked, Members, type Peer, type PeerAnswer, type State } from "./members.ts";
import { PEER_HEADER, PeerAuth } from "./peer_auth.ts";
import { Proxies, type ProxyParts, Upstream } from "./proxy.ts";

/** What an operator decides. */
export interface ClusterConfig {
  readonly peers: Peers;
  readonly secret: string;
}

/** What a cluster works with. */
export interface ClusterParts extends ProxyParts {
  readonly config: ClusterConfig;
  readonly label: string;
  readonly log: Log;
  readonly host: RoomHost;
  readonly state: () => State;
  /** In ms; {@link HANDOVER_AGAIN} outside of tests. */
  readonly handoverAgain?: number | undefined;
}

/** Who connects, as far as the owner has to know. */
export interface Caller {
  readonly target: string;
  readonly origin: string | undefined;
  readonly protocols: string | undefined;
}

/** Where a connection belongs: here, to a replica that refuses it, or to one that has taken it. */
export type Place = "here" | Response | Upstream;

/** This replica's view of the others. */
export class Cluster {
  readonly proxies: Proxies;
  readonly #parts: ClusterParts;
  readonly #auth: PeerAuth;
  readonly #members: Members;
  readonly #instance = crypto.randomUUID();
  /** When each replica last answered, whatever it said. */
  readonly #heard = new Map<string, number>();
  /** When to look for rooms that belong elsewhere. */
  readonly #looks = new Set<ReturnType<typeof setTimeout>>();
  /** Rooms that are on their way. */
  readonly #moving = new Set<string>();
  /** Workspaces whose rooms are to be moved, and whether some are in a while. */
  #strangers: string[] = [];
  #isMoving = false;
  readonly #watch: ReturnType<typeof setInterval>;

  private constructor(parts: ClusterParts, auth: PeerAuth) {
    this.#parts = parts;
    this.#auth = auth;
    this.proxies = new Proxies(parts);
    this.#members = new Members({
      self: this.#instance,
      label: parts.label,
      lookup: createLookup(parts.config.peers, parts.log),
      ask: (address) => this.#ask(address),
      log: parts.log,
      onChange: () => this.#changed(),
    });
    this.#members.start();
    this.#watch = setInterval(() => this.#cutSilent(), PEER_SILENCE / 3);
  }

  /** Joins the others. */
  static async join(parts: ClusterParts): Promise<Cluster> {
    return new Cluster(parts, await PeerAuth.create(parts.config.secret));
  }

  /** Replicas that count, this one included. */
  get count(): number {
    return this.#members.count;
  }

  /** Whether a request is another replica's own; `undefined` when it does not claim that. */
  isPeer(request: Request, target: string): Promise<boolean> | undefined {
    const header = request.headers.get(PEER_HEADER);
    return header === null ? undefined : this.#auth.verify(header, request.method, target);
  }

  /** Who this replica is. */
  answer(): PeerAnswer {
    return { instance: this.#instance, label: this.#parts.label, state: this.#parts.state() };
  }

  /** Finds the owner of a workspace and connects to it. The next takes the place of one that cannot be reached. */
  async place(workspace: string, caller: Caller): Promise<Place> {
    for (const peer of this.#members.candidates(workspace)) {
      if (peer === undefined) break;
      const place = await this.#connect(peer, caller) ?? await this.#refusal(peer, caller);
      if (place) return place;
      this.#members.failed(peer.instance);
    }
    return "here";
  }

  /** Passes a client on whose upgrade is under way. */
  join(workspace: string, client: WebSocket, upstream: Upstream): void {
    const { host } = this.#parts;
    // Also when the handshake is cut, of which the runtime says nothing.
    const limit = setTimeout(() => upstream.close(), OPEN_DEADLINE);
    host.carry(client, workspace, () => {
      clearTimeout(limit);
      this.proxies.join(workspace, client, upstream);
    });
  }

  /** Sends everybody away who is passed on, to come back. */
  restart(): void {
    this.proxies.restart();
  }

  /** Asks and moves nothing any more; what is passed on stays. */
  stop(): void {
    this.#members.stop();
    clearInterval(this.#watch);
    for (const look of this.#looks) clearTimeout(look);
  }

  async #connect(peer: Peer, { target, origin, protocols }: Caller): Promise<Upstream | undefined> {
    const safe = encoded(target);
    const headers = {
      [PEER_HEADER]: await this.#auth.sign("GET", safe),
      ...(origin === undefined ? {} : { origin }),
    };
    // The platform throws at a name that is empty, or there twice.
    const names = protocols?.split(",").map((name) => name.trim()).filter((name) => name !== "");
    return await Upstream.open(peer, safe, [...new Set(names)], headers);
  }

  /** Why a peer did not take a connection, where that is about the connection; the platform does not tell. */
  async #refusal(peer: Peer, caller: Caller): Promise<Response | undefined> {
    try {
      const { status, headers, bytes } = await this.#call(
        peer.address,
        "POST",
        ADMISSION_PATH,
        PEER_DEADLINE,
        JSON.stringify(caller),
      );
      if (status < 400 || (status >= 500 && !await this.#isIn(peer))) return undefined;
      return new Response(bytes, { status, headers });
    } catch {
      return undefined;
    }
  }

  /** One that has no place left is there; one that is not ready is no better than one that is not. */
  async #isIn({ address }: Peer): Promise<boolean> {
    const asked = await this.#ask(address);
    return typeof asked === "object" && asked.state === "in";
  }

  async #ask(address: string): Promise<Asked> {
    try {
      const { status, bytes } = await this.#call(address, "GET", CLUSTER_PATH, PROBE_DEADLINE);
      if (status !== 200) return status === 401 ? "denied" : "refused";
      const answer = answerOf(jsonOf(bytes));
      if (answer) this.#heard.set(answer.instance, Date.now());
      return answer ?? "refused";
    } catch (error) {
      return error instanceof DOMException && error.name === "TimeoutError" ? "silent" : "refused";
    }
  }

  async #call(
    address: string,
    method: string,
    path: string,
    limit: number,
    body?: string,
  ): Promise<{ status: number; headers: Headers; bytes: Uint8Array<ArrayBuffer> }> {
    const headers = { [PEER_HEADER]: await this.#auth.sign(method, path) };
    const signal = AbortSignal.timeout(limit);
    const response = await fetch(address + path, {
      method,
      headers,
      signal,
      redirect: "error",
      ...(body ? { body } : {}),
    });
    return { status: response.status, headers: response.headers, bytes: await bytesOf(response, signal) };
  }

  /** A connection to a replica that hangs, or whose machine is gone, would wait for ever. */
  #cutSilent(): void {
    const since = Date.now() - PEER_SILENCE;
    this.proxies.restart(({ instance }) => (this.#heard.get(instance) ?? 0) < since);
    for (const [instance, at] of this.#heard) if (at < since) this.#heard.delete(instance);
  }

  /** Rooms move with the members: now, and once more when everybody must have noticed. */
  #changed(): void {
    this.#parts.log.info("members", { count: this.count });
    this.#look(0, () => this.#moveRooms());
    this.#look(this.#parts.handoverAgain ?? HANDOVER_AGAIN, () => {
      this.#moveRooms();
      this.#recall();
    });
  }

  #look(wait: number, look: () => void): void {
    const timer = setTimeout(() => {
      this.#looks.delete(timer);
      look();
    }, wait);
    this.#looks.add(timer);
  }

  /**
   * Connections come back that were passed on to a second choice, as its owner could not be seen from here. The
   * second choice may have seen the owner all the time: for it nothing has changed.
   */
  #recall(): void {
    this.proxies.restart(({ instance }, workspace) =>
      this.#members.live.some((peer) => peer.instance === instance) &&
      this.#members.candidates(workspace)[0]?.instance !== instance
    );
  }

  /**
   * Moves what is here and belongs elsewhere, each once: a replica that sees other members would send people straight
   * back, for as long as it does.
   */
  #moveRooms(): void {
    this.#strangers = this.#parts.host.workspaces.filter((workspace) => this.#isStranger(workspace));
    if (!this.#isMoving) this.#moveSome();
  }

  /** So many at once, so that those who come back are no storm. */
  #moveSome(): void {
    const { host, metrics } = this.#parts;
    for (const workspace of this.#strangers.splice(0, MAX_HANDOVERS)) {
      if (this.#moving.has(workspace) || !this.#isStranger(workspace)) continue;
      metrics.handovers += 1;
      this.#moving.add(workspace);
      void host.handOver(workspace).finally(() => this.#moving.delete(workspace));
    }
    this.#isMoving = this.#strangers.length > 0;
    if (this.#isMoving) this.#look(1_000, () => this.#moveSome());
  }

  #isStranger(workspace: string): boolean {
    return this.#members.candidates(workspace)[0] !== undefined;
  }
}

/**
 * A target with the same meaning that no URL parser changes. A client may send characters as they are that one would
 * encode or, as a backslash, take for another; the owner would see another target than was signed.
 */
function encoded(target: string): string {
  return target.replace(
    /[^\x21-\x7e]|["#'<>\\^`{|}]/gu,
    (character) => character === "'" ? "%27" : encodeURIComponent(character),
  );
}

/** An answer of a replica, or undefined for anything else. */
function answerOf(value: Record<string, unknown> | undefined): PeerAnswer | undefined {
  const { instance, label, state } = value ?? {};
  if (typeof instance !== "string" || typeof label !== "string") return undefined;
  return { instance, label, state: state === "in" ? "in" : "leaving" };
}

/** Where replicas ask each other who they are. */
export const CLUSTER_PATH = "/cluster";
/** Where they ask why a connection was refused. */
export const ADMISSION_PATH = "/cluster/admission";
