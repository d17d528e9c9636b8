// Signaling over HTTP (C.69), for peers that no relay brings together: each has an inbox, which is looked
// into only while somebody is sought.
import { jsonOf } from "../api/api.ts";
import type { Api } from "../api/api.ts";
import * as operations from "../api/operations.ts";
import type { SignalList } from "../api/types.ts";
import type { Environment } from "../browser.ts";
import { TOPIC } from "./relay-signals.ts";
import { P2P_TIMES } from "./types.ts";

export class HttpSignals {
  readonly #api: Api;
  readonly #environment: Pick<Environment, "clearTimeout" | "now" | "setTimeout">;
  readonly #peer: string;
  readonly #heard: (data: unknown) => void;
  #after = 0;
  #timer: unknown;
  #isLooking = false;
  /** When the seeking began, and when it ends. */
  #since = 0;
  #until = 0;

  constructor(api: Api, environment: Pick<Environment, "clearTimeout" | "now" | "setTimeout">, peer: string, heard: (data: unknown) => void) {
    this.#api = api;
    this.#environment = environment;
    this.#peer = peer;
    this.#heard = heard;
  }

  /** One try: what is lost is sought again with the next attempt. */
  send(to: string, data: string): void {
    void this.#api.attempt(operations.sendSignal, { body: JSON.stringify({ to, from: this.#peer, topic: TOPIC, data }) });
  }

  /** Looks into the inbox for so long. */
  seek(ms: number): void {
    const now = this.#environment.now();
    if (this.#until <= now) this.#since = now;
    this.#until = Math.max(this.#until, now + ms);
    if (!this.#isLooking) void this.#look();
  }

  stop(): void {
    this.#until = 0;
    this.#environment.clearTimeout(this.#timer);
    this.#isLooking = false;
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    const answer = await this.#api.attempt(operations.listSignals, { query: { peer: this.#peer, topic: TOPIC, after: this.#after } });
    if (!("error" in answer)) this.#deliver(jsonOf<SignalList>(answer));
    const now = this.#environment.now();
    if (now >= this.#until) return this.stop();
    const pauseMs = now - this.#since < P2P_TIMES.attemptMs ? P2P_TIMES.pollMs : P2P_TIMES.slowPollMs;
    this.#timer = this.#environment.setTimeout(() => void this.#look(), pauseMs);
  }

  #deliver({ signals }: SignalList): void {
    for (const { id, data } of signals) {
      this.#after = Math.max(this.#after, id);
      this.#heard(data);
    }
  }
}
