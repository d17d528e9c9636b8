// Requests made from the OpenAPI document, by the hundred for each operation, against the real stack:
// no answer may be a 5xx, and none may be one that the document does not have. `cargo xtask test`
// installs Schemathesis and calls this: `node tests/openapi/run.mjs <path of schemathesis>`. The seed
// is fixed (schemathesis.toml); `--seed N` and other options of `schemathesis run` may follow.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { startStack } from "../../tools/stack.mjs";
import { ROOT } from "../../tools/wrangler-config.mjs";
import { findTemplate } from "../e2e/support/http.mjs";

const HERE = import.meta.dirname;
/** Here are the requests and answers of the last run. */
const OUT = join(ROOT, "target", "xtask", "openapi");
const REQUESTS = join(OUT, "requests.har");
/** The workspaces that schemathesis.toml names: of most operations, of documents, and one to be deleted. */
const WORKSPACES = ["fuzz", "documents", "doomed"];
/** A run takes a minute on two idle cores; past this it hangs. In ms. */
const RUN_LIMIT = 600_000;
/** Sockets, which no plain request opens; a stream, which does not end; the document, which is read before. */
const WITHOUT_2XX = ["relayWorkspace", "relayDocument", "streamChanges", "openapi"];

const [program, ...options] = process.argv.slice(2);
assert.ok(program, "usage: node tests/openapi/run.mjs <path of schemathesis> [option…]");
mkdirSync(OUT, { recursive: true });
const log = [];
const stack = await startStack({ onLog: (text) => log.push(text) });
try {
  const token = stack.mint({ sub: "fuzzer", kind: "service", workspaces: { "*": "owner" } });
  for (const id of WORKSPACES) await create("POST", "", { id }, token);
  await create("PUT", "/fuzz/nodes/movable", {}, token);
  const code = await fuzz(token);
  if (code !== 0) console.error(`${log.join("")}\ntests/openapi: ended with ${code}; what was sent is in ${REQUESTS}`);
  else await checkReach();
  process.exitCode = code;
} finally {
  await stack.stop();
}

async function create(method, below, body, token) {
  const answer = await fetch(`${stack.url}/api/workspaces${below}`, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(20_000),
  });
  assert.equal(answer.status, 201, `${method} ${below}: ${await answer.text()}`);
}

/** Runs Schemathesis to its end; its exit code is the result. */
function fuzz(token) {
  const config = join(HERE, "schemathesis.toml");
  const report = ["--report", "har", "--report-har-path", REQUESTS];
  const args = ["--config-file", config, "run", `${stack.url}/api/openapi.json`, ...report, ...options];
  const child = spawn(program, args, {
    cwd: OUT,
    env: { ...process.env, YRELAY_FUZZ_HOOKS: join(HERE, "hooks.py"), YRELAY_FUZZ_TOKEN: token },
    stdio: ["ignore", "inherit", "inherit"],
    timeout: RUN_LIMIT,
  });
  return new Promise((settle, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => settle(code ?? 1));
  });
}

/** Requests that are all refused would find nothing: every operation has to have done its work once. */
async function checkReach() {
  const answer = await fetch(`${stack.url}/api/openapi.json`, { signal: AbortSignal.timeout(20_000) });
  const document = await answer.json();
  const done = new Set();
  for (const { request, response } of JSON.parse(readFileSync(REQUESTS, "utf8")).log.entries) {
    const template = findTemplate(document, new URL(request.url).pathname);
    if (response.status < 300) done.add(document.paths[template]?.[request.method.toLowerCase()]?.operationId);
  }
  const operations = Object.values(document.paths).flatMap((item) => Object.values(item).flatMap(({ operationId }) => operationId ?? []));
  assert.deepEqual(WITHOUT_2XX.filter((id) => !operations.includes(id)), [], "operations that the document does not have");
  const expected = operations.filter((id) => !WITHOUT_2XX.includes(id));
  assert.deepEqual(expected.filter((id) => !done.has(id)), [], "operations of which every request was refused");
  console.log(`tests/openapi: ${expected.length} operations did their work`);
}
