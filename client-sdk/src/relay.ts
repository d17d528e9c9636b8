// The entry "./relay": the list and the socket without Yjs, for builds and for other protocols.
export { checkRelayList, parseRelayList, RelayListError } from "./relay-list.ts";
export type { Relay } from "./relay-list.ts";
/** The list's state machine alone: pure, for a connection of another kind. */
export * as RelayWalker from "./relay-walker.ts";
export { RelaySocket } from "./relay-socket.ts";
export type { Channel, Receiver, RelaySocketOptions, RelayStatus, RelayTimes } from "./relay-socket.ts";
export type { AdvanceTrigger, TelemetryEvent } from "./relay-walker.ts";
export { STOP_TEXT } from "./close-codes.ts";
export type { StopReason } from "./close-codes.ts";
export { Telemetry } from "./telemetry.ts";
export type { TelemetryOptions } from "./telemetry.ts";
export { TokenRefusedError } from "./token-source.ts";
export type { ScopeToken, TokenProvider } from "./token-source.ts";
