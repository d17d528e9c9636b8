// What is saved: asks for receipts (W8), and keeps count of which edits they cover. Nothing but a
// receipt makes an edit saved.
import type { Environment } from "./browser.ts";
import { Timer } from "./timer.ts";

/** The relay's word that everything sent before is committed. */
export interface Receipt {
  readonly clock: number;
  readonly epoch: number;
}

/** `pending`: here only. `relayed`: sent to a relay. `saved`: a receipt covers every edit. */
export type SaveState = "pending" | "relayed" | "saved";

/** A flush that will not be answered by a receipt. `code` is the relay's reason, or why the connection stopped. */
export class FlushError extends Error {
  readonly code: string;

  constructor(code: string) {
    super(`The edits are not saved: ${code}. They are kept in this copy of the document.`);
    this.name = "FlushError";
    this.code = code;
  }
}

/** The relay saves by itself within 2 s; who asks a little later is answered without another write. */
const QUIET_MS = 2_500;
/** Of somebody who types without a pause, edits are asked for this long after the first. */
const MAX_AGE_MS = 10_000;
/** The relay tries again by itself, with a backoff to 10 s; asking much sooner learns nothing. */
const RETRY_BASE_MS = 1_000;
const RETRY_CAP_MS = 30_000;
/** Reasons that asking again does not cure. */
const PERMANENT: ReadonlySet<string> = new Set(["forbidden", "deleted", "epoch_changed", "document_too_large"]);

interface Waiter {
  readonly edits: number;
  readonly settle: (receipt: Receipt) => void;
  readonly reject: (error: unknown) => void;
}

export interface ReceiptsOptions {
  readonly environment: Environment;
  /** Sends a flush with this id over the connection in use. */
  readonly ask: (id: number) => void;
  readonly onChange: () => void;
  /** Ask by itself when edits rest; else only for `flush`. */
  readonly auto: boolean;
}

export class Receipts {
  readonly #options: ReceiptsOptions;
  /** Edits so far, and how many of them are covered. A new copy may hold edits of an earlier life, so it begins with one. */
  #edits = 1;
  #saved = 0;
  #asked: { readonly id: number; readonly edits: number } | null = null;
  #lastId = 0;
  #linked = false;
  /** This connection gives no receipts; only `flush` still asks. */
  #refused = false;
  #failures = 0;
  /** When the first edit came that nobody asked for yet. */
  #since: number | null = null;
  readonly #timer: Timer;
  #waiters: Waiter[] = [];

  constructor(options: ReceiptsOptions) {
    this.#options = options;
    this.#timer = new Timer(options.environment);
  }

  get state(): SaveState {
    if (this.#saved === this.#edits) return "saved";
    return this.#linked ? "relayed" : "pending";
  }

  /** Resolves with the receipt that covers every edit made so far. */
  flush(signal?: AbortSignal): Promise<Receipt> {
    return new Promise((settle, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const waiter: Waiter = { edits: this.#edits, settle, reject };
      this.#waiters.push(waiter);
      signal?.addEventListener("abort", () => {
        this.#waiters = this.#waiters.filter((other) => other !== waiter);
        reject(signal.reason);
      });
      if (this.#failures === 0) this.#ask();
    });
  }

  handleEdit(): void {
    this.#edits += 1;
    this.#schedule();
    this.#options.onChange();
  }

  /** A connection is synced: the relay has every edit made so far. */
  handleSynced(): void {
    this.#linked = true;
    this.#refused = false;
    this.#asked = null;
    this.#failures = 0;
    if (this.#waiters.length > 0) this.#ask();
    else this.#schedule();
    this.#options.onChange();
  }

  /** The connection ended; what it was asked is asked of the next one. */
  handleEnd(): void {
    this.#linked = false;
    this.#timer.clear();
    this.#options.onChange();
  }

  handleReceipt(id: unknown, receipt: Receipt): void {
    if (this.#asked === null || this.#asked.id !== id) return;
    this.#saved = this.#asked.edits;
    this.#asked = null;
    this.#failures = 0;
    const covered = this.#waiters.filter(({ edits }) => edits <= this.#saved);
    this.#waiters = this.#waiters.filter(({ edits }) => edits > this.#saved);
    for (const { settle } of covered) settle(receipt);
    if (this.#waiters.length > 0) this.#ask();
    else if (this.#saved < this.#edits) this.#schedule();
    this.#options.onChange();
  }

  handleFailure(id: unknown, reason: string): void {
    if (this.#asked === null || this.#asked.id !== id) return;
    this.#asked = null;
    if (PERMANENT.has(reason)) return this.reject(reason);
    const { random } = this.#options.environment;
    const ceiling = Math.min(RETRY_CAP_MS, RETRY_BASE_MS * 2 ** this.#failures);
    this.#failures += 1;
    this.#timer.set(RETRY_BASE_MS / 2 + random() * ceiling, () => this.#ask());
  }

  /** No receipt will come: ends every flush that waits. */
  reject(code: string): void {
    this.#refused = true;
    this.#timer.clear();
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const { reject } of waiters) reject(new FlushError(code));
  }

  #ask(): void {
    if (!this.#linked || this.#asked !== null) return;
    this.#timer.clear();
    this.#since = null;
    this.#lastId += 1;
    this.#asked = { id: this.#lastId, edits: this.#edits };
    this.#options.ask(this.#lastId);
  }

  /** Asks when edits have rested, or the first of them is old. */
  #schedule(): void {
    if (!this.#options.auto || !this.#linked || this.#refused || this.#asked !== null || this.#failures > 0) return;
    if (this.#saved === this.#edits) return;
    const now = this.#options.environment.now();
    this.#since ??= now;
    const left = Math.max(0, Math.min(MAX_AGE_MS, this.#since + MAX_AGE_MS - now));
    this.#timer.set(Math.min(QUIET_MS, left), () => this.#ask());
  }
}
