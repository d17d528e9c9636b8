// What reached whom. A run that lost, doubled or misdirected an update has no result.

import { until } from "./client.mjs";

/** Yjs client ids of the load; seeded documents use smaller ones. */
export const FIRST_CLIENT = 1000;

/** Who received which update (by Yjs clock) and which awareness state (by its clock). */
export class Ledger {
  /** Frames count as measured from when this is set. */
  open = false;
  /** Frames received so far, the handshake's included. */
  frames = 0;
  #messages = 0;
  #measured = 0;
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

  /** Notes one received frame and hands its messages on. */
  frame(messages) {
    this.frames += 1;
    if (this.open) {
      this.#messages += messages.length;
      this.#measured += 1;
    }
    return messages;
  }

  /** Client `from` sends its update `n` now. */
  sent(from, n) {
    this.#sentAt[from * this.count + n] = performance.now();
  }

  /** Client `to` received these runs of Yjs clocks. */
  update(to, runs) {
    for (const [client, clock, length] of runs) {
      const from = client - FIRST_CLIENT;
      if (from < 0 || from >= this.plan.clients) continue;
      for (let n = clock; n < Math.min(clock + length, this.count); n += 1) this.#arrived(to, from, n);
    }
  }

  /** Client `to` received these awareness entries. */
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

  /** Counts over all receivers; `lost`, `duplicates`, `foreign` and `staleStates` must be 0. */
  result() {
    const result = {
      expected: this.expected, updates: 0, lost: 0, duplicates: 0, foreign: 0,
      states: 0, staleStates: 0, echoedStates: 0, frames: this.#measured, messages: this.#messages,
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

/** Awareness clock 1 is sent in the handshake. */
const FIRST_MEASURED_STATE = 2;
