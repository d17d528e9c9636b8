/**
 * What a response brings, for as long as a signal lets it.
 *
 * The signal of the request is not enough: the runtime holds it weakly while a body is read, and may have forgotten
 * it when it aborts. The body would be waited for without an end.
 *
 * @module
 */

/** The pieces of a body; throws the signal's reason when it aborts. */
export async function* piecesOf<T>(body: ReadableStream<T> | null, signal: AbortSignal): AsyncGenerator<T> {
  const reader = body?.getReader();
  if (!reader) return;
  const cancel = () => void reader.cancel().catch(() => {});
  signal.addEventListener("abort", cancel);
  try {
    signal.throwIfAborted();
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) yield piece.value;
    signal.throwIfAborted();
  } finally {
    signal.removeEventListener("abort", cancel);
    // Also when nobody wants the rest.
    cancel();
  }
}

/** A whole body; throws the signal's reason when it aborts. */
export async function bytesOf({ body }: Response, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  return await new Blob(await Array.fromAsync(piecesOf(body, signal))).bytes();
}
