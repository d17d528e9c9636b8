// A text area bound to a Y.Text: what the user did becomes one splice, what others did moves nothing
// else. The text area always shows the Y.Text, so neither side can overwrite the other.

/**
 * The splice that turns `before` into `after`. Text that repeats ("aa" to "aaa") leaves open where
 * it happened; `caret`, the end of the selection after the edit, decides. Never splits a
 * surrogate pair, which Yjs would replace.
 */
export function splice(before, after, caret = after.length) {
  // What follows the caret was not touched by typing, pasting or deleting; by an undo it may have been.
  const tail = after.slice(caret);
  let suffix = before.endsWith(tail) ? tail.length : 0;
  const room = () => Math.min(before.length, after.length) - suffix;
  let start = 0;
  while (start < room() && before.charCodeAt(start) === after.charCodeAt(start)) start++;
  if (start > 0 && isHigh(before.charCodeAt(start - 1))) start--;
  const sameEnd = () => before.charCodeAt(before.length - 1 - suffix) === after.charCodeAt(after.length - 1 - suffix);
  while (suffix < Math.min(before.length, after.length) - start && sameEnd()) suffix++;
  if (suffix > 0 && isLow(before.charCodeAt(before.length - suffix))) suffix--;
  return { index: start, remove: before.length - suffix - start, insert: after.slice(start, after.length - suffix) };
}

/** Binds them until the returned function is called. */
export function bindTextArea(area, text) {
  const origin = {};
  const onInput = () => {
    const stored = text.toString();
    const { index, remove, insert } = splice(shown(stored), area.value, area.selectionEnd);
    const [from, to] = [storedIndex(stored, index), storedIndex(stored, index + remove)];
    text.doc.transact(() => {
      if (to > from) text.delete(from, to - from);
      if (insert) text.insert(from, insert);
    }, origin);
  };
  const onChange = (event) => {
    if (event.transaction.origin === origin) return;
    const stored = text.toString();
    if (stored.includes("\r") || area.value.length !== lengthBefore(event.delta, stored.length)) {
      area.value = shown(stored);
      return;
    }
    let at = 0;
    for (const { retain, insert, delete: remove } of event.delta) {
      if (retain) at += retain;
      if (remove) area.setRangeText("", at, at + remove, "preserve");
      if (typeof insert === "string") {
        area.setRangeText(insert, at, at, "preserve");
        at += insert.length;
      }
    }
  };
  area.value = shown(text.toString());
  area.addEventListener("input", onInput);
  text.observe(onChange);
  return () => {
    area.removeEventListener("input", onInput);
    text.unobserve(onChange);
  };
}

/** A text area shows every line end as one character, whatever is stored. */
export function shown(stored) {
  return stored.replace(/\r\n?/g, "\n");
}

/** Where in the stored text an index of the shown one is. */
export function storedIndex(stored, index) {
  let at = 0;
  for (let left = index; left > 0; left--) at += stored.startsWith("\r\n", at) ? 2 : 1;
  return at;
}

function lengthBefore(delta, after) {
  return delta.reduce((length, { insert, delete: remove }) => length + (remove ?? 0) - (insert?.length ?? 0), after);
}

const isHigh = (unit) => unit >= 0xd800 && unit < 0xdc00;
const isLow = (unit) => unit >= 0xdc00 && unit < 0xe000;
