// A direct connection to each wanted peer. Of two peers the one with the smaller id offers, so there is one
// connection per pair and no glare (P04); the other one says that it is there.
import type { Environment, PeerConnectionLike } from "../browser.ts";
import { Emitter } from "../emitter.ts";
import { DataLink } from "./data-link.ts";
import type { Signal } from "./seal.ts";
import { MAX_PEERS, P2P_TIMES } from "./types.ts";

/** Those that are wanted, and those that came of themselves. */
const MAX_KNOWN = 4 * MAX_PEERS;

/** How signals travel. */
export type Way = "http" | "relay";

export interface MeshOptions {
  readonly environment: Pick<Environment, "clearTimeout" | "now" | "random" | "setTimeout" | "uuid">;
  readonly id: string;
  readonly connect: () => PeerConnectionLike;
  /** Whether a relay may bring peers together. */
  readonly hasRelay: boolean;
  send(signal: Signal, way: Way): void;
  /** Looks for signals over HTTP for so long. */
  seek(ms: number): void;
}

export type MeshEvents = {
  /** A connection carries messages, or does so no more. */
  change: undefined;
  /** A new connection, before its first message. */
  link: DataLink;
  /** Somebody is here who was not wanted. */
  stranger: string;
};

interface Peer {
  readonly id: string;
  run: string | null;
  isWanted: boolean;
  way: Way | null;
  link: DataLink | null;
  attempt: string | null;
  /** The own offer or answer of this attempt, once it is described. */
  said: Signal | null;
  readonly since: number;
  openedAt: number;
  /** Attempts in a row that failed. */
  failures: number;
  cuts: number;
  timer: unknown;
}

export class Mesh extends Emitter<MeshEvents> {
  readonly #options: MeshOptions;
  readonly #run: string;
  readonly #peers = new Map<string, Peer>();
  #isClosed = false;

  constructor(options: MeshOptions) {
    super();
    this.#options = options;
    this.#run = options.environment.uuid();
  }

  /** The connection to a peer, if messages get through. */
  link(id: string): DataLink | null {
    const link = this.#peers.get(id)?.link;
    return link?.isOpen ? link : null;
  }

  /** Whether a connection can be relied on: one that was cut before has to last first. */
  isSteady(id: string): boolean {
    const peer = this.#peers.get(id);
    if (peer === undefined || this.link(id) === null) return false;
    return peer.cuts === 0 || this.#options.environment.now() >= peer.openedAt + P2P_TIMES.steadyMs;
  }

  /** Whether it is too early to give the peer up. */
  isFresh(id: string): boolean {
    const peer = this.#peers.get(id);
    const { now } = this.#options.environment;
    return peer !== undefined && peer.cuts === 0 && now() < Math.max(peer.since, peer.openedAt) + P2P_TIMES.graceMs;
  }

  /** The peers to be connected with. Who is on no list for a while is let go. */
  want(ids: readonly string[]): void {
    const wanted = new Set(ids);
    for (const peer of [...this.#peers.values()]) {
      peer.isWanted = wanted.has(peer.id);
      if (!peer.isWanted && this.#options.environment.now() >= peer.since + P2P_TIMES.unlistedMs) this.#forget(peer);
    }
    for (const id of wanted) {
      const known = this.#peers.get(id);
      const peer = known ?? this.#add(id);
      peer.isWanted = true;
      if (known === undefined) this.#wait(peer);
    }
  }

  /** Says on the relay that this peer is here. */
  greet(): void {
    this.#say({ kind: "hello" }, null, "relay");
  }

  async handle(signal: Signal, way: Way): Promise<void> {
    const { from, to, run, kind } = signal;
    if (this.#isClosed || from === this.#options.id || (to !== null && to !== this.#options.id)) return;
    const known = this.#peers.get(from);
    // Ids cost their inventor nothing.
    if (known === undefined && this.#peers.size >= MAX_KNOWN) return;
    const peer = known ?? this.#add(from);
    if (known === undefined) this.emit("stranger", from);
    // Who is on the relay is not sought elsewhere; the faster way wins.
    if (peer.way !== "relay") peer.way = way;
    if (peer.run !== null && peer.run !== run) this.#drop(peer);
    peer.run = run;
    if (kind === "hello") return this.#handleHello(peer);
    if (kind === "offer") return this.#handleOffer(peer, signal);
    if (peer.attempt === null || peer.attempt !== signal.attempt || !this.#offers(peer)) return;
    // An answer that comes twice is one answer.
    peer.attempt = null;
    await peer.link?.accept(signal.sdp ?? "").catch(() => this.#fail(peer));
  }

  close(): void {
    this.#isClosed = true;
    for (const peer of [...this.#peers.values()]) this.#forget(peer);
  }

  #add(id: string): Peer {
    const since = this.#options.environment.now();
    const peer: Peer = { id, run: null, isWanted: false, way: null, link: null, attempt: null, said: null, since, openedAt: 0, failures: 0, cuts: 0, timer: null };
    this.#peers.set(id, peer);
    return peer;
  }

  #offers({ id }: Peer): boolean {
    return this.#options.id < id;
  }

  /** Gives the relay a moment to bring both together; HTTP costs a row for each signal. */
  #wait(peer: Peer): void {
    this.#arm(peer, this.#options.hasRelay ? P2P_TIMES.relayMs : 0, () => this.#begin(peer, peer.way ?? "http"));
    // When the grace is over the document may need a relay.
    this.#options.environment.setTimeout(() => this.emit("change", undefined), P2P_TIMES.graceMs);
  }

  #handleHello(peer: Peer): void {
    if (peer.link !== null) {
      // The offer may have been said before anybody listened.
      if (peer.attempt !== null && peer.said !== null && this.#offers(peer)) this.#options.send(peer.said, peer.way ?? "http");
      return;
    }
    this.#begin(peer, peer.way ?? "http");
  }

  #begin(peer: Peer, way: Way): void {
    if (this.#isClosed || peer.link !== null) return;
    const limitMs = way === "http" ? P2P_TIMES.httpAttemptMs : P2P_TIMES.attemptMs;
    this.#arm(peer, limitMs, () => this.#fail(peer));
    if (way === "http") this.#options.seek(limitMs);
    if (!this.#offers(peer)) return void this.#say({ kind: "hello" }, peer.id, way);
    peer.attempt = this.#options.environment.uuid();
    const link = this.#open(peer);
    if (link !== null) this.#describe(peer, link, "offer", way);
  }

  #handleOffer(peer: Peer, { attempt, sdp }: Signal): void {
    if (this.#offers(peer) || attempt === undefined || sdp === undefined) return;
    const way = peer.way ?? "http";
    if (attempt === peer.attempt) {
      if (peer.said !== null) this.#options.send(peer.said, way);
      return;
    }
    this.#drop(peer);
    peer.attempt = attempt;
    this.#arm(peer, P2P_TIMES.attemptMs, () => this.#fail(peer));
    const link = this.#open(peer);
    if (link !== null) this.#describe(peer, link, "answer", way, sdp);
  }

  #describe(peer: Peer, link: DataLink, kind: "answer" | "offer", way: Way, sdp = ""): void {
    const described = kind === "offer" ? link.offer() : link.answer(sdp);
    described.then(
      (own) => {
        if (peer.link === link) peer.said = this.#say({ kind, sdp: own, ...(peer.attempt === null ? {} : { attempt: peer.attempt }) }, peer.id, peer.way ?? way);
      },
      () => peer.link === link && this.#fail(peer),
    );
  }

  #say(part: Pick<Signal, "attempt" | "kind" | "sdp">, to: string | null, way: Way): Signal {
    const signal: Signal = { ...part, from: this.#options.id, run: this.#run, to };
    this.#options.send(signal, way);
    return signal;
  }

  /** `null` where the platform makes none: the relay does without. */
  #open(peer: Peer): DataLink | null {
    let connection: PeerConnectionLike;
    try {
      connection = this.#options.connect();
    } catch {
      this.#fail(peer);
      return null;
    }
    const link = new DataLink(connection, this.#options.environment);
    peer.link = link;
    link.on("state", () => this.#handleState(peer, link));
    link.on("end", () => this.#handleEnd(peer, link));
    this.emit("link", link);
    return link;
  }

  #handleState(peer: Peer, link: DataLink): void {
    const { environment } = this.#options;
    if (link.isOpen) {
      environment.clearTimeout(peer.timer);
      peer.failures = 0;
      peer.openedAt = environment.now();
      if (peer.cuts > 0) environment.setTimeout(() => this.emit("change", undefined), P2P_TIMES.steadyMs);
      else environment.setTimeout(() => this.emit("change", undefined), P2P_TIMES.graceMs);
    } else peer.cuts += 1;
    this.emit("change", undefined);
  }

  #handleEnd(peer: Peer, link: DataLink): void {
    if (peer.link !== link) return;
    if (peer.openedAt > 0) peer.cuts += 1;
    this.#fail(peer);
  }

  /** This attempt, or this connection, came to nothing. */
  #fail(peer: Peer): void {
    this.#drop(peer);
    const pauseMs = Math.min(P2P_TIMES.retryCapMs, P2P_TIMES.retryMs * 2 ** peer.failures);
    peer.failures += 1;
    if (peer.isWanted) this.#arm(peer, pauseMs * (0.5 + this.#options.environment.random() / 2), () => this.#begin(peer, peer.way ?? "http"));
    this.emit("change", undefined);
  }

  #drop(peer: Peer): void {
    this.#options.environment.clearTimeout(peer.timer);
    const { link } = peer;
    peer.link = null;
    peer.attempt = null;
    peer.said = null;
    peer.openedAt = 0;
    link?.close();
  }

  #forget(peer: Peer): void {
    this.#peers.delete(peer.id);
    this.#drop(peer);
    this.emit("change", undefined);
  }

  #arm(peer: Peer, ms: number, run: () => void): void {
    this.#options.environment.clearTimeout(peer.timer);
    peer.timer = this.#options.environment.setTimeout(run, ms);
  }
}
