// Which tab leads: the one that holds the lock, which the browser passes on when a tab dies. A tab that
// somebody looks at comes first, so a hidden leader makes room for it; and a leader that does not answer
// is frozen, and loses the lock to a tab that needs one. Without locks or a channel each tab leads itself.
import type { PageEnvironment } from "../browser.ts";
import { Emitter } from "../emitter.ts";
import { Timer } from "../timer.ts";
import type { TabChannel } from "./channel.ts";
import type { Role, TabMessage } from "./types.ts";

export type ElectionEvents = {
  role: Role;
  /** Another tab leads from now on. */
  leader: string;
};

/** A leader answers within a task or two; a throttled one within a second. A frozen one never. */
const ANSWER_LIMIT_MS = 3_000;
/** So many leaders in a row are not frozen: it is the channel that carries nothing, and each tab is alone. */
const MAX_STEALS = 2;

export class Election extends Emitter<ElectionEvents> {
  readonly #environment: PageEnvironment;
  readonly #channel: TabChannel;
  readonly #name: string;
  readonly #ending = new AbortController();
  #role: Role = "follower";
  #leader: string | null = null;
  /** Lets the lock go, while this tab has it. */
  #release: (() => void) | null = null;
  /** Locks taken from leaders that did not answer, since anything was heard. */
  #steals = 0;
  #unwatch = () => {};
  #unhear = () => {};
  readonly #answer: Timer;
  readonly #releasing: Timer;

  constructor(environment: PageEnvironment, channel: TabChannel, name: string) {
    super();
    this.#environment = environment;
    this.#answer = new Timer(environment);
    this.#releasing = new Timer(environment);
    this.#channel = channel;
    this.#name = name;
  }

  get role(): Role {
    return this.#role;
  }

  /** The tab that leads, as far as it is known. */
  get leader(): string | null {
    return this.#leader;
  }

  start(): void {
    if (this.#environment.locks() === null || !this.#channel.isThere) return this.#lead();
    this.#unhear = this.#channel.on("message", (message) => this.#hear(message));
    this.#unwatch = this.#environment.watch((change) => {
      if (change === "visible") this.#look();
      if (change === "hidden" && this.#role === "leader") this.#announce();
    });
    this.#request(false);
    // Finds a hidden or frozen leader. If there is none, the lock is here by then.
    this.#look();
  }

  /** The leader did not react: it has to answer in time, or this tab takes its place. */
  suspect(): void {
    if (this.#role === "leader" || this.#ending.signal.aborted) return;
    this.#channel.say({ kind: "ask" });
    this.#limit();
  }

  /** Gives the lock to the next tab. */
  close(): void {
    this.#ending.abort();
    this.#unwatch();
    this.#unhear();
    this.#answer.clear();
    this.#releasing.clear();
    this.#release?.();
    this.#follow();
  }

  /** Learns who leads. A hidden tab needs no leader so much that it would take the lock. */
  #look(): void {
    if (this.#role === "leader") return this.#announce();
    if (this.#environment.isHidden()) this.#channel.say({ kind: "ask" });
    else this.suspect();
  }

  #hear(message: TabMessage): void {
    this.#steals = 0;
    // The channel works after all: the one with the lock leads.
    if (this.#role === "leader" && this.#release === null) this.#lost();
    switch (message.kind) {
      case "ask":
        return this.#role === "leader" ? this.#announce() : undefined;
      case "leads":
        return this.#accept(message.from, message.isHidden);
      case "want":
        return this.#yield(message.from);
      case "yield":
        return this.#request(true);
    }
  }

  #accept(leader: string, isHidden: boolean): void {
    // Two leaders: a lock was stolen, and the loser is about to hear of it.
    if (this.#role === "leader") return;
    this.#answer.clear();
    if (this.#leader !== leader) {
      this.#leader = leader;
      this.emit("leader", leader);
    }
    if (!isHidden || this.#environment.isHidden()) return;
    this.#channel.say({ kind: "want" }, leader);
    this.#limit();
  }

  /** Stops leading, and keeps the lock until the other tab takes it, so that no third one gets it between. */
  #yield(to: string): void {
    if (this.#role !== "leader" || !this.#environment.isHidden()) return;
    this.#follow();
    this.#channel.say({ kind: "yield" }, to);
    this.#releasing.set(ANSWER_LIMIT_MS, () => this.#role === "follower" && this.#release?.());
  }

  #limit(): void {
    this.#answer.set(ANSWER_LIMIT_MS, () => this.#role === "follower" && this.#takeOver());
  }

  #takeOver(): void {
    this.#steals += 1;
    if (this.#steals > MAX_STEALS) this.#lead();
    else this.#request(true);
  }

  /** Waits for the lock, or takes it. Ends when the lock is let go or stolen; then it waits again. */
  #request(steal: boolean): void {
    const { signal } = this.#ending;
    const locks = this.#environment.locks();
    if (signal.aborted || locks === null) return;
    let held: (() => void) | null = null;
    const hold = () =>
      new Promise<void>((release) => {
        if (signal.aborted) return release();
        held = release;
        this.#release = release;
        this.#lead();
      });
    const ended = () => {
      if (signal.aborted) return;
      // This page may have no locks at all; then each tab leads itself.
      if (held === null) return this.#leadAlone();
      // It may have taken the lock from itself, and have it still.
      if (this.#release === held) this.#lost();
      // The request from the start still waits when the lock was taken out of turn.
      if (!steal) this.#request(false);
    };
    locks.request(this.#name, steal ? { steal } : { signal }, hold).then(ended, ended);
  }

  #lost(): void {
    this.#release = null;
    this.#answer.clear();
    this.#follow();
    // The new leader may have said so before this tab knew that it lost.
    this.#look();
  }

  #leadAlone(): void {
    this.#unhear();
    this.#unwatch();
    this.#lead();
  }

  #lead(): void {
    this.#answer.clear();
    if (this.#role === "leader") return;
    this.#role = "leader";
    this.#leader = this.#channel.tab;
    this.#announce();
    this.emit("role", "leader");
  }

  #follow(): void {
    if (this.#role === "follower") return;
    this.#role = "follower";
    this.#leader = null;
    this.emit("role", "follower");
  }

  #announce(): void {
    this.#channel.say({ kind: "leads", isHidden: this.#environment.isHidden() });
  }
}
