// The change feed over HTTP: pages, and the stream as it is on the wire (section 4).
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { startStack } from "../../tools/stack.mjs";
import { Api, tap } from "./support/http.mjs";
import { openSocket, openStream } from "./support/stream.mjs";

const ENTRY = join(import.meta.dirname, "support", "d1-tap.mjs");
/** "hi" in the root `t`, by client 101. */
const UPDATE = Buffer.from("010165000401017402686900", "hex");
const clocksOf = (events) => events.map(({ data }) => data.clock);
const upTo = (count, from = 1) => Array.from({ length: count }, (_, index) => index + from);

describe("feed", { concurrency: true, timeout: 120_000 }, () => {
  let api;
  let d1;
  before(async () => {
    api = new Api(await startStack({ entry: ENTRY }));
    d1 = tap(api);
  });
  after(() => api.finish());

  /** A workspace of this test's own, with `count` records written. */
  async function open(id, count = 0) {
    const owner = await api.workspace(id);
    const base = `/api/workspaces/${id}`;
    const put = (path = "a", value = 0) => owner.put(`${base}/nodes/${path}`, value);
    const fill = async (number) => {
      for (let left = number; left > 0; left -= 50) {
        const ops = Array.from({ length: Math.min(left, 50) }, () => ({ op: "put", path: "fill", value: 0 }));
        assert.equal((await owner.post(`${base}/ops`, { ops })).status, 200);
      }
    };
    await fill(count);
    return { owner, base, put, fill, feed: (query = "") => owner.get(`${base}/changes${query}`), stream: (options) => openStream(owner, id, options) };
  }

  test("C.16 f1 200 parallel writers, some refused, make a log without a gap", async () => {
    const { owner, base, feed } = await open("f1");
    await owner.put(`${base}/nodes/guarded`, 0);
    const write = (index) => {
      switch (index % 5) {
        case 0: return owner.put(`${base}/nodes/n/${index}`, index);
        case 1: return owner.put(`${base}/nodes/guarded`, index, { "if-match": '"999999"' });
        case 2: return owner.post(`${base}/ops`, { ops: [{ op: "put", path: `o/${index}`, value: 0 }, { op: "put", path: `p/${index}`, value: 0 }] });
        case 3: return owner.update("f1", `d/${index % 3}`, UPDATE, { "idempotency-key": `k${index % 20}` });
        default: return owner.post(`${base}/ops`, { ops: [{ op: "put", path: "x", value: 0 }, { op: "patch", path: "nope", patch: 0 }] });
      }
    };
    const answers = await Promise.all(upTo(200, 0).map(write));
    assert.ok(answers.every(({ status }) => [200, 201, 404, 412].includes(status)), JSON.stringify(answers.map(({ status }) => status)));
    const changes = await owner.changes("f1");
    // 1 before, 40 puts, 40 batches of two, and the updates under 12 keys (document and key).
    const keys = new Set(upTo(200, 0).filter((index) => index % 5 === 3).map((index) => `${index % 3} ${index % 20}`));
    assert.deepEqual(changes.map(({ clock }) => clock), upTo(1 + 40 + 80 + keys.size));
    assert.equal((await feed(`?since=${changes.length}`)).json.head, changes.length);
  });

  test("C.21 f2 pages follow one another, and an impossible cursor is 410 with head and floor", async () => {
    const { owner, feed } = await open("f2", 120);
    const first = (await feed()).json;
    assert.deepEqual([first.changes.length, first.head, first.floor], [100, 120, 0]);
    assert.deepEqual(Object.keys(first.changes[0]).sort(), ["actor", "at", "clock", "kind", "path"]);
    for (const size of [1, 7, 60, 119, 120, 121]) {
      assert.deepEqual((await owner.changes("f2", 0, size)).map(({ clock }) => clock), upTo(120), `pages of ${size}`);
    }
    assert.deepEqual((await feed("?since=118&limit=1")).json.changes.map(({ clock }) => clock), [119]);
    assert.deepEqual((await feed("?since=120")).json, { changes: [], head: 120, floor: 0 });
    for (const since of ["121", "1000120", "9007199254740991"]) {
      const gone = await feed(`?since=${since}`);
      assert.deepEqual([gone.status, gone.json.code, gone.json.head, gone.json.floor], [410, "cursor_gone", 120, 0], since);
    }
    for (const since of ["abc", "-1", "1.5", "+1", "9007199254740992", "0x1"]) {
      assert.equal((await feed(`?since=${encodeURIComponent(since)}`)).json.code, "invalid_cursor", since);
    }
    for (const query of ["?limit=0", "?limit=1001", "?since=1&since=2"]) assert.equal((await feed(query)).status, 400, query);
  });

  test("s01 the cursors of the case list: now, replay, live, reset or 400", async () => {
    const { owner, base, put, stream } = await open("s01", 5);
    const now = await stream({ query: "since=" });
    assert.deepEqual(await now.next(), { event: "head", id: "5", data: { head: 5 } });
    const replay = await stream({ query: "since=0" });
    assert.deepEqual(clocksOf(await replay.changes(5)), upTo(5));
    const live = await stream({ query: "since=5" });
    const ahead = await stream({ query: "since=1000005" });
    assert.deepEqual(await ahead.next(), { event: "reset", id: "5", data: { head: 5, floor: 0 } });
    await put();
    for (const reader of [now, replay, live, ahead]) {
      const [change] = await reader.changes(1);
      assert.deepEqual([change.id, change.data.clock, change.data.kind, change.data.path, change.data.actor], ["6", 6, "put", "a", "owner"]);
      assert.deepEqual(reader.pending, []);
      reader.close();
    }
    for (const since of ["abc", "-1", "1.5", "9007199254740992"]) {
      const refused = await owner.get(`${base}/changes/stream?since=${since}`);
      assert.deepEqual([refused.status, refused.json.code], [400, "invalid_cursor"], since);
    }
  });

  test("C.17 s02 Last-Event-ID wins over the query, and a cut before the first event loses nothing", async () => {
    const { owner, base, put, stream } = await open("s02", 40);
    for (let attempt = 0; attempt < 3; attempt += 1) (await stream({ query: "since=3", lastEventId: "40" })).reset();
    const reader = await stream({ query: "since=3", lastEventId: "40" });
    await put();
    const [change] = await reader.changes(1);
    assert.equal(change.id, "41");
    assert.ok(!reader.raw.includes("id: 40\n") && !reader.raw.includes("id: 4\n"), reader.raw);
    reader.close();
    const empty = await stream({ query: "since=39", lastEventId: "" });
    assert.deepEqual(clocksOf(await empty.changes(2)), [40, 41]);
    empty.close();
    const bad = await owner.get(`${base}/changes/stream?since=3`, { headers: { "last-event-id": "x" } });
    assert.equal(bad.json.code, "invalid_cursor");
    // A reader that starts now has a cursor from the first event on.
    const now = await stream();
    const { id } = await now.next();
    now.reset();
    await put();
    const resumed = await stream({ lastEventId: id });
    assert.deepEqual(clocksOf(await resumed.changes(1)), [42]);
    resumed.close();
  });

  test("C.20 s04 with 50 parallel writers three readers that cut at every 7th event see every clock once", async () => {
    const { put, stream } = await open("s04");
    const reads = Array.from({ length: 3 }, async (_, number) => {
      const seen = [];
      let cursor = "0";
      while (seen.length < 50) {
        const reader = await stream(number === 0 ? { query: `since=${cursor}` } : { query: "since=0", lastEventId: cursor });
        const events = await reader.changes(Math.min(7, 50 - seen.length));
        if (number === 1) reader.close();
        else reader.reset();
        seen.push(...events);
        cursor = seen.at(-1).id;
      }
      return seen;
    });
    await Promise.all(upTo(50).map((index) => put(`n/${index}`)));
    for (const seen of await Promise.all(reads)) {
      assert.deepEqual(seen.map(({ id }) => Number(id)), upTo(50));
      assert.deepEqual(clocksOf(seen), upTo(50));
    }
  });

  test("D07 C.18 who wrote, or was told of a clock, reads nothing older than that", async () => {
    const { owner, base, put, stream } = await open("d07");
    const other = api.actor("other", "agent", { d07: "viewer" });
    const reader = await stream();
    const older = [];
    const read = async (who, clock) => {
      const answers = await Promise.all([who.get(`${base}/nodes/a`), who.get(`${base}/nodes`), who.get(`${base}/docs/d`), who.get(`${base}/changes?since=${clock - 1}`)]);
      const [node, list, document, page] = answers;
      const clocks = { node: Number(node.headers["yrelay-head"]), list: list.json.head, document: Number(document.headers["yrelay-head"]), page: page.json.head };
      for (const [what, seen] of Object.entries(clocks)) if (!(seen >= clock)) older.push(`${what}: ${seen} after ${clock}`);
      return { node, document };
    };
    await put("a", { n: -1 });
    await owner.update("d07", "d", UPDATE);
    await reader.changes(2);
    for (let n = 0; n < 20; n += 1) {
      const { json } = n % 2 === 0 ? await put("a", { n }) : await owner.update("d07", "d", UPDATE);
      const mine = await read(owner, json.clock);
      const [told] = await reader.changes(1);
      assert.equal(told.data.clock, json.clock);
      const theirs = await read(other, told.data.clock);
      for (const { node, document } of [mine, theirs]) {
        if (n % 2 === 0) assert.deepEqual(node.json.value, { n });
        else assert.equal(document.headers.etag, `"${json.clock}"`);
      }
    }
    assert.deepEqual(older, []);
    reader.close();
  });

  test("s06 the headers and the first bytes of a stream", async () => {
    const { stream } = await open("s06-head", 1);
    const reader = await stream({ query: "since=0" });
    await reader.changes(1);
    assert.equal(reader.headers["content-type"], "text/event-stream; charset=utf-8");
    assert.equal(reader.headers["cache-control"], "no-store, no-transform");
    assert.ok(!reader.headers["content-encoding"] && !reader.headers["content-length"]);
    assert.match(reader.raw, /^retry: \d+\n: ok\n\nevent: change\nid: 1\ndata: \{[^\n]*\}\n\n$/);
    reader.close();
  });

  test("s06 a quiet stream gets a comment within 25 s, and a filtered one a cursor", { timeout: 60_000 }, async () => {
    const { put, stream } = await open("s06", 1);
    const quiet = await stream({ query: "since=1" });
    const filtered = await stream({ query: "since=1&prefix=mine" });
    await put("other");
    const other = await quiet.changes(1);
    assert.deepEqual(clocksOf(other), [2]);
    await sleep(26_000);
    assert.ok(quiet.comments.length >= 2 && quiet.comments.at(-1) < 26_000, JSON.stringify(quiet.comments));
    // Comments stand between events, each a block of its own.
    assert.deepEqual(quiet.pending, []);
    assert.match(quiet.raw, /^retry: \d+\n: ok\n\n(event: change\nid: 2\ndata: [^\n]+\n\n)(: [^\n]*\n\n)+$/);
    // The reader was told nothing of clock 2, and must not have to read it again for ever.
    assert.deepEqual(await filtered.next(15_000), { event: "head", id: "2", data: { head: 2 } });
    await put("mine/1");
    const [mine] = await filtered.changes(1);
    assert.equal(mine.id, "3");
    quiet.close();
    filtered.close();
  });

  test("hostile paths stay inside one data line", async () => {
    const { owner, base, stream } = await open("paths");
    for (const path of ["notes/a%0Aevent:%20reset%0Adata:%20%7B%7D", "notes/a%0Did:%20999999"]) {
      assert.equal((await owner.put(`${base}/nodes/${path}`, 0)).json.code, "invalid_path");
    }
    const fine = ["notes/\u2028line", "notes/😀", "notes/\u00a0\ufeff", 'notes/"\\', "notes/: x"];
    for (const path of fine) assert.equal((await owner.put(`${base}/nodes/${path.split("/").map(encodeURIComponent).join("/")}`, 0)).status, 201, path);
    // No route lets these in; if one ever did, the stream must still hold.
    const hostile = ["/notes/a\nevent: reset\ndata: {}", "/notes/a\rid: 999999"];
    for (const path of hostile) {
      await d1.sql("INSERT INTO change_log (workspace, clock, kind, path, actor, at) SELECT 'paths', MAX(clock) + 1, 'put', ?1, 'x', 1 FROM change_log WHERE workspace = 'paths' RETURNING clock", path);
    }
    const reader = await stream({ query: "since=0" });
    const events = await reader.changes(7);
    assert.deepEqual(events.map(({ data }) => data.path), [...fine, ...hostile]);
    assert.deepEqual(events.map(({ id }) => id), ["1", "2", "3", "4", "5", "6", "7"]);
    assert.ok(!/^(event: reset|id: 999999)/m.test(reader.raw));
    assert.deepEqual(reader.pending, []);
    reader.close();
  });

  test("filters pass a prefix in whole segments, kinds, and the delete of an ancestor", async () => {
    const { owner, base, put, stream } = await open("filters");
    const jobs = await stream({ query: "since=0&prefix=jobs" });
    const deletes = await stream({ query: "since=0&kinds=delete,patch" });
    const both = await stream({ query: "since=0&prefix=jobs/1/&kinds=delete" });
    await put("jobs/1/log");
    await put("jobs2");
    await put("jobs");
    await owner.patch(`${base}/nodes/jobs2`, 1);
    await owner.delete(`${base}/nodes/jobs2`);
    await owner.delete(`${base}/nodes/jobs`);
    assert.deepEqual(clocksOf(await jobs.changes(3)), [1, 3, 6]);
    assert.deepEqual(clocksOf(await deletes.changes(3)), [4, 5, 6]);
    assert.deepEqual(clocksOf(await both.changes(1)), [6]);
    for (const reader of [jobs, deletes, both]) reader.close();
    for (const query of ["kinds=putt", "kinds=put,", "kinds=PUT", `prefix=${"p".repeat(513)}`, "prefix=%ff", "kinds=put&kinds=put"]) {
      assert.equal((await owner.get(`${base}/changes/stream?${query}`)).json.code, "bad_request", query);
    }
  });

  test("a reader far behind gets everything in order, page after page", async () => {
    const { stream, fill } = await open("behind", 600);
    const reader = await stream({ query: "since=0" });
    const events = await reader.changes(600);
    await fill(10);
    events.push(...(await reader.changes(10)));
    assert.deepEqual(clocksOf(events), upTo(610));
    reader.close();
  });

  test("f7 s10 a deleted workspace ends its streams with a terminal event, live or not", async () => {
    for (const id of ["gone", "gone-live"]) {
      const { owner, base, put, stream } = await open(id, 1);
      const socket = id === "gone-live" ? await openSocket(api, id, "d") : undefined;
      const closed = socket && new Promise((settle) => socket.once("close", settle));
      const readers = [await stream({ query: "since=1" }), await stream({ query: "since=1&prefix=none&kinds=put" })];
      await put("none-of-it");
      await readers[0].changes(1);
      assert.equal((await owner.delete(base)).status, 200);
      for (const reader of readers) {
        const change = (await reader.changes(1))[0];
        assert.deepEqual([change.data.kind, change.data.clock, change.id], ["delete_workspace", 3, "3"]);
        assert.deepEqual(await reader.next(), { event: "deleted", id: undefined, data: { head: 3 } });
        await reader.ended;
        assert.deepEqual(reader.pending, []);
      }
      if (socket) assert.equal(await closed, 4404);
      assert.equal((await owner.get(`${base}/changes/stream?since=3`)).json.code, "workspace_deleted");
    }
  });

  test("a scope token for streams opens the stream in the query and nothing else", async () => {
    const { owner, base, put } = await open("scope", 1);
    const agent = api.actor("bot", "agent", { scope: "viewer" });
    const minted = await agent.post(`${base}/tokens`, { purpose: "stream" });
    assert.equal(minted.status, 201);
    assert.ok(minted.json.expiresAt > Date.now() && minted.json.expiresAt <= Date.now() + 600_000);
    const { token } = minted.json;
    const reader = await openStream(api.as(undefined), "scope", { query: `since=0&token=${token}` });
    assert.deepEqual(clocksOf(await reader.changes(1)), [1]);
    await put();
    assert.deepEqual(clocksOf(await reader.changes(1)), [2]);
    reader.close();
    const nobody = api.as(undefined);
    const stream = `${base}/changes/stream?since=0`;
    await open("scope-2");
    const relay = (await owner.post(`${base}/tokens`, { purpose: "relay" })).json.token;
    const refused = [
      [await nobody.get(`/api/workspaces/scope-2/changes/stream?token=${token}`), 403],
      [await nobody.get(`${stream}&token=${relay}`), 403],
      [await nobody.get(`${stream}&token=${token}&token=${token}`), 401],
      [await owner.get(`${stream}&token=${token}`), 401],
      [await nobody.get(`${stream}&token=${owner.token}`), 401],
      [await nobody.get(`${stream}&token=${token.slice(0, -4)}AAAA`), 401],
      [await nobody.get(stream), 401],
      [await nobody.get(`${base}?token=${token}`), 401],
      [await api.as(token).get(base), 401],
      [await api.as(token).put(`${base}/nodes/a`, 1), 401],
    ];
    for (const [index, [answer, status]] of refused.entries()) assert.equal(answer.status, status, `${index}: ${answer.text}`);
  });
});
