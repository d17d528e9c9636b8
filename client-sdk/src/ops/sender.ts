// One write of the outbox as one call of the API.
import { jsonOf } from "../api/api.ts";
import type { Answer, Api, Failure } from "../api/api.ts";
import * as operations from "../api/operations.ts";
import type { OpsAnswer, Precondition, UpdateAnswer, WriteAnswer } from "../api/types.ts";
import type { Coalesced } from "./coalescer.ts";
import type { OutboxEntry } from "./outbox.ts";
import type { Write } from "./merge.ts";

/** The word of the API that a write is committed. `epoch` is that of a document. */
export interface WriteReceipt {
  readonly clock: number;
  readonly epoch?: number;
}

/** Takes what has passed the coalescer, and nothing else. */
export type Sender = (entry: Coalesced<OutboxEntry>, options: { readonly keepalive: boolean }) => Promise<Failure | WriteReceipt>;

/** Browsers refuse more than 64 KiB in calls that outlive the page. */
const MAX_KEEPALIVE_BYTES = 60 * 1024;

/** Sends through the API, one try at a time. Never rejects. */
export function senderOf(api: Api): Sender {
  return async (entry, { keepalive }) => {
    try {
      const answer = await send(api, entry, keepalive);
      return "error" in answer ? answer : receiptOf(answer);
    } catch (error) {
      // What cannot be put in a call at all, such as a path with an empty segment.
      return { error, passes: false, retryAfterMs: null };
    }
  };
}

const CALLS = { delete: operations.deleteNode, patch: operations.patchNode, put: operations.putNode, update: operations.postUpdate };

function send(api: Api, { key, write }: OutboxEntry, keepalive: boolean): Promise<Answer | Failure> {
  const body = bodyOf(write);
  const { path, op } = write;
  const more = op === "update" ? { query: { epoch: write.epoch }, headers: { "Idempotency-Key": key } } : { headers: headersOf(write, key) };
  return api.attempt(CALLS[op], { path, ...more, body, keepalive: keepalive && (body?.length ?? 0) < MAX_KEEPALIVE_BYTES });
}

function bodyOf(write: Write): Uint8Array<ArrayBuffer> | string | undefined {
  switch (write.op) {
    case "update":
      return new Uint8Array(write.update);
    case "put":
      return JSON.stringify(write.value);
    case "patch":
      return JSON.stringify(write.patch);
    case "delete":
      return undefined;
  }
}

function receiptOf(answer: Answer): WriteReceipt {
  const { clock, epoch } = jsonOf<Partial<UpdateAnswer> & (OpsAnswer | WriteAnswer)>(answer);
  return epoch === undefined ? { clock } : { clock, epoch };
}

function headersOf({ ifMatch, ifNoneMatch }: Precondition, key: string) {
  return { "If-Match": typeof ifMatch === "number" ? `"${ifMatch}"` : ifMatch, "If-None-Match": ifNoneMatch, "Idempotency-Key": key };
}
