// Sends what the walker emits to `POST /api/telemetry`: small batches, a bounded buffer, and never an
// error into the application. Events carry labels, never addresses or tokens (A3).
import { browserEnvironment } from "./browser.ts";
import type { Environment } from "./browser.ts";
import type { TelemetryEvent } from "./relay-walker.ts";

/** The newest events are kept when the API is away for long: they say how things are now. */
const MAX_EVENTS = 100;
/** What the API takes in one request. */
const MAX_BATCH = 20;
/** Events of one outage come together; waiting for them costs one request instead of several. */
const GATHER_MS = 2_000;
const RETRY_BASE_MS = 2_000;
const RETRY_CAP_MS = 300_000;
const REQUEST_LIMIT_MS = 10_000;

export interface TelemetryOptions {
  /** The API's origin, such as `https://api.example.com`. */
  readonly api: string;
  /** An API token (not a scope token). */
  readonly getToken: () => Promise<string>;
  readonly environment?: Environment;
}

export class Telemetry {
  readonly #options: TelemetryOptions;
  readonly #environment: Environment;
  #events: TelemetryEvent[] = [];
  #timer: unknown = null;
  #sending = false;
  #failures = 0;
  /** Nobody takes events there, or `destroy` was called. */
  #closed = false;

  constructor(options: TelemetryOptions) {
    this.#options = options;
    this.#environment = options.environment ?? browserEnvironment();
  }

  /** Give this to a provider as `onTelemetry`. */
  readonly record = (event: TelemetryEvent): void => {
    if (this.#closed) return;
    this.#events.push(event);
    if (this.#events.length > MAX_EVENTS) this.#events.shift();
    this.#schedule(GATHER_MS);
  };

  /** Drops what was not sent. */
  destroy(): void {
    this.#closed = true;
    this.#events = [];
    this.#environment.clearTimeout(this.#timer);
  }

  #schedule(ms: number): void {
    if (this.#timer !== null || this.#sending) return;
    this.#timer = this.#environment.setTimeout(() => {
      this.#timer = null;
      void this.#send();
    }, ms);
  }

  async #send(): Promise<void> {
    const events = this.#events.splice(0, MAX_BATCH);
    this.#sending = true;
    const outcome = await this.#post(events).catch(() => "retry" as const);
    this.#sending = false;
    if (outcome === "closed") this.destroy();
    if (this.#closed) return;
    if (outcome === "retry") {
      this.#events = [...events, ...this.#events].slice(-MAX_EVENTS);
      const ceiling = Math.min(RETRY_CAP_MS, RETRY_BASE_MS * 2 ** this.#failures);
      this.#failures += 1;
      return this.#schedule(GATHER_MS + this.#environment.random() * ceiling);
    }
    this.#failures = 0;
    if (this.#events.length > 0) this.#schedule(GATHER_MS);
  }

  /** `done` also for a batch that is refused for good: it would be refused again. */
  async #post(events: readonly TelemetryEvent[]): Promise<"closed" | "done" | "retry"> {
    const token = await this.#options.getToken();
    const { status } = await this.#environment.fetch(`${this.#options.api}/api/telemetry`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ events }),
      // A page that is being left still sends it.
      keepalive: true,
      signal: AbortSignal.timeout(REQUEST_LIMIT_MS),
    });
    if (status === 404 || status === 405) return "closed";
    return status === 401 || status === 429 || status >= 500 ? "retry" : "done";
  }
}
