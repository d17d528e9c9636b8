// MCP (section 6) with the official client, in both eras of the protocol, and what such a client never sends.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { startStack } from "../../tools/stack.mjs";
import { Api, tap } from "./support/http.mjs";
import { McpClient, raw } from "./support/mcp.mjs";

const ENTRY = join(import.meta.dirname, "support", "d1-tap.mjs");
const ALLOWED = "https://app.example";
const TOOLS = ["list_nodes", "read_node", "write_node", "patch_node", "delete_node", "read_document", "edit_document", "list_changes", "wait_for_changes", "list_presence", "set_presence"];
const PAGE_BYTES = 64 * 1024;

describe("mcp", { timeout: 300_000 }, () => {
  let api;
  let d1;
  const clients = [];
  before(async () => {
    api = new Api(await startStack({ entry: ENTRY, vars: { ALLOWED_ORIGINS: ALLOWED } }));
    d1 = tap(api);
  });
  after(async () => {
    await Promise.all(clients.map((client) => client.close()));
    await api.finish();
  });

  const mint = (workspaces, sub = "bot") => api.stack.mint({ sub, kind: "agent", workspaces });

  /** A client of an agent. */
  async function connect(workspaces, { era, sub } = {}) {
    const client = await McpClient.connect(api.stack.url, mint(workspaces, sub), era);
    clients.push(client);
    return client;
  }

  for (const era of ["modern", "legacy"]) {
    test(`C.19 every tool does its work for a client of the ${era} era`, async () => {
      const id = `tools-${era}`;
      const owner = await api.workspace(id);
      const mcp = await connect({ [id]: "editor" }, { era });
      assert.deepEqual((await mcp.client.listTools()).tools.map(({ name }) => name), TOOLS);
      assert.equal(mcp.client.getServerVersion()?.name, "yrelay");
      assert.deepEqual(await mcp.call("write_node", { path: "jobs/1", value: { state: "open" }, ifNoneMatch: "*" }), { path: "jobs/1", clock: 1, replayed: false, head: 1 });
      assert.equal((await mcp.call("patch_node", { path: "jobs/1", patch: { by: "bot" }, ifMatch: 1 })).clock, 2);
      assert.deepEqual(await mcp.call("read_node", { path: "jobs/1" }), { path: "jobs/1", kind: "record", clock: 2, value: { state: "open", by: "bot" }, head: 2 });
      const edited = await mcp.call("edit_document", { path: "notes/a", root: "t", edits: [{ op: "append", text: "hello world" }] });
      assert.deepEqual([edited.clock, edited.head], [3, 3]);
      const replaced = await mcp.call("edit_document", { path: "notes/a", root: "t", base: 3, epoch: edited.epoch, edits: [{ op: "replace", quote: "world", with: "agents" }] });
      assert.deepEqual(await mcp.call("read_document", { path: "notes/a" }), { path: "notes/a", clock: 4, epoch: replaced.epoch, untrustedText: "hello agents", next: null, head: 4 });
      assert.equal((await mcp.call("read_document", { path: "notes/a", format: "json" })).untrustedText, '{"t":"hello agents"}');
      assert.equal((await mcp.call("read_node", { path: "notes/a" })).kind, "document");
      const listed = await mcp.call("list_nodes", { workspace: id, prefix: "notes" });
      assert.deepEqual(listed, { nodes: [{ path: "notes/a", kind: "document", clock: 4 }], next: null, head: 4 });
      assert.equal((await mcp.call("delete_node", { path: "jobs" })).clock, 5);
      const here = await mcp.call("set_presence", { session: "p1", state: { path: "notes/a" } });
      assert.deepEqual([here.presence.length, here.presence[0].sub, here.presence[0].self, here.otherHumans, here.head], [1, "bot", true, 0, 5]);
      assert.deepEqual(await mcp.call("list_presence", { session: "p1" }), here);
      const { changes, next } = await mcp.call("list_changes", { since: 0 });
      assert.deepEqual(changes.map(({ kind, actor }) => [kind, actor]), ["put", "patch", "update", "update", "delete"].map((kind) => [kind, "bot"]));
      assert.equal(next, 5);
      assert.equal(await owner.get(`/api/workspaces/${id}`).then(({ json }) => json.head), 5);
    });
  }

  test("lists come in pages", async () => {
    const owner = await api.workspace("pages");
    for (let batch = 0; batch < 3; batch += 1) {
      const ops = Array.from({ length: 50 }, (_, n) => ({ op: "put", path: `n/${batch}/${String(n).padStart(2, "0")} é`, value: n }));
      assert.equal((await owner.post("/api/workspaces/pages/ops", { ops })).status, 200);
    }
    const mcp = await connect({ pages: "viewer" });
    const paths = [];
    for (let after; after !== null; ) {
      const page = await mcp.call("list_nodes", { limit: 40, ...(after ? { after } : {}) });
      assert.ok(page.nodes.length <= 40);
      paths.push(...page.nodes.map(({ path }) => path));
      after = page.next;
    }
    assert.deepEqual([paths.length, new Set(paths).size], [150, 150]);
    const clocks = [];
    for (let since = 0, head = 1; since < head; ) {
      const page = await mcp.call("list_changes", { since, limit: 60 });
      clocks.push(...page.changes.map(({ clock }) => clock));
      ({ next: since, head } = page);
    }
    assert.deepEqual(clocks, Array.from({ length: 150 }, (_, n) => n + 1));
    const uris = [];
    for (let cursor; ; ) {
      const page = await mcp.client.listResources(cursor ? { cursor } : { cursor: "pages/" });
      uris.push(...page.resources.map(({ uri }) => uri));
      cursor = page.nextCursor;
      if (!cursor) break;
    }
    assert.equal(new Set(uris).size, 150);
    const { contents } = await mcp.client.readResource({ uri: uris[7] });
    assert.deepEqual(contents, [{ uri: uris[7], mimeType: "application/json", text: "7" }]);
  });

  test("long text comes in pages, of one version only", async () => {
    const owner = await api.workspace("long");
    const mcp = await connect({ long: "editor" });
    const text = "é😀 long\n".repeat(12_000);
    await mcp.call("edit_document", { path: "d", root: "t", edits: [{ op: "append", text }] });
    const pages = [];
    for (let cursor; cursor !== null; ) {
      const page = await mcp.call("read_document", { path: "d", ...(cursor ? { cursor } : {}) });
      assert.ok(Buffer.byteLength(page.untrustedText) <= PAGE_BYTES);
      pages.push(page.untrustedText);
      cursor = page.next;
    }
    assert.deepEqual([pages.length, pages.join("") === text], [Math.ceil(Buffer.byteLength(text) / PAGE_BYTES), true]);
    const { next } = await mcp.call("read_document", { path: "d" });
    await mcp.call("edit_document", { path: "d", root: "t", edits: [{ op: "append", text: "!" }] });
    const stale = await mcp.refused("read_document", { path: "d", cursor: next });
    assert.deepEqual([stale.code, stale.clock], ["precondition_failed", 2]);
    await owner.put("/api/workspaces/long/nodes/r", JSON.stringify("x".repeat(PAGE_BYTES)));
    const first = await mcp.call("read_node", { path: "r" });
    const second = await mcp.call("read_node", { path: "r", cursor: first.next });
    assert.deepEqual([first.untrustedText.length, second.untrustedText, second.next], [PAGE_BYTES, 'x"', null]);
    await assert.rejects(mcp.client.readResource({ uri: "workspace://long/r" }), /read_node/);
  });

  test("m04 a call that is repeated with its key happens once; without, a precondition refuses the second", async () => {
    await api.workspace("m04");
    const mcp = await connect({ m04: "editor" });
    const keyed = { path: "a", value: { n: 1 }, idempotencyKey: "attempt-1" };
    const first = await mcp.call("write_node", keyed);
    assert.deepEqual(await mcp.call("write_node", keyed), { ...first, replayed: true });
    assert.equal((await mcp.refused("write_node", { ...keyed, value: 2 })).code, "idempotency_key_reused");
    const edit = { path: "d", root: "t", edits: [{ op: "append", text: "once" }], idempotencyKey: "attempt-2" };
    const once = await mcp.call("edit_document", edit);
    const again = await mcp.call("edit_document", edit);
    assert.deepEqual([again.clock, again.replayed], [once.clock, true]);
    assert.equal((await mcp.call("read_document", { path: "d" })).untrustedText, "once");
    const guarded = { path: "a", value: { n: 2 }, ifMatch: first.clock };
    await mcp.call("write_node", guarded);
    const refused = await mcp.refused("write_node", guarded);
    assert.deepEqual([refused.code, refused.status, refused.clock, refused.value], ["precondition_failed", 412, 3, { n: 2 }]);
    assert.equal((await mcp.call("list_changes")).changes.length, 3);
  });

  test("m06 u07 another workspace, a viewer, a path that climbs: refused in the words of REST, and nothing is written", async () => {
    const owner = await api.workspace("m06-other");
    await api.workspace("m06");
    const mcp = await connect({ m06: "viewer" });
    const other = await mcp.refused("read_node", { workspace: "m06-other", path: "a" });
    const missing = await mcp.refused("read_node", { workspace: "m06-nowhere", path: "a" });
    assert.deepEqual([other.code, other], ["forbidden", missing]);
    for (const [tool, args] of [["write_node", { value: 1 }], ["patch_node", { patch: {} }], ["delete_node", {}], ["edit_document", { root: "t", edits: [{ op: "append", text: "x" }] }]]) {
      assert.equal((await mcp.refused(tool, { path: "a", ...args })).code, "forbidden", tool);
    }
    assert.equal((await mcp.refused("read_node", { path: "../m06-other/a" })).code, "invalid_path");
    assert.equal((await mcp.refused("read_node", { path: "a" })).code, "node_not_found");
    assert.equal((await mcp.refused("list_changes", { since: 99 })).code, "cursor_gone");
    assert.equal((await mcp.refused("list_nodes", { limit: 9999 })).code, "bad_request");
    await assert.rejects(mcp.client.readResource({ uri: "workspace://m06-other/a" }), /does not allow/);
    await assert.rejects(mcp.client.callTool({ name: "drop_table", arguments: {} }), /no tool/);
    assert.equal(await owner.get("/api/workspaces/m06-other").then(({ json }) => json.head), 0);
    const many = await connect({ m06: "viewer", "m06-other": "viewer" });
    assert.deepEqual((await many.refused("list_nodes")).workspaces, ["m06", "m06-other"]);
    assert.deepEqual((await many.call("list_nodes", { workspace: "m06" })).nodes, []);
  });

  test("two agents: one waits and hears what the other wrote, each under its own name", async () => {
    await api.workspace("pair");
    const [ada, bob] = [await connect({ pair: "editor" }, { sub: "ada" }), await connect({ pair: "editor" }, { sub: "bob", era: "legacy" })];
    const waiting = ada.call("wait_for_changes", { since: 0 });
    await bob.call("write_node", { path: "hi", value: 1 });
    const heard = await waiting;
    assert.deepEqual(heard.changes.map(({ actor, path }) => [actor, path]), [["bob", "hi"]]);
    await ada.call("write_node", { path: "hi", value: 2 });
    assert.deepEqual((await bob.call("wait_for_changes", { since: heard.next })).changes.map(({ actor }) => actor), ["ada"]);
    const quiet = await bob.call("wait_for_changes", { since: 2, timeoutSeconds: 1 });
    assert.deepEqual([quiet.changes, quiet.next, quiet.head], [[], 2, 2]);
  });

  test("C.15 a tool costs what its REST twin costs, and a wait a few looks", async () => {
    const owner = await api.workspace("cost");
    const mcp = await connect({ cost: "editor" });
    const base = "/api/workspaces/cost";
    const cost = async (work) => {
      await d1.counts();
      await work();
      return d1.counts();
    };
    await owner.put(`${base}/nodes/a`, { a: 1 });
    await mcp.call("edit_document", { path: "d", root: "t", edits: [{ op: "append", text: "hi" }] });
    const twins = [
      [() => mcp.call("read_node", { path: "a" }), () => owner.get(`${base}/nodes/a`)],
      [() => mcp.call("list_nodes", { limit: 10 }), () => owner.get(`${base}/nodes?limit=10`)],
      [() => mcp.call("list_presence"), () => owner.get(`${base}/presence`)],
      [() => mcp.call("list_changes", { limit: 1 }), () => owner.get(`${base}/changes?limit=1`)],
      [() => mcp.call("read_document", { path: "d" }), () => owner.get(`${base}/docs/d`, { headers: { accept: "text/plain" } })],
      [() => mcp.call("write_node", { path: "a", value: 2 }), () => owner.put(`${base}/nodes/a`, 2)],
      [() => mcp.call("patch_node", { path: "a", patch: 3 }), () => owner.patch(`${base}/nodes/a`, 3)],
      [() => mcp.call("write_node", { path: "a", value: 4, idempotencyKey: "k1" }), () => owner.put(`${base}/nodes/a`, 4, { "idempotency-key": "k2" })],
    ];
    for (const [index, [tool, twin]] of twins.entries()) assert.deepEqual(await cost(tool), await cost(twin), `pair ${index}`);
    assert.equal((await cost(() => mcp.call("read_node", { path: "a" }))).batches, 1);
    assert.equal((await cost(() => mcp.client.listTools())).batches, 0);
    const wait = await cost(() => mcp.call("wait_for_changes", { since: 8, timeoutSeconds: 3 }));
    assert.ok(wait.batches >= 2 && wait.batches <= 5, `${wait.batches} looks in three seconds`);
  });

  test("resources: templates, records, documents, and several workspaces", async () => {
    await api.workspace("res-a");
    await api.workspace("res-b");
    const mcp = await connect({ "res-a": "editor", "res-b": "editor", "res-never": "viewer" });
    await mcp.call("write_node", { workspace: "res-a", path: "x y/é", value: [1] });
    await mcp.call("edit_document", { workspace: "res-b", path: "d", root: "t", edits: [{ op: "append", text: "hi" }] });
    assert.equal((await mcp.client.listResourceTemplates()).resourceTemplates[0].uriTemplate, "workspace://{workspace}/{+path}");
    const seen = [];
    let cursor = "res-a/";
    for (; cursor; ) {
      const page = await mcp.client.listResources({ cursor });
      seen.push(...page.resources.map(({ uri }) => uri));
      cursor = page.nextCursor;
    }
    assert.deepEqual(seen, ["workspace://res-a/x%20y/%C3%A9", "workspace://res-b/d"]);
    assert.equal((await mcp.client.readResource({ uri: seen[0] })).contents[0].text, "[1]");
    assert.equal((await mcp.client.readResource({ uri: seen[1] })).contents[0].text, '{"t":"hi"}');
    await assert.rejects(mcp.client.readResource({ uri: "workspace://res-a/nothing" }), /no node/);
    await assert.rejects(mcp.client.listResources({ cursor: "elsewhere/" }), /cursor/);
  });

  test("m02 origins, methods, types, versions and messages that no client of ours sends", async () => {
    await api.workspace("m02");
    const token = mint({ m02: "editor" });
    const { url } = api.stack;
    const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
    const ask = (options = {}) => raw(url, { token, body: ping, ...options });
    assert.deepEqual((await ask()).json, { jsonrpc: "2.0", id: 1, result: {} });
    for (const origin of ["https://evil.example", "null", `${ALLOWED}, ${ALLOWED}`]) {
      const refused = await ask({ headers: { origin }, body: "{" });
      assert.deepEqual([refused.status, refused.json.code], [403, "origin_not_allowed"], origin);
    }
    const allowed = await ask({ headers: { origin: ALLOWED } });
    assert.deepEqual([allowed.status, allowed.headers.get("access-control-allow-origin")], [200, ALLOWED]);
    for (const accept of ["*/*", "application/json", "application/json, text/event-stream"]) assert.equal((await ask({ headers: { accept } })).status, 200, accept);
    assert.equal((await ask({ headers: { accept: "text/event-stream" } })).status, 406);
    assert.equal((await ask({ headers: { "content-type": "text/plain" } })).status, 415);
    for (const version of ["2025-11-25", "2025-06-18"]) assert.equal((await ask({ headers: { "mcp-protocol-version": version } })).status, 200);
    const unknown = await ask({ headers: { "mcp-protocol-version": "1999-01-01" } });
    assert.deepEqual([unknown.status, unknown.json.error.code, unknown.json.id], [400, -32022, 1]);
    for (const method of ["GET", "DELETE", "PUT"]) {
      const refused = await ask({ method, body: undefined });
      assert.deepEqual([refused.status, refused.headers.get("allow")], [405, "POST"], method);
    }
    for (const [bad, challenge] of [[undefined, "Bearer"], ["nonsense", "Bearer"], [api.stack.mint({ sub: "a", kind: "agent", workspaces: {}, ttl: -5 }), 'Bearer error="invalid_token"']]) {
      const refused = await ask({ token: bad });
      assert.deepEqual([refused.status, refused.headers.get("www-authenticate")], [401, challenge]);
    }
    const note = await ask({ body: { jsonrpc: "2.0", method: "notifications/initialized" } });
    assert.deepEqual([note.status, note.text], [202, ""]);
    for (const body of ["", "{", "[]", JSON.stringify([ping]), '{"jsonrpc":"2.0","id":null,"method":"ping"}', "[".repeat(100_000)]) {
      assert.equal((await ask({ body })).status, 400, body.slice(0, 40));
    }
    assert.equal((await ask({ body: { ...ping, method: "sampling/createMessage" } })).json.error.code, -32601);
    const large = { ...ping, method: "tools/call", params: { name: "write_node", arguments: { path: "a", value: "x".repeat(1024 * 1024) } } };
    const refused = await api.as(token).post("/mcp", large);
    assert.deepEqual([refused.status, refused.json.code], [413, "payload_too_large"]);
    assert.equal((await api.as(api.stack.mint({ sub: "o", kind: "human", workspaces: { m02: "viewer" } })).get("/api/workspaces/m02")).json.head, 0);
  });

  test("m07 twenty calls of one agent at once are all answered, and a client that leaves harms nobody", async () => {
    await api.workspace("m07");
    const mcp = await connect({ m07: "editor" });
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => mcp.call("write_node", { path: `n/${n}`, value: n })));
    assert.deepEqual(answers.map(({ clock }) => clock).sort((a, b) => a - b), Array.from({ length: 20 }, (_, n) => n + 1));
    const leaving = new AbortController();
    const wait = mcp.client.callTool({ name: "wait_for_changes", arguments: { since: 20 } }, { signal: leaving.signal });
    leaving.abort("enough");
    await assert.rejects(wait);
    assert.equal((await mcp.call("list_changes", { since: 19 })).head, 20);
  });
});

test("m01 a restart between two calls of one client goes unnoticed", { timeout: 120_000 }, async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "yrelay-mcp-"));
  let stack = await startStack({ dataDir, workspace: "demo" });
  let mcp;
  try {
    const token = stack.mint({ sub: "bot", kind: "agent", workspaces: { demo: "editor" } });
    mcp = await McpClient.connect(stack.url, token, "legacy");
    await mcp.call("write_node", { path: "a", value: 1 });
    const port = Number(new URL(stack.url).port);
    await stack.stop();
    stack = await startStack({ dataDir, port, workspace: "demo" });
    assert.equal((await mcp.call("read_node", { path: "a" })).value, 1);
    const stale = await raw(stack.url, { token, headers: { "mcp-session-id": "of-another-life" }, body: { jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } } } });
    assert.deepEqual([stale.status, stale.json.result.protocolVersion, stale.headers.get("mcp-session-id")], [200, "2025-11-25", null]);
  } finally {
    await mcp?.close();
    await stack.stop();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  }
});
