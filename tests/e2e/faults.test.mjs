// A database and a room that fail or stall on command: what was acknowledged stays, and nothing is
// applied twice. See support/faulty-worker.mjs.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { FrameClient } from "./support/frame-client.mjs";
import { HI, STEP_1, isStep1, isStep2, isUpdate, textUpdate, updateFrame } from "./support/frames.mjs";
import { startFaulty } from "./support/faults.mjs";
import { McpClient } from "./support/mcp.mjs";
import { verified } from "./support/verified.mjs";
import { PATIENCE, sleep, until } from "./support/waiting.mjs";

/** The insert that every mutation begins with, the read of a document, the append of an update. */
const MUTATION = "INSERT INTO change_log";
const DOCUMENT = "SELECT clock, part, data FROM doc_updates";
const APPEND = "INSERT INTO doc_updates";

// One at a time: the rules are for the whole stack.
describe("faults", { concurrency: 1 }, () => {
  let dataDir;
  let relay;
  before(async () => {
    dataDir = mkdtempSync(join(tmpdir(), "yrelay-faulty-"));
    relay = await startFaulty({ dataDir });
  });
  after(async () => {
    await relay?.stop();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });

  async function joined(workspace) {
    const client = await workspace.connect();
    client.send(STEP_1);
    await client.next(isStep1);
    return client;
  }

  test("A.10 C.1 D01 an error before the commit leaves nothing; under a key the Worker tries again by itself", async () => {
    const workspace = await relay.workspace();
    await relay.faults({ on: "d1", match: MUTATION, how: "fail", times: 1 });
    const refused = await workspace.rest("PUT", "/nodes/a", { body: 1 });
    assert.equal(refused.status, 503);
    assert.ok(refused.headers.get("retry-after"));
    assert.equal(await workspace.head(), 0);
    await relay.faults({ on: "d1", match: MUTATION, how: "fail", times: 2 });
    const made = await workspace.rest("PUT", "/nodes/a", { body: 1, headers: { "idempotency-key": "k" } });
    assert.deepEqual([made.status, made.json.clock], [201, 1]);
    await relay.faults({ on: "d1", match: MUTATION, how: "fail" });
    const given = await workspace.rest("PUT", "/nodes/b", { body: 1, headers: { "idempotency-key": "l" } });
    assert.equal(given.status, 503);
    assert.deepEqual(await relay.hits(), [3], "a bounded number of attempts");
    await relay.faults();
    assert.equal(await workspace.head(), 1);
  });

  test("A.10 an error that does not pass is tried once, is no success, and says so; a room keeps what it could not save", async () => {
    const workspace = await relay.workspace();
    const message = "D1_ERROR: no such table: nodes: SQLITE_ERROR";
    await relay.faults({ on: "d1", match: MUTATION, how: "fail", message });
    const mutations = {
      put: () => workspace.rest("PUT", "/nodes/a", { body: 1, headers: { "idempotency-key": "k" } }),
      update: () =>
        workspace.rest("POST", "/docs/d/updates", { body: Buffer.from(HI.slice(6), "hex"), headers: { "content-type": "application/octet-stream", "idempotency-key": "k" } }),
      edits: () => workspace.rest("POST", "/docs/e/edits", { body: { root: "t", edits: [{ op: "append", text: "." }] }, headers: { "idempotency-key": "k" } }),
      move: () => workspace.rest("POST", "/nodes/a/move", { body: { to: "b" }, headers: { "idempotency-key": "k" } }),
    };
    for (const [index, [name, call]] of Object.entries(mutations).entries()) {
      const { status, json, headers } = await call();
      assert.deepEqual([name, status, json.code, headers.get("retry-after")], [name, 500, "internal", null]);
      assert.deepEqual(await relay.hits(), [index + 1], `${name}: one attempt`);
    }
    const a = await joined(workspace);
    a.send(HI);
    a.say({ type: "flush", id: 1 });
    assert.deepEqual(await a.nextText(), { type: "flush_failed", id: 1, reason: "storage_unavailable" });
    assert.equal(await workspace.head(), 0, "nothing was called saved, and nothing is");
    await relay.faults();
    await until(async () => (await a.settled().catch(() => ({}))).type === "receipt", "the room saves once the database works");
    assert.equal(await workspace.text(), "hi");
    const made = await mutations.put();
    assert.equal(made.status, 201, "the same key still works");
  });

  test("D01 a commit whose answer is lost is one row and one clock, for the Worker's retry and for the client's", async () => {
    const workspace = await relay.workspace();
    const put = () => workspace.rest("PUT", "/nodes/a", { body: { n: 1 }, headers: { "idempotency-key": "key-1" } });
    await relay.faults({ on: "d1", match: MUTATION, how: "fail_after", times: 1 });
    const first = await put();
    assert.deepEqual([first.status, first.json.clock], [201, 1]);
    await relay.faults();
    const again = await put();
    assert.deepEqual([again.status, again.json.clock, again.headers.get("idempotency-replayed")], [201, 1, "true"]);
    const rows = await relay.sql("SELECT clock, op_key FROM change_log WHERE workspace = ?", workspace.id);
    assert.deepEqual(rows.map(({ clock }) => clock), [1]);
  });

  test("R3 whoever is connected hears of a write whose commit was not answered, from the retry that finds it under its key", async () => {
    const workspace = await relay.workspace();
    await workspace.rest("PUT", "/nodes/a", { body: 1 });
    await workspace.rest("PUT", "/docs/old?root=t", { body: new TextEncoder().encode("x"), headers: { "content-type": "text/plain" } });
    const member = await joined(workspace);
    member.say({ type: "hello", changes: true });
    await member.settled();
    const bytes = { "content-type": "application/octet-stream" };
    const requests = [
      ["PUT", "/nodes/b", { body: 1 }, ["put b"]],
      ["POST", "/ops", { body: { ops: [{ op: "put", path: "c", value: 1 }, { op: "delete", path: "a" }] } }, ["put c", "delete a"]],
      ["POST", "/nodes/b/move", { body: { to: "e" } }, ["delete b", "move e"]],
      ["PUT", "/docs/old?root=t", { body: new TextEncoder().encode("y"), headers: { "content-type": "text/plain" } }, ["replace old"]],
      ["POST", "/docs/old/edits", { body: { root: "t", edits: [{ op: "append", text: "." }] } }, ["update old"]],
      ["POST", "/docs/d/updates", { body: Buffer.from(HI.slice(6), "hex"), headers: bytes }, ["update d"]],
    ];
    for (const [method, path, { headers, ...rest }, changes] of requests) {
      await relay.faults({ on: "d1", match: MUTATION, how: "fail_after", times: 1 });
      const answer = await workspace.rest(method, path, { ...rest, headers: { ...headers, "idempotency-key": `key ${path}`.replaceAll(" ", "-") } });
      assert.ok(answer.status < 300, `${path}: ${answer.status} ${answer.text}`);
      assert.equal(answer.headers.get("idempotency-replayed"), "true", path);
      for (const change of changes) {
        const told = await member.nextText(({ type }) => type === "change", `the change of ${method} ${path}`);
        assert.equal(`${told.kind} ${told.path}`, change);
      }
    }
    assert.equal(await member.next(isUpdate), HI, "the member of the document has its text");
    await relay.faults({ on: "d1", match: MUTATION, how: "fail_after", times: 1 });
    const deleted = await workspace.rest("DELETE", "", { headers: { "idempotency-key": "deletes" } });
    assert.deepEqual([deleted.status, deleted.headers.get("idempotency-replayed")], [200, "true"]);
    assert.equal((await member.closing()).code, 4404);
    await relay.faults();
  });

  test("D01 an update whose append is committed and not answered is stored, and its text is there once", async () => {
    const workspace = await relay.workspace();
    const a = await joined(workspace);
    await relay.faults({ on: "d1", match: APPEND, how: "fail_after", times: 1 });
    a.send(HI);
    a.say({ type: "flush", id: 1 });
    assert.deepEqual(await a.nextText(), { type: "flush_failed", id: 1, reason: "storage_unavailable" });
    const { type, clock } = await a.settled().catch(() => ({}));
    assert.equal(type, "receipt");
    assert.equal(await workspace.text(), "hi");
    const { json } = await workspace.rest("GET", "/changes");
    assert.deepEqual(json.changes.map((change) => change.clock), Array.from({ length: clock }, (_, index) => index + 1));
    await relay.faults();
  });

  test("D02 while D1 stalls REST answers 503 in time, editing goes on, and afterwards everything is stored once", async () => {
    const workspace = await relay.workspace();
    const [a, b] = [await joined(workspace), await joined(workspace)];
    const stream = workspace.stream();
    await relay.faults({ on: "d1", how: "stall" });
    const writes = Promise.all(["a", "b", "c"].map((name) => workspace.rest("PUT", `/nodes/${name}`, { body: 1 })));
    for (let n = 0; n < 10; n += 1) {
      const frame = updateFrame(textUpdate(1 + n, 1)).toString("hex");
      (n % 2 ? a : b).send(frame);
      assert.equal(await (n % 2 ? b : a).next(isUpdate), frame);
      await sleep(300);
    }
    a.say({ type: "flush", id: "during" });
    for (const answer of await writes) {
      assert.equal(answer.status, 503);
      assert.ok(Number(answer.headers.get("retry-after")) > 0);
    }
    assert.equal((await a.nextText(({ id }) => id === "during")).type, "flush_failed");
    await relay.faults();
    await until(async () => (await a.settled()).type === "receipt", "a receipt after the stall");
    assert.equal((await workspace.text()).length, 10);
    const head = await workspace.head();
    const { json } = await workspace.rest("GET", "/changes");
    assert.deepEqual(json.changes.map(({ kind }) => kind).filter((kind) => kind !== "update"), [], "no refused write happened");
    const stored = await relay.sql("SELECT COUNT(*) AS n FROM doc_updates WHERE workspace = ?", workspace.id);
    assert.ok(stored[0].n <= head, "each flush is stored once");
    await stream.reaches(head);
    assert.deepEqual(stream.clocks, Array.from({ length: head }, (_, index) => index + 1));
  });

  test("M07 D02 tools on a D1 that stalls are answered in time with what to do, and none of their writes happens later", async () => {
    const workspace = await relay.workspace();
    const agent = await McpClient.connect(relay.api, workspace.apiToken({ sub: "bot", kind: "agent", role: "editor" }));
    relay.opened({ stop: () => agent.close() });
    await relay.faults({ on: "d1", how: "stall" });
    const calls = ["a", "b", "c", "d"].map((path) => agent.refused("write_node", { path, value: 1, idempotencyKey: path }));
    const refused = await Promise.all([...calls, agent.refused("edit_document", { path: "e", root: "t", edits: [{ op: "append", text: "x" }] })]);
    assert.deepEqual(refused.map(({ code }) => code), Array(5).fill("storage_unavailable"));
    await relay.faults();
    assert.equal(await workspace.head(), 0);
    assert.deepEqual(await agent.call("write_node", { path: "a", value: 1, idempotencyKey: "a" }), { path: "a", clock: 1, replayed: false, head: 1 });
  });

  test("A.16 R07 a load that fails closes with 1013 and leaves the stored bytes as they are", async () => {
    const workspace = await relay.workspace();
    const a = await joined(workspace);
    a.send(HI);
    await a.settled();
    await a.close();
    const stored = () => relay.sql("SELECT clock, part, data FROM doc_updates WHERE workspace = ?", workspace.id);
    const before = await stored();
    await relay.faults({ on: "d1", match: DOCUMENT, how: "fail", times: 1 });
    const b = await workspace.connect();
    b.send(STEP_1);
    assert.equal((await b.closing()).code, 1013);
    assert.deepEqual(b.frames.filter(isStep2), [], "never an empty document in place of a stored one");
    assert.deepEqual(await stored(), before);
    const c = await joined(workspace);
    assert.deepEqual(c.frames.filter(isStep2).map((frame) => frame.includes("6869")), [true]);
    c.send(updateFrame(textUpdate(7, 3)));
    await c.settled();
    assert.equal(await workspace.text(), "xxxhi");
  });

  test("R07 who edits while the load fails loses nothing", async () => {
    const workspace = await relay.workspace();
    const a = await joined(workspace);
    a.send(HI);
    await a.settled();
    await a.close();
    await relay.faults({ on: "d1", match: DOCUMENT, how: "fail", times: 1 });
    const b = await workspace.connect();
    b.send(updateFrame(textUpdate(7, 3)));
    b.send(STEP_1);
    await b.closing();
    await until(async () => (await workspace.text()) === "xxxhi", "both edits");
  });

  test("C.32 I06 O04 a room that cannot be told never fails a write, and the feed has the change", async () => {
    const workspace = await relay.workspace();
    const a = await joined(workspace);
    a.say({ type: "hello", changes: true });
    await a.settled();
    const stream = workspace.stream();
    // Both attempts of the notify call fail.
    await relay.faults({ on: "room", match: "/changed", how: "fail" });
    const answer = await workspace.rest("PUT", "/nodes/a", { body: 1 });
    assert.deepEqual([answer.status, answer.json.clock], [201, 1]);
    await until(async () => (await relay.hits())[0] === 2, "one bounded retry");
    await stream.reaches(1);
    // One failure: the retry tells the room.
    await relay.faults({ on: "room", match: "/changed", how: "fail", times: 1 });
    assert.equal((await workspace.rest("PUT", "/nodes/b", { body: 1 })).status, 201);
    assert.equal((await a.nextText(({ type }) => type === "change")).clock, 2);
    await relay.faults();
    assert.deepEqual(stream.clocks, [1, 2]);
  });

  test("C.80 R3 every mutation of the API succeeds while the room throws, and while it never answers", async () => {
    const star = relay.stack.mint({ sub: "star", kind: "human", workspaces: { "*": "owner" } });
    const table = {
      "POST /api/workspaces": (workspace) => workspace.rest("POST", "", { path: "/api/workspaces", body: { id: `${workspace.id}-2` }, token: star }),
      "PUT /api/workspaces/{workspaceId}/nodes/{path}": (workspace) => workspace.rest("PUT", "/nodes/a", { body: { n: 1 } }),
      "PATCH /api/workspaces/{workspaceId}/nodes/{path}": (workspace) =>
        workspace.rest("PATCH", "/nodes/a", { body: { n: 2 }, headers: { "content-type": "application/merge-patch+json" } }),
      "POST /api/workspaces/{workspaceId}/ops": (workspace) =>
        workspace.rest("POST", "/ops", { body: { ops: [{ op: "put", path: "b", value: 1 }, { op: "delete", path: "a" }] } }),
      "POST /api/workspaces/{workspaceId}/nodes/{path}/move": (workspace) => workspace.rest("POST", "/nodes/b/move", { body: { to: "c" } }),
      "PUT /api/workspaces/{workspaceId}/docs/{path}": (workspace) =>
        workspace.rest("PUT", "/docs/e?root=t", { body: new TextEncoder().encode("whole"), headers: { "content-type": "text/plain" } }),
      "POST /api/workspaces/{workspaceId}/docs/{path}/edits": (workspace) =>
        workspace.rest("POST", "/docs/e/edits", { body: { root: "t", edits: [{ op: "append", text: "." }] } }),
      "PUT /api/workspaces/{workspaceId}/presence": (workspace) => workspace.rest("PUT", "/presence", { body: { session: "tab" } }),
      "DELETE /api/workspaces/{workspaceId}/presence": (workspace) => workspace.rest("DELETE", "/presence?session=tab"),
      "POST /api/workspaces/{workspaceId}/p2p/signal": (workspace) =>
        workspace.rest("POST", "/p2p/signal", { body: { to: "b", from: "a", topic: "t", data: {} } }),
      // The update of HI, without the frame around it.
      "POST /api/workspaces/{workspaceId}/docs/{path}/updates": (workspace) =>
        workspace.rest("POST", "/docs/d/updates", { body: Buffer.from(HI.slice(6), "hex"), headers: { "content-type": "application/octet-stream" } }),
      "POST /api/workspaces/{workspaceId}/tokens": (workspace) => workspace.rest("POST", "/tokens", { body: { purpose: "stream" } }),
      "POST /api/telemetry": (workspace) => workspace.rest("POST", "", { path: "/api/telemetry", body: { events: [{ name: "relay_cycle_all_failed", labels: ["cf"], at: Date.now() }] } }),
      "POST /mcp": async (workspace) => {
        const params = { name: "write_node", arguments: { path: "m", value: 1 } };
        const answer = await workspace.rest("POST", "", { path: "/mcp", body: { jsonrpc: "2.0", id: 1, method: "tools/call", params } });
        assert.ok(answer.json.result.structuredContent.clock > 0, answer.text);
        return answer;
      },
      "DELETE /api/workspaces/{workspaceId}/nodes/{path}": (workspace) => workspace.rest("DELETE", "/nodes/c"),
      "DELETE /api/workspaces/{workspaceId}": (workspace) => workspace.rest("DELETE", ""),
    };
    const { paths } = await (await fetch(`${relay.api}/api/openapi.json`, { signal: AbortSignal.timeout(PATIENCE) })).json();
    const documented = Object.entries(paths).flatMap(([path, operations]) =>
      Object.keys(operations).filter((method) => ["put", "post", "patch", "delete"].includes(method)).map((method) => `${method.toUpperCase()} ${path}`));
    assert.deepEqual(Object.keys(table).sort(), documented.sort(), "no mutation is left out");
    for (const how of ["fail", "stall"]) {
      const workspace = await relay.workspace();
      await joined(workspace);
      await relay.faults({ on: "room", how });
      for (const [what, call] of Object.entries(table)) {
        const answer = await call(workspace);
        assert.ok(answer.status < 300, `${what}, the room ${how}s: ${answer.status} ${answer.text}`);
      }
      const [hits] = await relay.hits();
      assert.ok(hits > 0, "the room was asked");
      await relay.faults();
      assert.equal((await workspace.rest("GET", "")).status, 410);
    }
  });

  test("O04 an upgrade that the room fails is answered with 503 and not tried again", async () => {
    const workspace = await relay.workspace();
    await workspace.scope();
    await relay.faults({ on: "room", match: "/connect", how: "fail", times: 1 });
    await assert.rejects(workspace.connect(), (error) => error.status === 503);
    assert.deepEqual(await relay.hits(), [1]);
    await relay.faults();
    await joined(workspace);
  });

  test("D4 with D1 down two clients still meet, and D1 gets the edit when it is back", async () => {
    const workspace = await relay.workspace();
    const url = `${workspace.url("d")}?token=${await workspace.scope()}`;
    await relay.faults({ on: "d1", how: "fail" });
    const [a, b] = [relay.opened(await FrameClient.open(url)), relay.opened(await FrameClient.open(url))];
    b.send("03");
    await b.settled();
    a.send(HI);
    assert.equal(await b.next(isUpdate), HI);
    await relay.faults();
    await until(async () => (await workspace.text()) === "hi", "the edit in D1");
  });

  test("after all of this the database is whole", () => verified(dataDir));
});
