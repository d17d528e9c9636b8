// The walker's transition table: a cell for each state and event, with no default, so that the
// compiler asks for every cell of a new state or event. What the cells share is in walker-moves.ts.
import { after, close, connectFresh, ignore, moveBack, moveOn, park, retry, settle, stop, synced } from "./walker-moves.ts";
import type { Effect, Step, WalkerEvent, WalkerInput, WalkerState } from "./relay-walker.ts";

type StateOf<K extends WalkerState["kind"]> = Extract<WalkerState, { kind: K }>;
type EventOf<K extends WalkerEvent["kind"]> = Extract<WalkerEvent, { kind: K }>;
type Table = {
  readonly [S in WalkerState["kind"]]: {
    readonly [E in WalkerEvent["kind"]]: (state: StateOf<S>, event: EventOf<E>, input: WalkerInput) => Step;
  };
};

const NO_PROBE: readonly Effect[] = [{ kind: "cancelProbe" }];

export const TABLE: Table = {
  idle: {
    closed: ignore,
    disconnect: ignore,
    due: ignore,
    failed: ignore,
    offline: ignore,
    opened: ignore,
    probe_failed: ignore,
    probe_synced: ignore,
    restart: connectFresh,
    start: connectFresh,
    stop,
    synced: ignore,
    token_failed: ignore,
    wake: ignore,
  },
  waiting: {
    closed: ignore,
    disconnect: (state) => park(state, "idle"),
    due: ({ at }) => ({ state: { kind: "connecting", at }, effects: [{ kind: "openSocket", index: at.index }] }),
    failed: ignore,
    offline: (state) => park(state, "offline"),
    opened: ignore,
    probe_failed: ignore,
    probe_synced: ignore,
    restart: ignore,
    start: ignore,
    stop,
    synced: ignore,
    token_failed: ignore,
    wake: ({ at }, _, input) => retry(at, input, "wake"),
  },
  connecting: {
    // A socket that closes before it is open has failed.
    closed: ignore,
    disconnect: (state) => park(state, "idle"),
    due: ignore,
    failed: ({ at }, { trigger }, input) => moveOn(at, trigger, input),
    offline: (state) => park(state, "offline"),
    opened: ({ at }) => ({ state: { kind: "open", at }, effects: [] }),
    probe_failed: ignore,
    probe_synced: ignore,
    restart: ignore,
    start: ignore,
    stop,
    synced: ignore,
    // No relay is to blame, and another one takes no other token.
    token_failed: (state, { final }, input) => (final ? stop(state, { reason: "token_refused" }) : retry(state.at, input, "backoff")),
    wake: ignore,
  },
  open: {
    closed: close,
    disconnect: (state) => park(state, "idle"),
    due: ignore,
    failed: ignore,
    // The connection may outlive a short loss of the network; its heartbeat tells.
    offline: ignore,
    opened: ignore,
    probe_failed: ignore,
    probe_synced: ignore,
    restart: ignore,
    start: ignore,
    stop,
    synced: ({ at }, _, input) => synced(at, input),
    token_failed: ignore,
    wake: ignore,
  },
  synced: {
    closed: (state, event, input) => after(NO_PROBE, close(settle(state, input), event, input)),
    disconnect: (state) => after(NO_PROBE, park(state, "idle")),
    due: ignore,
    failed: ignore,
    offline: ignore,
    opened: ignore,
    probe_failed: ({ at, since }, _, input) => synced({ ...at, probe: at.probe + 1 }, { ...input, now: since }),
    probe_synced: (state, _, input) => moveBack(state, input),
    restart: ignore,
    start: ignore,
    stop: (state, event) => after(NO_PROBE, stop(state, event)),
    synced: ignore,
    token_failed: ignore,
    wake: ignore,
  },
  offline: {
    closed: ignore,
    disconnect: (state) => park(state, "idle"),
    due: ignore,
    failed: ignore,
    offline: ignore,
    opened: ignore,
    probe_failed: ignore,
    probe_synced: ignore,
    restart: ignore,
    start: ignore,
    stop,
    synced: ignore,
    token_failed: ignore,
    wake: ({ at }, _, input) => retry(at, input, "wake"),
  },
  stopped: {
    closed: ignore,
    disconnect: ignore,
    due: ignore,
    failed: ignore,
    offline: ignore,
    opened: ignore,
    probe_failed: ignore,
    probe_synced: ignore,
    restart: connectFresh,
    start: ignore,
    stop: ignore,
    synced: ignore,
    token_failed: ignore,
    wake: ignore,
  },
};
