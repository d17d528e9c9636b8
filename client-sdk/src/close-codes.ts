// What the close codes of a relay mean for a client: the table of PROTOCOL.md, and the reasons for
// which a connection ends for good.

/** Why a connection stopped for good. Stable: an application may compare it. */
export type StopReason =
  | "deleted"
  | "document_too_large"
  | "epoch_changed"
  | "forbidden"
  | "frame_too_large"
  | "protocol_violation"
  | "refused"
  | "token_refused"
  | "token_rejected";

/** Cause and cure of each reason. */
export const STOP_TEXT: Readonly<Record<StopReason, string>> = {
  deleted: "The workspace or the document was deleted. Leave it; nothing will be there again.",
  document_too_large: "The document is over the relay's size limit. Split it; the edits are kept in this copy.",
  epoch_changed: "The document was replaced or made anew. Load it again, and offer the recovery copy to the author; never merge it.",
  forbidden: "Access was taken away or never given. Ask an owner for a role, then restart.",
  frame_too_large: "An edit is larger than a frame may be (1 MiB). It is kept in this copy; send it by REST, then restart.",
  protocol_violation: "The relay could not read what this client sent. Reload the application; if it happens again, report it.",
  refused: "The relay refused this client with a code that this version does not know. Update the application.",
  token_refused: "The application's token provider said that there is no token for this user. Sign in again, then restart.",
  token_rejected: "The relay called a fresh token expired. Compare the clocks of the servers, and the relay's public key.",
};

/** What a close code after an open asks of the walker. */
export type CloseClass =
  | { readonly kind: "abnormal" | "clean" | "expired" | "limited" | "restart" }
  | { readonly kind: "stop"; readonly reason: StopReason };

/** The token ended. */
export const EXPIRED = 4401;

const STOP_CODES: Readonly<Record<number, StopReason>> = {
  1009: "frame_too_large",
  4400: "protocol_violation",
  4403: "forbidden",
  4404: "deleted",
  4409: "epoch_changed",
  4413: "document_too_large",
};

/**
 * Classifies a close code. Which code stands for a broken connection differs by platform (1006 in
 * browsers, 0 in Deno, 1001 of a server that ends without goodbye), so all that is not in the table
 * is abnormal.
 */
export function classifyClose(code: number): CloseClass {
  const reason = STOP_CODES[code];
  if (reason !== undefined) return { kind: "stop", reason };
  if (code === 1000) return { kind: "clean" };
  if (code === 1012) return { kind: "restart" };
  if (code === EXPIRED) return { kind: "expired" };
  if (code === 4429) return { kind: "limited" };
  if (code >= 4400 && code <= 4499) return { kind: "stop", reason: "refused" };
  return { kind: "abnormal" };
}
