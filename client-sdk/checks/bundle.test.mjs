// What a page pays for the SDK: the package that was built, through its exports, as a bundler takes it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const PACKAGE = fileURLToPath(new URL("..", import.meta.url));

/** Packages that the application brings and would have without the SDK. */
const BROUGHT = ["react", "y-protocols", "yjs"];

/** Not the SDK's code either, but it comes with it; told apart so that its growth is not taken for ours. */
const LIBRARIES = ["idb"];

/** What a page pays for all that it needs of a workspace, minified, at most, in bytes of gzip. */
const CORE_LIMIT = 25 * 1024;

/** A program as a bundler makes it for production, with the files that it took something from. */
async function bundle(program, external = BROUGHT) {
  const { outputFiles, metafile } = await build({
    stdin: { contents: program, resolveDir: PACKAGE },
    bundle: true,
    write: false,
    metafile: true,
    minify: true,
    format: "esm",
    target: "es2022",
    platform: "browser",
    external: external.flatMap((name) => [name, `${name}/*`]),
  });
  const [output] = Object.values(metafile.outputs);
  const files = Object.entries(output.inputs).filter(([, { bytesInOutput }]) => bytesInOutput > 0);
  return { size: gzipSync(outputFiles[0].contents, { level: 9 }).length, files: files.map(([file]) => file) };
}

const has = ({ files }, part) => files.some((file) => file.endsWith(part));

test("the core is within its limit, without Yjs and what else the application brings", async (t) => {
  const core = await bundle('export { WorkspaceClient } from "yrelay-client";', [...BROUGHT, ...LIBRARIES]);
  const whole = await bundle('export * from "yrelay-client";');
  t.diagnostic(`WorkspaceClient ${core.size} B gzip, limit ${CORE_LIMIT} B; every export with idb ${whole.size} B`);
  assert.ok(has(core, "dist/workspace-client.js") && has(core, "dist/relay-socket.js"), "it is the client");
  assert.ok(!has(core, "dist/p2p.js"), "without WebRTC, which is a part of its own");
  assert.ok(core.size <= CORE_LIMIT, `the core is ${core.size} B gzip, over ${CORE_LIMIT} B`);
});

test("who takes a part gets that part", async (t) => {
  const parts = [
    ['export { RelayWalker } from "yrelay-client";', "dist/relay-walker.js"],
    ['export { RelayWalker } from "yrelay-client/relay";', "dist/relay-walker.js"],
    ['export { parseRelayList } from "yrelay-client";', "dist/relay-list.js"],
    ['export { SyncProvider } from "yrelay-client";', "dist/sync-provider.js"],
    ['export { WorkspaceAgent } from "yrelay-client/agent";', "dist/agent/workspace-agent.js"],
    ['export { webRtc } from "yrelay-client/p2p";', "dist/p2p.js"],
    ['export { useWorkspace } from "yrelay-client/react";', "dist/react/index.js"],
  ];
  for (const [program, part] of parts) {
    const made = await bundle(program);
    t.diagnostic(`${program} ${made.size} B gzip`);
    assert.ok(has(made, part), `${program} is there`);
    for (const other of ["workspace-client.js", "workspace-tab.js", "database.js", "idb/build/index.js"]) assert.ok(!has(made, other), `${program} without ${other}`);
  }
});

test("an import that is not used costs nothing", async () => {
  const entries = Object.keys(JSON.parse(readFileSync(`${PACKAGE}/package.json`, "utf8")).exports);
  for (const entry of entries.filter((name) => name !== "./lint")) {
    const { files } = await bundle(`import * as all from "yrelay-client${entry.slice(1)}";`);
    assert.deepEqual(files, [], entry);
  }
});

test("the React entry takes the client as it is given", async () => {
  const hooks = await bundle('export * from "yrelay-client/react";');
  assert.ok(has(hooks, "dist/react/node-entry.js"));
  for (const other of ["workspace-client.js", "documents/document.js", "relay-socket.js"]) assert.ok(!has(hooks, other), other);
});
