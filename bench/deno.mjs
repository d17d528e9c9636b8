// The Deno relay against a raw byte fan-out in Deno: CPU per delivery, and the memory of idle sockets.

import { mkdirSync, readFileSync } from "node:fs";
import path from "node:path";

import { publicScopeKey } from "../tools/scope-key.mjs";
import { closeSocket, openSocket, sleep, until } from "./client.mjs";
import { compareFanout } from "./fanout.mjs";
import { FrameReader, STEP1 } from "./frames.mjs";
import { ROOT, SECRETS, startDeno } from "./servers.mjs";
import { apiToken, openYrelay } from "./sides.mjs";

/** 100 clients in rooms of four, and in one hot document. */
export async function deno(bench) {
  const sides = await openSides(bench);
  for (const [label, documents, limit] of [["deno fanout 5/s", 25, 1.15], ["deno hot 1/s", 1, 1.0]]) {
    const plan = { clients: 100, documents, rate: documents === 1 ? 1 : 5, seconds: bench.seconds };
    const warmth = { seconds: WARM_UP_SECONDS, rate: documents === 1 ? plan.rate : WARM_UP_RATE };
    await compareFanout(bench, label, plan, limit, sides, warmth);
  }
}

/** 2,000 people who are connected and do nothing. */
export async function denoIdle(bench) {
  if (bench.options.control) return bench.note("deno-idle: the floor keeps nothing for a connection");
  const { tested } = await openSides(bench);
  const before = rssMegabytes(tested.server.pid);
  const sockets = [];
  try {
    for (let room = 0; room < IDLE_CONNECTIONS / ROOM_SIZE; room += 1) {
      const url = await tested.socketUrl("d", room, `idle-${room}`);
      for (let n = 0; n < ROOM_SIZE; n += 1) sockets.push(await synced(url));
    }
    await sleep(IDLE_MS);
    const failed = sockets.filter(({ failure }) => failure !== undefined);
    const after = rssMegabytes(tested.server.pid);
    bench.check(`${IDLE_CONNECTIONS} idle connections fit in ${IDLE_LIMIT_MB} MB`, failed.length === 0 && after <= IDLE_LIMIT_MB,
      `${after.toFixed(0)} MB, ${before.toFixed(0)} MB before them; ${failed.length} connections lost`);
  } finally {
    for (const socket of sockets) closeSocket(socket);
  }
}

async function synced(url) {
  const reader = new FrameReader();
  let answered = false;
  const socket = await openSocket(url, (data) => {
    answered ||= [...reader.read(data)].some(({ kind }) => kind === "step2");
  });
  socket.send(STEP1);
  if (!(await until(() => answered, 20_000))) throw new Error("a sync step 1 was not answered in 20 s");
  return socket;
}

/** The relay with the Worker it belongs to, and the floor. */
async function openSides(bench) {
  const floor = await openFloor();
  if (bench.options.control) return { tested: await openFloor("control"), floor };
  const worker = await openYrelay(await bench.openDatabase());
  const relay = path.join(ROOT, "relay-deno");
  const spool = path.join(worker.server.folder, "spool");
  mkdirSync(spool);
  const permissions = ["--no-remote", "--no-npm", "--allow-net=127.0.0.1", "--allow-env=RELAY_*", `--allow-read=${spool}`, `--allow-write=${spool}`];
  const server = await startDeno("deno", [...permissions, path.join(relay, "main.ts")], {
    RELAY_API_URL: worker.server.url,
    RELAY_API_TOKEN: apiToken("relay-deno", "service"),
    RELAY_TOKEN_PUBLIC_KEY: publicScopeKey(SECRETS.SCOPE_SIGNING_KEY),
    RELAY_PORT: "0",
    RELAY_SPOOL_DIR: spool,
  });
  const at = new URL(worker.server.url).origin.replace("http", "ws");
  const here = server.url.replace("http", "ws");
  const socketUrl = async (...args) => (await worker.socketUrl(...args)).replace(at, here);
  return { tested: { ...worker, name: "deno", server, socketUrl }, floor };
}

async function openFloor(name = "deno-floor") {
  const server = await startDeno(name, ["--allow-net=127.0.0.1", path.join(import.meta.dirname, "floor", "deno.ts")]);
  const ws = server.url.replace("http", "ws");
  return { name, server, answersStep1: false, socketUrl: async (document) => `${ws}/ws/bench/${document}` };
}

function rssMegabytes(pid) {
  const line = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Number(line[1]) / 1024;
}

/**
 * A relay runs for days: what counts is its cost once V8 has optimized what runs with every frame, on both sides. At
 * the rate of the rounds that takes longer than a round; at this one, and as long as this, it is done.
 */
const WARM_UP_SECONDS = 20;
const WARM_UP_RATE = 25;
const IDLE_CONNECTIONS = 2000;
/** Connections of one person in one room are bounded by 64. */
const ROOM_SIZE = 50;
const IDLE_MS = 5000;
const IDLE_LIMIT_MB = 150;
