// Applies migrations/*.sql to a local D1 database. It keeps the same book as `wrangler d1 migrations`
// (table d1_migrations), so either can go on where the other stopped.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

const BOOK = `CREATE TABLE IF NOT EXISTS d1_migrations(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT UNIQUE,
  applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL
)`;

/** Applies what is new in `dir`, each file in one transaction with its line in the book; returns the names. */
export async function migrate(db, dir) {
  await db.prepare(BOOK).run();
  const { results } = await db.prepare("SELECT name FROM d1_migrations").all();
  const done = new Set(results.map((row) => row.name));
  const names = readdirSync(dir).filter((name) => name.endsWith(".sql")).sort();
  const fresh = names.filter((name) => !done.has(name));
  for (const name of fresh) {
    // Local D1 runs all statements of one text, so the file needs no splitting here.
    const statements = [
      db.prepare(readFileSync(join(dir, name), "utf8")),
      db.prepare("INSERT INTO d1_migrations (name) VALUES (?)").bind(name),
    ];
    await db.batch(statements).catch((error) => {
      throw new Error(`migration ${name}: ${error.message}`, { cause: error });
    });
  }
  return fresh;
}
