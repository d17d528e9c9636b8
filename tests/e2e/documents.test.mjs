// Documents over HTTP: add a Yjs update, read as update, text or JSON (section 5), and how they are
// kept (section 8). Yjs itself says what a document has to be.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import * as Y from "yjs";
import { startStack } from "../../tools/stack.mjs";
import { ROOT } from "../../tools/wrangler-config.mjs";
import { Api, tap } from "./support/http.mjs";

const ENTRY = join(import.meta.dirname, "support", "d1-tap.mjs");
const MIB = 1024 * 1024;
const data = (name) => JSON.parse(readFileSync(join(ROOT, "tests", "data", name), "utf8"));
/** Histories that are too large for the repository; where they are not there, its own vectors do. */
const GOLDEN = join(ROOT, "..", "shared", "cases", "golden_subset.json");

/** A document with the update of every transaction. */
function recorded(clientId) {
  const doc = new Y.Doc();
  doc.clientID = clientId;
  const updates = [];
  doc.on("update", (update) => updates.push(update));
  return { doc, updates };
}

/** Text that does not compress and is not the same twice. */
function filler(length, seed) {
  let state = seed;
  const next = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0);
  return Array.from({ length }, () => String.fromCharCode(97 + (next() >>> 16) % 26)).join("");
}

describe("documents", { concurrency: true, timeout: 120_000 }, () => {
  let api;
  let d1;
  before(async () => {
    api = new Api(await startStack({ entry: ENTRY }));
    d1 = tap(api);
  });
  after(() => api.finish());

  /** A workspace of this test's own. */
  async function open(id) {
    const owner = await api.workspace(id);
    const address = (path) => `/api/workspaces/${id}/docs/${path}`;
    const read = async (path, accept, query = "") => owner.get(`${address(path)}${query}`, { headers: accept ? { accept } : {} });
    const whole = async (path) => {
      const answer = await read(path);
      assert.equal(answer.status, 200, answer.text);
      const doc = new Y.Doc();
      Y.applyUpdate(doc, answer.bytes);
      return doc;
    };
    return { owner, address, read, whole, add: (path, update, headers) => owner.update(id, path, update, headers) };
  }

  test("a document is made by its first update and read in every format", async () => {
    const { add, read, whole } = await open("formats");
    const { doc, updates } = recorded(7);
    doc.getText("content").insert(0, "Héllo 😀");
    doc.getMap("meta").set("tags", ["a", 1, null]);
    const created = await add("notes/intro", updates[0]);
    assert.deepEqual([created.status, created.json], [201, { clock: 1, epoch: 1 }]);
    assert.deepEqual([created.headers.etag, created.headers["yrelay-epoch"]], ['"1"', "1"]);
    const added = await add("notes/intro", updates[1], { "content-type": "application/x-yjs-update" });
    assert.deepEqual([added.status, added.json], [200, { clock: 2, epoch: 1 }]);
    for (const [accept, type] of [[undefined, "application/octet-stream"], ["application/x-yjs-update", "application/x-yjs-update"], ["*/*", "application/octet-stream"]]) {
      const answer = await read("notes/intro", accept);
      assert.deepEqual([answer.status, answer.headers["content-type"], answer.headers.etag, answer.headers["yrelay-epoch"], answer.headers.vary], [200, type, '"2"', "1", "Accept"]);
    }
    assert.deepEqual((await whole("notes/intro")).getText("content").toString(), "Héllo 😀");
    assert.equal((await read("notes/intro", "text/plain", "?root=content")).text, "Héllo 😀");
    assert.equal((await read("notes/intro", "text/plain", "?root=nope")).text, "");
    assert.equal((await read("notes/intro", "text/plain")).json.code, "bad_request", "two roots, none named");
    assert.deepEqual((await read("notes/intro", "application/json")).json, { content: "Héllo 😀", meta: { tags: ["a", 1, null] } });
    assert.deepEqual((await read("notes/intro", "application/json", "?root=meta")).json, { tags: ["a", 1, null] });
    assert.equal((await read("notes/intro", "image/png")).json.code, "not_acceptable");
  });

  test("a state vector gets what it lacks, no more", async () => {
    const { add, read } = await open("diff");
    const { doc, updates } = recorded(8);
    doc.getText("t").insert(0, "x".repeat(10_000));
    const reader = new Y.Doc();
    Y.applyUpdate(reader, updates[0]);
    const vector = Buffer.from(Y.encodeStateVector(reader));
    doc.getText("t").insert(0, "new ");
    for (const update of updates) await add("d", update);
    for (const sv of [vector.toString("base64url"), encodeURIComponent(vector.toString("base64"))]) {
      const diff = await read("d", undefined, `?sv=${sv}`);
      assert.ok(diff.bytes.length < 50, `${diff.bytes.length} bytes`);
      Y.applyUpdate(reader, diff.bytes);
      assert.equal(reader.getText("t").toString(), doc.getText("t").toString());
    }
    const current = await read("d", undefined, `?sv=${Buffer.from(Y.encodeStateVector(doc)).toString("base64url")}`);
    assert.deepEqual([...current.bytes], [0, 0]);
    assert.ok((await read("d", undefined, "?sv=AA")).bytes.length > 10_000, "the empty vector lacks everything");
    for (const sv of ["!", "AQ", "____", "gICAgICAgICAgIA", "A".repeat(5)]) {
      assert.equal((await read("d", undefined, `?sv=${sv}`)).json.code, "bad_request", sv);
    }
  });

  test("a reader with the current ETag gets 304", async () => {
    const { owner, address, add } = await open("doc-etag");
    const { doc, updates } = recorded(9);
    doc.getText("t").insert(0, "a");
    doc.getText("t").insert(1, "b");
    await add("d", updates[0]);
    const same = await owner.get(address("d"), { headers: { "if-none-match": '"1"' } });
    assert.deepEqual([same.status, same.bytes.length, same.headers.etag, same.headers["yrelay-epoch"]], [304, 0, '"1"', "1"]);
    await add("d", updates[1]);
    assert.equal((await owner.get(address("d"), { headers: { "if-none-match": '"1"' } })).status, 200);
  });

  test("records and documents do not take each other's place", async () => {
    const { owner, add, read } = await open("kinds");
    const { doc, updates } = recorded(10);
    doc.getText("t").insert(0, "a");
    const node = (path) => `/api/workspaces/kinds/nodes/${path}`;
    await owner.put(node("r"), 1);
    await add("d", updates[0]);
    const refused = [await read("r"), await add("r", updates[0]), await owner.put(node("d"), 1), await owner.patch(node("d"), "{}")];
    assert.deepEqual(refused.map(({ status, json }) => [status, json.code]), Array(4).fill([409, "wrong_node_kind"]));
    assert.equal((await owner.post("/api/workspaces/kinds/ops", { ops: [{ op: "put", path: "x", value: 1 }, { op: "put", path: "d", value: 1 }] })).json.index, 1);
    assert.equal((await read("nope")).json.code, "node_not_found");
    const listed = (await owner.get("/api/workspaces/kinds/nodes")).json.nodes;
    assert.deepEqual(listed, [{ path: "d", kind: "document", clock: 2 }, { path: "r", kind: "record", clock: 1 }]);
    assert.deepEqual((await owner.get(node("d"))).json, { path: "d", kind: "document", clock: 2 });
    // A batch with a document in it is all or none, too.
    const batch = await owner.post("/api/workspaces/kinds/ops", { ops: [{ op: "put", path: "x", value: 1 }, { op: "delete", path: "d" }, { op: "patch", path: "nope", patch: {} }] });
    assert.deepEqual([batch.status, batch.json.code, batch.json.index], [404, "node_not_found", 2]);
    assert.equal((await read("d")).status, 200);
    assert.equal((await owner.get(node("x"))).status, 404);
    // A deleted document is gone with its text, and its path is free.
    assert.equal((await owner.delete(node("d"))).status, 200);
    assert.equal((await read("d")).status, 404);
    assert.equal((await owner.put(node("d"), 1)).status, 201);
  });

  test("an epoch that is not the document's is refused and nothing is stored (W11)", async () => {
    const { owner, address, whole } = await open("epoch");
    const { doc, updates } = recorded(11);
    doc.getText("t").insert(0, "a");
    doc.getText("t").insert(1, "b");
    const send = (update, epoch) => owner.call("POST", `${address("d")}/updates?epoch=${epoch}`, { body: update, headers: { "content-type": "application/octet-stream" } });
    const missing = await send(updates[0], 1);
    assert.deepEqual([missing.status, missing.json.code], [409, "epoch_changed"], "there is no document of that epoch");
    assert.deepEqual((await owner.update("epoch", "d", updates[0])).json, { clock: 1, epoch: 1 });
    for (const epoch of [0, 2]) {
      const refused = await send(updates[1], epoch);
      assert.deepEqual([refused.status, refused.json.code, refused.json.epoch], [409, "epoch_changed", 1]);
    }
    for (const epoch of ["x", "-1", "1.5"]) assert.equal((await send(updates[1], epoch)).json.code, "bad_request", epoch);
    assert.equal((await whole("d")).getText("t").toString(), "a");
    assert.deepEqual((await send(updates[1], 1)).json, { clock: 2, epoch: 1 });
    // A document that was deleted and made again is another one: what knew the old one stays out.
    await owner.delete("/api/workspaces/epoch/nodes/d");
    assert.deepEqual((await owner.update("epoch", "d", updates[0])).json, { clock: 4, epoch: 4 });
    assert.equal((await send(updates[1], 1)).json.epoch, 4);
    assert.equal((await whole("d")).getText("t").toString(), "a");
  });

  test("w04 malformed, foreign and empty updates are 422 and nothing is stored", async () => {
    const { owner, add } = await open("bad-updates");
    const frames = data("frames.json").frames.filter(({ kind, hex }) => kind === "malformed" && typeof hex === "string");
    // Sync frames: message type, sub-type and length stand before the update.
    const payloads = frames.filter(({ hex }) => hex.startsWith("0002")).map(({ id, hex }) => [id, Buffer.from(hex, "hex").subarray(3)]);
    const deep = (levels) => Buffer.concat([Buffer.from("010166000801016d01", "hex"), Buffer.from("7501".repeat(levels), "hex"), Buffer.from("7e00", "hex")]);
    const { doc, updates } = recorded(12);
    doc.getText("t").insert(0, "real");
    const bad = [
      ...payloads.filter(([id]) => !["F33", "F37"].includes(id)),
      ["none", Buffer.alloc(0)],
      ["nothing", Buffer.from([0, 0])],
      ["text", Buffer.from("hello")],
      ["zeros", Buffer.alloc(1000)],
      ["ones", Buffer.alloc(1000, 255)],
      ["state vector", Y.encodeStateVector(doc)],
      ["version 2", Y.encodeStateAsUpdateV2(doc)],
      ["cut", updates[0].subarray(0, -1)],
      ["trailing", Buffer.concat([updates[0], Buffer.from([1, 2, 3])])],
      ["F38 20,000", deep(20_000)],
      ["F38 400,000", deep(400_000)],
      ...Array.from({ length: 60 }, (_, seed) => [`random ${seed}`, Buffer.from(filler(1 + seed * 7, seed)).map((byte, at) => byte ^ (seed * 31 + at * 17))]),
    ];
    for (const [id, update] of bad) {
      const refused = await add("d", update);
      assert.deepEqual([refused.status, refused.json.code], [422, "invalid_update"], id);
    }
    assert.ok(payloads.length >= 5);
    assert.equal((await owner.get("/api/workspaces/bad-updates")).json.head, 0);
    assert.equal((await add("d", updates[0], { "content-type": "application/json" })).status, 415);
    assert.equal((await add("d", updates[0])).json.clock, 1, "the instance lives");
  });

  test("A.49 every vector reads as Yjs reads it, in whatever order it came", async () => {
    const { owner, add, read } = await open("vectors");
    const vectors = data("vectors.json").vectors.filter(({ updates_v1: updates }) => updates);
    assert.ok(vectors.length >= 10);
    for (const { id, updates_v1: updates, roots } of vectors) {
      const expected = new Y.Doc();
      let sent = 0;
      for (const hex of updates) {
        const update = Buffer.from(hex, "hex");
        Y.applyUpdate(expected, update);
        const answer = await add(id, update);
        const isEmpty = hex === "0000";
        assert.equal(answer.status, isEmpty ? 422 : sent === 0 ? 201 : 200, `${id}: ${answer.text}`);
        sent += isEmpty ? 0 : 1;
      }
      if (sent === 0) continue;
      const found = new Y.Doc();
      Y.applyUpdate(found, (await read(id)).bytes);
      for (const [root, kind] of Object.entries(roots)) {
        const show = (doc) => (kind === "text" ? doc.getText(root).toJSON() : kind === "map" ? doc.getMap(root).toJSON() : kind === "array" ? doc.getArray(root).toJSON() : doc.getXmlFragment(root).toJSON());
        assert.deepEqual(show(found), show(expected), id);
        if (kind === "text") assert.equal((await read(id, "text/plain", `?root=${root}`)).text, show(expected).toWellFormed(), id);
      }
      assert.deepEqual(Y.encodeStateVector(found), Y.encodeStateVector(expected), id);
    }
    assert.equal((await owner.get("/api/workspaces/vectors")).status, 200);
  });

  test("d02 histories of several clients are kept whole through compactions", { skip: !existsSync(GOLDEN) && "the histories are not there" }, async () => {
    const { add, read } = await open("golden");
    const { cases } = JSON.parse(readFileSync(GOLDEN, "utf8"));
    await Promise.all(cases.map(async ({ id, updates_v1: all, expect }) => {
      // As many requests as a document has rows before it is compacted, and some.
      const updates = all.map((text) => Buffer.from(text, "base64"));
      const size = Math.max(1, Math.ceil(updates.length / (id === cases[0].id ? 80 : 8)));
      for (let at = 0; at < updates.length; at += size) {
        const answer = await add(id, Y.mergeUpdates(updates.slice(at, at + size)));
        assert.ok(answer.status < 300, answer.text);
      }
      const doc = new Y.Doc();
      Y.applyUpdate(doc, (await read(id)).bytes);
      assert.deepEqual({ text: doc.getText("text").toString(), map: doc.getMap("map").toJSON(), array: doc.getArray("array").toJSON() }, expect, id);
    }));
  });

  test("d02 a document of more than 70 updates is compacted and reads the same", async () => {
    const { owner, add, read, whole } = await open("compact");
    const { doc, updates } = recorded(13);
    for (let index = 0; index < 80; index += 1) {
      doc.getText("t").insert((index * 7) % (doc.getText("t").length + 1), `${index} `);
      if (index % 5 === 4) doc.getText("t").delete(index % doc.getText("t").length, 1);
    }
    assert.ok(updates.length > 80);
    for (const update of updates) assert.ok((await add("d", update)).status < 300);
    const rows = async () => (await d1.sql("SELECT parts, size, base, (SELECT COUNT(*) FROM doc_updates WHERE workspace = 'compact') AS rows FROM nodes WHERE workspace = 'compact'"))[0];
    // Compaction runs after the answer; the next append tries again if it was not done.
    let after = await rows();
    for (let wait = 0; wait < 50 && after.base === 0; wait += 1) {
      await new Promise((settle) => setTimeout(settle, 100));
      after = await rows();
    }
    assert.ok(after.base > 0 && after.rows <= 64 && after.parts === after.rows, JSON.stringify(after));
    assert.equal((await whole("d")).getText("t").toString(), doc.getText("t").toString());
    assert.equal((await read("d", "text/plain", "?root=t")).text, doc.getText("t").toString());
    assert.deepEqual(Y.encodeStateVector(await whole("d")), Y.encodeStateVector(doc));
    // Compaction is no change: it has no clock, and the ETag still is the newest one.
    const head = (await owner.get("/api/workspaces/compact")).json.head;
    assert.deepEqual([head, (await read("d")).headers.etag], [updates.length, `"${updates.length}"`]);
  });

  test("A.15 d02 writers in parallel lose nothing to a compaction", async () => {
    const { add, whole } = await open("compact-race");
    const writers = Array.from({ length: 10 }, (_, index) => recorded(100 + index));
    for (const { doc } of writers) for (let turn = 0; turn < 15; turn += 1) doc.getArray("a").push([`${doc.clientID}.${turn}`]);
    await Promise.all(writers.map(async ({ updates }) => {
      for (const update of updates) assert.ok((await add("d", update)).status < 300);
    }));
    const found = (await whole("d")).getArray("a").toJSON();
    assert.equal(new Set(found).size, 150);
    for (const { doc } of writers) assert.deepEqual(found.filter((item) => item.startsWith(`${doc.clientID}.`)), doc.getArray("a").toJSON());
  });

  test("i01 an update under a key is applied once and its answer repeated", async () => {
    const { owner, add } = await open("doc-key");
    const { doc, updates } = recorded(14);
    doc.getText("t").insert(0, "a");
    const answers = await Promise.all(Array.from({ length: 10 }, () => add("d", updates[0], { "idempotency-key": "k" })));
    assert.deepEqual([...new Set(answers.map(({ status, text }) => `${status} ${text}`))], ['201 {"clock":1,"epoch":1}']);
    doc.getText("t").insert(1, "b");
    assert.equal((await add("d", updates[1], { "idempotency-key": "k" })).json.code, "idempotency_key_reused");
    assert.equal((await add("e", updates[1], { "idempotency-key": "k" })).status, 201, "another document");
    assert.equal((await owner.changes("doc-key")).length, 2);
  });

  test("d3 since answers what was stored past a clock, and an update says whether it missed something", async () => {
    const { owner, address, add, read } = await open("since");
    const { doc, updates } = recorded(21);
    const of = (clock) => read("d", undefined, `?since=${clock}`);
    for (const letter of "abc") doc.getText("t").insert(doc.getText("t").length, letter);
    assert.equal((await add("d", updates[0])).json.missed, undefined, "only who asks is told");
    await add("d", updates[1]);
    const newer = await of(1);
    assert.deepEqual([newer.status, newer.headers.etag, newer.bytes], [200, '"2"', Buffer.from(updates[1])]);
    assert.deepEqual((await of(2)).bytes, Buffer.from([0, 0]), "nothing is the empty update");
    const post = (since, bytes) => owner.post(`${address("d/updates")}?since=${since}`, bytes, { "content-type": "application/octet-stream" });
    assert.deepEqual((await post(1, updates[2])).json, { clock: 3, epoch: 1, missed: true });
    assert.deepEqual((await post(3, updates[2])).json, { clock: 4, epoch: 1, missed: false });
    for (const query of ["?since=1&sv=AA", "?since=x", "?since=-1"]) assert.equal((await read("d", undefined, query)).status, 400, query);
    assert.equal((await read("d", "text/plain", "?since=1")).json.code, "bad_request");
    assert.equal((await post("1e3", updates[2])).status, 400);
    // After a compaction what is past a clock comes with what it was merged into.
    const many = recorded(22);
    for (let n = 0; n < 70; n++) many.doc.getArray("a").push([n]);
    for (const update of many.updates) await add("m", update);
    const whole = new Y.Doc();
    Y.applyUpdate(whole, (await read("m", undefined, "?since=60")).bytes);
    const known = new Y.Doc();
    for (const update of many.updates.slice(0, 60)) Y.applyUpdate(known, update);
    Y.applyUpdate(known, Y.encodeStateAsUpdate(whole));
    assert.equal(known.getArray("a").length, 70);
  });

  test("a service names the author of what it saves; nobody else may", async () => {
    const { owner, address } = await open("author");
    const service = owner.actor("relay-deno", "service", { "*": "editor" });
    const post = (client, author) =>
      client.post(address("d/updates"), Buffer.from("010165000401017402686900", "hex"), { "content-type": "application/octet-stream", "yrelay-author": author });
    assert.equal((await post(service, "zo%C3%AB%20b")).status, 201);
    assert.deepEqual((await owner.changes("author")).map(({ actor }) => actor), ["zoë b"]);
    for (const client of [owner, owner.actor("bot", "agent", { author: "editor" })]) {
      assert.deepEqual([(await post(client, "eve")).status, (await post(client, "eve")).json.code], [403, "forbidden"]);
    }
    for (const author of ["%", "%00", "a".repeat(129), "%FF"]) assert.equal((await post(service, author)).status, 400, author);
    assert.equal((await owner.changes("author")).length, 1);
  });

  test("i01 w11 a replay answers the epoch of the first answer, whatever the document is now", async () => {
    const { owner, add } = await open("doc-epoch");
    const { doc, updates } = recorded(16);
    doc.getText("t").insert(0, "a");
    doc.getText("t").insert(1, "b");
    const [made, more] = [{ "idempotency-key": "made" }, { "idempotency-key": "more" }];
    assert.equal((await add("d", updates[0], made)).text, '{"clock":1,"epoch":1}');
    assert.equal((await add("d", updates[1], more)).text, '{"clock":2,"epoch":1}');
    const replayed = async () => {
      for (const [update, headers, text] of [[updates[0], made, '{"clock":1,"epoch":1}'], [updates[1], more, '{"clock":2,"epoch":1}']]) {
        const answer = await add("d", update, headers);
        assert.deepEqual([answer.text, answer.headers["yrelay-epoch"], answer.headers["idempotency-replayed"]], [text, "1", "true"]);
      }
    };
    await replayed();
    await owner.delete("/api/workspaces/doc-epoch/nodes/d");
    await replayed();
    assert.equal((await add("d", updates[0])).text, '{"clock":4,"epoch":4}');
    await replayed();
  });

  test("A.14 A.20 d04 an update of 5 MB is kept in chunks; past 16 MiB update and document are 413 before any write", async () => {
    const { owner, add, read, whole } = await open("large");
    const { doc, updates } = recorded(15);
    doc.getText("t").insert(0, filler(5_000_000, 1));
    assert.equal((await add("d", updates[0])).status, 201);
    const rows = await d1.sql("SELECT part, length(data) AS length FROM doc_updates WHERE workspace = 'large' ORDER BY part");
    assert.ok(rows.length > 1 && rows.every(({ length }) => length <= 1_900_000), JSON.stringify(rows));
    assert.equal((await whole("d")).getText("t").toString(), doc.getText("t").toString());
    const refused = await add("d", Buffer.alloc(16 * MIB + 1));
    assert.deepEqual([refused.status, refused.json.code, refused.json.limit], [413, "payload_too_large", 16 * MIB]);
    assert.equal((await owner.get("/api/workspaces/large")).json.head, 1);
    // Repetitions take no room for long: the document is compacted before it is refused.
    for (let n = 0; n < 4; n++) assert.equal((await add("d", updates[0])).status, 200, `repetition ${n}`);
    // New content does.
    const more = recorded(16);
    for (let n = 0; n < 3; n++) more.doc.getText("t").insert(0, filler(5_000_000, n + 2));
    const statuses = [];
    for (const update of more.updates) statuses.push((await add("d", update)).status);
    assert.deepEqual(statuses, [200, 200, 413]);
    assert.equal((await owner.get("/api/workspaces/large")).json.head, 7, "the refused one has no clock");
    assert.equal((await read("d", "text/plain")).text.length, 15_000_000, "what it has stays readable");
    assert.equal((await add("e", Buffer.from("010165000401017402686900", "hex"))).status, 201, "other documents go on");
  });
});
