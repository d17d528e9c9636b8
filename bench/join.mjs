// Late join of a 1 MB document: from sync step 1 with an empty state vector to step 2.

import { closeSocket, openSocket } from "./client.mjs";
import { cpuMillis } from "./cpu.mjs";
import { STEP1, step2Payload } from "./frames.mjs";
import { median } from "./report.mjs";
import { seedDocument, textLength } from "./seed.mjs";

/** `JOINS` joins a round while another client stays connected, so that the room is warm. */
export async function join(bench) {
  const document = seedDocument(1_000_000);
  const { tested, floor } = await bench.openBoth();
  for (const side of [tested, floor]) {
    await side.seed(DOCUMENT, document);
    await verify(side, document);
  }
  await bench.rounds(async (round, order) => {
    const found = {};
    for (const [key, side, kind] of order(["tested", tested, "memory"], ["memory", floor, "memory"])) {
      found[key] = await joins(side, kind, JOINS);
    }
    found.stored = await joins(floor, "stored", JOINS);
    for (const kind of ["memory", "stored"]) {
      const limit = kind === "stored" ? 2 : undefined;
      const name = kind === "stored" ? "replay from storage" : "replay from memory";
      bench.record(`join 1 MB: CPU, floor ${name}`, { unit: "ms", tested: found.tested.cpu, floor: found[kind].cpu, limit });
      bench.record(`join 1 MB: latency, floor ${name}`, { unit: "ms", tested: found.tested.latency, floor: found[kind].latency, limit });
    }
  });
}

async function verify(side, document) {
  const resident = await openSocket(await side.joinUrl(DOCUMENT, "memory"), () => {});
  resident.send(STEP1);
  for (const kind of ["memory", "stored"]) {
    const { payload } = await joinOnce(side, kind);
    const length = textLength(payload);
    if (length !== document.length) throw new Error(`${side.name}: step 2 holds ${length} of ${document.length} characters`);
  }
  side.resident = resident;
}

async function joins(side, kind, count) {
  await joinOnce(side, kind);
  const before = cpuMillis(side.server.pid);
  const latencies = [];
  for (let n = 0; n < count; n += 1) latencies.push((await joinOnce(side, kind)).latency);
  const cpu = (cpuMillis(side.server.pid) - before) / count;
  return { cpu, latency: median(latencies) };
}

async function joinOnce(side, kind) {
  const url = await side.joinUrl(DOCUMENT, kind);
  let answered;
  const answer = new Promise((resolve, reject) => {
    answered = resolve;
    setTimeout(() => reject(new Error(`${side.name}: no step 2 in 20 s`)), 20_000).unref();
  });
  const socket = await openSocket(url, (frame) => {
    const at = performance.now();
    const payload = step2Payload(frame);
    if (payload !== undefined) answered({ at, payload });
  });
  const start = performance.now();
  socket.send(STEP1);
  try {
    const { at, payload } = await answer;
    if (payload.length < SMALLEST_STEP2) throw new Error(`${side.name}: step 2 of ${payload.length} bytes`);
    return { latency: at - start, payload };
  } finally {
    closeSocket(socket);
  }
}

const DOCUMENT = "join-document";
const JOINS = 100;
const SMALLEST_STEP2 = 700_000;
