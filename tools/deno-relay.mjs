// The Deno relay for tests and for `cargo xtask dev`: `const relay = await startDenoRelay({…})` …
// `await relay.stop()`.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { withFreePort } from "./ports.mjs";
import { ROOT } from "./wrangler-config.mjs";

/** How long the relay may take to listen, in ms: half a second on an idle machine. */
const START_LIMIT = 60_000;
/** How long a stop may take before the process is killed, in ms: more than its own window. */
const STOP_LIMIT = 15_000;

const HOST = "127.0.0.1";
const FOLDER = join(ROOT, "relay-deno");

/**
 * Starts the relay with the narrowest permissions, in a process group of its own.
 *
 * @param {object} options
 * @param {string} options.api the Worker's address
 * @param {string} options.token a service token of the Worker
 * @param {string} options.publicKey the Worker's key for scope tokens, see scope-key.mjs
 * @param {number} [options.port] 0 picks a free one
 * @param {string} [options.label]
 * @param {string} [options.spoolDir] the folder of its spool; without one it has none
 * @param {{ peers: string[], secret: string }} [options.cluster] the addresses of all replicas and what they share
 * @param {Record<string, string>} [options.vars] further variables, e.g. RELAY_ALLOWED_ORIGINS
 * @param {(line: string) => void} [options.onLog] gets each line of its log, which else goes to the
 *   standard error of this process
 * @param {string[]} [options.launcher] a command that runs the rest of its arguments in its own place
 * @returns `url` (ends in /ws), `http` (its address), `port`, `pid`, `logs` (parsed lines),
 *   `signal(name)`, `stop(signal)`, `kill()` (as a crash), `waitForExit()` → `{ code, signal }`
 */
export async function startDenoRelay({ port = 0, ...options }) {
  if (port !== 0) return startAt(port, options);
  return withFreePort(HOST, (free) => startAt(free, options), (error) => /in use/.test(error.message));
}

async function startAt(port, { api, token, publicKey, label = "deno", spoolDir, cluster, vars = {}, onLog, launcher = [] }) {
  const spool = spoolDir && resolve(spoolDir);
  if (spool) mkdirSync(spool, { recursive: true, mode: 0o700 });
  const [command, ...args] = [...launcher, denoBinary(), "run", ...permissions({ api, port, spool, peers: cluster?.peers }), join(FOLDER, "main.ts")];
  const child = spawn(command, args, {
    cwd: FOLDER,
    // In development mode the relay ends with its standard input, so that a starter that dies
    // leaves nothing behind.
    stdio: ["pipe", "pipe", onLog ? "pipe" : "inherit"],
    detached: process.platform !== "win32",
    env: {
      ...process.env,
      DENO_NO_UPDATE_CHECK: "1",
      RELAY_API_URL: api,
      RELAY_API_TOKEN: token,
      RELAY_TOKEN_PUBLIC_KEY: publicKey,
      RELAY_HOST: HOST,
      RELAY_PORT: String(port),
      RELAY_LABEL: label,
      RELAY_DEV_MODE: "1",
      // Pages that the local Worker serves, or lets in.
      RELAY_ALLOWED_ORIGINS: new URL(api).origin,
      ...(spool ? { RELAY_SPOOL_DIR: spool } : {}),
      ...(cluster ? { RELAY_PEERS: JSON.stringify(cluster.peers), RELAY_CLUSTER_SECRET: cluster.secret } : {}),
      ...vars,
    },
  });
  const exited = new Promise((settle) => child.once("exit", (code, signal) => settle({ code, signal })));
  child.stdin.on("error", () => {});
  const logs = [];
  const note = onLog ?? ((line) => process.stderr.write(`${line}\n`));
  child.stderr?.setEncoding("utf8").on("data", (text) => note(text.trimEnd()));
  const listening = readLog(child, (line, event) => {
    if (event) logs.push(event);
    note(line);
  });
  const signal = (name) => signalGroup(child.pid, name);
  const kill = async () => {
    signal("SIGKILL");
    return exited;
  };
  const stop = async (name = "SIGTERM") => {
    signal(name);
    const limit = setTimeout(() => signal("SIGKILL"), STOP_LIMIT);
    const end = await exited;
    clearTimeout(limit);
    return end;
  };
  await firstOf(listening, child, logs).catch(async (error) => {
    await kill();
    throw error;
  });
  const http = `http://${HOST}:${port}`;
  return { url: `${http.replace("http", "ws")}/ws`, http, port, pid: child.pid, logs, signal, stop, kill, waitForExit: () => exited };
}

/** Nothing but its own port, the Worker, the other replicas, its variables and its spool. */
function permissions({ api, port, spool, peers = [] }) {
  const { hostname, port: apiPort, protocol } = new URL(api);
  const net = [`${hostname}:${apiPort || (protocol === "https:" ? 443 : 80)}`, `${HOST}:${port}`, ...peers.map((peer) => new URL(peer).host)];
  const files = spool ? [`--allow-read=${spool}`, `--allow-write=${spool}`] : [];
  return ["--no-prompt", "--no-remote", "--no-npm", `--allow-net=${net}`, "--allow-env=RELAY_*", ...files];
}

function denoBinary() {
  return join(ROOT, "node_modules", "deno", process.platform === "win32" ? "deno.exe" : "deno");
}

/** Reads the log to its end; the promise is the event that says where the relay listens. */
function readLog(child, note) {
  return new Promise((settle) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      const event = parse(line);
      note(line, event);
      if (event?.event === "listening") settle(event);
    });
  });
}

function parse(line) {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function firstOf(listening, child, logs) {
  let limit;
  const late = new Promise((_, reject) => {
    limit = setTimeout(() => reject(new Error(`the relay did not listen within ${START_LIMIT} ms`)), START_LIMIT);
  });
  // Not its exit, after which there may be more of its log to read.
  const ended = once(child, "close").then(([code, signal]) => {
    const causes = logs.flatMap(({ cause }) => cause ?? []).join("; ");
    throw new Error(`the relay ended before it listened (${signal ?? `code ${code}`}): ${causes || "its standard error says why"}`);
  });
  return Promise.race([listening, late, ended]).finally(() => clearTimeout(limit));
}

function signalGroup(pid, name) {
  try {
    process.kill(process.platform === "win32" ? pid : -pid, name);
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}
