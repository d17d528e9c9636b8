import assert from "node:assert/strict";
import { bytesOf, piecesOf } from "./body.ts";

/** A body that brings some pieces, and then nothing and no end; and whether it was cancelled. */
function endless(pieces: string[]) {
  const state = { isCancelled: false };
  const rest = pieces.map((piece) => new TextEncoder().encode(piece));
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull: (stream) => {
      const piece = rest.shift();
      if (!piece) return new Promise<void>(() => {});
      stream.enqueue(piece);
      return undefined;
    },
    cancel: () => void (state.isCancelled = true),
  });
  return { body, state };
}

Deno.test("a body is read whole, an empty one too", async () => {
  const { signal } = new AbortController();
  const parts = new Blob(["one ", "two"]).stream();
  assert.equal(new TextDecoder().decode(await bytesOf(new Response(parts), signal)), "one two");
  assert.equal((await bytesOf(new Response(null, { status: 204 }), signal)).length, 0);
});

Deno.test("a body without an end is given up and cancelled when the signal aborts, before it or while it is read", async () => {
  for (const isEarly of [false, true]) {
    const { body, state } = endless(["one"]);
    const abort = new AbortController();
    if (isEarly) abort.abort(new Error("over"));
    else setTimeout(() => abort.abort(new Error("over")), 0);
    await assert.rejects(bytesOf(new Response(body), abort.signal), /^Error: over$/);
    assert.equal(state.isCancelled, true);
  }
});

Deno.test("a body of which nobody wants the rest is cancelled", async () => {
  const { body, state } = endless(["one", "two"]);
  for await (const piece of piecesOf(body, new AbortController().signal)) {
    assert.equal(new TextDecoder().decode(piece), "one");
    break;
  }
  assert.equal(state.isCancelled, true);
});
