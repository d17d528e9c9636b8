// The walker, wired: its effects become sockets and timers, what happens to those become its events.
// What goes over a connection is its user's business (sync-provider.ts, or an application's own).
import { browserEnvironment } from "./browser.ts";
import type { Environment } from "./browser.ts";
import { EXPIRED, classifyClose } from "./close-codes.ts";
import type { StopReason } from "./close-codes.ts";
import { CONNECTION_TIMES, Connection } from "./connection.ts";
import type { ConnectionTimes } from "./connection.ts";
import type { Relay } from "./relay-list.ts";
import { WALKER_TIMES, initialState, step } from "./relay-walker.ts";
import type { Effect, FailTrigger, TelemetryEvent, WalkerConfig, WalkerEvent, WalkerState, WalkerTimes } from "./relay-walker.ts";
import { pinOfTab } from "./tab-pin.ts";
import { Timer } from "./timer.ts";
import { TokenRefusedError, TokenSource } from "./token-source.ts";
import type { ScopeToken, TokenProvider } from "./token-source.ts";

export type RelayTimes = ConnectionTimes & WalkerTimes;

/** One open connection, as its user sees it. */
export interface Channel {
  readonly label: string;
  send(frame: Uint8Array): void;
  /** Sends a JSON text frame. */
  say(message: object): void;
  /** The relay has answered: this connection is good. Of a probe, this is what makes it the one in use. */
  synced(): void;
  /** What came over it is unusable: it is counted as lost. */
  fail(): void;
}

/** What the user of a channel is told. */
export interface Receiver {
  handleFrame(bytes: Uint8Array): void;
  handleText(text: string): void;
  /** The connection of this probe is the one in use now. */
  handleAdopt(): void;
  /** Nothing is sent or received any more. */
  handleEnd(): void;
}

/** What an application shows. `label` is the relay's. `draining`: it restarts, and is expected back. */
export type RelayStatus =
  | { readonly kind: "connected" | "connecting" | "draining" | "idle" | "synced"; readonly label: string }
  | { readonly kind: "stopped"; readonly label: string; readonly reason: StopReason };

export interface RelaySocketOptions {
  readonly relays: readonly Relay[];
  /** What comes after a relay's url: `/<workspace>/<path>` with an optional query, asked at each connect. */
  readonly address: () => string;
  /** Opens a conversation on a new connection; `isProbe`: the connection in use goes on beside it. */
  readonly attach: (channel: Channel, isProbe: boolean) => Receiver;
  readonly getToken?: TokenProvider;
  /** The label to pin to; by default what `?relay=` says. `null`: no pin. */
  readonly pin?: string | null | undefined;
  readonly onStatus?: (status: RelayStatus) => void;
  readonly onTelemetry?: ((event: TelemetryEvent) => void) | undefined;
  /** Each end of an open connection: 0 is a dead link. */
  readonly onClose?: (label: string, code: number) => void;
  readonly environment?: Environment;
  readonly times?: Partial<RelayTimes> | undefined;
}

/** A connection and its conversation, which begins when it opens. */
interface Line {
  connection: Connection | null;
  receiver: Receiver | null;
  /** When its token ends, in ms. */
  tokenEnd: number;
}

export class RelaySocket {
  readonly #options: RelaySocketOptions;
  readonly #environment: Environment;
  readonly #times: RelayTimes;
  readonly #config: WalkerConfig;
  readonly #tokens: TokenSource | null;
  readonly #unwatch: () => void;
  readonly #events: WalkerEvent[] = [];
  #state: WalkerState;
  #draining = false;
  /** It was in use when the page went away. */
  #isStored = false;
  #active: Line | null = null;
  #probe: Line | null = null;
  readonly #connectTimer: Timer;
  readonly #probeTimer: Timer;

  constructor(options: RelaySocketOptions) {
    this.#options = options;
    this.#environment = options.environment ?? browserEnvironment();
    this.#connectTimer = new Timer(this.#environment);
    this.#probeTimer = new Timer(this.#environment);
    this.#times = { ...WALKER_TIMES, ...CONNECTION_TIMES, ...options.times };
    const labels = options.relays.map(({ label }) => label);
    if (labels.length === 0) throw new TypeError("There is no relay in the list; name at least one.");
    this.#config = { labels, pinned: this.#pinned(labels), times: this.#times };
    this.#state = initialState(this.#config);
    this.#tokens = options.getToken ? new TokenSource(options.getToken, this.#environment) : null;
    this.#unwatch = this.#environment.watch((change) => {
      // A window beside another one was in sight all the time; and a page that closes takes its socket along.
      if (change === "closing" || change === "focus") return;
      if (change === "stored") return this.#store();
      if (change === "restored") return this.#restore();
      if (change === "offline") return this.#handle({ kind: "offline" });
      this.#active?.connection?.handleChange();
      if (change !== "hidden") this.#handle({ kind: "wake" });
    });
  }

  /** Connects, and stays connected until `disconnect`, `destroy` or a reason to stop. */
  connect(): void {
    this.#handle({ kind: "start" });
  }

  /** Tries again after a stop. */
  restart(): void {
    this.#handle({ kind: "restart" });
  }

  disconnect(): void {
    this.#handle({ kind: "disconnect" });
  }

  /** Ends for good, until `restart`. */
  stop(reason: StopReason): void {
    this.#handle({ kind: "stop", reason });
  }

  destroy(): void {
    this.disconnect();
    this.#unwatch();
  }

  get status(): RelayStatus {
    const { kind, at } = this.#state;
    const label = this.#config.labels[at.index] ?? "";
    switch (kind) {
      case "idle":
      case "synced":
        return { kind, label };
      case "stopped":
        return { kind, label, reason: this.#state.reason };
      case "open":
        return { kind: "connected", label };
      default:
        return { kind: kind !== "offline" && at.restarts > 0 ? "draining" : "connecting", label };
    }
  }

  /** A page in the back/forward cache has no connection: one that it kept would throw it out of there, or break. */
  #store(): void {
    this.#isStored = this.#state.kind !== "idle" && this.#state.kind !== "stopped";
    if (this.#isStored) this.disconnect();
  }

  #restore(): void {
    if (this.#isStored) this.connect();
    this.#isStored = false;
  }

  #pinned(labels: readonly string[]): number | null {
    const { pin, relays } = this.#options;
    if (pin === undefined) return pinOfTab(relays, this.#environment);
    if (pin === null) return null;
    const index = labels.indexOf(pin);
    if (index < 0) throw new TypeError(`No relay has the label "${pin}" to pin to; there are ${labels.join(", ")}.`);
    return index;
  }

  /** Effects may lead to further events; those wait until the effects of this one are done. */
  #handle(event: WalkerEvent): void {
    this.#events.push(event);
    if (this.#draining) return;
    this.#draining = true;
    try {
      for (let next = this.#events.shift(); next !== undefined; next = this.#events.shift()) this.#apply(next);
    } finally {
      this.#draining = false;
    }
  }

  #apply(event: WalkerEvent): void {
    const { now, random } = this.#environment;
    const before = this.status;
    const { state, effects } = step(this.#state, event, { config: this.#config, now: now(), random: random() });
    this.#state = state;
    for (const effect of effects) this.#perform(effect);
    const after = this.status;
    if (before.kind !== after.kind || before.label !== after.label) this.#options.onStatus?.(after);
  }

  #perform(effect: Effect): void {
    switch (effect.kind) {
      case "adoptProbe":
        return this.#adoptProbe();
      case "cancelProbe":
        this.#probeTimer.clear();
        this.#probe = this.#hangUp(this.#probe);
        return;
      case "closeSocket":
        this.#connectTimer.clear();
        this.#active = this.#hangUp(this.#active);
        return;
      case "connect":
        return this.#connectTimer.set(effect.afterMs, () => this.#handle({ kind: this.#environment.isOnline() ? "due" : "offline" }));
      case "emit":
        this.#options.onTelemetry?.(effect.event);
        return;
      case "openSocket":
        void this.#open(effect.index);
        return;
      case "probe":
        return this.#probeTimer.set(effect.afterMs, () => void this.#openProbe(effect.index));
      case "refreshToken":
        this.#tokens?.refresh(effect.required);
        return;
      case "stop":
        // The state tells, by `onStatus`.
        return;
    }
  }

  /** Opens the connection to use. */
  #open(index: number): Promise<void> {
    const line = newLine();
    this.#active = line;
    return this.#reach(line, index);
  }

  /** Looks whether an earlier entry works again. */
  #openProbe(index: number): Promise<void> {
    const line = newLine();
    this.#hangUp(this.#probe);
    this.#probe = line;
    return this.#reach(line, index);
  }

  async #reach(line: Line, index: number): Promise<void> {
    try {
      const token = (await this.#tokens?.token()) ?? null;
      // Somebody may have hung up meanwhile.
      if (line === this.#active || line === this.#probe) this.#dial(line, index, token);
    } catch (error) {
      if (line === this.#active) this.#handle({ kind: "token_failed", final: error instanceof TokenRefusedError });
      else this.#probeFailed(line);
    }
  }

  /** A line may be the probe when it opens and the one in use when it ends. */
  #dial(line: Line, index: number, token: ScopeToken | null): void {
    const { label, url } = this.#options.relays[index]!;
    const failed = (trigger: FailTrigger) => {
      if (line !== this.#active) this.#probeFailed(line);
      else this.#handle(this.#environment.isOnline() ? { kind: "failed", trigger } : { kind: "offline" });
    };
    line.tokenEnd = token?.expiresAt ?? Infinity;
    const target = { url: url + this.#options.address(), token: token?.token ?? null };
    try {
      line.connection = new Connection(this.#environment, target, this.#times, {
        failed,
        opened: () => {
          if (line === this.#active) this.#handle({ kind: "opened" });
          line.receiver = this.#options.attach(this.#channel(line, label), line === this.#probe);
        },
        closed: (code) => this.#closed(line, label, code),
        frame: (bytes) => line.receiver?.handleFrame(bytes),
        text: (text) => line.receiver?.handleText(text),
      });
    } catch {
      // A token with characters that a sub-protocol must not have, or a platform without sockets left.
      failed("error_before_open");
    }
  }

  #channel(line: Line, label: string): Channel {
    return {
      label,
      send: (frame) => line.connection?.send(frame),
      say: (message) => line.connection?.send(JSON.stringify(message)),
      fail: () => line.connection?.fail(),
      synced: () => {
        line.connection?.synced();
        if (line === this.#active) this.#handle({ kind: "synced" });
        else if (line === this.#probe) this.#handle({ kind: "probe_synced" });
      },
    };
  }

  #closed(line: Line, label: string, code: number): void {
    this.#hangUp(line);
    this.#options.onClose?.(label, code);
    if (line === this.#active) this.#handle({ kind: "closed", code: this.#meant(line, code), offline: !this.#environment.isOnline() });
    else this.#probeFailed(line);
  }

  /**
   * What a close means. Who sends while a relay closes may see a cut in place of the code, and 4401 comes to
   * whoever sends. Only a stable connection is judged so: with a wrong clock every token seems to have ended.
   */
  #meant(line: Line, code: number): number {
    const now = this.#environment.now();
    const wasStable = this.#state.kind === "synced" && now - this.#state.since >= this.#times.stableMs;
    return wasStable && now >= line.tokenEnd && classifyClose(code).kind === "abnormal" ? EXPIRED : code;
  }

  #probeFailed(line: Line): void {
    if (line !== this.#probe) return;
    this.#probe = null;
    this.#handle({ kind: "probe_failed" });
  }

  #adoptProbe(): void {
    const old = this.#active;
    this.#active = this.#probe;
    this.#probe = null;
    this.#hangUp(old);
    this.#active?.receiver?.handleAdopt();
  }

  #hangUp(line: Line | null): null {
    if (line === null) return null;
    const { receiver } = line;
    line.receiver = null;
    receiver?.handleEnd();
    line.connection?.end();
    return null;
  }
}

function newLine(): Line {
  return { connection: null, receiver: null, tokenEnd: Infinity };
}
