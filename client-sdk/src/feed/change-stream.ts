// The workspace's changes as a page follows them: over the shared stream, from a cursor that outlives
// pauses. A page that nobody looks at lets go of the stream, and catches up when it is shown again.
import type { Api } from "../api/api.ts";
import type { FeedItem } from "../api/types.ts";
import type { PageEnvironment } from "../browser.ts";
import { Emitter } from "../emitter.ts";
import { Timer } from "../timer.ts";
import { leaveFeed } from "./change-feed.ts";
import { ChangeReader } from "./change-reader.ts";
import type { ReaderOwner } from "./change-reader.ts";

/** `stopped`: the workspace is gone, or this user may not read it. */
export type StreamState = "following" | "idle" | "paused" | "stopped";

export type ChangeStreamEvents = {
  item: FeedItem;
  state: StreamState;
};

/** How long a hidden page keeps the stream: looking into another tab and back costs nothing. */
const HIDDEN_LINGER_MS = 60_000;

export class ChangeStream extends Emitter<ChangeStreamEvents> {
  readonly #api: Api;
  readonly #environment: PageEnvironment;
  readonly #owner: ReaderOwner;
  #reader: ChangeReader | null = null;
  #cursor: number | undefined;
  #state: StreamState = "idle";
  #unwatch = () => {};
  readonly #lingering: Timer;

  constructor(api: Api, environment: PageEnvironment) {
    super();
    this.#api = api;
    this.#environment = environment;
    this.#lingering = new Timer(environment);
    this.#owner = { api, readers: new Set(), closed: null };
  }

  get state(): StreamState {
    return this.#state;
  }

  /** The clock of the last change that was told; `undefined` before the first is known. */
  get cursor(): number | undefined {
    return this.#reader?.cursor ?? this.#cursor;
  }

  /** Follows from a clock on, or from where it was, or from now. Does nothing while it follows. */
  start(since?: number): void {
    if (this.#state === "following" || this.#state === "paused") return;
    this.#cursor = since ?? this.#cursor;
    this.#unwatch = this.#environment.watch((change) => {
      if (change === "hidden") this.#linger();
      if (change === "visible") this.#show();
    });
    this.#tell("paused");
    this.#show();
    if (this.#environment.isHidden()) this.#linger();
  }

  /** Lets go of the stream and keeps the cursor. */
  stop(): void {
    this.#rest("idle");
    this.#unwatch();
  }

  /** Ends it until the next `start`; the shared stream ends with its last user, and at once. */
  release(): void {
    this.stop();
    leaveFeed(this.#api);
  }

  /** Ends it for good; what would begin again stops with the reason. */
  close(reason: Error): void {
    this.#owner.closed = reason;
    this.release();
  }

  #show(): void {
    this.#lingering.clear();
    if (this.#state !== "paused") return;
    const reader = new ChangeReader(this.#owner, { since: this.#cursor, wanted: () => true });
    this.#reader = reader;
    this.#tell("following");
    void this.#follow(reader);
  }

  #linger(): void {
    this.#lingering.set(HIDDEN_LINGER_MS, () => this.#state === "following" && this.#rest("paused"));
  }

  async #follow(reader: ChangeReader): Promise<void> {
    try {
      for await (const item of reader) {
        if (this.#reader !== reader) return;
        this.emit("item", item);
      }
    } catch {
      if (this.#reader !== reader) return;
      this.#unwatch();
      this.#rest("stopped");
    }
  }

  #rest(state: StreamState): void {
    this.#lingering.clear();
    this.#cursor = this.cursor;
    const reader = this.#reader;
    this.#reader = null;
    reader?.close();
    this.#tell(state);
  }

  #tell(state: StreamState): void {
    if (state === this.#state) return;
    this.#state = state;
    this.emit("state", state);
  }
}
