// The load: clients in documents, each sending one update and one awareness frame per
// period, at its own moment of the period.

import { closeSocket, openSocket, sleep, until } from "./client.mjs";
import { cpuMillis } from "./cpu.mjs";
import { FrameReader, STEP1, awarenessFrames, updateFrames } from "./frames.mjs";
import { FIRST_CLIENT, Ledger } from "./ledger.mjs";

/** Frames of every client of a plan, built once and sent in every round. */
export function buildFrames({ clients, rate, seconds }) {
  const count = Math.max(1, Math.round(rate * seconds));
  return Array.from({ length: clients }, (_, i) => ({
    updates: updateFrames(FIRST_CLIENT + i, count),
    awareness: awarenessFrames(FIRST_CLIENT + i, count + 1),
  }));
}

/**
 * One round on one side. Client i edits document i modulo `documents`, named
 * `<prefix>-<n>`. Returns CPU milliseconds of the server and what arrived.
 */
export async function runLoad(side, plan, frames, prefix) {
  const ledger = new Ledger(plan, frames[0].updates.length);
  const reader = new FrameReader();
  const clients = [];
  try {
    for (let i = 0; i < plan.clients; i += 1) clients.push(await join(side, plan, prefix, i, ledger, reader));
    await handshake(side, clients, frames, ledger);
    const cpuBefore = cpuMillis(side.server.pid);
    ledger.open = true;
    await sendPaced(clients, frames, plan, ledger);
    await ledger.settled();
    await sleep(TAIL_MS);
    const cpu = cpuMillis(side.server.pid) - cpuBefore;
    const closed = clients.map(({ socket }) => socket.failure).filter((failure) => failure !== undefined);
    const step2Bytes = Math.min(...clients.map(({ step2Bytes: bytes }) => bytes ?? 0));
    return { cpu, busy: cpu / (plan.seconds * 1000), step2Bytes, ...ledger.result(), closed };
  } finally {
    for (const { socket } of clients) closeSocket(socket);
    await until(() => clients.every(({ socket }) => socket.readyState === socket.CLOSED), 2000);
  }
}

async function join(side, plan, prefix, index, ledger, reader) {
  const url = await side.socketUrl(`${prefix}-${index % plan.documents}`, index);
  const client = { step2Bytes: undefined };
  client.socket = await openSocket(url, (data) => {
    for (const message of ledger.frame(reader.read(data))) {
      if (message.kind === "update") ledger.update(index, message.runs);
      else if (message.kind === "awareness") ledger.awareness(index, message.entries);
      else if (message.kind === "step2") client.step2Bytes ??= message.payload.length;
    }
  });
  return client;
}

/** As a stock client: step 1 and the first awareness, then wait for the answers to end. */
async function handshake(side, clients, frames, ledger) {
  clients.forEach(({ socket }, i) => {
    socket.send(STEP1);
    socket.send(frames[i].awareness[0]);
  });
  if (side.answersStep1 && !(await until(() => clients.every(({ step2Bytes }) => step2Bytes !== undefined), 60_000))) {
    throw new Error(`${side.name}: a sync step 1 was not answered in 60 s`);
  }
  let before;
  do {
    before = ledger.frames;
    await sleep(400);
  } while (ledger.frames !== before);
}

/** Sends each client's nth pair at (n + i / clients) periods, so that load is even. */
function sendPaced(clients, frames, plan, ledger) {
  const step = 1000 / plan.rate / clients.length;
  const total = frames[0].updates.length * clients.length;
  const start = performance.now();
  let sent = 0;
  return new Promise((resolve) => {
    const tick = () => {
      const due = Math.min(total, Math.floor((performance.now() - start) / step) + 1);
      for (; sent < due; sent += 1) {
        const index = sent % clients.length;
        const n = Math.floor(sent / clients.length);
        ledger.sent(index, n);
        clients[index].socket.send(frames[index].updates[n]);
        clients[index].socket.send(frames[index].awareness[n + 1]);
      }
      if (sent < total) setTimeout(tick, TICK_MS);
      else resolve();
    };
    tick();
  });
}

const TICK_MS = 5;
/** Deferred work belongs to the cost: the flush comes at most 2 s after an update (D1). */
const TAIL_MS = 2500;
