// The page is an example: what it needs of a workspace it has from the SDK.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const FOLDER = fileURLToPath(new URL(".", import.meta.url));
const SOURCES = readdirSync(FOLDER).filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"));

test("S3 no part has a timer, a socket, a stream or a database of its own, and only the session is fetched", () => {
  assert.ok(SOURCES.includes("main.ts"));
  for (const name of SOURCES) {
    const text = readFileSync(join(FOLDER, name), "utf8");
    assert.doesNotMatch(text, /\b(setTimeout|setInterval|requestIdleCallback|WebSocket|EventSource|XMLHttpRequest|indexedDB|BroadcastChannel)\b/, name);
    if (name !== "session.ts") assert.doesNotMatch(text, /\bfetch\(/, name);
    const reached = [...text.matchAll(/from "(\.\.[^"]+)"/g)].map((match) => match[1]);
    for (const from of reached) assert.match(from!, /^\.\.\/src\/(agent\/)?index\.ts$/, `${name} uses what is public`);
  }
});
