import assert from "node:assert/strict";
import { Backlog } from "./backlog.ts";

/** A socket that counts how often it is asked. */
class Asked {
  waiting = 0;
  times = 0;

  get bufferedAmount(): number {
    this.times += 1;
    return this.waiting;
  }
}

const KILOBYTE = new Uint8Array(1000);

Deno.test("W9 a socket that reads is asked once for each bound of bytes that it was sent", () => {
  const socket = new Asked();
  const backlog = new Backlog(socket);
  for (let count = 0; count < 100; count += 1) assert.equal(backlog.sent(KILOBYTE, 10_000), 0);
  assert.equal(socket.times, 9);
});

Deno.test("W9 what waits is told with the first send that takes it over the bound, and with each one after it", () => {
  const socket = new Asked();
  const backlog = new Backlog(socket);
  for (let count = 1; count <= 12; count += 1) {
    socket.waiting += 1000;
    assert.equal(backlog.sent(KILOBYTE.buffer, 10_000), count > 10 ? socket.waiting : 0);
  }
  socket.waiting = 0;
  assert.equal(backlog.sent(KILOBYTE, 10_000), 0);
});

Deno.test("W9 a text may be three bytes a character, and is not taken for less", () => {
  const socket = new Asked();
  const backlog = new Backlog(socket);
  const text = "€".repeat(1000);
  socket.waiting = new TextEncoder().encode(text).length;
  assert.equal(backlog.sent(text, 2999), 3000);
  assert.equal(new Backlog(socket).sent(text, 3000), 0);
});
