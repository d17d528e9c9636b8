// The one way in which a page changes a workspace: what it asks for waits in the outbox, is coalesced
// on its surface, and is sent under its own key until the API has answered.
import type { PageEnvironment } from "../browser.ts";
import type { Failure } from "../api/api.ts";
import { retryDelay } from "../api/backoff.ts";
import { encodePath } from "../api/operations.ts";
import { unlessAborted } from "../api/deadline.ts";
import { Emitter } from "../emitter.ts";
import { Timer } from "../timer.ts";
import { TokenRefusedError } from "../token-source.ts";
import { Coalescer } from "./coalescer.ts";
import type { CoalescerTimes, Due } from "./coalescer.ts";
import type { Write } from "./merge.ts";
import type { Outbox, OutboxEntry } from "./outbox.ts";
import type { Sender, WriteReceipt } from "./sender.ts";

/** The API refused a write for good: it is not in the outbox any more, and here to be shown or written anew. */
export interface Refusal {
  readonly surface: string;
  readonly write: Write;
  readonly error: unknown;
}

export type OpsEvents = {
  /** What waits, or where it is kept, has changed. */
  change: undefined;
  refused: Refusal;
  saved: { readonly surface: string; readonly write: Write; readonly receipt: WriteReceipt };
  /** A later form of a write on this surface is committed; what it had is not known here. */
  superseded: { readonly surface: string };
};

export interface ApplyOptions {
  /** Writes of one surface keep their order and are coalesced. By default the kind and path. */
  readonly surface?: string;
  /** An idempotency key that another tab made: the write stands alone. */
  readonly key?: string;
}

export interface OpsOptions {
  readonly environment: Pick<PageEnvironment, "clearTimeout" | "now" | "random" | "setTimeout">;
  readonly outbox: Outbox;
  readonly send: Sender;
  readonly times?: CoalescerTimes | undefined;
}

interface Waiter {
  readonly settle: (receipt: WriteReceipt) => void;
  readonly reject: (error: unknown) => void;
}

/** The surface that a write belongs to unless its caller says otherwise. */
export function surfaceOf({ op, path }: Write): string {
  return op === "update" ? `docs/${path}` : `nodes/${path}`;
}

export class Ops extends Emitter<OpsEvents> {
  readonly #options: OpsOptions;
  readonly #coalescer: Coalescer;
  readonly #waiters = new Map<string, Waiter[]>();
  readonly #failures = new Map<string, number>();
  #lastReceipts = new Map<string, WriteReceipt>();
  #isSending = false;
  #isHiding = false;
  readonly #timer: Timer;
  /** There is no token for this account: nothing is sent until `retry`. */
  blocked: unknown = null;

  constructor(options: OpsOptions) {
    super();
    this.#options = options;
    this.#timer = new Timer(options.environment);
    this.#coalescer = new Coalescer(options.times);
  }

  /** Begins to send: also what an earlier page left, which is due at once. */
  async start(): Promise<void> {
    const { outbox, environment } = this.#options;
    await outbox.loaded;
    this.#isSending = true;
    for (const surface of outbox.surfaces()) this.#coalescer.handleAdd(surface, environment.now());
    this.#coalescer.handleFlush();
    this.#run();
  }

  /** Another tab sends from now on, or nobody. What was sent already may still be answered. */
  stop(): void {
    this.#isSending = false;
    this.#timer.clear();
  }

  /**
   * Asks for a write. Resolves when it is committed; rejects when it is refused, which the event
   * `refused` also tells. While the API cannot be reached it waits, across reloads of the page.
   * Throws a `TypeError` for what is no write.
   */
  applyOp(op: Write, { surface = surfaceOf(op), key }: ApplyOptions = {}): Promise<WriteReceipt> {
    const write = checked(op);
    const entry = this.#options.outbox.add(surface, write, key);
    const result = this.#answerOf(entry);
    // Who does not wait hears of a refusal by the event.
    result.catch(() => {});
    this.#coalescer.handleAdd(surface, this.#options.environment.now());
    this.#changed();
    return result;
  }

  /** Whether something waits on a surface, or anywhere. */
  isWaiting(surface?: string): boolean {
    const { outbox } = this.#options;
    return surface === undefined ? outbox.size > 0 : outbox.waiting(surface).length > 0;
  }

  /** What waits on a surface, the oldest first. */
  waiting(surface: string): readonly Write[] {
    return this.#options.outbox.waiting(surface).map(({ write }) => write);
  }

  /** Whether what waits survives the page. */
  isStored(surface?: string): boolean {
    return this.#options.outbox.isStored(surface);
  }

  /**
   * Sends what waits on a surface, or everywhere. Resolves when all of it is answered, with the newest
   * receipt; `null` when nothing was ever written. A refusal rejects it.
   */
  async flush(surface?: string, signal?: AbortSignal): Promise<WriteReceipt | null> {
    const { outbox } = this.#options;
    const flushed = outbox.loaded.then(async () => {
      // What is asked for now: later writes of a surface are not waited for. What came from storage, or failed, is
      // answered with its last entry.
      const names = surface === undefined ? [...outbox.surfaces()] : [surface];
      const last = names.flatMap((name) => outbox.waiting(name).slice(-1)).map(({ key }) => this.#answerOf(key));
      this.#coalescer.handleFlush(surface);
      this.#run();
      await Promise.all(last);
      const receipts = surface === undefined ? [...this.#lastReceipts.values()] : [this.#lastReceipts.get(surface)];
      return receipts.reduce<WriteReceipt | null>((newest, receipt) => (receipt !== undefined && receipt.clock > (newest?.clock ?? 0) ? receipt : newest), null);
    });
    return unlessAborted(flushed, signal);
  }

  /** The page is hidden and may never come back: everything goes out now, in calls that outlive it. */
  hide(): void {
    this.#isHiding = true;
    this.#coalescer.handleFlush();
    this.#run();
    this.#isHiding = false;
  }

  /** The outbox or the device's copies changed where they are kept. */
  handleStored(): void {
    this.emit("change", undefined);
  }

  /** What waits on a surface is due at once. */
  urge(surface: string): void {
    this.#coalescer.handleFlush(surface);
    this.#run();
  }

  /** The network is back, somebody looks at the page, or has signed in again. */
  retry(): void {
    this.blocked = null;
    this.#coalescer.handleWake();
    this.#run();
  }

  /** How this entry is answered, once it is. */
  #answerOf(key: string): Promise<WriteReceipt> {
    return new Promise((settle, reject) => {
      this.#waiters.set(key, [...(this.#waiters.get(key) ?? []), { settle, reject }]);
    });
  }

  #run(): void {
    const { environment } = this.#options;
    this.#timer.clear();
    if (!this.#isSending || this.blocked !== null) return;
    for (const surface of this.#coalescer.poll(environment.now())) void this.#send(surface);
    const now = environment.now();
    const next = this.#coalescer.pollTimeout(now);
    if (next !== null) this.#timer.set(Math.max(0, next - now), () => this.#run());
  }

  async #send(surface: Due): Promise<void> {
    const { environment, outbox, send } = this.#options;
    const entry = outbox.take(surface);
    if (entry === undefined) return this.#coalescer.handleDone(surface, false, environment.now());
    const answer = await send(entry, { keepalive: this.#isHiding });
    if (!("error" in answer)) this.#done(entry, answer);
    else if (answer.passes) this.#failed(surface, answer);
    else if (isAboutToken(answer.error)) this.#block(surface, answer.error);
    else if (isSuperseded(answer.error)) this.#superseded(entry);
    else this.#refused(entry, answer.error);
    this.#changed();
  }

  #done(entry: OutboxEntry, receipt: WriteReceipt): void {
    const { surface, write } = entry;
    this.#lastReceipts.set(surface, receipt);
    for (const { settle } of this.#leave(entry)) settle(receipt);
    this.emit("saved", { surface, write, receipt });
  }

  #superseded(entry: OutboxEntry): void {
    const { surface } = entry;
    // Its clock is not known: 0 is older than any.
    const receipt = this.#lastReceipts.get(surface) ?? { clock: 0 };
    const waiters = this.#leave(entry);
    this.emit("superseded", { surface });
    for (const { settle } of waiters) settle(receipt);
  }

  #refused(entry: OutboxEntry, error: unknown): void {
    const { surface, write } = entry;
    for (const { reject } of this.#leave(entry)) reject(error);
    this.emit("refused", { surface, write, error });
  }

  #leave({ key, surface }: OutboxEntry): readonly Waiter[] {
    const { environment, outbox } = this.#options;
    outbox.remove(key);
    this.#failures.delete(surface);
    this.#coalescer.handleDone(surface, outbox.waiting(surface).length > 0, environment.now());
    const waiters = this.#waiters.get(key) ?? [];
    this.#waiters.delete(key);
    return waiters;
  }

  #failed(surface: string, { retryAfterMs }: Failure): void {
    const { environment } = this.#options;
    const failures = this.#failures.get(surface) ?? 0;
    this.#failures.set(surface, failures + 1);
    this.#coalescer.handleFailure(surface, retryDelay(failures, environment.random(), retryAfterMs), environment.now());
  }

  #block(surface: string, error: unknown): void {
    this.blocked = error;
    this.#coalescer.handleFailure(surface, 0, this.#options.environment.now());
  }

  #changed(): void {
    this.#run();
    this.emit("change", undefined);
  }
}

/** Signing in again cures it; the write is kept. */
function isAboutToken(error: unknown): boolean {
  return error instanceof TokenRefusedError || (error as { status?: unknown } | null)?.status === 401;
}

/**
 * Its key came with another body before: a page sent the entry when it had grown, and died before the device
 * had that form. Keys are random, so nothing else had this one.
 */
function isSuperseded(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === "idempotency_key_reused";
}

/** A copy, so that what the caller does with the value later changes nothing. */
function checked(write: Write): Write {
  encodePath(write.path);
  switch (write.op) {
    case "update":
      return write;
    case "put":
      return { ...write, value: jsonCopy(write.value) };
    case "patch":
      return { ...write, patch: jsonCopy(write.patch) };
    case "delete":
      return { ...write };
  }
}

function jsonCopy(value: unknown): unknown {
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) throw new TypeError("The value is not JSON; give null, a number, a string, a list or an object.");
  return JSON.parse(text);
}
