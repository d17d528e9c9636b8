// The moves that the cells of the walker's table are made of.
import { classifyClose } from "./close-codes.ts";
import type { StopReason } from "./close-codes.ts";
import type { AdvanceTrigger, Effect, Position, Step, WalkerInput, WalkerState } from "./relay-walker.ts";

/** Abnormal closes in a row after which the walker advances (S1). */
const STRIKES = 2;

/** What a delay is for. Only `backoff` and `limited` count as failures. */
type Delay = "backoff" | "limited" | "refresh" | "restart" | "wake";

/** Nothing happens. */
export function ignore(state: WalkerState): Step {
  return { state, effects: [] };
}

/** Begins: the entry at hand is tried at once, and every other one is fresh. */
export function connectFresh({ at }: WalkerState, _: unknown, { config }: WalkerInput): Step {
  const begun = { ...at, strikes: 0, restarts: 0, failures: 0, fresh: freshEntries(config), refreshed: false };
  return { state: { kind: "waiting", at: begun }, effects: [{ kind: "connect", index: at.index, afterMs: 0 }] };
}

/** Gives the socket up without a word about the relay. */
export function park({ at }: WalkerState, kind: "idle" | "offline"): Step {
  return { state: { kind, at }, effects: [{ kind: "closeSocket" }] };
}

export function stop({ at }: WalkerState, { reason }: { readonly reason: StopReason }): Step {
  return { state: { kind: "stopped", at, reason }, effects: [{ kind: "closeSocket" }, { kind: "stop", reason }] };
}

/** Tries the same entry again, after a delay. */
export function retry(at: Position, { config, random }: WalkerInput, delay: Delay): Step {
  const { baseMs, capMs, minDelayMs, rateLimitMs, restartSpreadMs, wakeSpreadMs } = config.times;
  const counted = delay === "backoff" || delay === "limited";
  const backoff = Math.min(capMs, baseMs * 2 ** at.failures);
  const [least, ceiling] = {
    backoff: [minDelayMs, backoff],
    limited: [rateLimitMs, rateLimitMs + backoff],
    refresh: [minDelayMs, baseMs],
    restart: [minDelayMs, restartSpreadMs],
    wake: [minDelayMs, wakeSpreadMs],
  }[delay] as [number, number];
  const afterMs = least + random * Math.max(0, ceiling - least);
  const next = counted ? { ...at, failures: at.failures + 1 } : at;
  return { state: { kind: "waiting", at: next }, effects: [{ kind: "connect", index: at.index, afterMs }] };
}

/** Goes to the next entry; pinned, or alone in the list, it tries the same one again. */
export function moveOn(at: Position, trigger: AdvanceTrigger, input: WalkerInput): Step {
  const { config, now } = input;
  // A refused upgrade looks like any failure, and an old token is one cause of it.
  const effects: Effect[] = trigger === "abnormal_closes" ? [] : [{ kind: "refreshToken", required: false }];
  const cleared = { ...at, strikes: 0, restarts: 0 };
  if (config.pinned !== null) return after(effects, retry(cleared, input, "backoff"));
  const index = (at.index + 1) % config.labels.length;
  const from = labelOf(config, at.index);
  if (index !== at.index) {
    effects.push({ kind: "emit", event: { name: "relay_advance", fromLabel: from, toLabel: labelOf(config, index), trigger, at: now } });
  }
  if (index === 0) effects.push({ kind: "emit", event: { name: "relay_cycle_all_failed", labels: config.labels, at: now } });
  const next = { ...cleared, index };
  if (at.fresh === 0) return after(effects, retry(next, input, "backoff"));
  effects.push({ kind: "connect", index, afterMs: 0 });
  return { state: { kind: "waiting", at: { ...next, fresh: at.fresh - 1 } }, effects };
}

/** An open socket ended: its code says what it means. */
export function close({ at }: WalkerState, event: { readonly code: number; readonly offline?: boolean }, input: WalkerInput): Step {
  const meaning = classifyClose(event.code);
  switch (meaning.kind) {
    case "clean":
      return retry({ ...at, strikes: 0 }, input, "backoff");
    case "limited":
      return retry(at, input, "limited");
    case "expired":
      if (at.refreshed) return end(at, "token_rejected");
      return after([{ kind: "refreshToken", required: true }], retry({ ...at, refreshed: true }, input, "refresh"));
    case "restart": {
      const restarted = { ...at, restarts: at.restarts + 1 };
      return at.restarts === 0 ? retry(restarted, input, "restart") : strike(restarted, event.offline, input);
    }
    case "stop":
      return end(at, meaning.reason);
    case "abnormal":
      return strike(at, event.offline, input);
  }
}

/** The connection is good; a fallback's is used until an earlier entry answers a probe. */
export function synced(at: Position, { config, now, random }: WalkerInput): Step {
  const probe = at.index === 0 ? 0 : at.probe % at.index;
  const state: WalkerState = { kind: "synced", at: { ...at, restarts: 0, refreshed: false, probe }, since: now };
  if (at.index === 0 || config.pinned !== null) return { state, effects: [] };
  return { state, effects: [{ kind: "probe", index: probe, afterMs: config.times.probeMs * (0.5 + random) }] };
}

/** The probe's entry works: it is used from now on. */
export function moveBack(state: Extract<WalkerState, { kind: "synced" }>, input: WalkerInput): Step {
  const { at } = state;
  const { config, now } = input;
  if (at.index === 0 || config.pinned !== null) return ignore(state);
  const toLabel = labelOf(config, at.probe);
  const event = { name: "relay_advance", fromLabel: labelOf(config, at.index), toLabel, trigger: "recovered", at: now } as const;
  const next = { ...at, index: at.probe, strikes: 0, failures: 0, fresh: freshEntries(config), probe: 0 };
  return after([{ kind: "emit", event }, { kind: "adoptProbe" }], synced(next, input));
}

/** Before a synced connection's close is judged: if it was stable, the outage before it is over. */
export function settle(state: Extract<WalkerState, { kind: "synced" }>, { config, now }: WalkerInput): WalkerState {
  if (now - state.since < config.times.stableMs) return state;
  return { ...state, at: { ...state.at, failures: 0, fresh: freshEntries(config) } };
}

/** Effects before those of a step. */
export function after(effects: readonly Effect[], { state, effects: more }: Step): Step {
  return { state, effects: [...effects, ...more] };
}

function strike(at: Position, offline: boolean | undefined, input: WalkerInput): Step {
  if (offline) return retry(at, input, "backoff");
  const strikes = at.strikes + 1;
  return strikes < STRIKES ? retry({ ...at, strikes }, input, "backoff") : moveOn(at, "abnormal_closes", input);
}

function end(at: Position, reason: StopReason): Step {
  return { state: { kind: "stopped", at, reason }, effects: [{ kind: "stop", reason }] };
}

function freshEntries({ labels, pinned }: WalkerInput["config"]): number {
  return pinned === null ? labels.length - 1 : 0;
}

function labelOf({ labels }: WalkerInput["config"], index: number): string {
  return labels[index] ?? "";
}
