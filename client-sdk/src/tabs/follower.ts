// Work that the leading tab does, asked for by any tab: here if this tab leads, else over the channel.
// A call outlives its leader: it is asked again of the next one, so what it does must bear repetition.
import type { PageEnvironment } from "../browser.ts";
import { Timer } from "../timer.ts";
import type { TabChannel } from "./channel.ts";
import { plainError, revivedError } from "./channel.ts";
import type { Election } from "./leader.ts";
import type { TabMessage } from "./types.ts";

/** Does what a tab asks for. */
export type Handler = (method: string, payload: unknown, tab: string) => Promise<unknown>;

interface Call {
  readonly method: string;
  readonly payload: unknown;
  readonly settle: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** How long the leader may take to say that it heard. */
  readonly timer: Timer;
}

/** A leader that does not even confirm that it heard is suspected of being frozen. */
const HEARD_LIMIT_MS = 3_000;

export class LeaderCalls {
  readonly #environment: PageEnvironment;
  readonly #channel: TabChannel;
  readonly #election: Election;
  readonly #handle: Handler;
  readonly #calls = new Map<string, Call>();
  /** Calls of others that are being worked on: asked again, they are not done twice. */
  readonly #working = new Set<string>();
  readonly #ends: (() => void)[];
  /** Why no more is asked over this channel. */
  #end: { readonly reason: unknown } | null = null;

  constructor(environment: PageEnvironment, channel: TabChannel, election: Election, handle: Handler) {
    this.#environment = environment;
    this.#channel = channel;
    this.#election = election;
    this.#handle = handle;
    this.#ends = [
      this.#channel.on("message", (message) => this.#hear(message)),
      this.#election.on("leader", () => this.#askAgain()),
      this.#election.on("role", (role) => (role === "leader" ? this.#takeOver() : this.#askAgain())),
    ];
  }

  /** Resolves with the leader's answer, whichever tab leads then. */
  call(method: string, payload: unknown): Promise<unknown> {
    if (this.#end !== null) return Promise.reject(this.#end.reason);
    if (this.#election.role === "leader") return this.#handle(method, payload, this.#channel.tab);
    return new Promise((settle, reject) => {
      const id = this.#environment.uuid();
      this.#calls.set(id, { method, payload, settle, reject, timer: new Timer(this.#environment) });
      this.#ask(id);
    });
  }

  close(reason: unknown): void {
    this.#end = { reason };
    for (const end of this.#ends) end();
    for (const { reject, timer } of this.#calls.values()) {
      timer.clear();
      reject(reason);
    }
    this.#calls.clear();
  }

  #ask(id: string): void {
    const call = this.#calls.get(id);
    if (call === undefined) return;
    this.#channel.say({ kind: "call", id, method: call.method, payload: call.payload });
    call.timer.set(HEARD_LIMIT_MS, () => this.#election.suspect());
  }

  #askAgain(): void {
    for (const id of this.#calls.keys()) this.#ask(id);
  }

  /** This tab leads now, so it does itself what it had asked for. */
  #takeOver(): void {
    for (const [id, { method, payload, settle, reject, timer }] of this.#calls) {
      timer.clear();
      this.#calls.delete(id);
      // After everything else that follows from leading.
      Promise.resolve().then(() => this.#handle(method, payload, this.#channel.tab)).then(settle, reject);
    }
  }

  #hear(message: TabMessage): void {
    switch (message.kind) {
      case "call":
        return void (this.#election.role === "leader" && this.#serve(message));
      case "heard":
        return this.#calls.get(message.id)?.timer.clear();
      case "answer": {
        const call = this.#calls.get(message.id);
        if (call === undefined) return;
        this.#calls.delete(message.id);
        call.timer.clear();
        if (message.error === undefined) call.settle(message.value);
        else call.reject(revivedError(message.error));
      }
    }
  }

  async #serve({ id, method, payload, from }: TabMessage & { readonly kind: "call" }): Promise<void> {
    this.#channel.say({ kind: "heard", id }, from);
    if (this.#working.has(id)) return;
    this.#working.add(id);
    try {
      const value = await this.#handle(method, payload, from);
      // Whoever lost the lead meanwhile has no say: the next leader is asked too.
      if (this.#election.role === "leader") this.#channel.say({ kind: "answer", id, value }, from);
    } catch (error) {
      if (this.#election.role === "leader") this.#channel.say({ kind: "answer", id, error: plainError(error) }, from);
    } finally {
      this.#working.delete(id);
    }
  }
}
