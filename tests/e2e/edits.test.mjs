// Edits by quoted text, replaced documents and moves over HTTP (section 5), with what the database has
// afterwards. Yjs itself says what a document has to be.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import * as Y from "yjs";
import { startStack } from "../../tools/stack.mjs";
import { Api, tap } from "./support/http.mjs";

const ENTRY = join(import.meta.dirname, "support", "d1-tap.mjs");

describe("edits", { concurrency: true, timeout: 120_000 }, () => {
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
    const base = `/api/workspaces/${id}`;
    const docs = (path) => `${base}/docs/${path}`;
    const read = async (path, accept = "application/octet-stream", query = "") => owner.get(`${docs(path)}${query}`, { headers: { accept } });
    return {
      owner,
      base,
      docs,
      read,
      text: async (path, root = "content") => (await read(path, "text/plain", `?root=${root}`)).text,
      edit: (path, edits, { headers, query = "", ...more } = {}) => owner.post(`${docs(path)}/edits${query}`, { root: "content", edits, ...more }, headers),
      put: (path, body, headers, query = "?root=content") => owner.put(`${docs(path)}${query}`, body, { "content-type": "text/plain", ...headers }),
      move: (path, to, headers) => owner.post(`${base}/nodes/${path}/move`, { to }, headers),
      changes: () => owner.changes(id),
    };
  }

  const replace = (quote, text) => ({ op: "replace", quote, with: text });
  const append = (text) => ({ op: "append", text });

  test("an agent makes and edits a document; the answer has clock, epoch and state vector", async () => {
    const { edit, read, text, changes } = await open("make");
    const made = await edit("notes/a", [append("Hello world")]);
    assert.deepEqual([made.status, made.json.clock, made.json.epoch, made.headers.etag, made.headers["yrelay-epoch"]], [201, 1, 1, '"1"', "1"]);
    const edited = await edit("notes/a", [replace("world", "there"), { op: "insert", at: 0, text: "> " }, append("!")]);
    assert.deepEqual([edited.status, edited.json.clock, edited.json.epoch], [200, 2, 1]);
    assert.equal(await text("notes/a"), "> Hello there!");
    const doc = new Y.Doc();
    Y.applyUpdate(doc, (await read("notes/a")).bytes);
    assert.deepEqual(Y.decodeStateVector(Buffer.from(edited.json.stateVector, "base64url")), Y.decodeStateVector(Y.encodeStateVector(doc)));
    const log = await changes();
    assert.deepEqual(log.map(({ clock, kind, path, actor }) => [clock, kind, path, actor]), [1, 2].map((clock) => [clock, "update", "notes/a", "owner"]));
  });

  test("edits that change nothing write nothing", async () => {
    const { edit, changes } = await open("nothing");
    assert.equal((await edit("a", [{ op: "set", text: "" }])).json.code, "invalid_edit");
    const first = await edit("a", [append("same")]);
    const again = await edit("a", [{ op: "set", text: "same" }, replace("same", "same")]);
    assert.deepEqual([again.status, again.json], [200, first.json]);
    assert.equal((await changes()).length, 1);
  });

  test("every refusal has its code, and leaves the document as it was", async () => {
    const { owner, edit, text, docs, changes } = await open("refusals");
    await edit("a", [append("one two one 😀")]);
    await owner.put("/api/workspaces/refusals/nodes/record", 1);
    const refused = async (edits, code, status, more = {}) => {
      const answer = await edit("a", [append("half"), ...edits]);
      assert.deepEqual([answer.status, answer.json.code, answer.json.index], [status, code, 1], answer.text);
      for (const [name, value] of Object.entries(more)) assert.equal(answer.json[name], value, answer.text);
    };
    await refused([replace("three", "x")], "quote_not_found", 409, { count: 0 });
    await refused([replace("one", "x")], "quote_ambiguous", 409, { count: 2 });
    await refused([{ ...replace("one", "x"), occurrence: 3 }], "quote_not_found", 409, { count: 2 });
    await refused([{ op: "insert", at: 13, text: "x" }], "invalid_edit", 422);
    await refused([{ op: "insert", at: 99, text: "x" }], "invalid_edit", 422);
    await refused([{ op: "put", pointer: "/k", value: 1 }], "invalid_edit", 422);
    await refused([{ op: "replace", quote: "one" }], "bad_request", 400);
    assert.equal((await owner.post(`${docs("a")}/edits`, '{"root":"content","edits":[{"op":"append","text":"\\ud83d"}]}', { "content-type": "application/json" })).json.code, "invalid_json");
    assert.equal((await owner.post(`${docs("a")}/edits`, { root: "content", edits: [append("x".repeat(2_000_000))] })).json.code, "payload_too_large");
    assert.equal((await owner.post(`${docs("a")}/edits`, "x", { "content-type": "text/plain" })).json.code, "unsupported_media_type");
    assert.equal((await edit("record", [append("x")])).json.code, "wrong_node_kind");
    assert.equal((await edit("new", [replace("a", "b")])).json.code, "quote_not_found");
    assert.equal((await edit("new", [{ op: "remove", pointer: "/a" }])).json.code, "pointer_not_found");
    assert.equal((await owner.get(docs("new"))).status, 404);
    const viewer = api.actor("eve", "agent", { refusals: "viewer" });
    assert.equal((await viewer.post(`${docs("a")}/edits`, { root: "content", edits: [append("x")] })).json.code, "forbidden");
    assert.equal((await owner.post("/api/workspaces/nope-nope/docs/a/edits", { root: "content", edits: [append("x")] })).json.code, "forbidden");
    assert.equal(await text("a"), "one two one 😀");
    assert.equal((await changes()).length, 2);
  });

  test("hostile text is text", async () => {
    const { edit, text } = await open("hostile");
    const hostile = "'; DROP TABLE nodes; -- \u0000 </script> ${x} \u202e %00 \\u0000 e\u0301 👷‍♀️ $1 $& (.*) [";
    await edit("a", [append(hostile)]);
    assert.equal(await text("a"), hostile);
    await edit("a", [replace("(.*) [", "$& \\1"), replace("👷‍♀️", "👩")]);
    assert.equal(await text("a"), hostile.replace("(.*) [", () => "$& \\1").replace("👷‍♀️", "👩"));
  });

  test("R5 emoji, combining marks and joined sequences at the borders of edits stay whole, also for who reads along", async () => {
    const { edit, text, read } = await open("borders");
    const along = new Y.Doc();
    const steps = [
      [append("a\u{1f600}e\u0301\u{1f477}\u200d\u2640\ufe0fz"), "a\u{1f600}e\u0301\u{1f477}\u200d\u2640\ufe0fz"],
      [{ op: "insert", at: 3, text: "|" }, "a\u{1f600}|e\u0301\u{1f477}\u200d\u2640\ufe0fz"],
      [{ op: "insert", at: 1, text: "|" }, "a|\u{1f600}|e\u0301\u{1f477}\u200d\u2640\ufe0fz"],
      // The two have their first half in common, which must not be kept.
      [replace("\u{1f600}", "\u{1f601}"), "a|\u{1f601}|e\u0301\u{1f477}\u200d\u2640\ufe0fz"],
      [{ op: "insert", after: "\u{1f601}", text: "\u{1f602}" }, "a|\u{1f601}\u{1f602}|e\u0301\u{1f477}\u200d\u2640\ufe0fz"],
      // A mark may be quoted with its letter or without it: quotes are code units, not graphemes.
      [replace("e\u0301", "\u00e9"), "a|\u{1f601}\u{1f602}|\u00e9\u{1f477}\u200d\u2640\ufe0fz"],
      [{ op: "insert", before: "\u{1f477}", text: "u\u0308" }, "a|\u{1f601}\u{1f602}|\u00e9u\u0308\u{1f477}\u200d\u2640\ufe0fz"],
      [{ op: "delete", quote: "\u0308" }, "a|\u{1f601}\u{1f602}|\u00e9u\u{1f477}\u200d\u2640\ufe0fz"],
      [{ op: "delete", quote: "\u200d\u2640\ufe0f" }, "a|\u{1f601}\u{1f602}|\u00e9u\u{1f477}z"],
      // The second halves are the same here: U+1F4F1 and U+1F0F1 differ in the first.
      [{ op: "set", text: "\u{1f4f1}z" }, "\u{1f4f1}z"],
      [{ op: "set", text: "\u{1f0f1}z" }, "\u{1f0f1}z"],
    ];
    for (const [one, expected] of steps) {
      const answer = await edit("a", [one]);
      assert.ok(answer.status < 300, answer.text);
      assert.equal(await text("a"), expected);
      // As an editor gets it: only what it lacks.
      const lacking = Buffer.from(Y.encodeStateVector(along)).toString("base64url");
      Y.applyUpdate(along, (await read("a", "application/octet-stream", `?sv=${lacking}`)).bytes);
      assert.equal(along.getText("content").toString(), expected);
    }
    for (const one of [{ op: "insert", at: 1, text: "x" }, { op: "insert", at: 4, text: "x" }]) {
      assert.equal((await edit("a", [one])).json.code, "invalid_edit", "inside a pair, and past the end");
    }
    assert.equal(await text("a"), "\u{1f0f1}z");
  });

  test("a quote that spans formats is replaced, and what is beside it keeps its format", async () => {
    const { edit, read, text } = await open("formats");
    const bold = { bold: true };
    await edit("a", [append("plain "), { ...append("bold"), attributes: bold }, { ...append(" after"), attributes: {} }]);
    const replaced = await edit("a", [replace("ain bo", "X"), { op: "format", quote: "d aft", attributes: { italic: true } }]);
    assert.equal(replaced.status, 200, replaced.text);
    const doc = new Y.Doc();
    Y.applyUpdate(doc, (await read("a")).bytes);
    const delta = doc.getText("content").toDelta();
    assert.equal(delta.map(({ insert }) => insert).join(""), "plXld after");
    assert.equal(await text("a"), "plXld after");
    const formatOf = (part) => delta.find(({ insert }) => insert.includes(part))?.attributes;
    assert.deepEqual([formatOf("l"), formatOf("d"), formatOf("er")], [undefined, { bold: true, italic: true }, undefined]);
    assert.equal((await edit("a", [replace("plXld after", "")])).status, 200);
    assert.equal(await text("a"), "");
  });

  test("I01 edits that come twice, late or in another order are made once, or say that they are late", async () => {
    const { edit, text, changes } = await open("order");
    const send = (n, more = {}) => edit("a", [append(`<${n}>`)], { headers: { "idempotency-key": `k${n}` }, ...more });
    const [second, first] = [await send(2), await send(1)];
    const again = await Promise.all([send(1), send(2), send(1)]);
    assert.deepEqual(again.map(({ json }) => json), [first.json, second.json, first.json]);
    assert.ok(again.every(({ headers }) => headers["idempotency-replayed"] === "true"));
    const based = await send(3, { base: first.json.clock });
    assert.equal(based.status, 200, based.text);
    const late = await send(4, { base: first.json.clock });
    assert.deepEqual([late.status, late.json.code, late.json.clock], [412, "stale_base", based.json.clock]);
    // Its key is not used up: read again, it is sent again.
    assert.equal((await send(4, { base: based.json.clock })).status, 200);
    assert.equal(await text("a"), "<2><1><3><4>");
    assert.equal((await changes()).length, 4);
  });

  test("base: a clock or a state vector; a stale one is 412 with what is there", async () => {
    const { edit, text } = await open("base");
    const first = (await edit("a", [append("one")])).json;
    const second = (await edit("a", [append(" two")], { base: first.clock })).json;
    for (const base of [first.clock, first.stateVector, 0]) {
      const stale = await edit("a", [append(" x")], { base });
      assert.deepEqual([stale.status, stale.json.code, stale.json.clock, stale.json.epoch, stale.headers.etag], [412, "stale_base", second.clock, first.epoch, `"${second.clock}"`]);
    }
    assert.equal((await edit("a", [append(" three")], { base: second.stateVector })).status, 200);
    assert.equal(await text("a"), "one two three");
    assert.equal((await edit("new", [append("x")], { base: 1 })).json.code, "stale_base");
    assert.equal((await edit("new", [append("x")], { base: 0 })).status, 201);
  });

  test("twenty agents at once: each edit is made once, and the same replacement by one of them only", async () => {
    const { owner, edit, text, changes } = await open("races");
    await edit("a", [append("count: ")]);
    const all = await Promise.all(Array.from({ length: 20 }, (_, n) => edit("a", [append(`<${n}>`)])));
    assert.deepEqual([...new Set(all.map(({ status }) => status))], [200]);
    const shown = await text("a");
    for (let n = 0; n < 20; n++) assert.equal(shown.split(`<${n}>`).length, 2, shown);
    const replaced = await Promise.all(Array.from({ length: 4 }, (_, n) => edit("a", [replace("count", `by ${n}`)])));
    assert.deepEqual(replaced.map(({ status }) => status).sort(), [200, 409, 409, 409]);
    assert.equal((await text("a")).match(/by \d/g).length, 1);
    const based = await owner.get("/api/workspaces/races");
    const same = await Promise.all(Array.from({ length: 4 }, () => edit("a", [append("!")], { base: based.json.head })));
    assert.deepEqual(same.map(({ status }) => status).sort(), [200, 412, 412, 412]);
    assert.equal((await changes()).length, 23);
  });

  test("I01 I02 a repeated request gets the first answer, state vector included; another body is 422", async () => {
    const { edit, text, put, changes } = await open("repeat");
    const headers = { "idempotency-key": "k1" };
    await edit("a", [append("one two")]);
    const first = await edit("a", [replace("two", "2")], { headers });
    await edit("a", [append(" more")]);
    const again = await edit("a", [replace("two", "2")], { headers });
    assert.deepEqual([again.status, again.json, again.headers["idempotency-replayed"]], [200, first.json, "true"]);
    assert.equal((await edit("a", [replace("two", "3")], { headers })).json.code, "idempotency_key_reused");
    const parallel = await Promise.all(Array.from({ length: 5 }, () => edit("a", [append("!")], { headers: { "idempotency-key": "k2" } })));
    assert.deepEqual(new Set(parallel.map(({ text: body }) => body)).size, 1);
    assert.equal(await text("a"), "one 2 more!");
    const replaced = await put("a", "new", headers);
    assert.deepEqual((await put("a", "new", headers)).json, replaced.json);
    assert.equal((await put("a", "other", headers)).json.code, "idempotency_key_reused");
    // The same text as another root is another document, so another request.
    const elsewhere = await put("a", "new", headers, "?root=title");
    assert.deepEqual([elsewhere.status, elsewhere.headers["idempotency-replayed"]], [200, undefined]);
    assert.equal(await text("a", "title"), "new");
    assert.equal((await changes()).length, 6);
  });

  test("A.29 a replaced document has another epoch: old updates and edits are 409 and change nothing", async () => {
    const { owner, edit, put, text, read, changes } = await open("epochs");
    const old = (await edit("gen", [append("old text")])).json;
    const person = new Y.Doc();
    Y.applyUpdate(person, (await read("gen")).bytes);
    const replaced = await put("gen", "new text");
    assert.deepEqual([replaced.status, replaced.json], [200, { clock: 2, epoch: 2 }]);
    assert.equal(await text("gen"), "new text");
    const vector = Y.encodeStateVector(person);
    person.getText("content").insert(0, "late ");
    const late = Y.encodeStateAsUpdate(person, vector);
    const refused = [
      await owner.post(`/api/workspaces/epochs/docs/gen/updates?epoch=${old.epoch}`, late, { "content-type": "application/octet-stream" }),
      await edit("gen", [append("x")], { query: `?epoch=${old.epoch}` }),
      await put("gen", "older", {}, `?root=content&epoch=${old.epoch}`),
    ];
    for (const answer of refused) assert.deepEqual([answer.status, answer.json.code, answer.json.epoch], [409, "epoch_changed", 2], answer.text);
    assert.equal((await put("gen", "x", { "if-match": '"1"' })).json.code, "precondition_failed");
    assert.equal(await text("gen"), "new text");
    assert.deepEqual((await changes()).map(({ kind }) => kind), ["update", "replace"]);
    const rows = await d1.sql("SELECT COUNT(*) AS n, MIN(clock) AS low FROM doc_updates WHERE workspace = ?1", "epochs");
    assert.deepEqual(rows, [{ n: 1, low: 2 }], "nothing of the old content is kept");
  });

  test("B07 many clients seed one document: one of them does", async () => {
    const { put, text, changes, owner, docs } = await open("seeds");
    const answers = await Promise.all(Array.from({ length: 12 }, (_, n) => put("plan", `seed ${n}`, { "if-none-match": "*" })));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [201, ...Array(11).fill(412)]);
    const winner = answers.findIndex(({ status }) => status === 201);
    assert.equal(await text("plan"), `seed ${winner}`);
    assert.deepEqual((await changes()).map(({ kind }) => kind), ["update"], "a seed replaces nothing");
    const json = { title: "x", list: [1, "two"], meta: { k: { deep: [null] } } };
    const made = await owner.put(docs("json"), json);
    assert.equal(made.status, 201, made.text);
    assert.deepEqual((await owner.get(docs("json"), { headers: { accept: "application/json" } })).json, json);
    const doc = new Y.Doc();
    doc.getText("content").insert(0, "as an update");
    const update = await owner.put(docs("update"), Y.encodeStateAsUpdate(doc), { "content-type": "application/octet-stream" });
    assert.equal(update.status, 201, update.text);
    assert.equal(await text("update"), "as an update");
    for (const [body, type, code] of [["[1", "application/json", "invalid_json"], ["1", "application/json", "bad_request"], ["x", "application/octet-stream", "invalid_update"], ["x", "text/plain", "bad_request"], ["x", "image/png", "unsupported_media_type"]]) {
      assert.equal((await owner.put(docs("bad"), body, { "content-type": type })).json.code, code, type);
    }
  });

  test("S10 a move is a delete and a move; what is below goes along, and nothing is left behind", async () => {
    const { owner, base, edit, move, text, changes, docs } = await open("moves");
    const record = (path) => owner.get(`${base}/nodes/${path}`);
    await owner.put(`${base}/nodes/jobs/1`, { state: "open" });
    await edit("jobs/1/notes", [append("a note")]);
    await owner.put(`${base}/nodes/jobs/10`, { name: "another" });
    assert.equal((await move("jobs/1", "jobs/1/x")).json.code, "bad_request");
    assert.equal((await move("jobs/1", "jobs/10")).json.code, "exists");
    assert.equal((await move("jobs/2", "done/2")).json.code, "node_not_found");
    assert.equal((await move("jobs/1", "../x")).json.code, "invalid_path");
    assert.equal((await move("jobs/1", `${"x".repeat(506)}/a`)).json.code, "invalid_path", "what is below would not fit");
    assert.equal((await move("jobs/1", "done/1", { "if-match": '"9"' })).json.code, "precondition_failed");
    const moved = await move("jobs/1", "done/1", { "if-match": '"1"', "idempotency-key": "m" });
    assert.deepEqual([moved.status, moved.json, moved.headers.etag], [200, { clock: 5, path: "done/1" }, '"5"']);
    const again = await move("jobs/1", "done/1", { "if-match": '"1"', "idempotency-key": "m" });
    assert.deepEqual([again.json, again.headers["idempotency-replayed"]], [moved.json, "true"]);
    assert.deepEqual((await record("done/1")).json.value, { state: "open" });
    assert.equal(await text("done/1/notes"), "a note");
    assert.equal((await record("jobs/1")).status, 404);
    assert.deepEqual((await changes()).slice(3).map(({ kind, path }) => [kind, path]), [["delete", "jobs/1"], ["move", "done/1"]]);
    // A later write to the old path is a write of its own.
    assert.equal((await owner.patch(`${base}/nodes/jobs/1`, { state: "late" })).json.code, "node_not_found");
    const late = new Y.Doc();
    late.getText("content").insert(0, "late");
    const update = await owner.post(`${docs("jobs/1/notes")}/updates?epoch=2`, Y.encodeStateAsUpdate(late), { "content-type": "application/octet-stream" });
    assert.equal(update.json.code, "epoch_changed");
    assert.equal((await owner.put(`${base}/nodes/jobs/1`, { state: "new" })).status, 201);
    assert.deepEqual((await record("done/1")).json.value, { state: "open" });
    assert.equal((await edit("done/1/notes", [append("!")])).status, 200);
    assert.equal(await text("done/1/notes"), "a note!");
  });

  test("an edit of a text of one megabyte by quote", async () => {
    const { edit, text, put } = await open("large");
    const filler = "The quick brown fox jumps over the lazy dog. ";
    const large = `${filler.repeat(12_000)}NEEDLE ${filler.repeat(12_000)}`;
    await put("a", large);
    const answer = await edit("a", [replace("NEEDLE", "found")]);
    assert.equal(answer.status, 200, answer.text);
    assert.equal(await text("a"), large.replace("NEEDLE", "found"));
  });
});
