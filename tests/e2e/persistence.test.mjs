// What is kept and what it costs: rows and queries as D1 counts them, retention, streams that are
// gone. One test at a time, since they count everything that happens in their stack; a stream that
// was closed may read for some seconds more, so what has to be quiet comes first.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, afterEach, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { startStack } from "../../tools/stack.mjs";
import { Api, tap } from "./support/http.mjs";
import { openSocket, openStream } from "./support/stream.mjs";

const ENTRY = join(import.meta.dirname, "support", "d1-tap.mjs");
/** "hi" in the root `t`, by client 101. */
const UPDATE = Buffer.from("010165000401017402686900", "hex");
const DAY = 24 * 3600 * 1000;
/** Longer than the longest pause between two reads of a stream that polls, in ms. */
const WINDOW = 6_000;

describe("persistence", { timeout: 120_000 }, () => {
  let api;
  let d1;
  const opened = [];
  before(async () => {
    api = new Api(await startStack({ entry: ENTRY }));
    d1 = tap(api);
  });
  // A failed test must not leave a stream that the next one counts.
  afterEach(() => opened.splice(0).forEach((reader) => reader.close()));
  after(() => api.finish());

  async function stream(client, workspace, options) {
    const reader = await openStream(client, workspace, options);
    opened.push(reader);
    return reader;
  }

  /** What D1 counts while `work` runs. */
  async function counted(work) {
    await d1.counts();
    const answer = await work();
    assert.ok(answer.status < 300, answer.text);
    return d1.counts();
  }

  /** The hourly trigger, as the platform fires it. */
  async function sweep() {
    const answer = await api.as(undefined).get("/cdn-cgi/local/scheduled");
    assert.equal(answer.status, 200, answer.text);
    api.seen.delete("GET /cdn-cgi/local/scheduled 200");
  }

  test("C.56 C.57 r1 a mutation is one query that writes 2 rows, 3 with a key; an update 3, 4 with a key", async () => {
    const owner = await api.workspace("cost");
    const base = "/api/workspaces/cost";
    const star = api.actor("star", "human", { "*": "owner" });
    const key = { "idempotency-key": "k" };
    const table = [
      ["create", 2, () => owner.put(`${base}/nodes/a`, { n: 1 })],
      ["create with a key", 3, () => owner.put(`${base}/nodes/b`, { n: 1 }, key)],
      ["replace", 2, () => owner.put(`${base}/nodes/a`, { n: 2 })],
      ["replace with a key and a precondition", 3, () => owner.put(`${base}/nodes/b`, { n: 2 }, { "idempotency-key": "k2", "if-match": '"2"' })],
      ["patch", 2, () => owner.patch(`${base}/nodes/a`, { n: 3 })],
      ["patch with a key", 3, () => owner.patch(`${base}/nodes/a`, { n: 3 }, key)],
      ["a large value", 2, () => owner.put(`${base}/nodes/large`, `"${"x".repeat(1_000_000)}"`)],
      ["ten ops", 20, () => owner.post(`${base}/ops`, { ops: Array.from({ length: 10 }, (_, n) => ({ op: "put", path: `ops/${n}`, value: n })) })],
      ["a subtree of ten", 11, () => owner.delete(`${base}/nodes/ops`)],
      ["first update", 3, () => owner.update("cost", "d", UPDATE)],
      ["further update", 3, () => owner.update("cost", "d", UPDATE)],
      ["update with a key", 4, () => owner.update("cost", "d", UPDATE, key)],
      ["delete", 2, () => owner.delete(`${base}/nodes/a`)],
      ["a read", 0, () => owner.get(`${base}/nodes/b`)],
      ["a list", 0, () => owner.get(`${base}/nodes`)],
      ["a document", 0, () => owner.get(`${base}/docs/d`)],
      ["the feed", 0, () => owner.get(`${base}/changes?since=5`)],
      ["a token", 0, () => owner.post(`${base}/tokens`, { purpose: "stream" })],
      ["a workspace", 1, () => star.post("/api/workspaces", {})],
      ["a workspace with a key", 2, () => star.post("/api/workspaces", {}, key)],
    ];
    for (const [what, rows, work] of table) {
      const { rowsWritten, batches } = await counted(work);
      assert.equal(rowsWritten, rows, what);
      assert.ok(batches <= 1, `${what}: ${batches} batches`);
    }
    // A replay writes nothing, and one with another body reads no more.
    const replays = [() => owner.put(`${base}/nodes/b`, { n: 1 }, key), () => star.post("/api/workspaces", {}, key)];
    for (const replay of replays) assert.equal((await counted(replay)).rowsWritten, 0);
    const deleted = await counted(() => owner.delete(base));
    assert.deepEqual([deleted.rowsWritten, deleted.batches], [2, 1]);
  });

  test("u07 a foreign workspace costs no query whether it exists, was deleted or never was, so time tells nothing", async () => {
    const owner = await api.workspace("u07");
    await owner.put("/api/workspaces/u07/nodes/r", 1);
    await owner.update("u07", "d", UPDATE);
    const dead = await api.workspace("u07-dead");
    await dead.delete("/api/workspaces/u07-dead");
    const mine = await api.workspace("u07-mine");
    const { token } = (await mine.post("/api/workspaces/u07-mine/tokens", { purpose: "relay" })).json;
    const upgrade = { connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13", "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==" };
    const calls = [
      ...["", "/nodes", "/nodes/r", "/docs/d", "/changes", "/changes/stream"].map((below) => (base) => mine.get(`${base}${below}`)),
      (base) => mine.put(`${base}/nodes/r`, 2, { "idempotency-key": "k" }),
      (base) => mine.patch(`${base}/nodes/r`, {}),
      (base) => mine.post(`${base}/ops`, { ops: [{ op: "put", path: "o", value: 1 }] }),
      (base) => mine.post(`${base}/tokens`, { purpose: "relay" }),
      (base) => mine.call("POST", `${base}/docs/d/updates`, { body: UPDATE, headers: { "content-type": "application/octet-stream" } }),
      (base) => mine.delete(`${base}/nodes/r`),
      (base) => mine.delete(base),
      (base) => api.as(undefined).get(`${base.replace("/api/workspaces", "/ws")}/d?token=${token}`, { headers: upgrade }),
    ];
    const answers = [];
    for (const id of ["u07", "u07-dead", "u07-none"]) {
      for (const [index, call] of calls.entries()) {
        await d1.counts();
        const { status, text } = await call(`/api/workspaces/${id}`);
        const { statements, batches } = await d1.counts();
        assert.deepEqual([status, statements, batches], [403, 0, 0], `${id}: ${text}`);
        assert.equal(text, (answers[index] ??= text));
      }
    }
    // The same calls where they are allowed do ask.
    await d1.counts();
    await owner.get("/api/workspaces/u07/nodes/r");
    assert.ok((await d1.counts()).statements > 0);
  });

  test("i04 a refused batch of 50 ops is explained with one query, and one more for the value of a 412", async () => {
    const owner = await api.workspace("refused");
    const base = "/api/workspaces/refused";
    await owner.put(`${base}/nodes/a`, { n: 1 });
    const put = (n) => ({ op: "put", path: `n/${n}`, value: 0 });
    const refused = async (last) => {
      const ops = [...Array.from({ length: 49 }, (_, n) => put(n)), last];
      await d1.counts();
      const { json } = await owner.post(`${base}/ops`, { ops });
      assert.equal(json.index, 49);
      return [json.code, (await d1.counts()).batches];
    };
    // The first batch is the one that was refused.
    assert.deepEqual(await refused({ op: "patch", path: "b", patch: {} }), ["node_not_found", 2]);
    assert.deepEqual(await refused({ op: "delete", path: "b" }), ["node_not_found", 2]);
    assert.deepEqual(await refused({ op: "put", path: "a", value: 2, ifMatch: 9 }), ["precondition_failed", 3]);
  });

  test("the rows that a write reads do not grow with the workspace", async () => {
    const owner = await api.workspace("reads");
    const put = (path) => owner.put(`/api/workspaces/reads/nodes/${path}`, 0);
    const few = await counted(() => put("a"));
    for (let batch = 0; batch < 20; batch += 1) {
      await owner.post("/api/workspaces/reads/ops", { ops: Array.from({ length: 50 }, (_, n) => ({ op: "put", path: `n/${batch}/${n}`, value: 0 })) });
    }
    const many = await counted(() => put("b"));
    assert.ok(many.rowsRead <= few.rowsRead + 4, `${few.rowsRead} rows, then ${many.rowsRead}`);
    const head = await counted(() => owner.get("/api/workspaces/reads"));
    assert.ok(head.rowsRead <= 4, `${head.rowsRead} rows for the head`);
  });

  test("C.31 f5 with a live socket the stream is told by the room and reads nothing; without it, it polls", async () => {
    const owner = await api.workspace("bridge");
    const put = () => owner.put("/api/workspaces/bridge/nodes/a", 0);
    const socket = await openSocket(api, "bridge", "d");
    const reader = await stream(owner, "bridge", { query: "since=0" });
    // A stream that polls would read several times in its first seconds; a bridged one is quiet.
    let quiet = false;
    for (let attempt = 0; attempt < 3 && !quiet; attempt += 1) {
      await d1.counts();
      await sleep(3_000);
      quiet = (await d1.counts()).batches === 0;
    }
    assert.ok(quiet, "the stream does not poll");
    for (let clock = 1; clock <= 6; clock += 1) {
      await put();
      const [change] = await reader.changes(1);
      assert.deepEqual([change.id, change.data.clock, change.data.actor], [String(clock), clock, "owner"]);
    }
    // Six writes, and one read that looks after lost notifications at most.
    const { batches } = await d1.counts();
    assert.ok(batches <= 7, `${batches} batches for six events`);
    // The person leaves while writes go on: the stream goes back to D1 and has no gap.
    const closed = new Promise((settle) => socket.once("close", settle));
    socket.close();
    for (let clock = 7; clock <= 12; clock += 1) {
      await put();
      await sleep(100);
    }
    await closed;
    assert.deepEqual((await reader.changes(6)).map(({ id }) => id), ["7", "8", "9", "10", "11", "12"]);
    assert.equal((await put()).json.clock, 13);
    assert.deepEqual((await reader.changes(1)).map(({ id }) => id), ["13"]);
    // And a person who comes back is bridged again, without a repetition.
    const again = await openSocket(api, "bridge", "d");
    await put();
    assert.deepEqual((await reader.changes(1)).map(({ id }) => id), ["14"]);
    again.close();
    reader.close();
  });

  test("C.5 a flushed edit of the relay reaches a stream as one change of its author", async () => {
    const owner = await api.workspace("flush");
    const socket = await openSocket(api, "flush", "notes/a");
    const reader = await stream(owner, "flush", { query: "since=0" });
    socket.send(Buffer.from("00020c010165000401017402686900", "hex"));
    const [change] = await reader.changes(1);
    assert.deepEqual([change.id, change.data.kind, change.data.path], ["1", "update", "notes/a"]);
    const read = await owner.get("/api/workspaces/flush/docs/notes/a", { headers: { accept: "text/plain" } });
    assert.deepEqual([read.text, read.headers.etag], ["hi", '"1"']);
    socket.close();
    reader.close();
  });

  test("C.55 d06 f6 the sweep keeps the newest row, the next clock goes on, an old cursor is reset", async () => {
    const owner = await api.workspace("d06");
    const base = "/api/workspaces/d06";
    const put = () => owner.put(`${base}/nodes/a`, 0);
    await owner.post(`${base}/ops`, { ops: Array(50).fill({ op: "put", path: "a", value: 0 }) });
    const live = await stream(owner, "d06", { query: "since=50" });
    // A sweep that went half-way: 20 rows are old.
    await d1.sql("UPDATE change_log SET at = at - ?1 WHERE workspace = 'd06' AND clock <= 20", 8 * DAY);
    await sweep();
    assert.deepEqual((await owner.get(base)).json, { id: "d06", head: 50, floor: 20 });
    assert.deepEqual((await owner.get(`${base}/changes?since=20`)).json.changes[0].clock, 21);
    const gone = await owner.get(`${base}/changes?since=19`);
    assert.deepEqual([gone.status, gone.json.code, gone.json.head, gone.json.floor], [410, "cursor_gone", 50, 20]);
    assert.equal((await owner.get(`${base}/changes`)).status, 410, "from the beginning is not to be had");
    // Everything is old: the newest row stays, or the clock would start again.
    await d1.sql("UPDATE change_log SET at = at - ?1 WHERE workspace = 'd06'", 8 * DAY);
    await sweep();
    assert.deepEqual((await owner.get(base)).json, { id: "d06", head: 50, floor: 49 });
    for (const query of ["since=0", "since=48", "since=51"]) {
      const reader = await stream(owner, "d06", { query });
      assert.deepEqual(await reader.next(), { event: "reset", id: "50", data: { head: 50, floor: 49 } }, query);
      reader.close();
    }
    assert.equal((await put()).json.clock, 51);
    for (const reader of [live, await stream(owner, "d06", { query: "since=50" }), await stream(owner, "d06", { query: "since=49" })]) {
      const changes = await reader.changes(1);
      assert.ok([50, 51].includes(changes[0].data.clock));
      reader.close();
    }
    await sweep();
    assert.deepEqual((await owner.changes("d06", 50)).map(({ clock }) => clock), [51], "the old row went, now that it is not the newest");
    assert.equal((await owner.get(`${base}/nodes/a`)).json.clock, 51, "records do not go with their changes");
  });

  test("f6 a long old log goes batch by batch, other workspaces keep theirs", async () => {
    const owner = await api.workspace("old");
    await owner.put("/api/workspaces/old/nodes/a", 0);
    await d1.sql(
      `WITH RECURSIVE n(clock) AS (SELECT 2 UNION ALL SELECT clock + 1 FROM n WHERE clock < 1200)
       INSERT INTO change_log (workspace, clock, kind, path, actor, at) SELECT 'old', clock, 'put', 'a', 'x', 1 FROM n`,
    );
    await d1.sql("UPDATE change_log SET at = 1 WHERE workspace = 'old'");
    const young = await api.workspace("young");
    await young.post("/api/workspaces/young/ops", { ops: Array(20).fill({ op: "put", path: "a", value: 0 }) });
    let floor = 0;
    for (let run = 0; run < 5 && floor < 1199; run += 1) {
      const { rowsWritten } = await counted(async () => (await sweep(), { status: 200 }));
      assert.ok(rowsWritten > 0, "a sweep that finds work does some");
      ({ floor } = (await owner.get("/api/workspaces/old")).json);
    }
    assert.deepEqual((await owner.get("/api/workspaces/old")).json, { id: "old", head: 1200, floor: 1199 });
    assert.equal((await owner.put("/api/workspaces/old/nodes/a", 0)).json.clock, 1201);
    assert.deepEqual((await young.get("/api/workspaces/young")).json, { id: "young", head: 20, floor: 0 });
  });

  test("s05 streams whose readers left with a reset or a close stop reading D1", { timeout: 90_000 }, async () => {
    const owner = await api.workspace("s05");
    const readers = await Promise.all(Array.from({ length: 20 }, () => stream(owner, "s05", { query: "since=0" })));
    await owner.put("/api/workspaces/s05/nodes/a", 0);
    await Promise.all(readers.map((reader) => reader.changes(1)));
    await d1.counts();
    await sleep(1_000);
    assert.ok((await d1.counts()).batches >= 20, "20 streams read");
    readers.forEach((reader, index) => (index % 2 === 0 ? reader.reset() : reader.close()));
    let batches;
    for (let window = 0; window < 8; window += 1) {
      await d1.counts();
      await sleep(WINDOW);
      ({ batches } = await d1.counts());
      if (batches === 0) break;
    }
    assert.equal(batches, 0, "nobody reads, and so does no stream");
  });
});
