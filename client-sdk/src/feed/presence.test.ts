// Presence and the stream of a page, with time in the test's hands: what is asked, and how often.
import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { Api } from "../api/api.ts";
import type { Change, PresenceEntry } from "../api/types.ts";
import { FakeClock, fakePage, settled } from "../testing.ts";
import { ChangeStream } from "./change-stream.ts";
import { Presence } from "./presence.ts";

const entry = (sub: string, kind: PresenceEntry["kind"]): PresenceEntry => ({ sub, kind, session: "s", state: {}, expiresAt: 0, self: false });
const change = (actor: string, clock = 1): Change => ({ clock, kind: "put", path: "a", actor, at: 0 });

let clock: FakeClock;
beforeEach(() => (clock = new FakeClock()));

function setUp() {
  const calls: string[] = [];
  const there = { presence: [entry("bot", "agent"), entry("ben", "human")], otherHumans: 1 };
  let isDown = false;
  const fetch = async (_url: string, { method, body }: RequestInit) => {
    calls.push(method === "PUT" ? `PUT ${JSON.stringify(JSON.parse(String(body)).state)}` : `${method}`);
    if (isDown) throw new TypeError("away");
    return method === "DELETE" ? new Response(null, { status: 204 }) : Response.json({ ...there, complete: true });
  };
  const environment = fakePage(clock, { fetch });
  const api = new Api({ api: "http://127.0.0.1:1", workspace: "w", getToken: () => "t" }, environment);
  const presence = new Presence({ api, environment, session: "browser", account: () => "ann" });
  return { environment, presence, calls, there, down: (value: boolean) => (isDown = value) };
}

describe("presence", () => {
  test("C.61 an hour of reading is a few calls, an hour in a hidden tab is none", async () => {
    const { environment, presence, calls } = setUp();
    presence.start();
    presence.show({ path: "d" });
    await settled();
    await clock.advance(3_600_000);
    assert.equal(calls.length, 16);
    assert.ok(calls.every((call) => call === 'PUT {"path":"d"}'));
    environment.change("hidden");
    await clock.advance(3_600_000);
    assert.deepEqual([calls.length, clock.armed], [16, 0]);
    environment.change("visible");
    await settled();
    assert.equal(calls.length, 17);
  });

  test("C.25 S3 nobody asks without a reason; focus asks, but not each time", async () => {
    const { environment, presence, calls } = setUp();
    presence.start();
    await clock.advance(60_000);
    assert.deepEqual(calls, []);
    for (let n = 0; n < 10; n += 1) {
      environment.change("hidden");
      environment.change("visible");
      await clock.advance(100);
    }
    assert.deepEqual(calls, ["GET"]);
    await clock.advance(60_000);
    assert.deepEqual([calls, presence.otherHumans], [["GET", "GET"], 1]);
  });

  test("C.27 agents that write all the time are asked about once; somebody new is, and a relay, which speaks for people", async () => {
    const { presence, calls, there } = setUp();
    Object.assign(there, { presence: [entry("bot", "agent")], otherHumans: 0 });
    presence.start();
    presence.show({ path: "d" });
    await clock.advance(20_000);
    for (let n = 0; n < 1_000; n += 1) presence.handleChange(change("bot"));
    await clock.advance(10_000);
    assert.equal(calls.length, 1);
    presence.handleChange(change("bot that shows nothing of itself"));
    await settled();
    assert.equal(calls.length, 2);
    for (let n = 0; n < 600; n += 1) {
      presence.handleChange(change("bot that shows nothing of itself"));
      await clock.advance(100);
    }
    assert.equal(calls.length, 3, "once a minute");
    presence.handleChange(change("relay:cf"));
    await clock.advance(2_000);
    assert.equal(calls.length, 4);
  });

  test("S3 what happens just after a look is looked at a little later, once", async () => {
    const { presence, calls, there } = setUp();
    Object.assign(there, { presence: [], otherHumans: 0 });
    presence.start();
    presence.show({ path: "d" });
    await settled();
    for (const actor of ["ben", "relay:cf", "ben"]) presence.handleChange(change(actor));
    await settled();
    assert.equal(calls.length, 1);
    await clock.advance(2_000);
    assert.equal(calls.length, 2);
    await clock.advance(60_000);
    assert.equal(calls.length, 2);
  });

  test("what changes during a call is said after it, and each state once", async () => {
    const { presence, calls } = setUp();
    presence.start();
    presence.show({ path: "a" });
    presence.show({ path: "b" });
    presence.show({ path: "c" });
    presence.show({ path: "c" });
    await settled();
    assert.deepEqual(calls, ['PUT {"path":"a"}', 'PUT {"path":"c"}']);
  });

  test("an API that is away changes nothing, and the next event asks again", async () => {
    const { environment, presence, calls, down } = setUp();
    presence.start();
    presence.show({ path: "d" });
    await settled();
    down(true);
    await clock.advance(300_000);
    assert.equal(presence.otherHumans, 1);
    const before = calls.length;
    down(false);
    environment.change("online");
    await settled();
    assert.equal(calls.length, before + 1);
  });

  test("A09 a tab that does not lead says nothing; closing the last one takes the row away", async () => {
    const { presence, calls } = setUp();
    presence.show({ path: "d" });
    await clock.advance(600_000);
    assert.deepEqual(calls, []);
    presence.start();
    await settled();
    presence.close();
    await settled();
    assert.deepEqual(calls, ['PUT {"path":"d"}', "DELETE"]);
    assert.equal(clock.armed, 0);
  });
});

/** A server's log and its streams, which a test writes to. */
function feedServer() {
  const queries: (string | null)[] = [];
  const streams: ReadableStreamDefaultController<Uint8Array>[] = [];
  let head = 5;
  const say = (text: string) => streams.at(-1)!.enqueue(new TextEncoder().encode(text));
  const fetch = async (url: string, { signal }: RequestInit) => {
    const { pathname, searchParams } = new URL(url);
    if (pathname.endsWith("/stream")) {
      queries.push(searchParams.get("since"));
      const body = new ReadableStream<Uint8Array>({ start: (controller) => void streams.push(controller) });
      signal?.addEventListener("abort", () => streams.at(-1)?.error(new Error("left")));
      if (searchParams.get("since") === null) say(`event: head\ndata: {"head":${head}}\nid: ${head}\n\n`);
      return new Response(body, { headers: { "content-type": "text/event-stream" } });
    }
    if (pathname.endsWith("/changes")) {
      const since = Number(searchParams.get("since"));
      const changes = Array.from({ length: head - since }, (_, index) => change("x", since + index + 1));
      return Response.json({ changes, head, floor: 0 });
    }
    return Response.json({ id: "w", head, floor: 0 });
  };
  return { fetch, queries, streams, grow: () => void (head += 1), emit: () => say(`event: change\nid: ${(head += 1)}\ndata: ${JSON.stringify(change("x", head))}\n\n`) };
}

let made = 0;
describe("the stream of a page", () => {
  function streamOf() {
    const server = feedServer();
    const environment = fakePage(clock, { fetch: server.fetch });
    const api = new Api({ api: "http://127.0.0.1:1", workspace: `w${(made += 1)}`, getToken: () => "t" }, environment);
    const stream = new ChangeStream(api, environment);
    const clocks: unknown[] = [];
    stream.on("item", (item) => clocks.push(item.kind === "reset" ? "reset" : item.clock));
    return { server, environment, stream, clocks };
  }

  test("S02 a page that was hidden for long lets the stream go, and goes on after the last change", async () => {
    const { server, environment, stream, clocks } = streamOf();
    stream.start();
    await settled();
    server.emit();
    await settled();
    environment.change("hidden");
    await clock.advance(59_000);
    assert.equal(stream.state, "following");
    await clock.advance(40_000);
    assert.equal(stream.state, "paused");
    const { length } = server.queries;
    await clock.advance(600_000);
    assert.equal(server.queries.length, length);
    server.grow();
    environment.change("visible");
    await settled();
    server.emit();
    await settled();
    assert.deepEqual(clocks, [6, 7, 8]);
    stream.close(new Error("closed"));
  });

  test("a look into another tab costs nothing", async () => {
    const { server, environment, stream } = streamOf();
    stream.start(5);
    await settled();
    environment.change("hidden");
    await clock.advance(30_000);
    environment.change("visible");
    await clock.advance(20_000);
    assert.deepEqual([server.queries.length, stream.state, stream.cursor], [1, "following", 5]);
    stream.close(new Error("closed"));
    await settled();
    assert.equal(stream.state, "idle");
  });
});
