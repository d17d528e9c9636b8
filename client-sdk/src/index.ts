// The public parts of the SDK.
export * from "./relay.ts";
export { FlushError } from "./receipts.ts";
export type { Receipt, SaveState } from "./receipts.ts";
export { SyncProvider } from "./sync-provider.ts";
export type { RecoveryCopy, SyncProviderEvents, SyncProviderOptions, SyncStatus } from "./sync-provider.ts";
export { WorkspaceClient } from "./workspace-client.ts";
export type { WorkspaceClientOptions, WorkspaceEvents, WorkspacePresence, WorkspaceStatus } from "./workspace-client.ts";
export type { SharedDocument } from "./documents/document.ts";
export type { DocumentEvents, DocumentReceipt, DocumentStatus, SaveLevel } from "./documents/types.ts";
export type { Refusal } from "./ops/apply-op.ts";
export type { UpdateOp, Write } from "./ops/merge.ts";
export type { WriteReceipt } from "./ops/sender.ts";
export type { DocumentStore, StoredDocument } from "./store.ts";
export { ConnectionPolicy, shouldOpenWs } from "./connection-policy.ts";
export type { Company } from "./connection-policy.ts";
export { PreconditionFailedError, ProblemError, UnreachableError } from "./api/problem.ts";
export type { ListOptions } from "./api/list-nodes.ts";
export type { Change, FeedItem, Node, Op, PresenceEntry, PresenceList, Reset } from "./api/types.ts";
