// A document over REST (L4): what the server has and this copy lacks, and the other way round.
import { Doc } from "yjs";
import type { Api } from "../api/api.ts";
import * as operations from "../api/operations.ts";
import { ProblemError, notTheApi } from "../api/problem.ts";
import type { Write } from "../ops/merge.ts";
import { applyUpdate, encodeStateAsUpdate, encodeStateVector, mergeUpdates } from "../yjs.ts";

export interface ServerCopy {
  readonly update: Uint8Array;
  readonly clock: number;
  readonly epoch: number;
}

/**
 * What the server has past a state vector, or all of it; `null` when it has no such document. Goes on
 * while the API is away, until the signal; rejects with what will not pass.
 */
export async function readDocument(api: Api, path: string, vector: Uint8Array | null, signal: AbortSignal): Promise<ServerCopy | null> {
  const query = { sv: vector === null ? undefined : base64Url(vector) };
  try {
    const { bytes, headers, status } = await api.call(operations.readDocument, { path, query, headers: { Accept: "application/octet-stream" } }, { signal, tries: Infinity });
    const clock = /^(?:W\/)?"(\d+)"$/.exec(headers.get("etag") ?? "")?.[1];
    const epoch = headers.get("yrelay-epoch");
    if (clock === undefined || epoch === null) throw notTheApi("The answer has no clock and epoch of a document", status);
    return { update: bytes, clock: Number(clock), epoch: Number(epoch) };
  } catch (error) {
    if (error instanceof ProblemError && error.code === "node_not_found") return null;
    throw error;
  }
}

/** What a copy has beyond the server and the writes that are on their way; `null` when that is nothing. */
export function missingOnServer(doc: Doc, server: Uint8Array | null, waiting: readonly Write[]): Uint8Array | null {
  const there = new Doc();
  if (server !== null) applyUpdate(there, server);
  for (const write of waiting) if (write.op === "update") applyUpdate(there, write.update);
  const missing: Uint8Array[] = [];
  there.on("update", (update: Uint8Array) => missing.push(update));
  applyUpdate(there, encodeStateAsUpdate(doc, encodeStateVector(there)));
  there.destroy();
  return missing.length === 0 ? null : mergeUpdates(missing);
}

function base64Url(bytes: Uint8Array): string {
  const text = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}
