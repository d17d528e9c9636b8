import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { publicScopeKey } from "./scope-key.mjs";

// The first test of RFC 8032, section 7.1.
const SEED = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A";
const PUBLIC = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

test("a seed gives its public key", () => {
  assert.equal(publicScopeKey(SEED), PUBLIC);
});

test("the command reads the seed from its input and never prints it", () => {
  const run = (input) => spawnSync(process.execPath, [join(import.meta.dirname, "scope-key.mjs")], { input, encoding: "utf8", timeout: 20_000 });
  assert.deepEqual([run(`${SEED}\n`).stdout, run(`${SEED}\n`).status], [`${PUBLIC}\n`, 0]);
  const bad = run("short-secret");
  assert.equal(bad.status, 2);
  assert.ok(!bad.stderr.includes("short-secret"), bad.stderr);
});
