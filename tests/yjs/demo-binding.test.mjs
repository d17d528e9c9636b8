// The demo page's text area against stock Yjs: what is typed becomes one small splice.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as Y from "yjs";
import { bindTextArea, shown, splice, storedIndex } from "../../demo/binding.js";

/** As much of a text area as the binding uses. */
class FakeArea extends EventTarget {
  value = "";
  selectionEnd = 0;
  setRangeText(text, start, end) {
    this.value = this.value.slice(0, start) + text + this.value.slice(end);
  }
  /** Replaces a range as a user does; the caret ends up after the new text. */
  edit(start, end, text) {
    this.setRangeText(text, start, end);
    this.selectionEnd = start + text.length;
    this.dispatchEvent(new Event("input"));
  }
}

function random(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const apply = (text, { index, remove, insert }) => text.slice(0, index) + insert + text.slice(index + remove);

test("a splice says where a repeated character was typed", () => {
  assert.deepEqual(splice("aaa", "aaaa", 2), { index: 1, remove: 0, insert: "a" });
  assert.deepEqual(splice("aaa", "aa", 1), { index: 1, remove: 1, insert: "" });
  assert.deepEqual(splice("one two", "one, two", 4), { index: 3, remove: 0, insert: "," });
  assert.deepEqual(splice("same", "same", 1).insert, "");
});

test("a splice never cuts a surrogate pair", () => {
  // U+1F600 and U+1F601 share their first half, U+1F600 and U+1FA00 their last.
  assert.deepEqual(splice("a\u{1F600}", "a\u{1F601}"), { index: 1, remove: 2, insert: "\u{1F601}" });
  assert.deepEqual(splice("\u{1F600}b", "\u{1FA00}b", 2), { index: 0, remove: 2, insert: "\u{1FA00}" });
});

test("a splice leads from any text to any other, whatever the caret", () => {
  const draw = random(7);
  const words = ["a", "a", "b", "\n", "\u{1F600}", "\u{1F601}", "ab"];
  const text = () => Array.from({ length: draw(8) }, () => words[draw(words.length)]).join("");
  for (let round = 0; round < 5000; round++) {
    const [before, after] = [text(), text()];
    assert.equal(apply(before, splice(before, after, draw(after.length + 1))), after);
  }
});

test("a stored line end of two characters is one in the text area", () => {
  const stored = "a\r\nb\rc";
  assert.equal(shown(stored), "a\nb\nc");
  assert.deepEqual([0, 1, 2, 3, 4, 5].map((index) => storedIndex(stored, index)), [0, 1, 3, 4, 5, 6]);
});

test("three text areas that are edited at once end with the same text", () => {
  const draw = random(11);
  const peers = [0, 1, 2].map(() => {
    const doc = new Y.Doc();
    const area = new FakeArea();
    bindTextArea(area, doc.getText("content"));
    return { doc, area, inbox: [] };
  });
  for (const peer of peers) {
    peer.doc.on("update", (update, origin) => {
      if (origin !== "wire") for (const other of peers) if (other !== peer) other.inbox.push(update);
    });
  }
  const deliver = (peer, count) => peer.inbox.splice(0, count).forEach((update) => Y.applyUpdate(peer.doc, update, "wire"));
  peers[0].doc.getText("content").insert(0, "start\r\nhere");
  for (let round = 0; round < 600; round++) {
    const peer = peers[draw(3)];
    const units = [...peer.area.value];
    const [from, to] = [draw(units.length + 1), draw(units.length + 1)].sort((a, b) => a - b);
    const at = (count) => units.slice(0, count).join("").length;
    peer.area.edit(at(from), at(Math.min(to, from + 3)), ["x", "yy", "\n", "\u{1F600}", ""][draw(5)]);
    deliver(peers[draw(3)], draw(4));
    assert.equal(peer.area.value, shown(peer.doc.getText("content").toString()));
  }
  for (const peer of peers) deliver(peer, Infinity);
  const texts = new Set(peers.map((peer) => peer.area.value));
  assert.equal(texts.size, 1);
  assert.ok(!texts.has("") && ![...texts][0].includes("\u{FFFD}"));
});
