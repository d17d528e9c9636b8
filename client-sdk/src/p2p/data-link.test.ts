// One connection: pieces, bounds, backpressure, and one end.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { FakeNetwork } from "../../test/fake-rtc.ts";
import { FakeClock, settled } from "../testing.ts";
import { DataLink } from "./data-link.ts";
import { HIGH_WATER_BYTES, MAX_PIECE_BYTES, MAX_TEXT_LENGTH, MAX_WAITING_BYTES } from "./types.ts";

async function pair(): Promise<{ network: FakeNetwork; left: DataLink; right: DataLink }> {
  const network = new FakeNetwork();
  const clock = new FakeClock();
  const [left, right] = [new DataLink(network.connect(), clock), new DataLink(network.connect(), clock)];
  await left.accept(await right.answer(await left.offer()));
  await settled();
  assert.ok(left.isOpen && right.isOpen);
  return { network, left, right };
}

describe("data link", () => {
  test("messages of any size arrive whole and in order, in pieces that every implementation takes", async () => {
    const { network, left, right } = await pair();
    const got: (string | number)[] = [];
    right.on("bytes", (bytes) => got.push(bytes.length, bytes.every((byte, at) => byte === at % 251) ? "whole" : "torn"));
    right.on("text", (text) => got.push(text));
    let largest = 0;
    const channel = network.connections[0]!.channel!;
    const send = channel.send.bind(channel);
    channel.send = (data) => {
      largest = Math.max(largest, data.length);
      send(data);
    };
    for (const size of [0, 1, MAX_PIECE_BYTES - 1, MAX_PIECE_BYTES, 300_000]) left.send(Uint8Array.from({ length: size }, (_, at) => at % 251));
    left.say({ last: true });
    await settled();
    assert.deepEqual(got, [0, "whole", 1, "whole", MAX_PIECE_BYTES - 1, "whole", MAX_PIECE_BYTES, "whole", 300_000, "whole", '{"last":true}']);
    assert.equal(largest, MAX_PIECE_BYTES);
  });

  test("W9 what the platform cannot take waits, and a peer that takes nothing is let go at the bound", async () => {
    const { network, left, right } = await pair();
    const channel = network.connections[0]!.channel!;
    let isStuck = true;
    let most = 0;
    const send = channel.send.bind(channel);
    channel.send = (data) => {
      if (!isStuck) return send(data);
      channel.bufferedAmount += data.length;
      most = Math.max(most, channel.bufferedAmount);
    };
    let ends = 0;
    left.on("end", () => (ends += 1));
    for (let sent = 0; sent < MAX_WAITING_BYTES; sent += 500_000) left.send(new Uint8Array(500_000));
    assert.ok(most <= HIGH_WATER_BYTES + MAX_PIECE_BYTES, `${most} bytes in the platform`);
    assert.equal(ends, 0);
    isStuck = false;
    let arrived = 0;
    right.on("bytes", ({ length }) => (arrived += length));
    channel.bufferedAmount = 0;
    channel.onbufferedamountlow?.();
    await settled();
    assert.ok(arrived > MAX_WAITING_BYTES - 2 * HIGH_WATER_BYTES, `${arrived} bytes arrived`);
    isStuck = true;
    channel.bufferedAmount = HIGH_WATER_BYTES;
    for (let sent = 0; sent <= MAX_WAITING_BYTES; sent += 500_000) left.send(new Uint8Array(500_000));
    assert.deepEqual([ends, left.isOpen], [1, false]);
  });

  test("what breaks the bounds ends the connection, once and on both sides", async () => {
    const bad: ((link: DataLink) => void)[] = [
      (link) => link.send(new Uint8Array(2 * 1024 * 1024)),
      (link) => link.say({ text: "x".repeat(MAX_TEXT_LENGTH) }),
    ];
    for (const send of bad) {
      const { left, right } = await pair();
      const ends: string[] = [];
      left.on("end", () => ends.push("left"));
      right.on("end", () => ends.push("right"));
      right.on("bytes", () => assert.fail("it was delivered"));
      right.on("text", () => assert.fail("it was delivered"));
      send(left);
      await settled();
      assert.deepEqual(ends, ["right", "left"]);
    }
  });

  test("a connection that is interrupted is not open, and may come back with what waited", async () => {
    const { network, left, right } = await pair();
    const states: boolean[] = [];
    left.on("state", () => states.push(left.isOpen));
    network.connections[0]!.become("disconnected");
    const got: string[] = [];
    right.on("text", (text) => got.push(text));
    left.say({ n: 1 });
    network.connections[0]!.become("connected");
    await settled();
    assert.deepEqual([states, got], [[false, true], ['{"n":1}']]);
    network.cut();
    assert.deepEqual([left.isOpen, right.isOpen], [false, false]);
  });
});
