// Documents of a given encoded size, made from a seed: runs of 20 to 60 characters typed
// near the end of a text by three clients, so that a document of 1 MB has some 20,000
// items as an edited one has, not a single long string.

import * as Y from "yjs";

/**
 * Builds a document whose merged update has about `bytes` bytes. `parts` are updates
 * below the request limit that together make `whole`.
 */
export function seedDocument(bytes) {
  const next = random(bytes);
  const doc = new Y.Doc({ gc: false });
  const text = doc.getText("content");
  const parts = [];
  let vector = Y.encodeStateVector(doc);
  let size = 0;
  let held = 0;
  doc.on("update", (update) => {
    held += update.length;
    size += update.length;
  });
  const cut = () => {
    parts.push(Y.encodeStateAsUpdate(doc, vector));
    vector = Y.encodeStateVector(doc);
    held = 0;
  };
  for (let n = 0; size < bytes; n += 1) {
    if (n % 100 === 0) doc.clientID = 1 + Math.floor(n / 100) % 3;
    const room = Math.min(bytes - size, 20 + next(40));
    text.insert(Math.max(0, text.length - next(500)), "abcdefgh ".repeat(7).slice(0, Math.max(1, room)));
    if (held > PART_BYTES) cut();
  }
  if (held > 0) cut();
  const whole = Y.encodeStateAsUpdate(doc);
  const length = text.length;
  doc.destroy();
  return { parts, whole, length };
}

/** Length of the text that an update holds; throws when it is not a whole document. */
export function textLength(update) {
  const doc = new Y.Doc();
  Y.applyUpdate(doc, update);
  const { length } = doc.getText("content");
  doc.destroy();
  return length;
}

/** A small linear generator: the same document in every run and on both sides. */
function random(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const PART_BYTES = 400_000;
