// WorkspaceAgent, from its sources, against the real stack; and the example that uses it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import * as Y from "yjs";
import { ProblemError, WorkspaceAgent } from "../../client-sdk/src/agent/index.ts";
import { startStack } from "../../tools/stack.mjs";
import { ROOT } from "../../tools/wrangler-config.mjs";
import { startProxy } from "./support/http-proxy.mjs";
import { startCf } from "./support/relays.mjs";
import { stockClient } from "./support/stock-client.mjs";
import { until, within } from "./support/waiting.mjs";

const upTo = (to, from = 1) => Array.from({ length: to - from + 1 }, (_, index) => index + from);

/** Follows in the background; `clocks` are those of the changes. */
function follow(agent, options) {
  const it = { clocks: [], resets: 0, error: undefined };
  it.done = (async () => {
    for await (const item of agent.changes(options)) {
      if (item.kind === "reset") it.resets += 1;
      else it.clocks.push(item.clock);
    }
  })().catch((error) => (it.error = error));
  it.reaches = (clock) => until(() => it.clocks.at(-1) >= clock, `clock ${clock}; so far ${it.clocks.at(-1)}`);
  return it;
}

describe("agents", { concurrency: 4, timeout: 150_000 }, () => {
  let relay;
  let proxy;
  before(async () => {
    relay = await startCf();
    proxy = await startProxy(relay.api);
  });
  after(async () => {
    await proxy?.stop();
    await relay?.stop();
  });

  /** An agent of a workspace of its own, whose requests are counted. */
  function agentOf(workspace, { sub = "bot", role = "editor", ...options } = {}) {
    const token = workspace.apiToken({ sub, kind: "agent", role });
    const agent = new WorkspaceAgent({ api: proxy.url, workspace: workspace.id, getToken: () => token, ...options });
    return relay.opened(Object.assign(agent, { stop: () => agent.close() }));
  }

  test("C.4 C.22 S11 twenty iterators are one stream, and each gets every change once", async () => {
    const workspace = await relay.workspace();
    const agents = [agentOf(workspace), agentOf(workspace, { sub: "bot-2" })];
    const since = await agents[0].head();
    const readers = upTo(20).map((n) => follow(agents[n % 2], { since }));
    await Promise.all(upTo(30).map((n) => agents[0].write(`n/${n}`, n)));
    await Promise.all(readers.map((reader) => reader.reaches(since + 30)));
    for (const { clocks } of readers) assert.deepEqual(clocks, upTo(since + 30, since + 1));
    assert.equal(proxy.count("GET", `${workspace.id}/changes/stream`), 1);
  });

  test("A.11 I01 an answer that is lost on its way is asked for again, and the write happened once", async () => {
    const workspace = await relay.workspace();
    const agent = agentOf(workspace);
    const before = await agent.head();
    let dropped = 0;
    proxy.drops = (line) => line.includes(`/${workspace.id}/`) && !line.startsWith("GET") && (dropped += 1) <= 2;
    const answer = await agent.write("once", 1, { ifNoneMatch: "*" });
    assert.deepEqual([answer.clock, dropped], [before + 1, 3]);
    dropped = 0;
    const ops = await agent.ops([{ op: "put", path: "x", value: 1 }, { op: "put", path: "y", value: 2 }]);
    assert.deepEqual([ops.clocks, dropped, await agent.head()], [[before + 2, before + 3], 3, before + 3]);
    assert.equal(proxy.count("PUT", `${workspace.id}/nodes/once`), 3);
  });

  test("I04 of two agents that write at the same clock one wins, and the other learns what is there", async () => {
    const workspace = await relay.workspace();
    const [ann, ben] = [agentOf(workspace, { sub: "ann" }), agentOf(workspace, { sub: "ben" })];
    const { clock } = await ann.write("job", { state: "open" });
    const outcomes = await Promise.allSettled([ann, ben].map((agent, n) => agent.patch("job", { by: n }, { ifMatch: clock })));
    const winner = outcomes.findIndex(({ status }) => status === "fulfilled");
    const { reason } = outcomes[1 - winner];
    assert.deepEqual([reason.code, reason.clock, reason.value], ["precondition_failed", outcomes[winner].value.clock, { state: "open", by: winner }]);
  });

  test("U01 a token that has expired is replaced once, for calls and for the stream", async () => {
    const workspace = await relay.workspace();
    const tokens = [workspace.apiToken({ sub: "bot", kind: "agent", role: "editor", ttl: -5 }), workspace.apiToken({ sub: "bot", kind: "agent", role: "editor" })];
    let given = 0;
    const agent = agentOf(workspace, { getToken: () => tokens[Math.min(given++, 1)] });
    const reader = follow(agent, { since: 0 });
    const { clock } = await agent.write("a", 1);
    await reader.reaches(clock);
    assert.equal(given, 2);
    const expired = agentOf(workspace, { getToken: () => tokens[0] });
    await assert.rejects(expired.head(), { code: "token_expired", status: 401 });
    await assert.rejects(expired.waitFor("a"), { code: "token_expired" });
  });

  test("a viewer reads and hears, and may not write; nobody reads another workspace", async () => {
    const workspace = await relay.workspace();
    const viewer = agentOf(workspace, { role: "viewer" });
    const reader = follow(viewer, { since: 0 });
    const { clock } = await agentOf(workspace).write("a", 1);
    await reader.reaches(clock);
    assert.equal((await viewer.read("a")).value, 1);
    await assert.rejects(viewer.write("a", 2), { code: "forbidden" });
    const other = await relay.workspace();
    const stranger = new WorkspaceAgent({ api: proxy.url, workspace: other.id, getToken: () => workspace.apiToken({ kind: "agent", role: "viewer" }) });
    follow(agentOf(other), { since: 0 });
    await assert.rejects(stranger.changes({ since: 0 }).next(), { code: "forbidden" });
  });

  test("F7 a deleted workspace ends its iterators, and is not asked again", async () => {
    const workspace = await relay.workspace();
    const agent = agentOf(workspace);
    const reader = follow(agent, { prefix: "none", since: 0 });
    await until(() => proxy.count("GET", `${workspace.id}/changes/stream`) === 1, "a stream");
    const { clock } = await agent.write("a", 1);
    await agent.waitFor("a", { after: clock - 1 });
    assert.ok((await workspace.rest("DELETE", "")).status < 300);
    await within(reader.done, "the iterator ends");
    assert.ok(reader.error instanceof ProblemError);
    assert.deepEqual([reader.error.code, reader.clocks], ["workspace_deleted", [clock + 1]]);
    await assert.rejects(agent.write("a", 2), { code: "workspace_deleted" });
    assert.equal(proxy.count("GET", `${workspace.id}/changes/stream`), 1);
  });

  test("documents are read as text and as JSON, with clock and epoch", async () => {
    const workspace = await relay.workspace();
    const doc = new Y.Doc();
    doc.getText("content").insert(0, "hello 😀");
    doc.getMap("meta").set("n", 1);
    const made = await workspace.rest("POST", "/docs/notes/a/updates", { body: Y.encodeStateAsUpdate(doc), headers: { "content-type": "application/octet-stream" } });
    const agent = agentOf(workspace);
    const { clock, epoch } = made.json;
    assert.deepEqual(await agent.readText("notes/a", { root: "content" }), { content: "hello 😀", clock, epoch });
    assert.deepEqual(await agent.readJson("notes/a"), { content: { content: "hello 😀", meta: { n: 1 } }, clock, epoch });
    await assert.rejects(agent.readText("notes/none"), { code: "node_not_found" });
  });

  test("an agent edits a note while a person types in it", async () => {
    const workspace = await relay.workspace();
    const person = await stockClient(workspace, { sub: "ann" });
    const content = person.doc.getText("t");
    content.insert(0, "typed by ann. ");
    const agent = agentOf(workspace);
    await until(async () => (await workspace.text()) === "typed by ann. ", "it is saved");
    content.insert(0, "still typing: ");
    const answer = await agent.edit("d", [{ op: "append", text: "noted by a bot." }, { op: "replace", quote: "ann", with: "Ann" }], { root: "t" });
    assert.ok(answer.clock > 0 && answer.stateVector.length > 0);
    await until(() => content.toString() === "still typing: typed by Ann. noted by a bot.", "the editor shows both");
    await assert.rejects(agent.edit("d", [{ op: "replace", quote: "nowhere", with: "x" }], { root: "t" }), ProblemError);
  });

  for (const [runtime, command] of Object.entries({
    Node: [process.execPath],
    Deno: [join(ROOT, "node_modules", "deno", process.platform === "win32" ? "deno.exe" : "deno"), "run", "--no-prompt", "--no-remote", "--no-npm", "--allow-net", "--allow-env"],
  })) {
    test(`the same agent works in ${runtime}, without a build`, async () => {
      const workspace = await relay.workspace();
      const run = runScript([...command, join(ROOT, "tests/e2e/support/agent-smoke.mjs")], workspace);
      assert.equal(await within(run.exited, "its end", 90_000), 0, run.output);
      assert.deepEqual(JSON.parse(run.output.trim().split("\n").at(-1)), {
        conflict: { n: 1 },
        missing: "node_not_found",
        kinds: ["put smoke/a", "put smoke/b", "delete smoke/a"],
        waited: "put",
        listed: ["smoke/b"],
        value: "😀",
      });
    });
  }

  test("two example agents share a board: each job is claimed once and done", async () => {
    const workspace = await relay.workspace();
    const owner = agentOf(workspace, { sub: "owner" });
    const post = (n) => owner.write(`jobs/${n}`, { state: "open", title: `job ${n}` });
    await Promise.all(upTo(6).map(post));
    const names = ["bot-1", "bot-2"];
    // One is told by its variables, the other by the file that `cargo xtask dev` writes.
    const folder = mkdtempSync(join(tmpdir(), "yrelay-agent-"));
    relay.opened({ stop: () => rmSync(folder, { recursive: true, force: true }) });
    const readyFile = join(folder, "ready.json");
    writeFileSync(readyFile, JSON.stringify({ api: relay.api, workspace: workspace.id, token: workspace.token, agentToken: workspace.apiToken({ sub: "example", kind: "agent", role: "editor" }) }));
    const env = [{}, { READY_FILE: readyFile, API: "", TOKEN: "" }];
    const runs = names.map((name, n) => runScript([process.execPath, join(ROOT, "examples/agent/agent.mjs")], workspace, { NAME: name, NOTE: "notes/board", ...env[n] }));
    await until(() => runs.every(({ output }) => output.includes("watching")), "both are up");
    await Promise.all(upTo(24, 7).map(post));
    const states = async () => Promise.all(upTo(24).map(async (n) => (await owner.read(`jobs/${n}`)).value));
    await until(async () => (await states()).every(({ state }) => state === "done"), "every job is done", 60_000);
    const perJob = new Map();
    for (const { path, kind } of await changesOf(workspace)) if (path.startsWith("jobs/")) perJob.set(path, [...(perJob.get(path) ?? []), kind]);
    assert.equal(perJob.size, 24);
    for (const [path, kinds] of perJob) assert.deepEqual(kinds, ["put", "patch", "patch"], `${path} was claimed once and done once`);
    const claims = runs.map(({ output }) => output.match(/claimed/g)?.length ?? 0);
    assert.equal(claims[0] + claims[1], 24, `claims: ${claims}`);
    assert.ok((await states()).every(({ by }) => names.includes(by)));
    const { content } = await owner.readText("notes/board");
    assert.deepEqual(content.match(/job \d+/g)?.sort(), upTo(24).map((n) => `job ${n}`).sort(), "each job is noted once");
    for (const run of runs) run.child.kill("SIGTERM");
    assert.deepEqual(await within(Promise.all(runs.map(({ exited }) => exited)), "both end"), [0, 0], runs.map(({ output }) => output).join("\n"));
  });

  /** Runs a script as an agent of the workspace; it is ended with the tests. */
  function runScript([file, ...args], workspace, env = {}) {
    const token = workspace.apiToken({ sub: env.NAME ?? "script", kind: "agent", role: "editor" });
    const child = spawn(file, args, { env: { ...process.env, DENO_NO_UPDATE_CHECK: "1", API: relay.api, TOKEN: token, WORKSPACE: workspace.id, ...env } });
    const run = { child, output: "" };
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (run.output += text));
    run.exited = new Promise((settle) => child.once("exit", (code, signal) => settle(signal ?? code)));
    relay.opened({ stop: () => child.kill("SIGKILL") });
    return run;
  }
});

async function changesOf(workspace) {
  const { json } = await workspace.rest("GET", "/changes?since=0&limit=1000");
  return json.changes;
}

test("D06 C.22 a stack that is killed and started again: no change is missed or comes twice", { timeout: 150_000 }, async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "yrelay-agent-"));
  let stack = await startStack({ dataDir, workspace: "w" });
  const proxy = await startProxy(stack.url);
  const { token } = stack;
  const agentOf = () => new WorkspaceAgent({ api: proxy.url, workspace: "w", getToken: () => token });
  const [writer, reader] = [agentOf(), agentOf()];
  try {
    const since = await reader.head();
    const readers = [follow(reader, { since }), follow(reader, { since, prefix: "n" }), follow(reader)];
    await until(() => proxy.count("GET", "/changes/stream") === 1, "a stream");
    const acknowledged = [];
    const write = async (n) => {
      // The same key until it is answered: whether a try got through before the kill does not matter.
      for (;;) {
        try {
          return acknowledged.push((await writer.write(`n/${n}`, n, { idempotencyKey: `key-${n}` })).clock);
        } catch (error) {
          assert.equal(error.code, "unreachable");
        }
      }
    };
    for (const life of [0, 1]) {
      const writes = upTo(20).map((n) => write(life * 20 + n));
      await until(() => acknowledged.length >= life * 20 + 3, "some writes");
      await stack.kill();
      stack = await startStack({ dataDir });
      proxy.target = stack.url;
      await within(Promise.all(writes), "every write is answered", 60_000);
    }
    const last = since + 40;
    assert.deepEqual(acknowledged.sort((a, b) => a - b), upTo(last, since + 1), "40 writes are 40 changes");
    await Promise.all(readers.slice(0, 2).map((one) => one.reaches(last)));
    for (const { clocks, resets } of readers.slice(0, 2)) assert.deepEqual([clocks, resets], [upTo(last, since + 1), 0]);
    await readers[2].reaches(last);
    const { clocks } = readers[2];
    assert.deepEqual(clocks, upTo(last, clocks[0]), "a reader from now on has no gap either");
    assert.ok(proxy.count("GET", "/changes/stream") >= 3, "a stream for each life");
  } finally {
    for (const agent of [writer, reader]) agent.close();
    await proxy.stop();
    await stack.stop();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  }
});
