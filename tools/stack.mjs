// The local stack for tests: `const stack = await startStack()` … `await stack.stop()`.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { readSecrets } from "./secrets.mjs";
import { mintToken } from "./token.mjs";
import { ROOT } from "./wrangler-config.mjs";

/** How long a stack may take to start, in ms: seconds on an idle machine, more when tests run at once. */
const START_LIMIT = 60_000;
/** How much of what a stack said last is kept, in characters, for the error that it did not start. */
const SAID_LIMIT = 2000;
/** How long a clean stop may take before the processes are killed, in ms. */
const STOP_LIMIT = 5000;

/**
 * Starts the built Worker with a local D1, on a free port of the loopback address.
 *
 * @param {object} [options]
 * @param {string} [options.dataDir] state that survives a restart; without it a folder that `stop` removes
 * @param {number} [options.port] 0 picks a free one
 * @param {Record<string, string>} [options.vars] bindings on top of the defaults, e.g. ALLOWED_ORIGINS
 * @param {string} [options.entry] a module that wraps the built Worker (`./index.js`), e.g. to inject faults
 * @param {string[]} [options.without] bindings to leave out, e.g. ROOM
 * @param {string} [options.workspace] a workspace to create unless it is there; `token` is its owner's
 * @param {(text: string) => void} [options.onLog] gets what the stack logs, which else goes to the
 *   standard error of this process
 * @returns `url`, `relays`, `secrets`, `token`, `pid` (of the process group's leader), `pids`,
 *   `mint(claims)` for API tokens, `stop()`, `kill()` (as a crash), and `exited`, a promise of the exit
 */
export async function startStack({ dataDir, port = 0, vars = {}, entry, without, onLog = (text) => process.stderr.write(text), workspace } = {}) {
  const folder = dataDir ?? mkdtempSync(join(tmpdir(), "yrelay-"));
  // A group of its own, so that `kill` reaches workerd too. The host ends when its standard input
  // does, so a test process that dies leaves nothing behind.
  const child = spawn(nodeBinary(), [join(ROOT, "tools", "worker-host.mjs")], {
    stdio: ["pipe", "pipe", "pipe"],
    detached: process.platform !== "win32",
  });
  child.stdin.on("error", () => {});
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text) => {
    said = (said + text).slice(-SAID_LIMIT);
    onLog(text);
  });
  const exited = new Promise((settle) => child.once("exit", (code, signal) => settle({ code, signal })));
  exited.then(() => killTree(child.pid));
  child.stdin.write(`${JSON.stringify({ dataDir: folder, port, vars, entry, without, workspace })}\n`);
  const discard = () => {
    if (!dataDir) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  const kill = async () => {
    killTree(child.pid);
    await exited;
  };
  const stop = async () => {
    child.stdin.end();
    const limit = setTimeout(() => killTree(child.pid), STOP_LIMIT);
    await exited;
    clearTimeout(limit);
    discard();
  };
  const ready = await firstLine(child, () => said.trim()).catch(async (error) => {
    await kill();
    discard();
    throw error;
  });
  const secrets = { ...readSecrets(folder), ...vars };
  const mint = (claims) => mintToken({ secret: secrets.API_JWT_SECRET, ...claims });
  return { url: ready.api, relays: ready.relays, token: ready.token, secrets, pid: child.pid, pids: ready.pids, mint, stop, kill, exited };
}

/** Node of this repository's packages when the running one is older than Miniflare needs. */
function nodeBinary() {
  if (Number(process.versions.node.split(".")[0]) >= 22) return process.execPath;
  return join(ROOT, "node_modules", "node", "bin", process.platform === "win32" ? "node.exe" : "node");
}

function firstLine(child, said) {
  return new Promise((settle, reject) => {
    const limit = setTimeout(() => reject(new Error(`the stack was not ready after ${START_LIMIT} ms`)), START_LIMIT);
    createInterface({ input: child.stdout }).once("line", (line) => {
      clearTimeout(limit);
      settle(JSON.parse(line));
    });
    // Not its exit, after which there may be more to read.
    child.once("close", (code, signal) => {
      clearTimeout(limit);
      reject(new Error(`the stack ended before it was ready (${signal ?? `code ${code}`}): ${said()}`));
    });
  });
}

function killTree(pid) {
  if (process.platform === "win32") {
    spawnSync("taskkill", ["/T", "/F", "/PID", String(pid)], { stdio: "ignore" });
    return;
  }
  try {
    process.kill(-pid, "SIGKILL");
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}
