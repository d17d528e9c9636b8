// Records over HTTP: read, write, patch, delete, list, and several ops as one (section 5).
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { startStack } from "../../tools/stack.mjs";
import { Api } from "./support/http.mjs";

describe("records", { concurrency: true, timeout: 120_000 }, () => {
  let api;
  before(async () => {
    api = new Api(await startStack());
  });
  after(() => api.finish());

  /** A workspace of this test's own: its owner's client, the address of its nodes, and its ops. */
  async function open(id) {
    const owner = await api.workspace(id);
    const base = `/api/workspaces/${id}`;
    return { owner, base, node: (path) => `${base}/nodes/${path}`, ops: (...ops) => owner.post(`${base}/ops`, { ops }) };
  }

  test("C.18 a record is created, read, replaced, patched and deleted, one clock each", async () => {
    const { owner, base, node } = await open("life");
    const created = await owner.put(node("jobs/42"), { state: "new", tries: 0 });
    assert.deepEqual([created.status, created.json, created.headers.etag], [201, { clock: 1, path: "jobs/42" }, '"1"']);
    const read = await owner.get(node("jobs/42"));
    assert.deepEqual(read.json, { path: "jobs/42", kind: "record", clock: 1, value: { state: "new", tries: 0 } });
    assert.equal(read.headers.etag, '"1"');
    assert.equal(read.headers["cache-control"], "no-store");
    const replaced = await owner.put(node("jobs/42"), { state: "run", tries: 1 });
    assert.deepEqual([replaced.status, replaced.json.clock], [200, 2]);
    const patched = await owner.patch(node("jobs/42"), { state: null, by: "ada" });
    assert.deepEqual([patched.status, patched.json.clock], [200, 3]);
    assert.deepEqual((await owner.get(node("jobs/42"))).json.value, { tries: 1, by: "ada" });
    const deleted = await owner.delete(node("jobs/42"));
    assert.deepEqual([deleted.status, deleted.json.clock], [200, 4]);
    const gone = await owner.get(node("jobs/42"));
    assert.deepEqual([gone.status, gone.json.code], [404, "node_not_found"]);
    assert.equal((await owner.delete(node("jobs/42"))).json.code, "node_not_found");
    assert.equal((await owner.patch(node("jobs/42"), {})).json.code, "node_not_found");
    const changes = await owner.changes("life");
    assert.deepEqual(changes.map(({ clock, kind, path, actor }) => [clock, kind, path, actor]), [
      [1, "put", "jobs/42", "owner"],
      [2, "put", "jobs/42", "owner"],
      [3, "patch", "jobs/42", "owner"],
      [4, "delete", "jobs/42", "owner"],
    ]);
    assert.deepEqual((await owner.get(base)).json, { id: "life", head: 4, floor: 0 });
  });

  test("any JSON is a value, exactly", async () => {
    const { owner, node } = await open("values");
    const texts = ["null", "false", "0", "-0.5", '""', "[]", "9007199254740991", '"\\u0000\\n\\u2028😀"', '{"":{"":[]},"a\\"b":"\\\\"}', "1e-7"];
    for (const [index, text] of texts.entries()) {
      assert.equal((await owner.put(node(`v/${index}`), text)).status, 201, text);
      assert.deepEqual((await owner.get(node(`v/${index}`))).json.value, JSON.parse(text), text);
    }
  });

  test("PATCH is the merge patch of RFC 7396: the table of its appendix", async () => {
    const { owner, node } = await open("merge");
    const table = [
      [{ a: "b" }, { a: "c" }, { a: "c" }],
      [{ a: "b" }, { b: "c" }, { a: "b", b: "c" }],
      [{ a: "b" }, { a: null }, {}],
      [{ a: "b", b: "c" }, { a: null }, { b: "c" }],
      [{ a: ["b"] }, { a: "c" }, { a: "c" }],
      [{ a: "c" }, { a: ["b"] }, { a: ["b"] }],
      [{ a: { b: "c" } }, { a: { b: "d", c: null } }, { a: { b: "d" } }],
      [{ a: [{ b: "c" }] }, { a: [1] }, { a: [1] }],
      [["a", "b"], ["c", "d"], ["c", "d"]],
      [{ a: "b" }, ["c"], ["c"]],
      [{ a: "foo" }, null, null],
      [{ a: "foo" }, "bar", "bar"],
      [{ e: null }, { a: 1 }, { e: null, a: 1 }],
      [[1, 2], { a: "b", c: null }, { a: "b" }],
      [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
      // Names that a reader of JSON text could confuse.
      [{ 'a"b': 1, ab: 2, "a.b": 3, "$.a": 4 }, { 'a"b': null, "a.b": null, "$.a": 5 }, { ab: 2, "$.a": 5 }],
      [{ é: 1, "\u0000": 1 }, { é: null, "\u0000": null }, {}],
    ];
    for (const [index, [value, patch, expected]] of table.entries()) {
      await owner.put(node(`row/${index}`), JSON.stringify(value));
      const answer = await owner.patch(node(`row/${index}`), JSON.stringify(patch));
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual((await owner.get(node(`row/${index}`))).json.value, expected, `row ${index}`);
    }
  });

  test("i04 an outdated If-Match is 412 with the current clock and value", async () => {
    const { owner, node } = await open("i04-stale");
    await owner.put(node("a"), { by: "agent" });
    await owner.put(node("a"), { by: "human" });
    for (const write of [() => owner.put(node("a"), {}, { "if-match": '"1"' }), () => owner.patch(node("a"), {}, { "if-match": '"1"' }), () => owner.delete(node("a"), { "if-match": '"1"' })]) {
      const refused = await write();
      assert.deepEqual([refused.status, refused.json.code, refused.json.clock, refused.json.value], [412, "precondition_failed", 2, { by: "human" }]);
      assert.equal(refused.headers.etag, '"2"');
    }
    assert.equal((await owner.put(node("a"), { by: "agent" }, { "if-match": '"2"' })).status, 200);
    // Without a precondition the last writer wins, as documented.
    assert.equal((await owner.put(node("a"), { by: "other" })).status, 200);
    assert.equal((await owner.changes("i04-stale")).length, 4);
  });

  test("i04 preconditions about existence, and ones that cannot be read", async () => {
    const { owner, node } = await open("i04-exists");
    const missing = await owner.put(node("a"), 1, { "if-match": "*" });
    assert.deepEqual([missing.status, missing.json.clock, missing.json.value], [412, null, null]);
    assert.equal((await owner.put(node("a"), 1, { "if-match": '"7"' })).json.clock, null);
    assert.equal((await owner.put(node("a"), 1, { "if-none-match": "*" })).status, 201);
    const taken = await owner.put(node("a"), 2, { "if-none-match": "*" });
    assert.deepEqual([taken.status, taken.json.clock, taken.json.value], [412, 1, 1]);
    assert.equal((await owner.put(node("a"), 3, { "if-match": "*" })).status, 200);
    for (const headers of [{ "if-match": "2" }, { "if-match": 'W/"2"' }, { "if-match": '"1", "2"' }, { "if-none-match": '"1"' }, { "if-match": '"2"', "if-none-match": "*" }]) {
      assert.equal((await owner.put(node("a"), 4, headers)).json.code, "bad_request", JSON.stringify(headers));
    }
    assert.equal((await owner.get(node("a"))).json.value, 3);
  });

  test("i04 of two parallel equal preconditions exactly one wins", async () => {
    const { owner, node } = await open("i04-race");
    let clock = (await owner.put(node("a"), { round: 0 })).json.clock;
    for (let round = 1; round <= 10; round += 1) {
      const answers = await Promise.all([0, 1, 2].map((writer) => owner.put(node("a"), { round, writer }, { "if-match": `"${clock}"` })));
      const won = answers.filter(({ status }) => status === 200);
      assert.deepEqual([won.length, answers.filter(({ status }) => status === 412).length], [1, 2]);
      assert.equal(won[0].json.clock, clock + 1);
      clock += 1;
    }
    assert.equal((await owner.get("/api/workspaces/i04-race")).json.head, 11);
  });

  test("a reader with the current ETag gets 304 without a body", async () => {
    const { owner, node } = await open("etag");
    await owner.put(node("a"), 1);
    for (const tag of ['"1"', 'W/"1"', '"9", "1"', "*"]) {
      const answer = await owner.get(node("a"), { headers: { "if-none-match": tag } });
      assert.deepEqual([answer.status, answer.bytes.length, answer.headers.etag], [304, 0, '"1"'], tag);
    }
    await owner.put(node("a"), 2);
    assert.equal((await owner.get(node("a"), { headers: { "if-none-match": '"1"' } })).json.value, 2);
  });

  test("s10 a subtree of 30 goes with one change, and nothing beside it", async () => {
    const { owner, base, node } = await open("s10");
    const items = Array.from({ length: 30 }, (_, index) => ({ op: "put", path: `dir/${index}`, value: index }));
    const beside = ["dir2", "dir-a", "dir.a", "di", "dir0/x"].map((path) => ({ op: "put", path, value: 0 }));
    assert.equal((await owner.post(`${base}/ops`, { ops: [...items, ...beside] })).status, 200);
    const deleted = await owner.delete(node("dir"));
    assert.deepEqual([deleted.status, deleted.json], [200, { clock: 36, path: "dir" }]);
    assert.deepEqual((await owner.changes("s10", 35)).map(({ kind, path }) => [kind, path]), [["delete", "dir"]]);
    const left = (await owner.get(`${base}/nodes?limit=1000`)).json;
    assert.deepEqual([left.head, left.nodes.map(({ path }) => path)], [36, ["di", "dir-a", "dir.a", "dir0/x", "dir2"]]);
    assert.equal((await owner.get(node("dir/7"))).status, 404);
    // A node with children goes with them.
    await owner.put(node("dir2/below"), 1);
    await owner.delete(node("dir2"));
    assert.equal((await owner.get(node("dir2/below"))).status, 404);
  });

  test("lists are in path order and pages border on segments", async () => {
    const { owner, base } = await open("list");
    const paths = ["a", "a b", "a-b", "a/1", "a/1/x", "a/10", "a/2", "a0", "ab", "b/é", "b/😀", "c%2F", "z"];
    await owner.post(`${base}/ops`, { ops: paths.map((path, index) => ({ op: "put", path, value: index })) });
    const byBytes = [...paths].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    const list = async (query) => (await owner.get(`${base}/nodes?${new URLSearchParams(query)}`)).json;
    const names = async (query) => (await list(query)).nodes.map(({ path }) => path);
    assert.deepEqual(await names({}), byBytes);
    assert.deepEqual((await list({})).nodes[0], { path: "a", kind: "record", clock: 1 });
    // A prefix is whole segments: `a` has `a` and what is below it.
    assert.deepEqual(await names({ prefix: "a" }), ["a", "a/1", "a/1/x", "a/10", "a/2"]);
    assert.deepEqual(await names({ prefix: "a/1" }), ["a/1", "a/1/x"]);
    assert.deepEqual(await names({ prefix: "a/" }), await names({ prefix: "a" }));
    assert.deepEqual(await names({ prefix: "b" }), ["b/é", "b/😀"]);
    assert.deepEqual(await names({ prefix: "nope" }), []);
    for (const size of [1, 2, 3, 5, 13, 14]) {
      const found = [];
      let after = "";
      let pages = 0;
      do {
        const page = await list({ limit: size, after });
        found.push(...page.nodes.map(({ path }) => path));
        after = page.next;
        pages += 1;
      } while (after !== null && pages < 20);
      assert.deepEqual(found, byBytes, `pages of ${size}`);
    }
    assert.deepEqual(await names({ prefix: "a", after: "a/1", limit: 2 }), ["a/1/x", "a/10"]);
    for (const query of ["limit=0", "limit=1001", "limit=x", "limit=1&limit=2", "prefix=%ff", "after=%00", `prefix=${"p".repeat(513)}`]) {
      assert.equal((await owner.get(`${base}/nodes?${query}`)).status, 400, query);
    }
  });

  test("ops are applied in order, each on the result of those before it", async () => {
    const { owner, base, node, ops } = await open("ops-order");
    const answer = await ops(
      { op: "put", path: "a", value: { n: 1 }, ifNoneMatch: "*" },
      { op: "patch", path: "a", patch: { m: 2 }, ifMatch: "*" },
      { op: "put", path: "dir/b", value: [] },
      { op: "delete", path: "dir" },
      { op: "put", path: "dir", value: "again", ifNoneMatch: "*" },
      { op: "patch", path: "a", patch: { n: null } },
    );
    assert.deepEqual([answer.status, answer.json], [200, { clocks: [1, 2, 3, 4, 5, 6], clock: 6 }]);
    assert.deepEqual((await owner.get(node("a"))).json, { path: "a", kind: "record", clock: 6, value: { m: 2 } });
    assert.deepEqual((await owner.get(`${base}/nodes`)).json.nodes.map(({ path }) => path), ["a", "dir"]);
    assert.deepEqual((await owner.changes("ops-order")).map(({ kind }) => kind), ["put", "patch", "put", "delete", "put", "patch"]);
  });

  test("a batch is all or none, and the problem has the index of the op that failed", async () => {
    const { owner, node, ops } = await open("ops-atomic");
    await owner.put(node("a"), 1);
    const put = (path) => ({ op: "put", path, value: 0 });
    const table = [
      [[put("x"), put("y"), { op: "put", path: "a", value: 2, ifMatch: 9 }], 412, "precondition_failed", 2],
      [[{ op: "patch", path: "nope", patch: {} }, put("x")], 404, "node_not_found", 0],
      [[put("x"), { op: "delete", path: "nope" }], 404, "node_not_found", 1],
      // The ops before the failed one depend on each other, and would not stand alone.
      [[put("x"), { op: "patch", path: "x", patch: {} }, { op: "put", path: "a", value: 2, ifMatch: 9 }], 412, "precondition_failed", 2],
      [[put("dir/x"), { op: "delete", path: "dir" }, { op: "patch", path: "nope", patch: {} }], 404, "node_not_found", 2],
      // The failed op finds what an earlier one left, not what is stored.
      [[{ op: "delete", path: "a" }, { op: "patch", path: "a", patch: {} }], 404, "node_not_found", 1],
      [[put("x"), { op: "put", path: "x", value: 1, ifNoneMatch: "*" }], 412, "precondition_failed", 1],
    ];
    for (const [list, status, code, index] of table) {
      const refused = await ops(...list);
      assert.deepEqual([refused.status, refused.json.code, refused.json.index], [status, code, index], JSON.stringify(list));
    }
    assert.equal((await owner.get("/api/workspaces/ops-atomic")).json.head, 1);
    assert.equal((await owner.get(node("x"))).status, 404);
  });

  test("A.9 24 batches at once are all applied, one after the other", async () => {
    const { owner, ops } = await open("a9");
    const three = (n) => ops({ op: "put", path: `own/${n}`, value: n }, { op: "put", path: "shared", value: n }, { op: "patch", path: `own/${n}`, patch: { n } });
    const answers = await Promise.all(Array.from({ length: 24 }, (_, n) => three(n)));
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
    const firsts = answers.map(({ json }) => json.clocks[0]).sort((a, b) => a - b);
    assert.deepEqual(firsts, Array.from({ length: 24 }, (_, n) => 3 * n + 1));
    for (const { json } of answers) assert.deepEqual(json.clocks, [0, 1, 2].map((n) => json.clocks[0] + n));
    assert.deepEqual((await owner.changes("a9")).map(({ clock }) => clock), Array.from({ length: 72 }, (_, n) => n + 1));
  });

  test("I01 I04 batches that come late, twice or in another order are done once, or say that they are late", async () => {
    const { owner, base, node } = await open("order");
    const send = (key, ...ops) => owner.post(`${base}/ops`, { ops }, { "idempotency-key": key });
    await owner.put(node("a"), { n: 0 });
    const step = (n) => send(`s${n}`, { op: "put", path: `log/${n}`, value: n, ifNoneMatch: "*" }, { op: "patch", path: "a", patch: { n }, ifMatch: 2 * n - 1 });
    // The second before the first: its precondition is not met yet, and its key is not used up by that.
    assert.deepEqual((await step(2)).json.index, 1);
    const first = await step(1);
    const second = await step(2);
    assert.deepEqual([first.json.clocks, second.json.clocks], [[2, 3], [4, 5]]);
    const late = await step(1);
    assert.deepEqual([late.json, late.headers["idempotency-replayed"]], [first.json, "true"]);
    assert.deepEqual((await owner.get(node("a"))).json, { path: "a", kind: "record", clock: 5, value: { n: 2 } });
    assert.equal((await owner.get(base)).json.head, 5);
    assert.equal((await owner.post("/api/workspaces/another/ops", { ops: [{ op: "put", path: "a", value: 1 }] })).json.code, "forbidden");
  });

  test("r4 a batch has 1 to 50 ops that can be read", async () => {
    const { owner, base, ops } = await open("ops-limits");
    const put = { op: "put", path: "a", value: 0 };
    assert.equal((await ops(...Array(50).fill(put))).json.clock, 50);
    for (const list of [[], Array(51).fill(put)]) assert.equal((await ops(...list)).json.code, "bad_request");
    const bad = [{ op: "move", path: "a" }, { op: "put", path: "a" }, { op: "delete", path: "a", value: 1 }, { ...put, ifMatch: -1 }];
    for (const op of bad) {
      const refused = await ops(put, op);
      assert.deepEqual([refused.status, refused.json.index], [400, 1], JSON.stringify(op));
    }
    const path = await ops(put, put, { ...put, path: "../x" });
    assert.deepEqual([path.status, path.json.code, path.json.index], [400, "invalid_path", 2]);
    for (const body of ["", "{", "[]", "null", '{"ops":1}', '{"ops":[],"x":1}']) {
      assert.equal((await owner.call("POST", `${base}/ops`, { body, headers: { "content-type": "application/json" } })).status, 400, body);
    }
    assert.equal((await owner.get(base)).json.head, 50);
  });

  test("i01 of 50 parallel equal requests with a key one is applied and all get its answer", async () => {
    const { owner, node } = await open("i01");
    const headers = { "idempotency-key": "job-1" };
    const answers = await Promise.all(Array.from({ length: 50 }, () => owner.put(node("a"), { n: 1 }, headers)));
    assert.deepEqual(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size, 1);
    assert.deepEqual([answers[0].status, answers[0].json], [201, { clock: 1, path: "a" }]);
    assert.equal(answers.filter(({ headers: fields }) => fields["idempotency-replayed"] === "true").length, 49);
    assert.equal((await owner.changes("i01")).length, 1);
  });

  test("i01 the first answer is repeated whatever happened since, also under a precondition", async () => {
    const { owner, base, node } = await open("i01-later");
    const first = await owner.put(node("a"), { n: 1 }, { "idempotency-key": "k1", "if-none-match": "*" });
    const second = await owner.put(node("a"), { n: 2 }, { "idempotency-key": "k2", "if-match": '"1"' });
    const third = await owner.patch(node("a"), { n: 3 }, { "idempotency-key": "k3", "if-match": '"2"' });
    const batch = { ops: [{ op: "put", path: "b", value: 1, ifNoneMatch: "*" }, { op: "patch", path: "b", patch: 2 }] };
    const fourth = await owner.post(`${base}/ops`, batch, { "idempotency-key": "k4" });
    const fifth = await owner.delete(node("a"), { "idempotency-key": "k5" });
    assert.deepEqual([first, second, third, fourth, fifth].map(({ status }) => status), [201, 200, 200, 200, 200]);
    const again = [
      [first, await owner.put(node("a"), { n: 1 }, { "idempotency-key": "k1", "if-none-match": "*" })],
      [second, await owner.put(node("a"), { n: 2 }, { "idempotency-key": "k2", "if-match": '"1"' })],
      [third, await owner.patch(node("a"), { n: 3 }, { "idempotency-key": "k3", "if-match": '"2"' })],
      [fourth, await owner.post(`${base}/ops`, batch, { "idempotency-key": "k4" })],
      [fifth, await owner.delete(node("a"), { "idempotency-key": "k5" })],
    ];
    for (const [answer, replay] of again) {
      assert.deepEqual([replay.status, replay.text, replay.headers.etag], [answer.status, answer.text, answer.headers.etag]);
      assert.equal(replay.headers["idempotency-replayed"], "true");
    }
    assert.equal((await owner.get(base)).json.head, 6);
  });

  test("i02 a key with another body is 422, also while the first is under way", async () => {
    const { owner, node } = await open("i02");
    const headers = { "idempotency-key": "k" };
    const answers = await Promise.all([1, 2].map((n) => owner.put(node("a"), { n }, headers)));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [201, 422]);
    const later = await owner.put(node("a"), { n: 3 }, headers);
    assert.deepEqual([later.status, later.json.code], [422, "idempotency_key_reused"]);
    assert.equal((await owner.put(node("a"), { n: 3 }, { ...headers, "if-match": '"77"' })).status, 422);
    assert.equal((await owner.changes("i02")).length, 1);
  });

  test("i02 a key belongs to one actor, workspace, method and path", async () => {
    const { owner, node } = await open("i02-scope");
    const other = await open("i02-scope-2");
    const headers = { "idempotency-key": "k" };
    const ada = api.actor("ada", "agent", { "i02-scope": "editor" });
    const answers = [
      await owner.put(node("a"), { secret: 1 }, headers),
      await owner.put(node("b"), { other: 1 }, headers),
      await owner.patch(node("a"), { other: 2 }, headers),
      await ada.put(node("a"), { other: 3 }, headers),
      await other.owner.put(other.node("a"), { other: 4 }, headers),
      await owner.delete(node("a"), headers),
    ];
    assert.deepEqual(answers.map(({ status, json }) => [status, json.clock]), [[201, 1], [201, 2], [200, 3], [200, 4], [201, 1], [200, 5]]);
    assert.ok(answers.every(({ headers: fields }) => !fields["idempotency-replayed"]));
    for (const key of ["", " ", "a b", "é".repeat(3), "k".repeat(129)]) {
      const refused = await owner.put(node("c"), 1, { "idempotency-key": Buffer.from(key).toString("latin1") });
      assert.deepEqual([refused.status, refused.json.code], [400, "bad_request"], key);
    }
    assert.equal((await owner.get(node("c"))).status, 404);
  });

  test("d04 bodies around the limits: all of them or 413 before any write", async () => {
    const { owner, base, node } = await open("d04");
    const text = (bytes) => `"${"x".repeat(bytes - 2)}"`;
    for (const bytes of [99_000, 101_000, 1024 * 1024]) {
      assert.equal((await owner.put(node(`b/${bytes}`), text(bytes))).status, 201);
      assert.equal((await owner.get(node(`b/${bytes}`))).json.value.length, bytes - 2);
    }
    const { head } = (await owner.get(base)).json;
    const large = [
      () => owner.put(node("c"), text(1024 * 1024 + 1)),
      () => owner.patch(node("b/99000"), text(1024 * 1024 + 1)),
      () => owner.call("POST", `${base}/ops`, { body: `{"ops":[{"op":"put","path":"c","value":${text(1024 * 1024)}}]}`, headers: { "content-type": "application/json" } }),
      () => owner.put(node("c"), text(1_900_000)),
      () => owner.put(node("c"), text(2_100_000)),
      // Nobody says how long it is, so that all of it has to be read.
      () => owner.put(node("c"), text(1024 * 1024 + 1), { "transfer-encoding": "chunked" }),
      () => owner.call("POST", "/api/workspaces", { body: text(1024 * 1024 + 1) }),
      () => owner.call("POST", `${base}/tokens`, { body: text(1024 * 1024 + 1) }),
    ];
    for (const [index, send] of large.entries()) {
      const refused = await send();
      assert.deepEqual([refused.status, refused.json.code, refused.json.limit], [413, "payload_too_large", 1024 * 1024], `${index}`);
    }
    // A patch may not let a value grow past what D1 keeps either.
    await owner.put(node("grown"), JSON.stringify({ a: "x".repeat(1_000_000) }));
    const grown = await owner.patch(node("grown"), JSON.stringify({ b: "x".repeat(1_000_000) }));
    assert.deepEqual([grown.status, grown.json.code], [413, "payload_too_large"]);
    assert.deepEqual(Object.keys((await owner.get(node("grown"))).json.value), ["a"]);
    assert.equal((await owner.get(base)).json.head, head + 1);
    assert.equal((await owner.get(node("c"))).status, 404);
  });

  test("r4 64 levels of JSON are taken, 65 are not", async () => {
    const { owner, base, node } = await open("depth");
    const arrays = (levels) => "[".repeat(levels) + "]".repeat(levels);
    const objects = (levels) => '{"a":'.repeat(levels) + "1" + "}".repeat(levels);
    assert.equal((await owner.put(node("a"), arrays(64))).status, 201);
    assert.deepEqual((await owner.get(node("a"))).json.value, JSON.parse(arrays(64)));
    assert.equal((await owner.put(node("o"), objects(64))).status, 201);
    assert.equal((await owner.patch(node("o"), objects(64))).status, 200);
    for (const deep of [arrays(65), objects(65), arrays(100_000), "[".repeat(500_000)]) {
      for (const refused of [await owner.put(node("b"), deep), await owner.patch(node("a"), deep)]) {
        assert.deepEqual([refused.status, refused.json.code], [400, "invalid_json"]);
      }
    }
    for (const body of ["", "{", "1 2", "nul", "'a'", "[1,]", "NaN", '"\\ud800"', Buffer.from([0x22, 0xc3, 0x28, 0x22])]) {
      assert.equal((await owner.put(node("b"), body)).json.code, "invalid_json", String(body));
    }
    assert.equal((await owner.get(`${base}/nodes`)).json.nodes.length, 2);
  });

  test("r4 a path has 512 bytes after decoding", async () => {
    const { owner, base, node } = await open("paths");
    const longest = `a/${"é".repeat(255)}`;
    assert.equal(Buffer.byteLength(longest), 512);
    const address = longest.split("/").map(encodeURIComponent).join("/");
    assert.equal((await owner.put(node(address), 1)).json.path, longest);
    assert.equal((await owner.get(node(address))).json.path, longest);
    assert.equal((await owner.get(node(`${address}a`))).json.code, "invalid_path");
    assert.equal((await owner.put(node("a".repeat(513)), 1)).json.code, "invalid_path");
    assert.equal((await owner.put(node(Array(33).fill("s").join("/")), 1)).json.code, "invalid_path");
    // Addresses with and without needless escapes are one node.
    await owner.put(node("x%79z"), 1);
    assert.equal((await owner.get(node("xyz"))).status, 200);
    assert.equal((await owner.get(`${base}/nodes?limit=10`)).json.nodes.length, 2);
  });

  test("hostile addresses are refused or name what they say, never anything else", async () => {
    const { owner, base, node } = await open("hostile");
    await owner.put(node("a/b"), '"mine"');
    const bad = ["a%2Fb", "a%2fb", "%C0%AE%C0%AE/x", "%c0%af", "%ED%A0%80", "%ff", "a%00", "a%0A", "a%7F", "%C2%85", "a//b", "a/", "%", "%2", "%zz", "a/%2E%2E%2Fb"];
    for (const path of bad) {
      for (const [method, body] of [["GET"], ["PUT", "1"], ["DELETE"]]) {
        const answer = await owner.call(method, node(path), { body, headers: body ? { "content-type": "application/json" } : {} });
        assert.deepEqual([answer.status, answer.json.code], [400, "invalid_path"], `${method} ${path}`);
      }
    }
    // URLs have no dot segments: they are resolved before anybody looks, and the role in the
    // workspace that comes out counts.
    for (const dots of ["..", "%2e%2e", ".%2E", "%2E."]) {
      assert.equal((await owner.get(node(`x/${dots}/a/b`))).json.value, "mine", dots);
      assert.equal((await owner.get(node(`${dots}/${dots}/other/nodes/a`))).json.code, "forbidden", dots);
      assert.equal((await owner.put(node(`${dots}/${dots}/${dots}/x`), 1)).json.code, "not_found", dots);
    }
    for (const id of ["a%2Fb", "a.b", "%E2%9C%93", "..%2f", "*", "%00", "a".repeat(65), ""]) {
      assert.equal((await owner.get(`/api/workspaces/${id}/nodes`)).json.code, "invalid_workspace_id", id);
    }
    for (const path of ["/", "/api", "/api/", `${base}/x`, `${base}/docs`, "//api/workspaces", "/API/workspaces", "/%61pi/workspaces"]) {
      assert.equal((await owner.get(path)).json.code, "not_found", path);
    }
    assert.deepEqual((await owner.get(`${base}/nodes`)).json.nodes.map(({ path }) => path), ["a/b"]);
  });

  test("wrong content types and methods have their own answers", async () => {
    const { owner, base, node } = await open("media");
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "multipart/form-data"]) {
      for (const send of [() => owner.put(node("a"), "1", { "content-type": type }), () => owner.patch(node("a"), "1", { "content-type": type }), () => owner.call("POST", `${base}/ops`, { body: "{}", headers: { "content-type": type } })]) {
        const refused = await send();
        assert.deepEqual([refused.status, refused.json.code], [415, "unsupported_media_type"], type);
      }
    }
    assert.equal((await owner.put(node("a"), "1", { "content-type": "Application/JSON; charset=utf-8" })).status, 201);
    for (const method of ["POST", "PROPFIND", "HEAD", "TRACE", "PURGE"]) {
      const refused = await owner.call(method, node("a"));
      assert.deepEqual([refused.status, refused.headers.allow], [405, "GET, PUT, PATCH, DELETE"], method);
      assert.equal(refused.json?.code, method === "HEAD" ? undefined : "method_not_allowed");
    }
    for (const [method, path, allow] of [["PUT", base, "GET, DELETE"], ["GET", "/api/workspaces", "POST"], ["GET", `${base}/ops`, "POST"], ["DELETE", `${base}/changes`, "GET"], ["PATCH", `${base}/docs/a`, "GET, PUT"], ["POST", "/healthz", "GET"]]) {
      const refused = await owner.call(method, path);
      assert.deepEqual([refused.status, refused.headers.allow], [405, allow], `${method} ${path}`);
    }
    assert.equal((await owner.get(node("a"))).json.clock, 1);
  });

  test("f7 a deleted workspace is gone for every route and takes no write", async () => {
    const { owner, base, node } = await open("deleted");
    await owner.put(node("a"), 1, { "idempotency-key": "k" });
    await owner.update("deleted", "d", Buffer.from("010165000401017402686900", "hex"));
    const deleted = await owner.delete(base);
    assert.equal(deleted.status, 200);
    assert.deepEqual(deleted.json, { id: "deleted", clock: 3 });
    const calls = [
      () => owner.get(base),
      () => owner.delete(base),
      () => owner.get(node("a")),
      () => owner.get(`${base}/nodes`),
      () => owner.put(node("a"), 2),
      () => owner.put(node("b"), 2, { "if-match": "*" }),
      () => owner.patch(node("a"), 2),
      () => owner.delete(node("a")),
      () => owner.post(`${base}/ops`, { ops: [{ op: "delete", path: "a" }] }),
      () => owner.get(`${base}/docs/d`),
      () => owner.update("deleted", "d", Buffer.from("010165000401017402686900", "hex")),
      () => owner.get(`${base}/changes`),
      () => owner.get(`${base}/changes/stream`),
    ];
    for (const [index, call] of calls.entries()) {
      const answer = await call();
      assert.deepEqual([answer.status, answer.json.code], [410, "workspace_deleted"], `call ${index}`);
    }
    // Its id is not free: nobody inherits old clocks, tokens or copies.
    assert.equal((await owner.post("/api/workspaces", { id: "deleted" })).json.code, "exists");
  });

  test("a workspace that never was is 404 for its owner, and creation answers once", async () => {
    const owner = api.actor("o", "human", { never: "owner", "*": "viewer" });
    for (const call of [() => owner.get("/api/workspaces/never"), () => owner.put("/api/workspaces/never/nodes/a", 1), () => owner.get("/api/workspaces/never/nodes/a"), () => owner.get("/api/workspaces/never/changes"), () => owner.get("/api/workspaces/never/changes/stream"), () => owner.get("/api/workspaces/never/docs/d"), () => owner.delete("/api/workspaces/never")]) {
      const answer = await call();
      assert.deepEqual([answer.status, answer.json.code], [404, "workspace_not_found"]);
    }
    const answers = await Promise.all(Array.from({ length: 8 }, () => owner.post("/api/workspaces", { id: "never" })));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [201, 409, 409, 409, 409, 409, 409, 409]);
    assert.equal(answers.find(({ status }) => status === 201).headers.location, "/api/workspaces/never");
    const anybody = api.actor("root", "service", { "*": "owner" });
    const chosen = await anybody.post("/api/workspaces", {});
    assert.equal(chosen.status, 201);
    assert.match(chosen.json.id, /^[A-Za-z0-9_-]{1,64}$/);
    for (const body of [{ id: 1 }, { id: "a/b" }, { id: "" }, { name: "x" }, []]) {
      assert.equal((await anybody.post("/api/workspaces", body)).status, 400, JSON.stringify(body));
    }
  });
});
