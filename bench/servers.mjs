// The processes under measurement: `workerd serve` with one socket each and nothing in
// between. The database is a third workerd that runs Miniflare's D1 simulator, so the
// measured process pays for asking a database and not for being one.

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";

/** Secrets of the stack under test, made at run time. */
export const SECRETS = {
  API_JWT_SECRET: randomBytes(32).toString("base64url"),
  SCOPE_SIGNING_KEY: randomBytes(32).toString("base64url"),
};

/** The repository. */
export const ROOT = path.resolve(import.meta.dirname, "..");

/** Whether the Worker was built; without it the floor is compared with itself. */
export function isBuilt() {
  return existsSync(path.join(ROOT, "build", "index.js"));
}

/** Starts the D1 simulator: `{url, pid, database(name), counts(), stop()}`. */
export function startDatabase() {
  const workers = path.join(path.dirname(miniflareEntry()), "workers");
  const files = {
    "entry.js": path.join(import.meta.dirname, "d1.mjs"),
    "database.js": path.join(workers, "d1", "database.worker.js"),
    "shared.js": path.join(workers, "shared", "index.worker.js"),
    "zod.js": path.join(workers, "shared", "zod.worker.js"),
  };
  return startWorkerd("database", files, DATABASE_CONFIG).then((server) => ({
    ...server,
    counts: () => fetch(`${server.url}/counts`, deadline()).then((answer) => answer.json()),
  }));
}

/** Starts the floor, with its own database in the simulator. */
export function startFloor(database, name = "floor") {
  const files = { "index.js": path.join(import.meta.dirname, "floor", "worker.mjs") };
  return startWorkerd(name, files, workerConfig({
    modules: [`(name = "index.js", esModule = embed "index.js")`],
    className: "Floor",
    platform: { date: "2026-11-01", flags: [] },
    database: { url: database.url, name },
    texts: {},
  }));
}

/** Starts the built Worker with the migrations applied. */
export async function startYrelay(database) {
  const build = path.join(ROOT, "build");
  const names = readdirSync(build).filter((name) => /\.(m?js|wasm)$/.test(name));
  names.sort((a, b) => Number(b === "index.js") - Number(a === "index.js"));
  const files = Object.fromEntries(names.map((name) => [name, path.join(build, name)]));
  await migrate(database, "yrelay");
  return startWorkerd("yrelay", files, workerConfig({
    modules: names.map((name) => `(name = "${name}", ${name.endsWith(".wasm") ? "wasm" : "esModule"} = embed "${name}")`),
    className: "Room",
    platform: platformOf(path.join(ROOT, "wrangler.toml")),
    database: { url: database.url, name: "yrelay" },
    // The development routes tell one construction of the room from the next (wake).
    texts: { ...SECRETS, RELAY_LABEL: "cf", DEV_MODE: "1" },
  }));
}

/** A fetch option that no request may go without. */
export function deadline(milliseconds = 30_000) {
  return { signal: AbortSignal.timeout(milliseconds) };
}

async function migrate(database, name) {
  const folder = path.join(ROOT, "migrations");
  for (const file of readdirSync(folder).filter((file) => file.endsWith(".sql")).sort()) {
    const answer = await fetch(`${database.url}/query`, {
      method: "POST",
      headers: { "x-bench-database": name },
      body: JSON.stringify([{ sql: readFileSync(path.join(folder, file), "utf8") }]),
      ...deadline(),
    });
    const body = await answer.json();
    if (body.success === false) throw new Error(`migration ${file}: ${body.error}`);
  }
}

/** Starts a program in Deno that prints `{"event":"listening","port":N}`: `{name, pid, url, log, stop()}`. */
export async function startDeno(name, args, env = {}) {
  const folder = mkdtempSync(path.join(tmpdir(), `yrelay-bench-${name}-`));
  const port = (line) => {
    const { event, port } = line.startsWith("{") ? JSON.parse(line) : {};
    return event === "listening" ? port : undefined;
  };
  return launch(name, folder, [denoBinary(), "run", "--no-prompt", ...args], { env, channel: 5, port });
}

/** Writes files and config to a temporary folder and serves it until `stop`. */
async function startWorkerd(name, files, config) {
  const folder = mkdtempSync(path.join(tmpdir(), `yrelay-bench-${name}-`));
  for (const [target, source] of Object.entries(files)) copyFileSync(source, path.join(folder, target));
  mkdirSync(path.join(folder, "disk"));
  writeFileSync(path.join(folder, "config.capnp"), config);
  const command = [workerdBinary(), "serve", "--experimental", "--control-fd=3", "config.capnp"];
  const port = (line) => (JSON.parse(line).socket === "http" ? JSON.parse(line).port : undefined);
  return launch(name, folder, command, { channel: 3, port });
}

/** Runs a server in a folder of its own until `stop`; `port` finds its port in a line of the channel. */
async function launch(name, folder, command, { env = {}, channel, port }) {
  const child = spawn("sh", ["-c", GUARD, "guard", ...command], {
    cwd: folder,
    env: { ...process.env, ...env },
    detached: true,
    stdio: ["pipe", "ignore", "pipe", "pipe", "pipe", "pipe"],
  });
  const stop = async () => {
    running.delete(stop);
    if (child.exitCode === null && child.signalCode === null) {
      const gone = once(child, "exit");
      kill(child.pid);
      await gone;
    }
    rmSync(folder, { recursive: true, force: true });
  };
  const stderr = keepTail(child.stderr);
  running.set(stop, { name, log: stderr });
  try {
    const pid = Number(await firstLine(child.stdio[4], () => true));
    const line = await firstLine(child.stdio[channel], (text) => port(text) !== undefined);
    return { name, pid, folder, url: `http://127.0.0.1:${port(line)}`, log: stderr, stop };
  } catch (cause) {
    await stop();
    throw new Error(`${name} did not start: ${stderr() || cause.message}`, { cause });
  }
}

/** Stops every server that still runs; for ends of the program other than the good one. */
export async function stopAll() {
  await Promise.all([...running.keys()].map((stop) => stop()));
}

/** The last words of every running server, for a scenario that failed. */
export function serverLogs() {
  return [...running.values()].map(({ name, log }) => `${name}: ${log().trim() || "silent"}`);
}

const running = new Map();

/** The shell dies with its standard input, thus with the driver, and takes the server along. */
const GUARD = '"$@" </dev/null >&5 4>&- & echo $! >&4; exec 3>&- 4>&- 5>&-; cat >/dev/null; kill -9 $!';

function kill(group) {
  try {
    process.kill(-group, "SIGKILL");
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}

function firstLine(stream, accept) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("no answer in 20 s")), 20_000);
    const lines = createInterface({ input: stream });
    lines.on("line", (line) => {
      if (!accept(line)) return;
      clearTimeout(timer);
      resolve(line);
    });
    lines.on("close", () => {
      clearTimeout(timer);
      reject(new Error("it ended"));
    });
  });
}

function keepTail(stream) {
  let text = "";
  stream.setEncoding("utf8").on("data", (chunk) => {
    text = (text + chunk).slice(-4000);
  });
  return () => text;
}

function workerdBinary() {
  return createRequire(import.meta.url)("workerd").default;
}

function denoBinary() {
  const package_ = path.dirname(createRequire(import.meta.url).resolve("deno/package.json"));
  return path.join(package_, process.platform === "win32" ? "deno.exe" : "deno");
}

/** Miniflare comes with wrangler and may be nested below it. */
function miniflareEntry() {
  return createRequire(createRequire(import.meta.url).resolve("wrangler/package.json")).resolve("miniflare");
}

/** What the deployment file says about the platform, so that the same runtime is measured. */
function platformOf(file) {
  const toml = existsSync(file) ? readFileSync(file, "utf8") : "";
  const date = /^compatibility_date\s*=\s*"([^"]+)"/m.exec(toml)?.[1] ?? "2026-11-01";
  const flags = /^compatibility_flags\s*=\s*\[([^\]]*)\]/m.exec(toml)?.[1] ?? '"enable_request_signal"';
  return { date, flags: [...flags.matchAll(/"([^"]+)"/g)].map((match) => match[1]) };
}

function workerConfig({ modules, className, platform, database, texts }) {
  const bindings = Object.entries(texts).map(([name, text]) => `(name = "${name}", text = "${text}")`);
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .worker),
    (name = "disk", disk = (path = "disk", writable = true)),
    (name = "database", external = (address = "${new URL(database.url).host}", http = (
      injectRequestHeaders = [(name = "x-bench-database", value = "${database.name}")]))),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);
const worker :Workerd.Worker = (
  modules = [${modules.join(", ")}],
  compatibilityDate = "${platform.date}",
  compatibilityFlags = [${platform.flags.map((flag) => `"${flag}"`).join(", ")}],
  durableObjectNamespaces = [(className = "${className}", uniqueKey = "bench", enableSql = true)],
  durableObjectStorage = (localDisk = "disk"),
  bindings = [
    (name = "ROOM", durableObjectNamespace = "${className}"),
    (name = "DB", wrapped = (moduleName = "cloudflare-internal:d1-api",
      innerBindings = [(name = "fetcher", service = "database")])),
    ${bindings.join(",\n    ")}
  ],
);
`;
}

const DATABASE_CONFIG = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .entry),
    (name = "objects", worker = .objects),
    (name = "disk", disk = (path = "disk", writable = true)),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
  extensions = [(modules = [
    (name = "miniflare:shared", esModule = embed "shared.js"),
    (name = "miniflare:zod", esModule = embed "zod.js"),
  ])],
);
const entry :Workerd.Worker = (
  modules = [(name = "entry.js", esModule = embed "entry.js")],
  compatibilityDate = "2026-11-01",
  bindings = [(name = "DATABASE",
    durableObjectNamespace = (className = "D1DatabaseObject", serviceName = "objects"))],
);
const objects :Workerd.Worker = (
  modules = [(name = "database.js", esModule = embed "database.js")],
  compatibilityDate = "2023-07-24",
  compatibilityFlags = ["nodejs_compat", "experimental"],
  durableObjectNamespaces = [(className = "D1DatabaseObject", uniqueKey = "bench-d1", enableSql = true)],
  durableObjectStorage = (localDisk = "disk"),
  bindings = [(name = "MINIFLARE_BLOBS", service = "disk")],
);
`;
