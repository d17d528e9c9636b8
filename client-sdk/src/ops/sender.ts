// One write of the outbox as one call of the API.
import { jsonOf } from "../api/api.ts";
import type { Answer, Api, Failure } from "../api/api.ts";
import type { OpsAnswer, Precondition, UpdateAnswer, WriteAnswer } from "../api/types.ts";
import type { OutboxEntry } from "./outbox.ts";
import type { UpdateOp } from "./merge.ts";

/** The word of the API that a write is committed. `epoch` is that of a document. */
export interface WriteReceipt {
  readonly clock: number;
  readonly epoch?: number;
}

export type Sender = (entry: OutboxEntry, options: { readonly keepalive: boolean }) => Promise<Failure | WriteReceipt>;

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

function send(api: Api, { key, write }: OutboxEntry, keepalive: boolean): Promise<Answer | Failure> {
  const { path } = write;
  const outlives = (body: string | Uint8Array) => keepalive && body.length < MAX_KEEPALIVE_BYTES;
  switch (write.op) {
    case "update": {
      const body = bytesOf(write);
      return api.attempt("postUpdate", { path, query: { epoch: write.epoch }, headers: { "Idempotency-Key": key }, body, keepalive: outlives(body) });
    }
    case "put": {
      const body = JSON.stringify(write.value);
      return api.attempt("putNode", { path, headers: headersOf(write, key), body, keepalive: outlives(body) });
    }
    case "patch": {
      const body = JSON.stringify(write.patch);
      return api.attempt("patchNode", { path, headers: headersOf(write, key), body, keepalive: outlives(body) });
    }
    case "delete":
      return api.attempt("deleteNode", { path, headers: headersOf(write, key), keepalive });
  }
}

function receiptOf(answer: Answer): WriteReceipt {
  const { clock, epoch } = jsonOf<Partial<UpdateAnswer> & (OpsAnswer | WriteAnswer)>(answer);
  return epoch === undefined ? { clock } : { clock, epoch };
}

function headersOf({ ifMatch, ifNoneMatch }: Precondition, key: string) {
  return { "If-Match": typeof ifMatch === "number" ? `"${ifMatch}"` : ifMatch, "If-None-Match": ifNoneMatch, "Idempotency-Key": key };
}

function bytesOf({ update }: UpdateOp): Uint8Array<ArrayBuffer> {
  return new Uint8Array(update);
}
