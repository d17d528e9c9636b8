// `cargo xtask verify`: a healthy database passes, and each kind of damage is named with its table and row.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { DatabaseSync } from "node:sqlite";
import * as Y from "yjs";

const root = new URL("../..", import.meta.url).pathname;
const RUN_LIMIT = 60_000;
const folder = mkdtempSync(join(tmpdir(), "yrelay-verify-"));
let program;

before(() => {
  const messages = execFileSync("cargo", ["build", "--quiet", "--locked", "--package", "verify", "--message-format", "json"], { cwd: root, stdio: ["ignore", "pipe", "inherit"] });
  const artefacts = messages.toString().trim().split("\n").map((line) => JSON.parse(line));
  program = artefacts.find((artefact) => artefact.executable)?.executable;
  assert.ok(program, "cargo names the program");
});
after(() => rmSync(folder, { recursive: true }));

const base64 = (bytes) => Buffer.from(bytes).toString("base64").replaceAll("=", "");

/** Updates of a document with every kind of shared type, by two people. */
function updates() {
  const [ann, ben] = [1, 2].map((id) => Object.assign(new Y.Doc(), { clientID: id }));
  const made = [];
  const sync = (from, to) => Y.applyUpdate(to, Y.encodeStateAsUpdate(from, Y.encodeStateVector(to)));
  for (const doc of [ann, ben]) doc.on("update", (update, _origin, _doc, transaction) => transaction.local && made.push(update));
  ann.getText("t").insert(0, "hello 👍", { bold: true });
  sync(ann, ben);
  ben.getText("t").delete(1, 2);
  ben.getMap("m").set("k", new Y.Map([["n", 1], ["big", 5n], ["bytes", new Uint8Array([1])]]));
  ann.getArray("a").push([1, new Y.Text("x"), null]);
  const element = new Y.XmlElement("p");
  ann.getXmlFragment("x").insert(0, [element]);
  element.setAttribute("id", "1");
  element.insert(0, [new Y.XmlText("deep")]);
  return made;
}

function table(database, name, rows) {
  for (const row of rows) {
    const columns = Object.keys(row);
    database.prepare(`INSERT INTO ${name} (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`).run(...Object.values(row));
  }
}

/**
 * Two workspaces. In `w`, whose log was swept up to clock 2: a record; `doc` of one update in a row each, the
 * second in two; `moved/doc`, which is older than the log and was moved. `gone` is deleted.
 */
function healthy(file) {
  const database = new DatabaseSync(file);
  for (const name of readdirSync(join(root, "migrations")).sort()) database.exec(readFileSync(join(root, "migrations", name), "utf8"));
  table(database, "workspaces", [{ id: "w", created_at: 1 }, { id: "gone", created_at: 1, deleted_at: 2 }]);
  const parts = updates();
  const first = 4;
  const last = first + parts.length - 1;
  const change = (clock, kind, path, created = 0) => ({ workspace: "w", clock, kind, path, actor: "ann", at: 1, created });
  table(database, "change_log", [
    change(3, "put", "record", 1),
    ...parts.map((_, n) => change(first + n, "update", "doc", n === 0 ? 1 : 0)),
    change(last + 1, "delete", "old"),
    change(last + 2, "move", "moved"),
    { workspace: "gone", clock: 1, kind: "delete_workspace", path: "", actor: "ann", at: 1 },
  ]);
  const size = parts.reduce((sum, part) => sum + part.length, 0);
  const node = { workspace: "w", updated_at: 1 };
  table(database, "nodes", [{ ...node, path: "record", kind: "record", value: '{"a":1}', clock: 3 }]);
  table(database, "nodes", [{ ...node, path: "doc", kind: "document", clock: last, epoch: first, parts: parts.length + 1, size }]);
  const merged = Y.mergeUpdates(parts);
  table(database, "nodes", [{ ...node, path: "moved/doc", kind: "document", clock: last + 2, epoch: 1, base: 2, parts: 1, size: merged.length }]);
  const row = { workspace: "w", path: "doc" };
  parts.forEach((update, n) => {
    const chunks = n === 1 ? [update.subarray(0, 3), update.subarray(3)] : [update];
    table(database, "doc_updates", chunks.map((chunk, part) => ({ ...row, clock: first + n, part, data: base64(chunk) })));
  });
  table(database, "doc_updates", [{ workspace: "w", path: "moved/doc", clock: 2, part: 0, data: base64(merged) }]);
  return database;
}

function verify(...args) {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: "utf8", timeout: RUN_LIMIT });
  return { status, stdout, stderr };
}

/** As `wrangler d1 export` writes: the schema, and a statement a row. */
function dump(database) {
  const lines = ["PRAGMA defer_foreign_keys=TRUE;"];
  for (const { sql } of database.prepare("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type DESC").all()) lines.push(`${sql};`);
  for (const { name } of database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all()) {
    for (const row of database.prepare(`SELECT * FROM ${name}`).all()) {
      const literal = (value) => (value === null ? "NULL" : typeof value === "number" ? value : `'${value.replaceAll("'", "''")}'`);
      lines.push(`INSERT INTO "${name}" (${Object.keys(row).map((column) => `"${column}"`).join(",")}) VALUES(${Object.values(row).map(literal).join(",")});`);
    }
  }
  return lines.join("\n");
}

let made = 0;
function damaged(sql) {
  const file = join(folder, `${(made += 1)}.sqlite`);
  const database = healthy(file);
  if (sql) database.exec(sql);
  database.close();
  return file;
}

describe("cargo xtask verify", () => {
  test("a healthy database passes, as a file, as SQL and in a stack's folder", () => {
    const database = healthy(join(folder, "healthy.sqlite"));
    const sql = join(folder, "export.sql");
    writeFileSync(sql, dump(database));
    database.close();
    const d1 = join(folder, "data", "v3", "d1", "miniflare-D1DatabaseObject");
    mkdirSync(d1, { recursive: true });
    healthy(join(d1, "0a.sqlite")).close();
    writeFileSync(join(d1, "metadata.sqlite"), "");
    for (const args of [["--file", join(folder, "healthy.sqlite")], ["--file", sql], ["--data", join(folder, "data")]]) {
      const { status, stdout, stderr } = verify(...args);
      assert.equal(status, 0, stdout + stderr);
      assert.match(stdout, /2 workspaces, \d+ changes/);
      assert.match(stdout, /2 documents, .* equal by the core and Yjs: 2, by yrs too: 2\nno fault/);
    }
  });

  const damages = {
    "a missing chunk": ["DELETE FROM doc_updates WHERE path = 'doc' AND part = 0 AND clock = 5", /doc_updates w\/doc clock 5: part 0 is missing/],
    "a missing last chunk": ["DELETE FROM doc_updates WHERE path = 'doc' AND part = 1", /nodes w\/doc: it counts \d+ parts, and has \d+/],
    "a missing update, with counters that agree": [
      "DELETE FROM doc_updates WHERE path = 'doc' AND clock = 4; UPDATE nodes SET parts = parts - 1, size = (SELECT SUM(length(data)) * 3 / 4 FROM doc_updates WHERE path = 'doc') WHERE path = 'doc'",
      /doc_updates w\/doc: it has a hole/,
    ],
    "a gap in the log": ["DELETE FROM change_log WHERE workspace = 'w' AND clock = 5", /change_log w clock 6: clocks 5 to 5 are missing/],
    "an update that is cut": [
      "UPDATE doc_updates SET data = substr(data, 1, 8) WHERE path = 'moved/doc'; UPDATE nodes SET size = 6 WHERE path = 'moved/doc'",
      /doc_updates w\/moved\/doc clock 2: it is no Yjs update/,
    ],
    "bytes that are lost": ["UPDATE doc_updates SET data = substr(data, 1, 8) WHERE path = 'moved/doc'", /nodes w\/moved\/doc: it counts \d+ bytes, and has 6/],
    "an update that is not base64": ["UPDATE doc_updates SET data = '!!' WHERE path = 'moved/doc'", /doc_updates w\/moved\/doc clock 2: part 0 is not base64/],
    "an epoch that is too high": ["UPDATE nodes SET epoch = 5 WHERE path = 'doc'", /nodes w\/doc: its epoch 5 is not the clock of a change that began it[^]*doc_updates w\/doc clock 4: is older/],
    "an epoch that is too low": ["UPDATE nodes SET epoch = 3 WHERE path = 'doc'", /nodes w\/doc: its epoch 3 is not the clock/],
    "no epoch": ["UPDATE nodes SET epoch = 0, base = 0 WHERE path = 'moved/doc'", /nodes w\/moved\/doc: its epoch 0/],
    "a base past the clock": ["UPDATE nodes SET base = 99 WHERE path = 'moved/doc'", /nodes w\/moved\/doc: its base 99/],
    "updates without a document": ["DELETE FROM nodes WHERE path = 'doc'", /doc_updates w\/doc: \d+ rows of a document that is not there/],
    "rows without a workspace": ["DELETE FROM workspaces WHERE id = 'w'", /change_log w: \d+ rows of a workspace[^]*nodes w: 3 rows of a workspace/],
    "presence without a workspace": ["INSERT INTO presence VALUES ('x', 's', 'human', 't', NULL, 1)", /presence x: 1 rows of a workspace/],
    "a head that is behind": ["DELETE FROM change_log WHERE workspace = 'w' AND clock > 5", /nodes w\/doc: its clock \d+ is past the head 5/],
    "a log that is gone": ["DELETE FROM change_log WHERE workspace = 'w'", /nodes w\/record: its workspace has no log/],
    "a clock of another change": ["UPDATE nodes SET clock = 4 WHERE path = 'record'", /nodes w\/record: its clock 4 is that of a change of `doc`/],
    "a record that is not JSON": ["UPDATE nodes SET value = '{' WHERE path = 'record'", /nodes w\/record: its value is not JSON/],
    "a record without a value": ["UPDATE nodes SET value = NULL WHERE path = 'record'", /nodes w\/record: its value is not JSON: it has no value/],
    "an unknown kind of change": ["UPDATE change_log SET kind = 'paint' WHERE workspace = 'w' AND clock = 3", /change_log w clock 3: 1 rows have the unknown kind `paint`/],
    "an unknown kind of node": ["UPDATE nodes SET kind = 'folder' WHERE path = 'record'", /nodes w\/record: the kind `folder` is unknown/],
    "a deletion that is not logged": ["UPDATE workspaces SET deleted_at = 1 WHERE id = 'w'", /workspaces w: deleted_at and the log's/],
  };
  for (const [name, [sql, expected]] of Object.entries(damages)) {
    test(`${name} is named`, () => {
      const { status, stdout, stderr } = verify("--file", damaged(sql));
      assert.match(stdout, expected, stderr);
      assert.equal(status, 1, stdout + stderr);
    });
  }

  test("what is no database of yrelay cannot be verified", () => {
    const empty = join(folder, "empty.sqlite");
    new DatabaseSync(empty).exec("CREATE TABLE other (a)");
    for (const args of [[], ["--file", empty], ["--file", join(folder, "none")], ["--data", folder], ["--bogus"]]) {
      const { status, stderr } = verify(...args);
      assert.equal(status, 2, stderr);
      assert.match(stderr, /^(.*\n)*verify: ./);
    }
  });
});

describe("the comparison with Yjs", () => {
  const compare = (request) => {
    const node = spawnSync(process.execPath, [join(root, "tools", "compare-documents.mjs")], { input: `${JSON.stringify(request)}\n`, encoding: "utf8", timeout: RUN_LIMIT });
    return JSON.parse(node.stdout).fault;
  };
  const whole = (change) => {
    const doc = new Y.Doc();
    doc.clientID = 9;
    change(doc);
    return Buffer.from(Y.encodeStateAsUpdate(doc)).toString("base64");
  };

  test("a reader with other content is found, at the same clocks and at others", () => {
    const text = (text, attributes) => whole((doc) => doc.getText("t").insert(0, text, attributes));
    const ask = (own, other) => compare({ updates: [own], states: { other } });
    assert.equal(ask(text("abc"), text("abc")), null);
    assert.match(ask(text("abc"), text("abd")), /its content by other/);
    assert.match(ask(text("abc"), text("ab")), /another state vector/);
    assert.match(ask(text("abc", { bold: true }), text("abc", { bold: false })), /its content by other/);
    assert.match(ask(whole((doc) => doc.getMap("m").set("k", 1)), whole((doc) => doc.getMap("m").set("k", 2))), /its content/);
    assert.match(compare({ updates: [text("abc")], states: {}, vector: "AA==" }), /state vector is another one/);
    assert.match(compare({ updates: ["AQID"], states: {} }), /Yjs does not take it/);
  });
});
