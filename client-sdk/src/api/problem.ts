// What can go wrong with a call. Every error has a stable `code`; none holds a token (A3).
import { parseObject } from "../json.ts";

/** Every code that the API has (docs/API.md says the cause and the cure of each). */
export const PROBLEM_CODES = [
  "bad_request",
  "cursor_gone",
  "document_too_large",
  "epoch_changed",
  "exists",
  "forbidden",
  "idempotency_key_reused",
  "internal",
  "invalid_cursor",
  "invalid_edit",
  "invalid_json",
  "invalid_path",
  "invalid_update",
  "invalid_workspace_id",
  "keys_unavailable",
  "method_not_allowed",
  "node_not_found",
  "not_acceptable",
  "not_found",
  "origin_not_allowed",
  "payload_too_large",
  "pointer_not_found",
  "precondition_failed",
  "quote_ambiguous",
  "quote_not_found",
  "rate_limited",
  "stale_base",
  "storage_unavailable",
  "token_expired",
  "unauthorized",
  "unsupported_media_type",
  "upgrade_required",
  "workspace_deleted",
  "workspace_not_found",
  "wrong_node_kind",
] as const;
export type ProblemCode = (typeof PROBLEM_CODES)[number];

/** A refusal as the API writes it (RFC 9457), with what is special about this one in `extra`. */
export interface Problem {
  readonly code: ProblemCode;
  readonly status: number;
  readonly detail: string;
  readonly extra: Readonly<Record<string, unknown>>;
}

/** The API refused a call. A newer server may have codes that the type does not name. */
export class ProblemError extends Error implements Problem {
  readonly code: ProblemCode;
  readonly status: number;
  readonly detail: string;
  readonly extra: Readonly<Record<string, unknown>>;

  constructor({ code, status, detail, extra }: Problem) {
    super(`${code}: ${detail}`);
    this.name = "ProblemError";
    this.code = code;
    this.status = status;
    this.detail = detail;
    this.extra = extra;
  }
}

/** 412: the node is not what the caller took it for. Merge with `value`, and retry with `clock` as `ifMatch`. */
export class PreconditionFailedError extends ProblemError {
  /** The node's clock now; `null` when there is none. */
  readonly clock: number | null;
  readonly value: unknown;

  constructor(problem: Problem) {
    super(problem);
    this.name = "PreconditionFailedError";
    const clock = problem.extra["clock"];
    this.clock = typeof clock === "number" ? clock : null;
    this.value = problem.extra["value"];
  }
}

/** There was no answer of the API: no connection, none in time, or somebody else's answer (`status`). */
export class UnreachableError extends Error {
  readonly code = "unreachable";
  readonly status: number | null;

  constructor(message: string, status: number | null, cause?: unknown) {
    super(message, { cause });
    this.name = "UnreachableError";
    this.status = status;
  }
}

/** Somebody else answered: a proxy, a portal, or whatever is at an address that is not the API's. */
export function notTheApi(what: string, status: number | null): UnreachableError {
  return new UnreachableError(`${what}, so it is not from the API; is \`api\` its address?`, status);
}

/** The agent was closed while somebody waited. */
export class AgentClosedError extends Error {
  readonly code = "closed";

  constructor() {
    super("The agent was closed; make a new one to go on.");
    this.name = "AgentClosedError";
  }
}

/** Reads the body of a refusal; `null` when the API did not write it. */
export function parseProblem(status: number, contentType: string | null, text: string): Problem | null {
  if (!contentType?.startsWith("application/problem+json")) return null;
  const body = parseObject(text);
  const { type: _type, title: _title, status: _status, code, detail, ...extra } = body ?? {};
  if (typeof code !== "string" || typeof detail !== "string") return null;
  return { code: code as ProblemCode, status, detail, extra };
}

export function errorOf(problem: Problem): ProblemError {
  return problem.code === "precondition_failed" ? new PreconditionFailedError(problem) : new ProblemError(problem);
}
