// What operators are told is what there is: every variable and every series has its line, migrations leave the
// version before working, and what removes a workspace removes all of it.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { objections } from "./migration-policy.mjs";
import { ROOT } from "./wrangler-config.mjs";

const read = (...names) => readFileSync(join(ROOT, ...names), "utf8");
const matches = (text, pattern) => [...new Set([...text.matchAll(pattern)].map(([, name]) => name))];
const documented = (name, text) => new RegExp(`\\b${name}\\b`).test(text);
const migrations = readdirSync(join(ROOT, "migrations")).sort().map((name) => ({ name, sql: read("migrations", name).replace(/--.*$/gm, "") }));

test("A.87 every variable of the Worker and of the Deno relay is documented", () => {
  const worker = matches(read("src", "edge", "config.rs"), /const \w+: &str = "([A-Z_]+)";/g);
  const deno = matches(read("relay-deno", "config.ts"), /"(RELAY_[A-Z_]+)"/g);
  assert.ok(worker.length >= 10 && deno.length >= 14, "the sources are read as they are written");
  const operations = read("docs", "OPERATIONS.md") + read("wrangler.toml");
  assert.deepEqual(worker.filter((name) => !documented(name, operations)), []);
  assert.deepEqual(deno.filter((name) => !documented(name, read("relay-deno", "README.md"))), []);
});

test("A.32 A.87 every series of the Deno relay is documented, and no other", () => {
  const source = read("relay-deno", "metrics.ts");
  const emitted = matches(source, /\b(?:gauge|one|by)\(\s*"([a-z_]+)"/g);
  const table = matches(read("relay-deno", "README.md").split("## Metrics")[1].split("\n## ")[0], /`yrelay_([a-z_]+)`/g);
  assert.ok(emitted.length >= 20, "the sources are read as they are written");
  assert.deepEqual(table.sort(), emitted.sort());
});

test("A.36 A.88 migrations only add, so that the version before works on the schema of the next", () => {
  for (const { name, sql } of migrations) assert.deepEqual(objections(sql), [], name);
  const refused = [
    "DROP TABLE nodes",
    "ALTER TABLE nodes RENAME COLUMN value TO json",
    "ALTER TABLE nodes DROP COLUMN value",
    "ALTER TABLE nodes ADD COLUMN tag TEXT NOT NULL",
    "ALTER TABLE nodes ADD COLUMN owner TEXT REFERENCES workspaces (id)",
    "UPDATE nodes SET value = upper(value)",
    "CREATE TRIGGER t AFTER INSERT ON nodes BEGIN SELECT 1",
    "CREATE UNIQUE INDEX one ON nodes (workspace, value)",
  ];
  for (const sql of refused) assert.equal(objections(`CREATE TABLE fine (id TEXT);\n${sql};`).length, 1, sql);
});

test("A.86 what removes a deleted workspace leaves its entry, nothing else of it, and all of another one", () => {
  const database = new DatabaseSync(":memory:");
  for (const { sql } of migrations) database.exec(sql);
  const tables = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all().map(({ name }) => name);
  const columns = (table) => database.prepare("SELECT name, type, \"notnull\" AS must FROM pragma_table_info(?)").all(table);
  for (const table of tables) {
    for (const workspace of ["W", "other"]) {
      const given = columns(table).filter(({ must, name }) => must || name === "workspace");
      const values = given.map(({ name, type }) => (type === "INTEGER" ? 1 : ["workspace", "id"].includes(name) ? workspace : "x"));
      database.prepare(`INSERT INTO ${table} (${given.map(({ name }) => name)}) VALUES (${given.map(() => "?")})`).run(...values);
    }
  }
  const [, purge] = /```sql\n(DELETE FROM nodes[^`]*)```/.exec(read("docs", "OPERATIONS.md"));
  database.exec(purge);
  const left = (workspace) => tables.filter((table) => {
    const names = columns(table).map(({ name }) => name);
    const owner = names.includes("workspace") ? "workspace" : "id";
    return database.prepare(`SELECT count(*) AS n FROM ${table} WHERE ${owner} = ?`).get(workspace).n > 0;
  });
  assert.deepEqual(left("W"), ["workspaces"]);
  assert.deepEqual(left("other").sort(), tables.sort());
});
