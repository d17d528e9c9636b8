// The release before on the schema of the next: the built Worker plays it. `cargo xtask rollback` does the
// same with two builds.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { objections } from "../../tools/migration-policy.mjs";
import { Lives } from "./support/lives.mjs";
import { emptyPlaces, migrate, nextMigration, nextValues, openDatabase } from "./support/next-release.mjs";
import { startCf } from "./support/relays.mjs";
import { verified } from "./support/verified.mjs";

test("A.36 A.87 A.88 the Worker runs on the schema of a next release as on its own, and leaves alone what that release wrote", { timeout: 120_000 }, async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), "yrelay-rollback-"));
  const lives = new Lives();
  const run = async (label) => {
    const relay = await startCf({ dataDir });
    try {
      await lives.run(relay, label);
    } finally {
      // Not the relay: that would end the people who stay.
      await relay.stack.stop();
    }
    await verified(dataDir);
  };
  const withDatabase = (work) => {
    const database = openDatabase(dataDir);
    try {
      return work(database);
    } finally {
      database.close();
    }
  };
  try {
    await run("its own schema");
    const before = withDatabase((database) => {
      assert.deepEqual(emptyPlaces(database), [], "each table and column has data: give a new one a write in support/writes.mjs");
      const sql = nextMigration(database);
      assert.deepEqual(objections(sql), [], "the migration is one that may be deployed");
      assert.ok(database.prepare("SELECT base FROM nodes WHERE path = 'many'").get().base > 0, "a document is a checkpoint and what came later");
      migrate(database, sql);
      return nextValues(database);
    });
    await run("the schema of the next release");
    withDatabase((database) => {
      let kept = 0;
      for (const [table, rows] of Object.entries(nextValues(database))) {
        for (const [key, value] of rows) {
          const old = before[table].get(key);
          if (old !== undefined) kept += 1;
          assert.equal(value, old ?? "null 7", `${table} ${key}`);
        }
      }
      assert.deepEqual(database.prepare("SELECT * FROM next_things").all().map((row) => ({ ...row })), [{ workspace: "lives", thing: "thing" }]);
      t.diagnostic(`${kept} rows of the next release are there, with what it wrote`);
    });
  } finally {
    await lives.end();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  }
});
