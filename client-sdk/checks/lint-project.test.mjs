// C.66: the rules hold a project up. Its files violate one rule each, and ESLint runs as a build runs it.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const PROJECT = fileURLToPath(new URL("lint-project", import.meta.url));
const ESLINT = fileURLToPath(new URL("../../node_modules/eslint/bin/eslint.js", import.meta.url));

/** For a busy machine, in ms. */
const PATIENCE = 60_000;

const VIOLATIONS = {
  "fetches.js": "yrelay/no-raw-fetch",
  "flushes.js": "yrelay/coalesced-apply-op",
  "makes-doc.js": "yrelay/no-new-doc",
  "polls.js": "yrelay/no-timers",
};

function lint(...files) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [ESLINT, "--format", "json", ...files], { cwd: PROJECT, encoding: "utf8", timeout: PATIENCE });
  assert.equal(stderr, "");
  return { status, messages: JSON.parse(stdout).flatMap(({ messages }) => messages) };
}

for (const [file, rule] of Object.entries(VIOLATIONS)) {
  test(`${rule} turns the build red`, () => {
    const { status, messages } = lint(file);
    assert.deepEqual([status, messages.map(({ ruleId }) => ruleId)], [1, [rule]]);
  });
}

test("code that keeps the rules is green", () => {
  assert.deepEqual(lint("clean.js"), { status: 0, messages: [] });
});

test("every rule of the plugin has a violation here", async () => {
  const { default: plugin } = await import("yrelay-client/lint");
  assert.deepEqual(Object.values(VIOLATIONS).sort(), Object.keys(plugin.rules).map((name) => `yrelay/${name}`).sort());
  assert.deepEqual(Object.keys(plugin.configs.recommended.rules).sort(), Object.values(VIOLATIONS).sort());
});
