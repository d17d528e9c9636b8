// The package as npm packs it: what it exports is there, and has types for it.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const PACKAGE = fileURLToPath(new URL("..", import.meta.url));
const PROGRAMS = join(PACKAGE, "..", "node_modules");

/** The programs pack a package of some hundred files; this is for a busy machine. In ms. */
const PATIENCE = 120_000;

function run(program, args) {
  const { status, stdout, stderr, error } = spawnSync(process.execPath, [join(PROGRAMS, program), ...args], { cwd: PACKAGE, encoding: "utf8", timeout: PATIENCE });
  assert.equal(status, 0, `${error ?? ""}${stdout}${stderr}`);
  return stdout;
}

test("publint has nothing to say", () => {
  assert.match(run("publint/src/cli.js", ["run", "--strict", "--pack", "npm"]), /All good/);
});

test("each export has the types of its code, for Node's modules and for bundlers", () => {
  // CommonJS is not served (docs/decisions/0017).
  const told = JSON.parse(run("@arethetypeswrong/cli/dist/index.js", ["--pack", ".", "--profile", "esm-only", "--no-definitely-typed", "--format", "json"]));
  const entries = Object.keys(told.analysis.entrypoints);
  assert.deepEqual(entries.sort(), Object.keys(manifest().exports).sort());
});

test("each export can be imported, and no more than the entries can", async () => {
  for (const entry of Object.keys(manifest().exports)) {
    const module = await import(`yrelay-client${entry.slice(1)}`);
    assert.ok(Object.keys(module).length > 0, entry);
  }
  await assert.rejects(import("yrelay-client/dist/ops/sender.js"), { code: "ERR_PACKAGE_PATH_NOT_EXPORTED" });
  // What writes past the coalescer stays inside.
  assert.deepEqual(["Api", "Ops", "senderOf"].filter((name) => name in all), []);
});
const all = await import("yrelay-client");

test("what an optional entry needs is an optional peer", () => {
  const { dependencies, peerDependencies, peerDependenciesMeta } = manifest();
  assert.deepEqual(Object.keys(dependencies), ["idb"]);
  for (const name of Object.keys(peerDependencies)) assert.equal(peerDependenciesMeta[name]?.optional, true, name);
});

function manifest() {
  return JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8"));
}
