import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, test } from "node:test";
import { fastEnvironment } from "../test/environment.ts";
import { pass, until } from "../test/waiting.ts";
import type { TelemetryEvent } from "./relay-walker.ts";
import { Telemetry } from "./telemetry.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

interface Post {
  url: string;
  method: string;
  authorization: string;
  body: { events: TelemetryEvent[] };
}

/** A server that answers as the script says, and 204 after it. */
async function collector(...script: number[]): Promise<{ api: string; posts: Post[] }> {
  const posts: Post[] = [];
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk) => (text += chunk));
    request.on("end", () => {
      posts.push({ url: request.url ?? "", method: request.method ?? "", authorization: request.headers.authorization ?? "", body: JSON.parse(text) });
      response.writeHead(script[posts.length - 1] ?? 204).end();
    });
  });
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  cleanups.push(() => {
    server.closeAllConnections();
    return new Promise((settle) => server.close(settle));
  });
  return { api: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, posts };
}

function telemetry(api: string, getToken = async () => "secret-token"): Telemetry {
  const it = new Telemetry({ api, getToken, environment: fastEnvironment() });
  cleanups.push(() => it.destroy());
  return it;
}

const ADVANCE: TelemetryEvent = { name: "relay_advance", fromLabel: "cf", toLabel: "deno", trigger: "open_timeout", at: 5 };
const CYCLE: TelemetryEvent = { name: "relay_cycle_all_failed", labels: ["cf", "deno"], at: 6 };

test("C.36 C.46 events that come together go in one request, with labels and without a token", async () => {
  const { api, posts } = await collector();
  const it = telemetry(api);
  it.record(ADVANCE);
  it.record(CYCLE);
  await until(() => posts.length === 1, "a request");
  assert.deepEqual(posts[0], { url: "/api/telemetry", method: "POST", authorization: "Bearer secret-token", body: { events: [ADVANCE, CYCLE] } });
  assert.ok(!JSON.stringify(posts[0]!.body).includes("secret-token"));
});

test("an API that is away gets everything later, in order and once", async () => {
  const { api, posts } = await collector(503, 429, 401);
  const it = telemetry(api);
  it.record(ADVANCE);
  await until(() => posts.length === 1, "a first try");
  it.record(CYCLE);
  await until(() => posts.length === 4, "tries until it is taken");
  assert.deepEqual(posts[3]!.body.events, [ADVANCE, CYCLE]);
  await pass(200);
  assert.equal(posts.length, 4);
});

test("a batch that is refused is dropped, the next one is sent", async () => {
  const { api, posts } = await collector(400);
  const it = telemetry(api);
  it.record(ADVANCE);
  await until(() => posts.length === 1, "a refused batch");
  it.record(CYCLE);
  await until(() => posts.length === 2, "the next one");
  assert.deepEqual(posts[1]!.body.events, [CYCLE]);
});

test("an API without telemetry is asked once", async () => {
  const { api, posts } = await collector(404);
  const it = telemetry(api);
  it.record(ADVANCE);
  await until(() => posts.length === 1, "a request");
  await pass(50);
  it.record(CYCLE);
  await pass(200);
  assert.equal(posts.length, 1);
});

test("neither a token provider that fails nor a port that refuses reaches the application; the buffer keeps the newest", async () => {
  const { api, posts } = await collector();
  let isAway = true;
  const it = telemetry(api, async () => {
    if (isAway) throw new Error("no token");
    return "t";
  });
  for (let at = 0; at < 250; at += 1) it.record({ ...CYCLE, at });
  await pass(200);
  isAway = false;
  await until(() => posts.length === 5, "requests of as many events as the API takes");
  const sent = posts.flatMap(({ body }) => body.events.map(({ at }) => at));
  assert.deepEqual(sent, Array.from({ length: 100 }, (_, n) => 150 + n));
  telemetry("http://127.0.0.1:1").record(CYCLE);
  await pass(200);
});
