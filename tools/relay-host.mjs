// Runs the Deno relay beside a local Worker, for `cargo xtask dev`. A process of its own that does nothing
// but watch, as worker-host.mjs is. The first line on standard input is the options as JSON; when
// standard input ends, the starter is gone or wants the end. One line on standard output says that
// the relay is ready.
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { startDenoRelay } from "./deno-relay.mjs";
import { publicScopeKey } from "./scope-key.mjs";
import { readSecrets } from "./secrets.mjs";
import { mintToken } from "./token.mjs";

const LABEL = "deno";
/** How long the relay's service token is valid, in seconds. A stack that runs for longer is started anew. */
const SERVICE_TTL = 30 * 24 * 3600;

/** How long after a crash the relay is started again, in ms: what a supervisor does. */
const RESTART_DELAY = 1000;

let relay;
let stopping = false;

async function stop(code) {
  if (stopping) return;
  stopping = true;
  await relay?.stop();
  process.exit(code);
}

async function start({ dataDir, api, port, origins }) {
  const secrets = readSecrets(dataDir);
  const options = {
    api,
    port,
    label: LABEL,
    token: mintToken({ secret: secrets.API_JWT_SECRET, sub: `relay-${LABEL}`, kind: "service", workspaces: { "*": "editor" }, ttl: SERVICE_TTL }),
    publicKey: publicScopeKey(secrets.SCOPE_SIGNING_KEY),
    spoolDir: join(dataDir, "relay-deno"),
    vars: { RELAY_ALLOWED_ORIGINS: origins.join(",") },
    // Standard output is for the one line; what goes well is not for a terminal.
    onLog: (line) => /"level":"info"/.test(line) || process.stderr.write(`${line}\n`),
  };
  await run(options);
  process.stdout.write(`${JSON.stringify({ relay: { label: LABEL, url: relay.url }, pids: { relayHost: process.pid, deno: relay.pid } })}\n`);
}

/** Starts the relay, and again on the same port when it dies. */
async function run(options) {
  relay = await startDenoRelay(options);
  if (stopping) return relay.stop();
  relay.waitForExit().then(async ({ code, signal }) => {
    if (stopping) return;
    console.error(`relay-host: the relay ended (${signal ?? `code ${code}`}) and is started again`);
    await sleep(RESTART_DELAY);
    if (!stopping) await run({ ...options, port: relay.port });
  }).catch((error) => {
    console.error(`relay-host: ${error.message}`);
    return stop(1);
  });
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => stop(0));
const input = createInterface({ input: process.stdin });
input.once("line", (line) => {
  Promise.resolve().then(() => start(JSON.parse(line))).catch((error) => {
    console.error(`relay-host: ${error.message}`);
    stop(1);
  });
});
input.once("close", () => stop(0));
