// The entry "./testing": surroundings that a test drives. Time passes when the test says so, and a
// browser of several tabs has locks and channels.
import type { BroadcastChannelLike, LockManagerLike, PageEnvironment, Surroundings } from "./browser.ts";
import { browserEnvironment } from "./browser.ts";

interface Timer {
  readonly at: number;
  readonly run: () => void;
}

/** Time that stands still until `advance`. */
export class FakeClock {
  now = 1_800_000_000_000;
  readonly #timers = new Set<Timer>();
  readonly #settled: () => Promise<void>;

  /** `settle` lets go on what waits for no time; one that knows what there is to wait for may be faster. */
  constructor(settle = settled) {
    this.#settled = settle;
  }

  readonly setTimeout = (run: () => void, ms: number): unknown => {
    const timer = { at: this.now + ms, run };
    this.#timers.add(timer);
    return timer;
  };

  readonly clearTimeout = (timer: unknown): void => {
    this.#timers.delete(timer as Timer);
  };

  /** How many timers are armed. */
  get armed(): number {
    return this.#timers.size;
  }

  /** Lets time pass, timer by timer; what a timer starts gets its turn before the next. */
  async advance(ms: number): Promise<void> {
    await this.#settled();
    const end = this.now + ms;
    for (;;) {
      const [next] = [...this.#timers].sort((a, b) => a.at - b.at);
      if (next === undefined || next.at > end) break;
      this.#timers.delete(next);
      this.now = Math.max(this.now, next.at);
      next.run();
      await this.#settled();
    }
    this.now = end;
    await this.#settled();
  }
}

/** Lets everything go on that waits for no time: promises, a database, other tabs. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn += 1) await new Promise<void>((settle) => globalThis.setTimeout(settle, 0));
}
/** A request of a database in memory takes two or three turns, and a transaction has several. */
const TURNS = 12;

/** A page whose surroundings a test drives. */
export interface FakePage extends PageEnvironment {
  readonly warnings: string[];
  /** Tells of a change of the page. */
  change(to: Surroundings): void;
}

/** A page on a clock; members that are given replace its own. */
export function fakePage(clock: FakeClock, members: Partial<PageEnvironment> = {}): FakePage {
  const listeners = new Set<(change: Surroundings) => void>();
  const warnings: string[] = [];
  let online = true;
  let hidden = false;
  return {
    ...browserEnvironment(),
    now: () => clock.now,
    setTimeout: clock.setTimeout,
    clearTimeout: clock.clearTimeout,
    random: () => 0.5,
    isOnline: () => online,
    isHidden: () => hidden,
    search: () => "",
    tabStorage: () => null,
    warn: (text) => warnings.push(text),
    indexedDB: () => null,
    locks: () => null,
    openChannel: () => null,
    watch(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    warnings,
    change(to) {
      if (to === "online" || to === "offline") online = to === "online";
      else if (to === "hidden" || to === "visible") hidden = to === "hidden";
      for (const listener of listeners) listener(to);
    },
    ...members,
  };
}

/** What the tabs of one browser share. */
export class FakeBrowser {
  readonly #held = new Map<string, { readonly tab: FakeTab; readonly release: () => void; readonly steal: () => void }>();
  readonly #queues = new Map<string, { readonly tab: FakeTab; readonly grant: () => void }[]>();
  readonly #channels = new Set<FakeChannel>();

  /** A new tab. */
  tab(): FakeTab {
    return new FakeTab(this);
  }

  /** Which tab holds a lock. */
  holder(name: string): FakeTab | undefined {
    return this.#held.get(name)?.tab;
  }

  request(tab: FakeTab, name: string, { signal, steal = false }: { signal?: AbortSignal; steal?: boolean }, run: () => Promise<void>): Promise<void> {
    return new Promise((settle, reject) => {
      const grant = () => {
        const held = { tab, release: () => this.#release(name, held), steal: () => reject(new DOMException("The lock was stolen.", "AbortError")) };
        this.#held.set(name, held);
        run().then(settle, reject).finally(held.release);
      };
      const current = this.#held.get(name);
      if (current === undefined || steal) {
        current?.steal();
        return grant();
      }
      const waiting = { tab, grant };
      this.#queues.set(name, [...(this.#queues.get(name) ?? []), waiting]);
      signal?.addEventListener("abort", () => {
        this.#queues.set(name, (this.#queues.get(name) ?? []).filter((other) => other !== waiting));
        reject(signal.reason);
      });
    });
  }

  open(tab: FakeTab, name: string): BroadcastChannelLike {
    const channel = new FakeChannel(tab, name, this.#channels);
    this.#channels.add(channel);
    return channel;
  }

  hasChannel(tab: FakeTab): boolean {
    return [...this.#channels].some((channel) => channel.tab === tab);
  }

  /** The tab is gone, with its locks and channels, and without a word. */
  forget(tab: FakeTab): void {
    for (const channel of this.#channels) if (channel.tab === tab) channel.close();
    for (const [name, queue] of this.#queues) this.#queues.set(name, queue.filter((waiting) => waiting.tab !== tab));
    for (const [name, held] of this.#held) if (held.tab === tab) this.#release(name, held);
  }

  #release(name: string, held: unknown): void {
    if (this.#held.get(name) !== held) return;
    this.#held.delete(name);
    const [next, ...rest] = this.#queues.get(name) ?? [];
    this.#queues.set(name, rest);
    if (next !== undefined) queueMicrotask(next.grant);
  }
}

/** One tab. A frozen one hears, says and does nothing, and keeps its locks; a crashed one loses them. */
export class FakeTab {
  readonly #browser: FakeBrowser;
  #isFrozen = false;
  #isCrashed = false;
  /** What its timers would have done. */
  #missed: (() => void)[] = [];
  readonly locks: LockManagerLike;

  constructor(browser: FakeBrowser) {
    this.#browser = browser;
    const never = () => new Promise<void>(() => {});
    this.locks = { request: (name, options, run) => (this.#isCrashed ? never() : browser.request(this, name, options, run)) };
  }

  get isFrozen(): boolean {
    return this.#isFrozen;
  }

  freeze(): void {
    this.#isFrozen = true;
  }

  /** Goes on, with the timers that it missed. */
  thaw(): void {
    if (this.#isCrashed) return;
    this.#isFrozen = false;
    for (const run of this.#missed.splice(0)) run();
  }

  crash(): void {
    this.#isFrozen = true;
    this.#isCrashed = true;
    this.#browser.forget(this);
  }

  /** Whether messages of other tabs would reach it. */
  get hasChannel(): boolean {
    return this.#browser.hasChannel(this);
  }

  openChannel(name: string): BroadcastChannelLike {
    return this.#browser.open(this, name);
  }

  /** Members for `fakePage`, whose clock it is. */
  members(clock: FakeClock): Pick<PageEnvironment, "locks" | "openChannel" | "setTimeout"> {
    const ring = (run: () => void) => (this.#isFrozen ? this.#missed.push(run) : run());
    return {
      locks: () => this.locks,
      openChannel: (name) => this.openChannel(name),
      setTimeout: (run, ms) => clock.setTimeout(() => ring(run), ms),
    };
  }
}

class FakeChannel implements BroadcastChannelLike {
  readonly tab: FakeTab;
  readonly #name: string;
  readonly #all: Set<FakeChannel>;
  onmessage: ((event: { data: unknown }) => void) | null = null;

  constructor(tab: FakeTab, name: string, all: Set<FakeChannel>) {
    this.tab = tab;
    this.#name = name;
    this.#all = all;
  }

  postMessage(message: unknown): void {
    if (this.tab.isFrozen) return;
    if (!this.#all.has(this)) throw new DOMException("The channel is closed.", "InvalidStateError");
    const data: unknown = structuredClone(message);
    for (const other of this.#all) {
      if (other === this || other.#name !== this.#name) continue;
      globalThis.setTimeout(() => this.#all.has(other) && !other.tab.isFrozen && other.onmessage?.({ data }), 0);
    }
  }

  close(): void {
    this.#all.delete(this);
  }
}
