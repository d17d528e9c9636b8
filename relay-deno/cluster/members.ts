/**
 * Who the other replicas are: each address is asked once a second who is there.
 *
 * What an answer makes of an address is {@link step}, a pure function; the rest asks. A wrong idea of who is a member
 * costs a detour or a few seconds, and loses nothing.
 *
 * @module
 */

import { PROBE_INTERVAL } from "../limits.ts";
import type { Log } from "../log.ts";
import { rank } from "./rendezvous.ts";

/** A replica and where it is. */
export interface Peer {
  readonly instance: string;
  readonly address: string;
}

/** Whether a replica takes more, or is about to stop. */
export type State = "in" | "leaving";

/** What a replica says of itself. */
export interface PeerAnswer {
  readonly instance: string;
  readonly label: string;
  readonly state: State;
}

/** What asking an address gave: nothing in time, a refusal, or the word that the secret is another. */
export type Asked = PeerAnswer | "silent" | "refused" | "denied";

/** What is known of an address. */
export interface Standing {
  readonly instance: string | undefined;
  /** Good answers in a row. */
  readonly good: number;
  /** Questions without an answer in a row. */
  readonly silent: number;
}

/** Nothing is known. */
export const UNKNOWN: Standing = { instance: undefined, good: 0, silent: 0 };

/** What an answer makes of an address. `label` is this relay's: one of another label is another relay. */
export function step(standing: Standing, asked: Asked, label: string): Standing {
  // One unanswered question may be a pause of either.
  if (asked === "silent" && standing.silent + 1 < SILENT_AT_MOST) {
    return { ...standing, silent: standing.silent + 1 };
  }
  if (typeof asked === "string" || asked.label !== label || asked.state !== "in") return UNKNOWN;
  const { instance } = asked;
  const good = standing.instance === instance ? Math.min(standing.good + 1, GOOD_AT_LEAST) : 1;
  return { instance, good, silent: 0 };
}

/** Whether the replica of an address counts. */
export function counts({ good }: Standing): boolean {
  return good >= GOOD_AT_LEAST;
}

/** What members work with. */
export interface MembersOptions {
  /** This replica's instance. */
  readonly self: string;
  readonly label: string;
  readonly lookup: () => Promise<readonly string[]>;
  readonly ask: (address: string) => Promise<Asked>;
  readonly log: Log;
  readonly onChange: () => void;
}

/** The live replicas. */
export class Members {
  readonly #options: MembersOptions;
  readonly #standings = new Map<string, Standing>();
  readonly #asking = new Set<string>();
  /** What was said of an address that is no member, so that it is said once. */
  readonly #told = new Map<string, string>();
  #live: Peer[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isOver = false;

  constructor(options: MembersOptions) {
    this.#options = options;
  }

  /** Begins to ask. */
  start(): void {
    void this.#round();
  }

  /** Asks no more. */
  stop(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }

  /** The others that count now. */
  get live(): readonly Peer[] {
    return this.#live;
  }

  /** Replicas that count, this one included. */
  get count(): number {
    return this.#live.length + 1;
  }

  /** Who should have a workspace, best first, up to this replica itself, which is `undefined`. */
  candidates(workspace: string): (Peer | undefined)[] {
    const { self } = this.#options;
    const order = rank(workspace, [self, ...this.#live.map(({ instance }) => instance)]);
    const better = order.slice(0, order.indexOf(self));
    return [...better.map((instance) => this.#live.find((peer) => peer.instance === instance)), undefined];
  }

  /** A replica could not take a connection: it counts no more until it has answered like a newcomer. */
  failed(instance: string): void {
    for (const [address, standing] of this.#standings) {
      if (standing.instance === instance) this.#standings.set(address, UNKNOWN);
    }
    this.#compare();
  }

  /** Asks everybody, each address once at a time, and again a second later. */
  async #round(): Promise<void> {
    this.#timer = setTimeout(() => void this.#round(), PROBE_INTERVAL);
    const addresses = await this.#options.lookup();
    for (const address of this.#standings.keys()) {
      if (addresses.includes(address)) continue;
      this.#standings.delete(address);
      this.#told.delete(address);
    }
    this.#compare();
    for (const address of addresses) if (!this.#asking.has(address)) void this.#probe(address);
  }

  async #probe(address: string): Promise<void> {
    this.#asking.add(address);
    const asked = await this.#options.ask(address);
    this.#asking.delete(address);
    if (this.#isOver) return;
    this.#tell(address, asked);
    this.#standings.set(address, step(this.#standings.get(address) ?? UNKNOWN, asked, this.#options.label));
    this.#compare();
  }

  /** What an operator has to mend is said once. */
  #tell(address: string, asked: Asked): void {
    const { label, log } = this.#options;
    const isOther = typeof asked === "object" && asked.label !== label;
    const cause = asked === "denied"
      ? "it has another RELAY_CLUSTER_SECRET, or a clock that is more than 30 s apart"
      : isOther
      ? `it is the relay ${asked.label}: replicas have one RELAY_LABEL`
      : "";
    if (cause !== "" && this.#told.get(address) !== cause) log.warn("no_member", { address, cause });
    this.#told.set(address, cause);
  }

  #compare(): void {
    const live = new Map<string, Peer>();
    for (const [address, standing] of this.#standings) {
      const { instance } = standing;
      if (instance === undefined || !counts(standing) || instance === this.#options.self) continue;
      // One replica may have several addresses.
      if (!live.has(instance)) live.set(instance, { instance, address });
    }
    const [before, after] = [this.#live, [...live.values()]];
    this.#live = after;
    const keys = (peers: Peer[]) => peers.map(({ instance }) => instance).sort().join();
    if (keys(before) !== keys(after)) this.#options.onChange();
  }
}

/** Good answers until a newcomer counts, so that one that comes and goes moves nothing. */
const GOOD_AT_LEAST = 3;

/** Questions without an answer from which a member counts no more. */
const SILENT_AT_MOST = 2;
