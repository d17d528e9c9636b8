// Direct connections between browsers (L2): while everybody else who has a document open is reached by
// one, its edits need no relay. It is an extra: whatever fails here, relays and the API carry the document.
import { jsonOf } from "./api/api.ts";
import type { Api } from "./api/api.ts";
import * as operations from "./api/operations.ts";
import type { PresenceList, TokenAnswer } from "./api/types.ts";
import { peerEnvironment } from "./browser.ts";
import type { PageEnvironment, PeerEnvironment } from "./browser.ts";
import type { Presence } from "./feed/presence.ts";
import { HttpSignals } from "./p2p/http-signals.ts";
import { LinkDocuments } from "./p2p/link-documents.ts";
import type { OpenList } from "./p2p/link-documents.ts";
import { Mesh } from "./p2p/mesh.ts";
import type { Way } from "./p2p/mesh.ts";
import { PeerDocument } from "./p2p/peer-document.ts";
import type { PeerDocumentEvents, PeerDocumentParts } from "./p2p/peer-document.ts";
import { RelaySignals } from "./p2p/relay-signals.ts";
import type { RelaySignalsOptions } from "./p2p/relay-signals.ts";
import { Seal } from "./p2p/seal.ts";
import type { Signal } from "./p2p/seal.ts";
import { MAX_PEERS, P2P_TIMES } from "./p2p/types.ts";
import type { P2pOptions } from "./p2p/types.ts";

export interface PeersOptions extends Pick<RelaySignalsOptions, "getToken" | "pin" | "relays" | "times" | "workspace"> {
  readonly api: Api;
  readonly environment: PageEnvironment & PeerEnvironment;
  readonly presence: Presence;
  readonly p2p: P2pOptions;
}

/** What makes the direct connections of a tab: `webRtc()`, or something of the application's own. */
export type ConnectPeers = (parts: Omit<PeersOptions, "environment" | "p2p"> & { readonly environment: PageEnvironment & Partial<PeerEnvironment> }) => Peers;

/**
 * Direct connections by WebRTC, for the option `p2p` of `WorkspaceClient`. A part of its own, so that who does
 * without has none of it in the bundle.
 */
export function webRtc(options: P2pOptions = {}): ConnectPeers {
  return (parts) => new Peers({ ...parts, environment: { ...peerEnvironment(), ...parts.environment }, p2p: options });
}

export type { IceServer } from "./browser.ts";
export type { P2pOptions } from "./p2p/types.ts";

/** `carries`: nobody needs a relay. `tries`: it is too early to say. `lacks`: somebody needs one. */
export type Reach = "carries" | "lacks" | "tries";

/** A document of this browser, as the peers know it. */
export interface SharedWithPeers {
  readonly reach: Reach;
  /** The epoch of this copy; `null` while it is not known, or not to be written to. */
  setEpoch(epoch: number | null): void;
  askForPeople(): void;
  close(): void;
}

export class Peers {
  readonly #options: PeersOptions;
  readonly #mesh: Mesh;
  readonly #relay: RelaySignals | null;
  readonly #http: HttpSignals;
  readonly #documents = new Map<string, { readonly document: PeerDocument; readonly events: PeerDocumentEvents }>();
  readonly #links = new Map<unknown, LinkDocuments>();
  readonly #ending = new AbortController();
  readonly #unlisten: () => void;
  #seal: Seal | null = null;
  #isAsking = false;
  #askedAt = -Infinity;
  /** Signals are opened one after the other. */
  #hearing: Promise<void> = Promise.resolve();

  constructor(options: PeersOptions) {
    this.#options = options;
    const { api, environment, presence, relays } = options;
    const id = presence.session;
    const heard = (way: Way) => (data: unknown) => this.#hear(data, way);
    this.#http = new HttpSignals(api, environment, id, heard("http"));
    this.#relay = relays.length === 0 ? null : new RelaySignals(options, { joined: () => this.#mesh.greet(), heard: heard("relay") });
    this.#mesh = new Mesh({
      environment,
      id,
      hasRelay: this.#relay !== null,
      connect: () => environment.connectPeer({ iceServers: [...(options.p2p.iceServers ?? [])] }),
      send: (signal, way) => void this.#send(signal, way),
      seek: (ms) => this.#http.seek(ms),
    });
    this.#mesh.on("change", () => this.#tell());
    this.#mesh.on("link", (link) => this.#addLink(link));
    this.#mesh.on("stranger", () => void presence.refresh());
    this.#unlisten = presence.on("change", (list) => this.#look(list));
  }

  open(parts: PeerDocumentParts, events: PeerDocumentEvents): SharedWithPeers {
    const document = new PeerDocument(parts, this.#options.environment.now(), events);
    this.#documents.set(parts.path, { document, events });
    this.#list();
    const reach = () => this.#reach(document);
    return {
      get reach() {
        return reach();
      },
      setEpoch: (epoch) => {
        if (document.epoch === epoch) return;
        document.epoch = epoch;
        this.#list();
        for (const link of this.#links.values()) document.meet(link);
      },
      askForPeople: () => document.askForPeople(),
      close: () => {
        document.close();
        if (this.#documents.get(parts.path)?.document === document) this.#documents.delete(parts.path);
        this.#list();
      },
    };
  }

  close(): void {
    this.#ending.abort();
    this.#unlisten();
    this.#relay?.destroy();
    this.#http.stop();
    this.#mesh.close();
  }

  /** Everybody else has to be reached: people on a list that may be short, or without a name of their own, are not. */
  #reach(document: PeerDocument): Reach {
    const { list } = this.#options.presence;
    const people = list === null ? [] : others(list);
    if (this.#seal === null) return this.#isAsking && this.#options.environment.now() < this.#askedAt + P2P_TIMES.graceMs ? "tries" : "lacks";
    if (list === null || !list.complete || people.length === 0) return "lacks";
    const reaches = people.map(({ session }) => (session === null ? "lacks" : this.#reachOf(session, document)));
    if (reaches.includes("lacks")) return "lacks";
    return reaches.includes("tries") ? "tries" : "carries";
  }

  #reachOf(id: string, document: PeerDocument): Reach {
    const link = this.#mesh.link(id);
    const documents = link === null ? undefined : this.#links.get(link);
    const isReached = documents !== undefined && (documents.isWithout(document.path) || document.isSyncedWith(documents));
    if (isReached && this.#mesh.isSteady(id)) return "carries";
    const isNew = link !== null && !isReached && this.#options.environment.now() < document.since + P2P_TIMES.graceMs;
    return isNew || this.#mesh.isFresh(id) ? "tries" : "lacks";
  }

  #look(list: PresenceList): void {
    const sessions = others(list).flatMap(({ session }) => session ?? []);
    if (sessions.length === 0 || sessions.length > MAX_PEERS) {
      this.#relay?.close();
      return this.#mesh.want([]);
    }
    if (this.#seal === null) return void this.#begin();
    this.#relay?.open();
    this.#mesh.want(sessions);
  }

  /** The first company: asks for the secret. Who gets none takes no part. */
  async #begin(): Promise<void> {
    const { api, environment, presence } = this.#options;
    if (this.#isAsking || environment.now() - this.#askedAt < P2P_TIMES.retryCapMs) return;
    this.#isAsking = true;
    this.#askedAt = environment.now();
    environment.setTimeout(() => this.#tell(), P2P_TIMES.graceMs);
    const answer = await api.attempt(operations.mintToken, { body: JSON.stringify({ purpose: "relay" }) }, this.#ending.signal);
    this.#isAsking = false;
    if (this.#ending.signal.aborted) return;
    const secret = "error" in answer ? undefined : jsonOf<TokenAnswer>(answer).peerSecret;
    if (secret !== undefined) this.#seal = new Seal(environment.crypto(), secret);
    if (secret !== undefined && presence.list !== null) this.#look(presence.list);
    this.#tell();
  }

  async #send(signal: Signal, way: Way): Promise<void> {
    const data = await this.#seal?.close(signal);
    if (data === undefined || this.#ending.signal.aborted) return;
    if (way === "relay" && this.#relay?.send(data)) return;
    if (signal.to === null) return;
    this.#http.send(signal.to, data);
    if (way === "relay") this.#http.seek(P2P_TIMES.attemptMs);
  }

  #hear(data: unknown, way: Way): void {
    this.#hearing = this.#hearing.then(async () => {
      const signal = (await this.#seal?.open(data)) ?? null;
      if (signal !== null) await this.#mesh.handle(signal, way);
    });
  }

  #addLink(link: LinkDocuments["link"]): void {
    const frame = (path: string, bytes: Uint8Array) => this.#documents.get(path)?.document.handleFrame(documents, bytes);
    const documents: LinkDocuments = new LinkDocuments(link, frame, () => this.#meet(documents));
    this.#links.set(link, documents);
    link.on("state", () => {
      if (!link.isOpen) return;
      documents.list(this.#openList());
      this.#meet(documents);
    });
    link.on("end", () => {
      this.#links.delete(link);
      for (const { document } of this.#documents.values()) document.leave(documents);
    });
  }

  #meet(documents: LinkDocuments): void {
    for (const { document } of this.#documents.values()) document.meet(documents);
    this.#tell();
  }

  #openList(): OpenList {
    return [...this.#documents.values()].map(({ document }) => [document.path, document.epoch] as const);
  }

  /** What is open here has changed. */
  #list(): void {
    for (const documents of this.#links.values()) if (documents.link.isOpen) documents.list(this.#openList());
  }

  #tell(): void {
    for (const { events } of [...this.#documents.values()]) events.changed();
  }
}

/** Every browser that another one is to reach, once there is company; this person's further ones too. */
function others({ otherHumans, presence }: PresenceList): PresenceList["presence"] {
  return otherHumans === 0 ? [] : presence.filter(({ kind, self }) => kind === "human" && !self);
}
