// The public parts of the SDK.
export * from "./relay.ts";
export { FlushError } from "./receipts.ts";
export type { Receipt, SaveState } from "./receipts.ts";
export { SyncProvider } from "./sync-provider.ts";
export type { RecoveryCopy, SyncProviderEvents, SyncProviderOptions, SyncStatus } from "./sync-provider.ts";
