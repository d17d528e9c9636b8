import assert from "node:assert/strict";
import {
  emptyApi,
  hex,
  HI,
  problem,
  scopeToken,
  STEP_1,
  TestClient,
  until,
  withRelay,
} from "./_test_support.ts";
import { Core } from "./core.ts";
import { People } from "./people.ts";

/** A frame that makes the core below trap; to the real one it is of an unknown type. */
const BOMB = hex("7f");

/** The real core, with a trap where a defect might be. */
class TrappingCore extends Core {
  override frame(session: number, bytes: Uint8Array, now: number): number {
    if (bytes[0] === BOMB[0]) throw new WebAssembly.RuntimeError("unreachable");
    return super.frame(session, bytes, now);
  }
}

const makeCore = (config: string) => new TrappingCore(config);

Deno.test("W2 W3 a step 1 is answered and an update reaches the others byte for byte", async () => {
  await withRelay({}, async ({ connect }) => {
    const [a, b] = [await connect("w"), await connect("w")];
    for (const client of [a, b]) {
      client.send(STEP_1);
      await until(() => client.frames.length === 2, "both steps");
    }
    a.send(HI);
    await until(() => b.frames.length === 3, "the update");
    assert.deepEqual(b.frames, ["0001020000", "00000100", "00020c010165000401017402686900"]);
    assert.equal(a.frames.length, 2);
  });
});

Deno.test("a trap ends its room with 1012 and no other, and the room is made anew", async () => {
  await withRelay({ makeCore }, async ({ connect, host, metrics, broken }) => {
    const [a, b, other] = [await connect("w"), await connect("w", "e"), await connect("x")];
    await until(() => host.count === 2, "both rooms");
    const instance = host.find("w")?.instance;
    a.send(BOMB);
    await until(() => a.closed !== undefined && b.closed !== undefined, "the room's sockets are closed");
    assert.deepEqual([a.closed?.code, b.closed?.code, metrics.traps, broken], [1012, 1012, 1, []]);
    other.send(STEP_1);
    await until(() => other.frames.length === 2, "the other room answers");
    const again = await connect("w");
    again.send(STEP_1);
    await until(() => again.frames.length === 2, "the room answers again");
    assert.notEqual(host.find("w")?.instance, instance);
  });
});

Deno.test("traps one after another give the core up", async () => {
  await withRelay({ makeCore }, async ({ connect, metrics, broken }) => {
    for (let trap = 1; trap <= 4; trap += 1) {
      assert.deepEqual(broken, []);
      const client = await connect("w");
      client.send(BOMB);
      await until(() => client.closed !== undefined, "the room's socket is closed");
    }
    assert.deepEqual([broken.length, metrics.traps], [1, 4]);
  });
});

Deno.test("R4 a frame over the limit is closed with 1009 before the core sees it", async () => {
  let largest = 0;
  class Watched extends Core {
    override frame(session: number, bytes: Uint8Array, now: number): number {
      largest = Math.max(largest, bytes.length);
      return super.frame(session, bytes, now);
    }
  }
  await withRelay({ makeCore: (config) => new Watched(config) }, async ({ connect, host }) => {
    const [binary, text, other] = [await connect("w"), await connect("w"), await connect("w")];
    binary.send(new Uint8Array(4097).fill(127));
    text.send(" ".repeat(4097));
    await until(() => binary.closed !== undefined && text.closed !== undefined, "both are closed");
    assert.deepEqual(binary.closed, {
      code: 1009,
      reason: "a frame may have 4096 bytes; send larger updates by REST",
    });
    assert.equal(text.closed?.code, 1009);
    assert.equal(largest, 0);
    other.send(STEP_1);
    await until(() => other.frames.length === 2, "the room goes on");
    await until(() => host.find("w")?.clients === 1 && host.connections === 1, "they are forgotten");
  });
});

Deno.test("A.70 what a peer does not read is told as queued, and no more once it reads", async () => {
  await withRelay({ host: { maxFrameBytes: 2 ** 20 } }, async ({ connect, host, port }) => {
    const slow = await Deno.connect({ hostname: "127.0.0.1", port });
    const head = [
      `GET /ws/w/d?token=${await scopeToken("w")} HTTP/1.1`,
      "host: 127.0.0.1",
      "upgrade: websocket",
      "connection: upgrade",
      "sec-websocket-version: 13",
      "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    await slow.write(new TextEncoder().encode(`${head.join("\r\n")}\r\n\r\n`));
    await slow.read(new Uint8Array(1024));
    // Step 1 in a masked frame: who has not asked is sent no updates.
    await slow.write(new Uint8Array([0x82, 0x80 + STEP_1.length, 0, 0, 0, 0, ...STEP_1]));
    const [writer, reader] = [await connect("w"), await connect("w")];
    for (const client of [writer, reader]) {
      client.send(STEP_1);
      await until(() => client.frames.length === 2, "both steps");
    }
    // What the kernel takes is not queued; the room would cut the peer off at 4 MiB.
    for (let count = 0; count < 100 && host.queuedBytes === 0; count += 1) {
      writer.send(longUpdate(200 + count));
      await until(() => reader.frames.length === count + 3, "who reads has it");
    }
    assert.ok(host.queuedBytes > 0 && host.queuedBytes < 4 * 2 ** 20, `${host.queuedBytes} bytes wait`);
    let isOpen = true;
    const reading = (async () => {
      const buffer = new Uint8Array(2 ** 16);
      while (isOpen) await slow.read(buffer);
    })();
    await until(() => host.queuedBytes === 0, "it has read all");
    assert.equal(host.find("w")?.clients, 3);
    isOpen = false;
    slow.close();
    await reading.catch(() => {});
  });
});

/** An update of a new client, with a text of 128 KiB. */
function longUpdate(client: number): Uint8Array<ArrayBuffer> {
  const varUint = (value: number): number[] =>
    value < 128 ? [value] : [value % 128 + 128, ...varUint(Math.floor(value / 128))];
  const length = 2 ** 17;
  const begin = [1, 1, ...varUint(client), 0, 4, 1, 1, 0x74, ...varUint(length)];
  const update = new Uint8Array([...begin, ...new Uint8Array(length).fill(0x61), 0]);
  return new Uint8Array([0, 2, ...varUint(update.length), ...update]);
}

Deno.test("an empty room is dropped when all is saved, and everything it had stops", async () => {
  const saved: (string | null)[] = [];
  const api = (request: Request) => {
    if (request.method === "POST") saved.push(request.headers.get("idempotency-key"));
    return emptyApi(request);
  };
  await withRelay({ api }, async ({ connect, host }) => {
    const client = await connect("w");
    client.send(STEP_1);
    client.send(HI);
    await until(() => client.frames.length === 2, "both steps");
    await client.close();
    await until(() => host.count === 0, "the room is gone");
    assert.deepEqual([saved.length, saved[0]?.startsWith("run-1-")], [1, true]);
    assert.equal(host.unsavedSince, undefined);
  });
});

Deno.test("D1 a flush that fails is tried again under the same key and makes one save", async () => {
  const keys: (string | null)[] = [];
  const api = (request: Request) => {
    if (request.method !== "POST") return emptyApi(request);
    keys.push(request.headers.get("idempotency-key"));
    return keys.length < 3 ? problem(503, "storage_unavailable") : emptyApi(request);
  };
  const coreConfig = JSON.stringify({ followsFeed: true, flushAfter: 20, retryMin: 10, retryMax: 20 });
  await withRelay({ api, host: { coreConfig } }, async ({ connect, metrics, host }) => {
    const client = await connect("w");
    client.send(STEP_1);
    client.send(HI);
    client.send('{"type":"flush","id":1}');
    await until(() => client.frames.some((frame) => frame.includes("flush_failed")), "the failure is told");
    await until(() => keys.length === 3, "it is tried again");
    await until(() => host.unsavedRooms === 0, "it is saved");
    assert.deepEqual([new Set(keys).size, metrics.flushErrors], [1, 2]);
  });
});

Deno.test("A.13 what the API did not confirm is no receipt, however it fails to", async () => {
  const cut = () => new Response(new ReadableStream({ start: (stream) => stream.error(new Error("cut")) }));
  const unknown: (() => Response)[] = [
    () => problem(503, "storage_unavailable"),
    () => problem(500, "internal"),
    () => new Response("a page of something in between", { status: 502 }),
    () => new Response("not JSON", { status: 201 }),
    () => Response.json({ clock: "1" }, { status: 201 }),
    cut,
  ];
  let tries = 0;
  const api = (request: Request) => {
    if (request.method !== "POST") return emptyApi(request);
    tries += 1;
    return unknown[tries - 1]?.() ?? emptyApi(request);
  };
  const coreConfig = JSON.stringify({ followsFeed: true, flushAfter: 20, retryMin: 10, retryMax: 20 });
  await withRelay({ api, host: { coreConfig } }, async ({ connect, host }) => {
    const client = await connect("w");
    const texts = (type: string) =>
      client.frames.filter((frame) => frame.includes(`"type":"${type}"`)).length;
    client.send(STEP_1);
    client.send(HI);
    client.send('{"type":"flush","id":1}');
    await until(() => texts("flush_failed") === 1, "the failure is told");
    await until(() => tries === unknown.length, "each way to fail");
    assert.equal(texts("receipt"), 0);
    await until(() => host.unsavedRooms === 0, "it is saved");
    client.send('{"type":"flush","id":2}');
    await until(() => texts("receipt") === 1, "a receipt for what is confirmed");
    assert.equal(tries, unknown.length + 1);
  });
});

Deno.test("S3 people on sockets are told of, services are not, and each that goes is told once", async () => {
  const calls: string[] = [];
  const people = new People({
    session: "deno",
    present: ({ sub }) => Promise.resolve(calls.push(`here ${sub}`)).then(() => "said"),
    absent: ({ sub }) => Promise.resolve(calls.push(`gone ${sub}`)).then(() => "said"),
    delays: { linger: 1 },
  });
  const open = async (port: number, changes: Record<string, unknown>) =>
    await TestClient.open(`ws://127.0.0.1:${port}/ws/w/d?token=${await scopeToken("w", changes)}`);
  await withRelay({ makeCore, host: { people } }, async ({ port, host }) => {
    const [tab, other, bob] = [await open(port, {}), await open(port, {}), await open(port, { sub: "bob" })];
    const importer = await open(port, { sub: "importer", kind: "service" });
    await until(() => calls.length === 2, "both people");
    await tab.close();
    await importer.close();
    await bob.close();
    await until(() => people.count === 1, "bob is gone");
    // A trap sends everybody away.
    other.send(BOMB);
    await until(() => host.count === 0 && people.count === 0, "everybody is gone");
    await other.close();
    assert.deepEqual(calls, ["here ann", "here bob", "gone bob", "gone ann"]);
  });
});
