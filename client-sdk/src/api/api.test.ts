import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, test } from "node:test";
import { fastEnvironment } from "../../test/environment.ts";
import { FeedServer, problem } from "../../test/feed-server.ts";
import type { Reply, Request, Script } from "../../test/feed-server.ts";
import { until } from "../../test/waiting.ts";
import { MAX_TRIES } from "./limits.ts";
import { PreconditionFailedError, ProblemError, TokenRefusedError, UnreachableError, WorkspaceAgent } from "../agent/index.ts";
import type { AgentOptions } from "../agent/index.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const WRITTEN: Reply = { status: 200, body: { clock: 7, path: "a" } };

/** A server that answers as the script says, step by step, then with a write's answer. */
async function server(...script: (Reply | "drop" | "hang")[]): Promise<FeedServer> {
  const it = await FeedServer.start();
  cleanups.push(() => it.stop());
  it.script = ((_, number) => script[number - 1] ?? WRITTEN) satisfies Script;
  return it;
}

/** An agent without jitter, so that its delays say what it was told; `delays` are those between tries. */
function agentOf(api: string, options: Partial<AgentOptions> = {}) {
  const environment = fastEnvironment();
  const delays: number[] = [];
  const agent = new WorkspaceAgent({
    api,
    workspace: "w",
    getToken: () => "t1",
    environment: {
      ...environment,
      random: () => 1,
      setTimeout: (run, ms) => {
        delays.push(ms);
        return environment.setTimeout(run, ms);
      },
    },
    ...options,
  });
  // Time limits of tries and of tokens are not delays.
  return { agent, delays: () => delays.filter((ms) => ms !== 30_000 && ms !== 10_000) };
}

const keysOf = (requests: readonly Request[]) => requests.map(({ headers }) => headers["idempotency-key"]);

test("A.11 I01 a write is repeated under one key, whatever went wrong, and another write has another key", async () => {
  const it = await server(problem(503, "storage_unavailable"), "drop", { status: 502, body: "bad gateway" }, problem(429, "rate_limited"));
  const { agent, delays } = agentOf(it.url);
  assert.deepEqual(await agent.write("a", { b: 1 }), { clock: 7, path: "a" });
  assert.equal(it.requests.length, 5);
  const [first] = keysOf(it.requests);
  assert.match(first as string, /^[0-9a-f-]{36}$/);
  assert.deepEqual(new Set(keysOf(it.requests)).size, 1);
  assert.deepEqual(new Set(it.requests.map(({ method, path, body }) => `${method} ${path} ${body}`)), new Set(['PUT /api/workspaces/w/nodes/a {"b":1}']));
  assert.deepEqual(delays(), [500, 1_000, 2_000, 4_000]);
  await agent.write("a", 1);
  await agent.write("a", 1, { idempotencyKey: "mine" });
  assert.equal(new Set(keysOf(it.requests)).size, 3);
  assert.equal(keysOf(it.requests).at(-1), "mine");
});

test("A.10 tries are bounded, and the last refusal is the error", async () => {
  const it = await server(...Array.from({ length: 20 }, () => problem(503, "storage_unavailable")));
  const { agent } = agentOf(it.url);
  await assert.rejects(agent.patch("a", {}), (error) => error instanceof ProblemError && error.code === "storage_unavailable" && error.status === 503);
  assert.equal(it.requests.length, MAX_TRIES);
});

test("a defect of the server is tried once more", async () => {
  const it = await server(problem(500, "internal"), problem(500, "internal"));
  await assert.rejects(agentOf(it.url).agent.write("a", 1), { code: "internal" });
  assert.equal(it.requests.length, 2);
});

test("A.10 what will not pass is tried once", async () => {
  const codes = [[400, "bad_request"], [403, "forbidden"], [404, "node_not_found"], [409, "wrong_node_kind"], [410, "workspace_deleted"], [413, "payload_too_large"], [422, "idempotency_key_reused"]] as const;
  const it = await server(...codes.map(([status, code]) => problem(status, code, { index: 3 })));
  const { agent } = agentOf(it.url);
  for (const [status, code] of codes) {
    await assert.rejects(agent.delete("a"), (error) => {
      assert.ok(error instanceof ProblemError);
      assert.deepEqual([error.code, error.status, error.detail, error.extra], [code, status, `this is ${code}`, { index: 3 }]);
      return true;
    });
  }
  assert.equal(it.requests.length, codes.length);
});

test("Retry-After is waited for, and a wait that is too long is left to the caller", async () => {
  const it = await server(problem(429, "rate_limited", {}, { "retry-after": "3" }), WRITTEN, problem(503, "storage_unavailable", {}, { "retry-after": "600" }));
  const { agent, delays } = agentOf(it.url);
  await agent.write("a", 1);
  assert.deepEqual(delays(), [3_500]);
  await assert.rejects(agent.write("a", 1), { code: "storage_unavailable" });
  assert.equal(it.requests.length, 3);
});

test("I04 412 says what the node is now", async () => {
  const it = await server(problem(412, "precondition_failed", { clock: 11, value: { state: "taken" } }), problem(412, "precondition_failed", { clock: null, value: null }));
  const { agent } = agentOf(it.url);
  const failed = await agent.write("a", 1, { ifMatch: 10 }).catch((error: unknown) => error);
  assert.ok(failed instanceof PreconditionFailedError && failed instanceof ProblemError);
  assert.deepEqual([failed.clock, failed.value, it.requests[0]!.headers["if-match"]], [11, { state: "taken" }, '"10"']);
  const gone = await agent.delete("a", { ifMatch: "*" }).catch((error: unknown) => error);
  assert.ok(gone instanceof PreconditionFailedError);
  assert.deepEqual([gone.clock, it.requests[1]!.headers["if-match"]], [null, "*"]);
  await agent.write("a", 1, { ifNoneMatch: "*" });
  assert.equal(it.requests[2]!.headers["if-none-match"], "*");
});

test("U01 401 asks for one other token, which the next calls use too", async () => {
  const it = await server(problem(401, "token_expired"));
  let given = 0;
  const { agent } = agentOf(it.url, { getToken: async () => `t${(given += 1)}` });
  await agent.write("a", 1);
  await agent.write("a", 2);
  assert.deepEqual(it.requests.map(({ headers }) => headers.authorization), ["Bearer t1", "Bearer t2", "Bearer t2"]);
  assert.equal(keysOf(it.requests)[0], keysOf(it.requests)[1]);
});

test("U01 a second 401 is the error", async () => {
  const it = await server(problem(401, "unauthorized"), problem(401, "unauthorized"));
  await assert.rejects(agentOf(it.url).agent.read("a"), { code: "unauthorized" });
  assert.equal(it.requests.length, 2);
});

test("calls that come together ask for one token", async () => {
  const it = await server();
  let given = 0;
  const { agent } = agentOf(it.url, { getToken: async () => `t${(given += 1)}` });
  await Promise.all([1, 2, 3, 4].map((value) => agent.write("a", value)));
  assert.equal(given, 1);
});

test("a provider that fails is asked again; one that refuses is not", async () => {
  const it = await server();
  let asked = 0;
  const { agent } = agentOf(it.url, {
    getToken: () => {
      asked += 1;
      if (asked === 1) throw new Error("the backend is away");
      return "t";
    },
  });
  await agent.write("a", 1);
  assert.equal(asked, 2);
  let refused = 0;
  const other = agentOf(it.url, {
    getToken: () => {
      refused += 1;
      throw new TokenRefusedError();
    },
  });
  await assert.rejects(other.agent.write("a", 1), { code: "token_refused" });
  assert.equal(refused, 1);
});

test("A3 a token that is none is not repeated in the error", async () => {
  const it = await server();
  const { agent } = agentOf(it.url, { getToken: () => "secret\r\nx: y" });
  await assert.rejects(agent.read("a"), (error) => /without spaces/.test(String(error)) && !String(error).includes("secret"));
  assert.equal(it.requests.length, 0);
});

test("a call that gets no answer in time is tried again, and says in the end that it may have happened", async () => {
  const it = await server("hang", "hang", "hang", "hang", "hang");
  const failed = await agentOf(it.url).agent.write("a", 1).catch((error: unknown) => error);
  assert.ok(failed instanceof UnreachableError);
  assert.match(failed.message, /It may have happened; repeat it/);
  assert.equal(it.requests.length, MAX_TRIES);
});

test("an answer of somebody else is named, and its redirect is not followed", async () => {
  const target = await server();
  const it = await server({ status: 307, headers: { location: `${target.url}/x` }, body: "" }, { status: 200, headers: { "content-type": "text/html" }, body: "<h1>hello</h1>" }, { status: 404, headers: { "content-type": "text/html" }, body: "nothing" });
  const { agent } = agentOf(it.url);
  for (const status of [307, 200, 404]) await assert.rejects(agent.write("a", 1), { code: "unreachable", status });
  assert.deepEqual([it.requests.length, target.requests.length], [3, 0]);
});

test("a signal ends a call at once: before it, during it, between two tries", async () => {
  const it = await server("hang", ...Array.from({ length: 9 }, () => problem(503, "storage_unavailable", {}, { "retry-after": "50" })));
  const { agent, delays } = agentOf(it.url);
  const reason = new Error("enough");
  await assert.rejects(agent.read("a", { signal: AbortSignal.abort(reason) }), reason);
  assert.equal(it.requests.length, 0);
  for (const begun of [() => it.requests.length === 1, () => delays().length === 1]) {
    const abort = new AbortController();
    const call = agent.read("a", { signal: abort.signal });
    await until(begun, "it has begun");
    abort.abort(reason);
    await assert.rejects(call, reason);
  }
  assert.equal(it.requests.length, 2);
});

test("a signal also ends a call that waits for its token", async () => {
  const it = await server();
  const abort = new AbortController();
  let asked = 0;
  const { agent } = agentOf(it.url, {
    getToken: () => {
      asked += 1;
      return new Promise(() => {});
    },
  });
  const call = agent.head({ signal: abort.signal });
  await until(() => asked === 1, "it asks");
  abort.abort(new Error("enough"));
  await assert.rejects(call, /enough/);
  const late = await agent.head().catch((error: unknown) => error);
  assert.match(String(late), /The token provider did not answer within/);
  // The first try of the second call joined the question that was still open.
  assert.deepEqual([it.requests.length, asked], [0, MAX_TRIES]);
});

test("a path that `fetch` would resolve is never sent", async () => {
  const it = await server();
  const { agent } = agentOf(it.url);
  for (const path of ["..", ".", "", "a/../b", "/a", "a/", "a//b", "\ud800"]) {
    await assert.rejects(agent.delete(path), TypeError, JSON.stringify(path));
    await assert.rejects(agent.waitFor(path), TypeError, JSON.stringify(path));
  }
  assert.equal(it.requests.length, 0);
  await agent.delete("a b/%2e%2e/é?#$&");
  assert.equal(it.requests[0]!.path, "/api/workspaces/w/nodes/a%20b/%252e%252e/%C3%A9%3F%23%24%26");
});

test("options that cannot be meant are refused at once", () => {
  const options = { workspace: "w", getToken: () => "t" };
  for (const api of ["", "api.example.com", "ftp://x", "/api"]) assert.throws(() => new WorkspaceAgent({ ...options, api }), TypeError, api);
  for (const workspace of ["", "a/b", "..", "a b", "x".repeat(65)]) assert.throws(() => new WorkspaceAgent({ ...options, api: "http://x", workspace }), TypeError, workspace);
});

test("a value that JSON does not have is refused, null is not", async () => {
  const it = await server();
  const { agent } = agentOf(`${it.url}/`);
  await assert.rejects(agent.write("a", undefined), /not JSON/);
  await assert.rejects(agent.write("a", 1, { idempotencyKey: "a b" }), /visible ASCII/);
  await agent.write("a", null);
  assert.deepEqual(it.requests.map(({ path, body }) => [path, body]), [["/api/workspaces/w/nodes/a", "null"]]);
});

test("the other calls: what is sent, and what is made of the answer", async () => {
  const it = await FeedServer.start();
  cleanups.push(() => it.stop());
  const document: Record<string, string> = { etag: '"9"', "yrelay-epoch": "4" };
  const nodes = [1, 2, 3, 4, 5].map((n) => ({ path: `jobs/${n}`, kind: "record", clock: n }));
  it.script = ({ path, query, headers }) => {
    if (path.endsWith("/nodes")) {
      const from = query.get("after") === null ? 0 : 2 + nodes.findIndex((node) => node.path === query.get("after")) - 1;
      return { status: 200, body: { nodes: nodes.slice(from, from + 2), next: from + 2 < 5 ? nodes[from + 1]!.path : null, head: 5 } };
    }
    if (headers.accept === "text/plain") return { status: 200, headers: { ...document, "content-type": "text/plain" }, body: "hello" };
    if (headers.accept === "application/json") return { status: 200, headers: document, body: { content: "hello" } };
    if (path.endsWith("/edits")) return { status: 200, body: { clock: 10, epoch: 4, stateVector: "AQ" } };
    if (path.endsWith("/ops")) return { status: 200, body: { clocks: [3, 4], clock: 4 } };
    return undefined;
  };
  const { agent } = agentOf(it.url);
  const listed: string[] = [];
  for await (const { path } of agent.list({ prefix: "jobs", pageSize: 2 })) listed.push(path);
  assert.deepEqual(listed, nodes.map(({ path }) => path));
  assert.deepEqual(it.requests.map(({ query }) => `${query}`), ["prefix=jobs&limit=2", "prefix=jobs&after=jobs%2F2&limit=2", "prefix=jobs&after=jobs%2F4&limit=2"]);
  assert.deepEqual(await agent.readText("n/a", { root: "content" }), { content: "hello", clock: 9, epoch: 4 });
  assert.equal(`${it.requests.at(-1)!.query}`, "root=content");
  assert.deepEqual(await agent.readJson("n/a"), { content: { content: "hello" }, clock: 9, epoch: 4 });
  assert.deepEqual(await agent.ops([{ op: "delete", path: "a", ifMatch: 3 }]), { clocks: [3, 4], clock: 4 });
  assert.equal(it.requests.at(-1)!.body, '{"ops":[{"op":"delete","path":"a","ifMatch":3}]}');
  await agent.edit("n/a", [{ op: "replace", quote: "l", with: "L" }], { root: "content", base: 9, epoch: 4 });
  assert.deepEqual([it.requests.at(-1)!.path, `${it.requests.at(-1)!.query}`, it.requests.at(-1)!.body], ["/api/workspaces/w/docs/n/a/edits", "epoch=4", '{"root":"content","edits":[{"op":"replace","quote":"l","with":"L"}],"base":9}']);
  assert.equal(await agent.head(), 0);
  const mutations = it.requests.filter(({ method }) => method !== "GET");
  assert.ok(keysOf(mutations).every((key) => key !== undefined) && mutations.length === 2);
});

test("a port where nobody listens is unreachable", async () => {
  const server = createServer();
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  const { port } = server.address() as AddressInfo;
  await new Promise((settle) => server.close(settle));
  await assert.rejects(agentOf(`http://127.0.0.1:${port}`).agent.head(), { code: "unreachable", status: null });
});
