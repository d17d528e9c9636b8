// The entry "./agent": what an agent needs, without Yjs.
export { WorkspaceAgent } from "./workspace-agent.ts";
export type { AgentOptions, Cancel, ChangesOptions, EditOptions, MutationOptions, WaitOptions } from "./workspace-agent.ts";
export type { ListOptions } from "../api/list-nodes.ts";
export type { ApiTokenProvider } from "../api/api-token.ts";
export { AgentClosedError, PreconditionFailedError, ProblemError, UnreachableError } from "../api/problem.ts";
export type { ProblemCode } from "../api/problem.ts";
export { TokenRefusedError } from "../token-source.ts";
export type { Attributes, Change, ChangeKind, DocumentEdit, DocumentRead, EditAnswer, FeedItem, Node, Op, OpsAnswer, Precondition, Reset, WriteAnswer } from "../api/types.ts";
