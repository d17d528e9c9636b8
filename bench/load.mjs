// The load: clients in documents, each sending one update and one awareness frame per
// period, and the ledger that knows what reached whom. A run that lost or doubled an
// update has no result.

import { closeSocket, openSocket, sleep, until } from "./client.mjs";
import { cpuMillis } from "./cpu.mjs";
import { FrameReader, STEP1, awarenessFrames, updateFrames } from "./frames.mjs";

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
    return { cpu, ...ledger.result(), closed: clients.filter(({ socket }) => socket.failure).map(({ socket }) => socket.failure) };
  } finally {
    for (const { socket } of clients) closeSocket(socket);
    await until(() => clients.every(({ socket }) => socket.readyState === socket.CLOSED), 2000);
  }
}

async function join(side, plan, prefix, index, ledger, reader) {
  const url = await side.socketUrl(`${prefix}-${index % plan.documents}`, index);
  const client = { synced: false };
  client.socket = await openSocket(url, (data) => {
    for (const message of ledger.frame(reader.read(data))) {
      if (message.kind === "update") ledger.update(index, message.runs);
      else if (message.kind === "awareness") ledger.awareness(index, message.entries);
      else if (message.kind === "step2") client.synced = true;
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
  if (side.answersStep1 && !(await until(() => clients.every(({ synced }) => synced), 60_000))) {
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

/** Who received which update (by Yjs clock) and which awareness state (by its clock). */
class Ledger {
  open = false;
  frames = 0;
  messages = 0;
  #updates;
  #states;
  #sentAt;
  #latencies = [];
  #progress = 0;

  constructor(plan, count) {
    this.plan = plan;
    this.count = count;
    this.#updates = new Uint8Array(plan.clients * plan.clients * count);
    this.#states = new Uint8Array(plan.clients * plan.clients * count);
    this.#sentAt = new Float64Array(plan.clients * count);
    this.expected = 0;
    for (const [to, from] of this.#pairs()) this.expected += to === from ? 0 : count;
  }

  frame(messages) {
    this.frames += 1;
    if (this.open) {
      this.messages += messages.length;
      this.measured = (this.measured ?? 0) + 1;
    }
    return messages;
  }

  sent(from, n) {
    this.#sentAt[from * this.count + n] = performance.now();
  }

  update(to, runs) {
    for (const [client, clock, length] of runs) {
      const from = client - FIRST_CLIENT;
      if (from < 0 || from >= this.plan.clients) continue;
      for (let n = clock; n < Math.min(clock + length, this.count); n += 1) this.#arrived(to, from, n);
    }
  }

  awareness(to, entries) {
    for (const [client, clock] of entries) {
      const from = client - FIRST_CLIENT;
      const n = clock - FIRST_MEASURED_STATE;
      if (from < 0 || from >= this.plan.clients || n < 0 || n >= this.count) continue;
      this.#states[this.#at(to, from, n)] = 1;
    }
  }

  /** Resolves when every update arrived, or when nothing has for 5 s. */
  async settled() {
    let before;
    do before = this.#progress;
    while (!(await until(() => this.#progress >= this.expected, 5000)) && this.#progress !== before);
  }

  result() {
    const result = {
      expected: this.expected, updates: 0, lost: 0, duplicates: 0, foreign: 0,
      states: 0, staleStates: 0, echoedStates: 0, frames: this.measured ?? 0, messages: this.messages,
    };
    for (const [to, from] of this.#pairs()) this.#tally(result, to, from);
    result.foreign = this.#foreign();
    this.#latencies.sort((a, b) => a - b);
    const at = (share) => this.#latencies[Math.floor((this.#latencies.length - 1) * share)] ?? null;
    return { ...result, latency: { median: at(0.5), p99: at(0.99) } };
  }

  #arrived(to, from, n) {
    const at = this.#at(to, from, n);
    if (this.#updates[at] < 255) this.#updates[at] += 1;
    if (to === from || this.#updates[at] > 1) return;
    this.#progress += 1;
    this.#latencies.push(performance.now() - this.#sentAt[from * this.count + n]);
  }

  #tally(result, to, from) {
    for (let n = 0; n < this.count; n += 1) {
      const at = this.#at(to, from, n);
      if (to === from) {
        result.echoedStates += this.#states[at];
        continue;
      }
      result.updates += Math.min(1, this.#updates[at]);
      result.lost += this.#updates[at] === 0 ? 1 : 0;
      result.duplicates += Math.max(0, this.#updates[at] - 1);
      result.states += this.#states[at];
    }
    if (to !== from && this.#states[this.#at(to, from, this.count - 1)] === 0) result.staleStates += 1;
  }

  /** Updates that reached a client of another document: none, ever. */
  #foreign() {
    let foreign = 0;
    for (let to = 0; to < this.plan.clients; to += 1) {
      for (let from = 0; from < this.plan.clients; from += 1) {
        if (this.#together(to, from)) continue;
        for (let n = 0; n < this.count; n += 1) foreign += this.#updates[this.#at(to, from, n)];
      }
    }
    return foreign;
  }

  *#pairs() {
    for (let to = 0; to < this.plan.clients; to += 1) {
      for (let from = 0; from < this.plan.clients; from += 1) if (this.#together(to, from)) yield [to, from];
    }
  }

  #together(to, from) {
    return to % this.plan.documents === from % this.plan.documents;
  }

  #at(to, from, n) {
    return (to * this.plan.clients + from) * this.count + n;
  }
}

/** Yjs client ids of the load; seeded documents use smaller ones. */
const FIRST_CLIENT = 1000;
/** Awareness clock 1 is sent in the handshake. */
const FIRST_MEASURED_STATE = 2;
const TICK_MS = 5;
/** Deferred work belongs to the cost: the flush comes at most 2 s after an update (D1). */
const TAIL_MS = 2500;
