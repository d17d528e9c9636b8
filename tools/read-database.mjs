// Reads a database of yrelay for `cargo xtask verify`: facts as JSON, one a line; it judges nothing.
//
//   node tools/read-database.mjs FILE        a SQLite file, or the SQL that `wrangler d1 export` wrote
import { openSync, readFileSync, readSync, closeSync, writeSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";

const MAGIC = "SQLite format 3\0";
const TABLES = ["workspaces", "nodes", "doc_updates", "change_log", "presence", "signals"];
/** Faults of one kind and workspace that are listed; a log with a hole has it once. */
const MOST_LISTED = 20;

const SELECT_WORKSPACES = `
  SELECT w.id, w.deleted_at IS NOT NULL AS deleted, COUNT(c.clock) AS changes,
         MIN(c.clock) AS first, MAX(c.clock) AS head,
         SUM(c.kind = 'delete_workspace') AS deletions
  FROM workspaces w LEFT JOIN change_log c ON c.workspace = w.id GROUP BY w.id ORDER BY w.id`;

const SELECT_GAPS = `
  SELECT workspace, clock, before FROM (
    SELECT workspace, clock, LAG(clock) OVER (PARTITION BY workspace ORDER BY clock) AS before FROM change_log)
  WHERE clock <> before + 1`;

const SELECT_KINDS = `SELECT workspace, kind, MIN(clock) AS clock, COUNT(*) AS count FROM change_log GROUP BY workspace, kind`;

// The change at a node's clock, and at its epoch: NULL when the log no longer, or never, had it.
const SELECT_NODES = `
  SELECT n.workspace, n.path, n.kind, n.value, n.clock, n.epoch, n.base, n.parts, n.size,
         own.path AS changePath, began.kind AS epochKind, began.created AS epochCreated
  FROM nodes n
  LEFT JOIN change_log own ON own.workspace = n.workspace AND own.clock = n.clock
  LEFT JOIN change_log began ON began.workspace = n.workspace AND began.clock = n.epoch
  ORDER BY n.workspace, n.path`;

const SELECT_PARTS = `SELECT clock, part, data FROM doc_updates WHERE workspace = ? AND path = ? ORDER BY clock, part`;

const SELECT_ORPHANS = [
  ...["change_log", "nodes", "presence", "signals"].map((table) => ({
    table,
    sql: `SELECT workspace, COUNT(*) AS count FROM ${table} WHERE workspace NOT IN (SELECT id FROM workspaces) GROUP BY workspace`,
  })),
  {
    table: "doc_updates",
    sql: `SELECT u.workspace, u.path, COUNT(*) AS count FROM doc_updates u
          LEFT JOIN nodes n ON n.workspace = u.workspace AND n.path = u.path AND n.kind = 'document'
          WHERE n.path IS NULL GROUP BY u.workspace, u.path`,
  },
];

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
  for (const row of database.prepare(SELECT_WORKSPACES).iterate()) say({ fact: "workspace", ...row });
  for (const row of database.prepare(SELECT_GAPS).iterate()) say({ fact: "gap", ...row });
  for (const row of database.prepare(SELECT_KINDS).iterate()) say({ fact: "kind", ...row });
  for (const { table, sql } of SELECT_ORPHANS) {
    for (const row of database.prepare(sql).iterate()) say({ fact: "orphan", table, ...row });
  }
  const parts = database.prepare(SELECT_PARTS);
  for (const { value, ...row } of database.prepare(SELECT_NODES).iterate()) {
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
