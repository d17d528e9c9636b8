// What `cargo xtask rollback` runs once both releases are built: the release before, this one, the release
// before again and this one again, on one data folder. Each brings its own migrations, so the third runs on
// the schema of this one.
//
//   node tests/e2e/support/rollback-run.mjs FOLDER NAME       of the release before
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { objections } from "../../../tools/migration-policy.mjs";
import { startStack } from "../../../tools/stack.mjs";
import { ROOT } from "../../../tools/wrangler-config.mjs";
import { Lives } from "./lives.mjs";
import { startCf } from "./relays.mjs";
import { verified } from "./verified.mjs";

function migrationsOf(root) {
  const folder = join(root, "migrations");
  const names = readdirSync(folder).filter((name) => name.endsWith(".sql")).sort();
  // Comments change nothing.
  return new Map(names.map((name) => [name, readFileSync(join(folder, name), "utf8").replaceAll(/--.*$/gm, "").replaceAll(/\s+/g, " ").trim()]));
}

/** Fails unless this release's migrations are those of the release before and some that add; returns those. */
function checkMigrations(before) {
  const old = migrationsOf(before);
  const now = migrationsOf(ROOT);
  for (const [name, sql] of old) {
    if (now.get(name) !== sql) throw new Error(`migration ${name} is ${now.has(name) ? "another one" : "gone"}: it was applied by the release before, and will not be again`);
  }
  const added = [...now].filter(([name]) => !old.has(name));
  for (const [name, sql] of added) {
    for (const objection of objections(sql)) throw new Error(`migration ${name}: ${objection}`);
  }
  return added.map(([name]) => name);
}

async function main(folder, name) {
  const added = checkMigrations(folder);
  console.log(`rollback: migrations after ${name}: ${added.join(", ") || "none"}`);
  const { startStack: startBefore } = await import(pathToFileURL(join(folder, "tools", "stack.mjs")));
  const before = { label: name, start: startBefore };
  const now = { label: "this tree", start: startStack };
  const dataDir = mkdtempSync(join(tmpdir(), "yrelay-rollback-"));
  const lives = new Lives();
  try {
    for (const { label, start } of [before, now, before, now]) {
      const relay = await startCf({ dataDir }, start);
      try {
        await lives.run(relay, label);
      } finally {
        // Not the relay: that would end the people who stay.
        await relay.stack.stop();
      }
      // The verifier is that of this tree, and knows its schema only.
      if (lives.life > 1) await verified(dataDir);
      console.log(`rollback: ${lives.label}: ${lives.summary()}`);
    }
  } catch (error) {
    console.error(`rollback: the database is left in ${dataDir}`);
    throw error;
  } finally {
    await lives.end();
  }
  rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  console.log(`rollback: ${name} can be rolled back to`);
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(`rollback: ${error.message}`);
  process.exitCode = 1;
});
