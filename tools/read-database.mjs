// Reads a database of yrelay for `cargo xtask verify`: facts as JSON, one a line; it judges nothing.
//
//   node tools/read-database.mjs FILE        a SQLite file, or the SQL that `wrangler d1 export` wrote
import { openSync, readFileSync, readSync, closeSync, writeSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";

const MAGIC = "SQLite format 3\0";
const TABLES = ["workspaces", "nodes", "doc_updates", "change_log", "presence", "signals"];
/** Faults of one kind and workspace that are listed; a log with a hole has it once. */
const MOST_LISTED = 20;

/** The statements of read-database.sql, by name. */
const STATEMENTS = new Map(
  readFileSync(new URL("read-database.sql", import.meta.url), "utf8")
    .split("-- name: ")
    .slice(1)
    .map((part) => [part.slice(0, part.indexOf("\n")), part.slice(part.indexOf("\n")).replace(/^--.*$/gm, "")]),
);
const WITH_WORKSPACE = ["change_log", "nodes", "presence", "signals"];

/** To the end, also into a pipe that is full: a line may be a document. */
function say(fact) {
  let rest = Buffer.from(`${JSON.stringify(fact)}\n`);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(1, rest));
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

function isSqlite(file) {
  const head = Buffer.alloc(MAGIC.length);
  const descriptor = openSync(file, "r");
  readSync(descriptor, head);
  closeSync(descriptor);
  return head.toString("latin1") === MAGIC;
}

function open(file) {
  if (isSqlite(file)) return new DatabaseSync(file, { readOnly: true });
  const database = new DatabaseSync(":memory:");
  database.exec(readFileSync(file, "utf8"));
  return database;
}

/** JSON of a record is checked here, where it need not be sent. */
function valueFault(value) {
  if (value === null) return "it has no value";
  try {
    JSON.parse(value);
    return null;
  } catch (error) {
    return error.message;
  }
}

function read(database) {
  // One moment, also of a stack that is running.
  database.exec("BEGIN");
  const names = new Set(database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all().map((row) => row.name));
  const missing = TABLES.filter((table) => !names.has(table));
  if (missing.length > 0) throw new Error(`no database of yrelay, or migrations are missing: no table ${missing.join(", ")}`);
  for (const row of database.prepare(`PRAGMA quick_check(${MOST_LISTED})`).iterate()) {
    if (row.quick_check !== "ok") say({ fact: "damaged", message: row.quick_check });
  }
  const select = (name, table = "") => database.prepare(STATEMENTS.get(name).replace("TABLE", table));
  for (const row of select("workspaces").iterate()) say({ fact: "workspace", ...row });
  for (const row of select("gaps").iterate()) say({ fact: "gap", ...row });
  for (const row of select("kinds").iterate()) say({ fact: "kind", ...row });
  for (const table of WITH_WORKSPACE) {
    for (const row of select("orphans of workspaces, in TABLE", table).iterate()) say({ fact: "orphan", table, ...row });
  }
  for (const row of select("orphans of documents").iterate()) say({ fact: "orphan", table: "doc_updates", ...row });
  const parts = select("parts");
  for (const { value, ...row } of select("nodes").iterate()) {
    const isDocument = row.kind === "document";
    const content = isDocument ? { updates: parts.all(row.workspace, row.path) } : { valueFault: valueFault(value) };
    say({ fact: "node", ...row, ...content });
  }
  // What was cut off is not taken for the whole.
  say({ fact: "end" });
}

try {
  read(open(process.argv[2]));
} catch (error) {
  console.error(`${process.argv[2]}: ${error.message}`);
  process.exit(2);
}
