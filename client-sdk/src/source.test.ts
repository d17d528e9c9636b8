// Rules about the sources themselves, which no type says.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join, posix } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const FOLDER = fileURLToPath(new URL(".", import.meta.url));
const SOURCES = readdirSync(FOLDER, { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))
  .map((name) => ({ name: name.replaceAll("\\", "/"), text: readFileSync(join(FOLDER, name), "utf8") }));
/** Without comments, which may name anything. */
const code = (text: string) => text.replaceAll(/^\s*(\/\/|\/?\*).*$/gm, "").replaceAll(/\/\/ .*$/gm, "");

test("B09 only Yjs and y-protocols are imported, which the application brings, and idb, which does not know Yjs; React and ESLint by their own entries", () => {
  const tool = ["node:fs", "node:url"];
  const ofEntry: Record<string, readonly string[]> = { lint: ["eslint", "estree"], react: ["react"] };
  for (const { name, text } of SOURCES) {
    const imports = [...text.matchAll(/from "([^"]+)"/g)].map((match) => match[1]!);
    const allowed = (from: string) => /^\.\.?\//.test(from) || from === "yjs" || from === "y-protocols/awareness" || from === "idb" || (name === "check-relays.ts" && tool.includes(from)) || ofEntry[name.split("/")[0]!]?.includes(from);
    assert.deepEqual(imports.filter((from) => !allowed(from)), [], name);
  }
  const { peerDependencies, dependencies } = JSON.parse(readFileSync(`${FOLDER}/../package.json`, "utf8"));
  assert.deepEqual([Object.keys(peerDependencies), Object.keys(dependencies)], [["eslint", "react", "y-protocols", "yjs"], ["idb"]]);
});

/** Every file and package that an entry leads to. */
function reachedFrom(entry: string): ReadonlySet<string> {
  const reached = new Set<string>();
  const visit = (name: string) => {
    if (reached.has(name)) return;
    reached.add(name);
    const { text } = SOURCES.find((source) => source.name === name)!;
    for (const [, from] of text.matchAll(/from "([^"]+)"/g)) {
      if (from!.startsWith(".")) visit(posix.join(posix.dirname(name), from!));
      else reached.add(from!);
    }
  };
  visit(entry);
  return reached;
}

test("the entries without Yjs do not reach Yjs", () => {
  for (const [entry, part] of [["relay.ts", "relay-walker.ts"], ["agent/index.ts", "feed/change-feed.ts"]] as const) {
    const reached = reachedFrom(entry);
    assert.ok(reached.has(part));
    assert.deepEqual([...reached].filter((name) => name === "yjs" || name.startsWith("y-")), []);
  }
});

test("an agent holds no WebSocket and no relay", () => {
  const others = [...reachedFrom("agent/index.ts")].filter((name) => !/^(agent|api|feed)\//.test(name));
  assert.deepEqual(others.sort(), ["browser.ts", "json.ts", "timer.ts", "token-source.ts"]);
});

test("time, chance and the console are taken from the environment, and nothing repeats by itself", () => {
  const banned = [/\bsetInterval\b/, /\bDate\.now\b/, /\bMath\.random\b/, /(?<![.\w])setTimeout\(/, /\bconsole\./];
  for (const { name, text } of SOURCES) {
    // The rules of the plugin name what they ban.
    if (name === "browser.ts" || name === "check-relays.ts" || name.startsWith("lint/")) continue;
    for (const pattern of banned) assert.doesNotMatch(code(text), pattern, name);
  }
});

test("the walker is pure: it imports its own parts only", () => {
  for (const { name, text } of SOURCES) {
    if (!/^(relay-walker|walker-.*|close-codes)\.ts$/.test(name)) continue;
    const imports = [...text.matchAll(/from "([^"]+)"/g)].map((match) => match[1]!);
    assert.deepEqual(imports.filter((from) => !/^\.\/(relay-walker|walker-table|walker-moves|close-codes)\.ts$/.test(from)), [], name);
    assert.doesNotMatch(code(text), /\b(async|await|globalThis|new Date)\b/, name);
  }
});
