// A migration as the next release may bring it, made from the schema that is there, so that a table of
// tomorrow is in it; and what that release would have written by it, which the release before must leave alone.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

const NAME = "9999_next_release.sql";

/** Opens the database below the data folder of a stack, which must have stopped. */
export function openDatabase(dataDir) {
  const folder = join(dataDir, "v3", "d1", "miniflare-D1DatabaseObject");
  const files = readdirSync(folder).filter((name) => name.endsWith(".sqlite") && name !== "metadata.sqlite");
  assert.equal(files.length, 1, "one database");
  return new DatabaseSync(join(folder, files[0]));
}

/** Our tables: neither those of SQLite and the platform, nor the book of migrations. */
export function tablesOf(database) {
  const all = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").all().map(({ name }) => name);
  return all.filter((name) => !/^(sqlite_|_cf_)/.test(name) && name !== "d1_migrations");
}

const columnsOf = (database, table) => database.prepare("SELECT name, pk, \"notnull\" AS must FROM pragma_table_info(?)").all(table);

/** What has no data yet: tables without a row, and columns that may be NULL and are. */
export function emptyPlaces(database) {
  return tablesOf(database).flatMap((table) => {
    const optional = columnsOf(database, table).filter(({ must }) => !must).map(({ name }) => name);
    const counts = database.prepare(`SELECT count(*) AS "*" ${optional.map((name) => `, count("${name}") AS "${name}"`).join("")} FROM "${table}"`).get();
    return Object.entries(counts).filter(([, count]) => count === 0).map(([name]) => `${table}.${name}`);
  });
}

/** The SQL of a migration that does to every table what a migration may do. */
export function nextMigration(database) {
  const changes = tablesOf(database).flatMap((table) => [
    `ALTER TABLE ${table} ADD COLUMN next_note TEXT`,
    `ALTER TABLE ${table} ADD COLUMN next_count INTEGER NOT NULL DEFAULT 7`,
    `CREATE INDEX next_${table} ON ${table} (next_count, next_note)`,
  ]);
  return `${[...changes, "CREATE TABLE next_things (workspace TEXT NOT NULL, thing TEXT NOT NULL, PRIMARY KEY (workspace, thing)) WITHOUT ROWID"].join(";\n")};\n`;
}

/** Applies it as `wrangler d1 migrations apply` does, and fills what is new, as the next release would. */
export function migrate(database, sql) {
  const tables = tablesOf(database);
  database.exec("BEGIN");
  database.exec(sql);
  database.prepare("INSERT INTO d1_migrations (name) VALUES (?)").run(NAME);
  for (const table of tables) database.exec(`UPDATE ${table} SET next_note = 'of the next release', next_count = 8`);
  database.exec("INSERT INTO next_things VALUES ('lives', 'thing')");
  database.exec("COMMIT");
}

/** The rows of every table by their keys, with what the next release wrote there. */
export function nextValues(database) {
  return Object.fromEntries(tablesOf(database).filter((table) => table !== "next_things").map((table) => {
    const keys = columnsOf(database, table).filter(({ pk }) => pk).map(({ name }) => name);
    const rows = database.prepare(`SELECT ${keys}, next_note, next_count FROM ${table}`).all();
    return [table, new Map(rows.map(({ next_note, next_count, ...key }) => [JSON.stringify(key), `${next_note} ${next_count}`]))];
  }));
}
