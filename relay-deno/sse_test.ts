import assert from "node:assert/strict";
import { EventParser, type ServerEvent } from "./sse.ts";

const STREAM = [
  "retry: 2000\n: ok\n\n",
  'event: change\nid: 5\ndata: {"clock":5}\n\n',
  "event: head\r\nid: 6\r\ndata:{}\r\n\r\n",
  ": comment\n\n",
  "data: a\ndata: b\rdata\r\r",
  'event: deleted\ndata: {"head":7}\n\n',
  "event: nothing\n\n",
].join("");

const EVENTS: ServerEvent[] = [
  { name: "change", data: '{"clock":5}', id: "5" },
  { name: "head", data: "{}", id: "6" },
  { name: "message", data: "a\nb\n", id: undefined },
  { name: "deleted", data: '{"head":7}', id: undefined },
];

Deno.test("a stream gives the same events however it is cut", () => {
  for (let size = 1; size <= STREAM.length; size += 1) {
    const parser = new EventParser();
    const events: ServerEvent[] = [];
    for (let at = 0; at < STREAM.length; at += size) events.push(...parser.push(STREAM.slice(at, at + size)));
    assert.deepEqual(events, EVENTS, `pieces of ${size}`);
  }
});

Deno.test("an event that is not finished gives nothing", () => {
  assert.deepEqual(new EventParser().push("event: change\ndata: {}\n"), []);
});

Deno.test("memory is bounded: one long line, or many short ones, end the stream", () => {
  assert.throws(() => new EventParser().push(`data: ${"x".repeat(70_000)}`));
  assert.throws(() => new EventParser().push("data: 0123456789\n".repeat(7_000)));
  new EventParser().push('event: change\ndata: {"clock":5}\n\n'.repeat(7_000));
});
