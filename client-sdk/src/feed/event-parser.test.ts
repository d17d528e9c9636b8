import assert from "node:assert/strict";
import { test } from "node:test";
import { EventParser } from "./event-parser.ts";
import { MAX_EVENT_LENGTH } from "../api/limits.ts";

const TEXT = 'retry: 2000\n: ok\n\nevent: change\nid: 1\ndata: {"path":"a: b"}\n\n: still here\n\ndata:x\ndata\ndata:  y\n\nevent: empty\n\nevent: bye\ndata: {}\n\n';
const EVENTS = [
  { name: "change", data: '{"path":"a: b"}' },
  { name: "message", data: "x\n\n y" },
  { name: "bye", data: "{}" },
];

test("events are the same wherever a chunk ends, and with each kind of line end", () => {
  for (const end of ["\n", "\r\n", "\r"]) {
    // A last CR may be half of a CR LF, so the text goes on.
    const text = `${TEXT.replaceAll("\n", end)}:`;
    for (let at = 0; at <= text.length; at += 1) {
      const parser = new EventParser();
      assert.deepEqual([...parser.push(text.slice(0, at)), ...parser.push(text.slice(at))], EVENTS, `${JSON.stringify(end)} at ${at}`);
    }
    const parser = new EventParser();
    assert.deepEqual([...text].flatMap((character) => parser.push(character)), EVENTS);
  }
});

test("half an event is none", () => {
  const parser = new EventParser();
  assert.deepEqual(parser.push('event: change\nid: 1\ndata: {"clock":1}\n'), []);
  assert.deepEqual(parser.push("\n").length, 1);
});

test("line separators of Unicode are text", () => {
  assert.deepEqual(new EventParser().push("data: a\u2028b\u0085c😀\n\n"), [{ name: "message", data: "a\u2028b\u0085c😀" }]);
});

test("an event without an end does not grow for ever, in one line or in many", () => {
  const long = "x".repeat(1_000);
  for (const line of [long, `data: ${long}\n`]) {
    const parser = new EventParser();
    assert.throws(() => {
      for (let length = 0; length < 2 * MAX_EVENT_LENGTH; length += 1_000) parser.push(line);
    }, /too long/);
  }
  const comments = new EventParser();
  for (let n = 0; n < 100; n += 1) comments.push(`: ${long}\n`);
});
