// Runs the built Worker in workerd on a loopback address. It is started by stack.mjs or by
// `cargo xtask dev`, as a process of its own, for one reason: workerd outlives whoever started it,
// so its parent must be a process that does nothing but watch. The first line on standard input is
// the options as JSON; when standard input ends, the starter is gone or wants the end, and so
// workerd is ended, then this process. One line on standard output says that it is ready.
//
// Miniflare rather than `wrangler dev`: two processes instead of six, ready in a third of the time,
// no second bundling of what the build made, and the ids of the children are known here.
import childProcess from "node:child_process";
import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { migrate } from "./migrate.mjs";
import { isFree, withFreePort } from "./ports.mjs";
import { ensureSecrets } from "./secrets.mjs";
import { mintToken } from "./token.mjs";
import { ROOT, readConfig } from "./wrangler-config.mjs";

/** How long the ready token of a stack is valid, in seconds: a working day. */
const READY_TOKEN_TTL = 12 * 3600;
/** How long a clean stop may take before workerd is killed, in ms. */
const STOP_LIMIT = 3000;
/** How long the demo workspace may take; a request that traps in the Worker never answers. In ms. */
const REQUEST_LIMIT = 15_000;

const children = [];
let demo;
let miniflare;
let stopping = false;

/** Miniflare does not say which process it started, and on some ways out leaves it alone. */
function recordChildren() {
  const { spawn } = childProcess;
  childProcess.spawn = (...args) => {
    const child = spawn(...args);
    children.push(child);
    return child;
  };
}

async function stop(code) {
  if (stopping) return;
  stopping = true;
  const limit = setTimeout(() => process.exit(code), STOP_LIMIT);
  limit.unref();
  try {
    demo?.close();
    await miniflare?.dispose();
  } finally {
    process.exit(code);
  }
}

function fail(error) {
  console.error(`worker-host: ${error.message}`);
  return stop(1);
}

/** A local stack has known keys and no TLS: nothing outside this machine may reach it. */
function isLoopback(host) {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}

function workerOptions(config, { host, port, dataDir, vars, entry, without = [] }) {
  const bound = (list, name) => (list ?? []).filter((item) => !without.includes(item[name]));
  const byName = (list, name, value) => Object.fromEntries(bound(list, name).map((item) => [item[name], value(item)]));
  const build = join(ROOT, "build");
  // A test's entry stands beside the built Worker as far as workerd can tell, and imports it.
  const wrapper = entry ? [{ type: "ESModule", path: join(build, "entry.mjs"), contents: readFileSync(entry, "utf8") }] : [];
  return {
    name: config.name,
    host,
    port,
    // The asked-for metadata of a request would be fetched from the network.
    cf: false,
    rootPath: build,
    modules: [
      ...wrapper,
      ...["index.js", "batch.js", "worker.js", "openapi.js", "mcp-tools.js", "lazy_bg.js"].map((name) => ({ type: "ESModule", path: join(build, name) })),
      ...["index_bg.wasm", "lazy_bg.wasm"].map((name) => ({ type: "CompiledWasm", path: join(build, name) })),
    ],
    compatibilityDate: config.compatibility_date,
    compatibilityFlags: config.compatibility_flags,
    bindings: { ...config.vars, ...vars },
    d1Databases: byName(config.d1_databases, "binding", (item) => item.database_id),
    durableObjects: byName(config.durable_objects?.bindings, "name", (item) => ({ className: item.class_name, useSQLite: true })),
    // The folder `wrangler … --local --persist-to DATA` uses.
    resourcePersistencePath: join(dataDir, "v3"),
    unsafeTriggerHandlers: true,
    handleStructuredLogs: ({ level, message }) => console.error(`[worker] ${level}: ${message}`),
  };
}

/** Fires the cron triggers as the platform would; only the hourly form is in use. */
function scheduleCrons(config) {
  for (const cron of config.triggers?.crons ?? []) {
    const minute = /^(\d+) \* \* \* \*$/.exec(cron);
    if (!minute) throw new Error(`wrangler.toml: the local stack does not know the cron form ${cron}`);
    const next = () => {
      const at = new Date();
      at.setMinutes(Number(minute[1]), 0, 0);
      if (at.getTime() <= Date.now()) at.setHours(at.getHours() + 1);
      setTimeout(fire, at.getTime() - Date.now(), at).unref();
    };
    const fire = async (scheduledTime) => {
      next();
      try {
        const worker = await miniflare.getWorker();
        await worker.scheduled({ scheduledTime, cron });
      } catch (error) {
        console.error(`worker-host: cron ${cron}: ${error.message}`);
      }
    };
    next();
  }
}

/** Makes sure that the workspace is there and returns a token of its owner. */
async function openWorkspace(url, workspace, secret) {
  const token = mintToken({ secret, sub: "dev", kind: "human", workspaces: { [workspace]: "owner" }, ttl: READY_TOKEN_TTL });
  const answer = await fetch(`${url}/api/workspaces`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ id: workspace }),
    signal: AbortSignal.timeout(REQUEST_LIMIT),
  });
  // 409: it is there since an earlier start with the same data folder.
  if (!answer.ok && answer.status !== 409) {
    throw new Error(`POST /api/workspaces answered ${answer.status}: ${await answer.text()}`);
  }
  return token;
}

/** Starts the Worker on the asked port, or on one that nobody else got first; gives the port and what follows from it. */
async function startWorker(config, options) {
  const { Miniflare, convertV4MiniflareOptions } = await import("miniflare");
  const listen = async (port) => {
    const origins = [`http://127.0.0.1:${port}`, `http://localhost:${port}`, ...options.origins];
    const vars = { ...options.vars, ALLOWED_ORIGINS: options.vars.ALLOWED_ORIGINS ?? origins.join(",") };
    miniflare = new Miniflare(convertV4MiniflareOptions(workerOptions(config, { ...options, port, vars })));
    await miniflare.ready;
    return { port, origins, vars };
  };
  const { host, port } = options;
  if (port === 0) return withFreePort(host, listen, (error) => error.code === "ERR_ADDRESS_IN_USE");
  if (!(await isFree(host, port))) throw new Error(`port ${port} is in use; choose another with --port`);
  return listen(port);
}

async function start({ host = "127.0.0.1", ...options }) {
  if (!isLoopback(host)) throw new Error(`${host} is not a loopback address; the local stack serves this machine only`);
  const dataDir = resolve(options.dataDir);
  const secrets = ensureSecrets(dataDir);
  const allowed = [...(options.origins ?? [])];
  if (options.demoPort !== undefined) {
    const { startDemo } = await import("./demo-host.mjs");
    demo = await startDemo({ host, port: options.demoPort });
    allowed.push(demo.origin);
  }
  const config = readConfig();
  recordChildren();
  const asked = { ...options, host, port: options.port ?? 0, dataDir, origins: allowed, vars: { DEV_MODE: "1", ...secrets, ...options.vars } };
  const { port, origins, vars } = await startWorker(config, asked);
  for (const database of config.d1_databases ?? []) {
    const applied = await migrate(await miniflare.getD1Database(database.binding), join(ROOT, database.migrations_dir));
    for (const name of applied) console.error(`worker-host: applied migration ${name}`);
  }
  scheduleCrons(config);
  const authority = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const ready = { api: `http://${authority}`, relays: [{ label: config.vars.RELAY_LABEL, url: `ws://${authority}/ws` }] };
  // For a relay of its own, which lets the same pages in.
  if (options.tellOrigins) ready.origins = origins;
  if (options.workspace) {
    ready.workspace = options.workspace;
    ready.token = await openWorkspace(ready.api, options.workspace, vars.API_JWT_SECRET);
    ready.agentToken = mintToken({ secret: vars.API_JWT_SECRET, sub: "example-agent", kind: "agent", workspaces: { [options.workspace]: "editor" }, ttl: READY_TOKEN_TTL });
  }
  if (demo && ready.workspace) {
    // The relay beside it starts once this is ready, on a port that is known before.
    const beside = options.relayPort ? [{ label: "deno", url: `ws://127.0.0.1:${options.relayPort}/ws` }] : [];
    demo.open({ ...ready, relays: [...ready.relays, ...beside], secret: vars.API_JWT_SECRET });
    ready.demo = `${demo.origin}/`;
  }
  ready.pids = { host: process.pid, workerd: children.at(-1)?.pid };
  if (!stopping) process.stdout.write(`${JSON.stringify(ready)}\n`);
}

function main() {
  process.on("exit", () => {
    for (const child of children) child.kill("SIGKILL");
  });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => stop(0));
  const input = createInterface({ input: process.stdin });
  input.once("line", (line) => {
    Promise.resolve().then(() => start(JSON.parse(line))).catch(fail);
  });
  input.once("close", () => stop(0));
}

main();
