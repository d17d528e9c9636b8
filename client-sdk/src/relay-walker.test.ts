import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { WALKER_TIMES, initialState, step } from "./relay-walker.ts";
import type { Effect, TelemetryEvent, WalkerConfig, WalkerEvent, WalkerState } from "./relay-walker.ts";

type StateKind = WalkerState["kind"];
type EventKind = WalkerEvent["kind"];

const OPEN_THEN = (code: number): WalkerEvent[] => [{ kind: "due" }, { kind: "opened" }, { kind: "synced" }, { kind: "closed", code }];
const FAIL: WalkerEvent[] = [{ kind: "due" }, { kind: "failed", trigger: "error_before_open" }];
const CLOSE_1006: WalkerEvent = { kind: "closed", code: 1006 };

/** A walker of three entries, with what it did so far. */
class Walk {
  state: WalkerState;
  effects: Effect[] = [];
  now = 1_000_000;
  random = 0.5;
  readonly config: WalkerConfig;

  constructor({ labels = ["cf", "deno", "third"], pinned = null }: { labels?: string[]; pinned?: number | null } = {}) {
    this.config = { labels, pinned, times: WALKER_TIMES };
    this.state = initialState(this.config);
  }

  /** Applies events; answers the effects of the last one. */
  apply(...events: WalkerEvent[]): readonly Effect[] {
    let last: readonly Effect[] = [];
    for (const event of events) {
      const next = step(this.state, event, { config: this.config, now: this.now, random: this.random });
      this.state = next.state;
      this.effects.push(...next.effects);
      last = next.effects;
    }
    return last;
  }

  started(): this {
    this.apply({ kind: "start" });
    return this;
  }

  get index(): number {
    return this.state.at.index;
  }

  get events(): TelemetryEvent[] {
    return this.effects.flatMap((effect) => (effect.kind === "emit" ? [effect.event] : []));
  }

  get advances(): string[] {
    return this.events.flatMap((event) => (event.name === "relay_advance" ? [`${event.fromLabel} ${event.toLabel} ${event.trigger}`] : []));
  }

  get cycles(): number {
    return this.events.filter((event) => event.name === "relay_cycle_all_failed").length;
  }
}

function delayOf(effects: readonly Effect[]): number {
  const connect = effects.find((effect) => effect.kind === "connect");
  assert.ok(connect, "a connect is asked for");
  return connect.afterMs;
}

const SAMPLE: Record<EventKind, WalkerEvent> = {
  closed: CLOSE_1006,
  disconnect: { kind: "disconnect" },
  due: { kind: "due" },
  failed: { kind: "failed", trigger: "open_timeout" },
  offline: { kind: "offline" },
  opened: { kind: "opened" },
  probe_failed: { kind: "probe_failed" },
  probe_synced: { kind: "probe_synced" },
  restart: { kind: "restart" },
  start: { kind: "start" },
  stop: { kind: "stop", reason: "frame_too_large" },
  synced: { kind: "synced" },
  token_failed: { kind: "token_failed", final: false },
  wake: { kind: "wake" },
};

const WAY_TO: Record<StateKind, WalkerEvent[]> = {
  idle: [],
  waiting: [SAMPLE.start],
  connecting: [SAMPLE.start, SAMPLE.due],
  open: [SAMPLE.start, SAMPLE.due, SAMPLE.opened],
  synced: [SAMPLE.start, SAMPLE.due, SAMPLE.opened, SAMPLE.synced],
  offline: [SAMPLE.start, SAMPLE.offline],
  stopped: [SAMPLE.stop],
};

/** "-": the event means nothing there, and the very same state comes back. */
const EXPECTED: Record<StateKind, Record<EventKind, StateKind | "-">> = {
  idle: {
    closed: "-", disconnect: "-", due: "-", failed: "-", offline: "-", opened: "-", probe_failed: "-", probe_synced: "-",
    restart: "waiting", start: "waiting", stop: "stopped", synced: "-", token_failed: "-", wake: "-",
  },
  waiting: {
    closed: "-", disconnect: "idle", due: "connecting", failed: "-", offline: "offline", opened: "-", probe_failed: "-", probe_synced: "-",
    restart: "-", start: "-", stop: "stopped", synced: "-", token_failed: "-", wake: "waiting",
  },
  connecting: {
    closed: "-", disconnect: "idle", due: "-", failed: "waiting", offline: "offline", opened: "open", probe_failed: "-", probe_synced: "-",
    restart: "-", start: "-", stop: "stopped", synced: "-", token_failed: "waiting", wake: "-",
  },
  open: {
    closed: "waiting", disconnect: "idle", due: "-", failed: "-", offline: "-", opened: "-", probe_failed: "-", probe_synced: "-",
    restart: "-", start: "-", stop: "stopped", synced: "synced", token_failed: "-", wake: "-",
  },
  synced: {
    closed: "waiting", disconnect: "idle", due: "-", failed: "-", offline: "-", opened: "-", probe_failed: "synced", probe_synced: "-",
    restart: "-", start: "-", stop: "stopped", synced: "-", token_failed: "-", wake: "-",
  },
  offline: {
    closed: "-", disconnect: "idle", due: "-", failed: "-", offline: "-", opened: "-", probe_failed: "-", probe_synced: "-",
    restart: "-", start: "-", stop: "stopped", synced: "-", token_failed: "-", wake: "waiting",
  },
  stopped: {
    closed: "-", disconnect: "-", due: "-", failed: "-", offline: "-", opened: "-", probe_failed: "-", probe_synced: "-",
    restart: "waiting", start: "-", stop: "-", synced: "-", token_failed: "-", wake: "-",
  },
};

test("S1 the transition table: every state, every event", () => {
  for (const from of Object.keys(EXPECTED) as StateKind[]) {
    for (const event of Object.keys(SAMPLE) as EventKind[]) {
      const walk = new Walk();
      walk.apply(...WAY_TO[from]);
      const before = walk.state;
      assert.equal(before.kind, from);
      const effects = walk.apply(SAMPLE[event]);
      const expected = EXPECTED[from][event];
      assert.equal(walk.state.kind, expected === "-" ? from : expected, `${from} ${event}`);
      if (expected === "-") assert.deepEqual([walk.state === before, effects.length], [true, 0], `${from} ${event}`);
    }
  }
});

describe("S1 advance", () => {
  test("C.41 it starts at entry 0, without a delay", () => {
    assert.deepEqual(new Walk().apply(SAMPLE.start), [{ kind: "connect", index: 0, afterMs: 0 }]);
  });

  test("C.42 each way to fail before the open advances once, and a fresh entry is tried at once", () => {
    for (const trigger of ["close_before_open", "error_before_open", "open_timeout"] as const) {
      const walk = new Walk().started();
      const effects = walk.apply(SAMPLE.due, { kind: "failed", trigger });
      assert.equal(walk.index, 1);
      assert.deepEqual(walk.events, [{ name: "relay_advance", fromLabel: "cf", toLabel: "deno", trigger, at: walk.now }]);
      assert.equal(delayOf(effects), 0);
      // The late close of the same socket says nothing more.
      walk.apply(CLOSE_1006, { kind: "failed", trigger });
      assert.equal(walk.advances.length, 1);
    }
  });

  test("C.43 two abnormal closes in a row after an open advance; one does not", () => {
    const walk = new Walk().started();
    walk.apply(...OPEN_THEN(1006));
    assert.equal(walk.index, 0);
    walk.apply(...OPEN_THEN(1006));
    assert.deepEqual(walk.advances, ["cf deno abnormal_closes"]);
  });

  test("abnormal is what a platform calls it: 0, 1001, 1006, 1011, 1013", () => {
    for (const code of [0, 1001, 1006, 1011, 1013]) {
      const walk = new Walk().started();
      walk.apply(...OPEN_THEN(code), ...OPEN_THEN(code));
      assert.equal(walk.index, 1, String(code));
    }
  });

  test("C.43 C.45 1000 resets the count and keeps the position", () => {
    const walk = new Walk().started();
    walk.apply(...FAIL, ...OPEN_THEN(1006), ...OPEN_THEN(1000), ...OPEN_THEN(1006));
    assert.equal(walk.index, 1);
    walk.apply(...OPEN_THEN(1006));
    assert.equal(walk.index, 2);
  });

  test("4401, 4429 and a loss while the browser is offline are no strikes", () => {
    const walk = new Walk().started();
    walk.apply(...OPEN_THEN(1006), ...OPEN_THEN(4401), ...OPEN_THEN(4429), ...OPEN_THEN(1012));
    walk.apply(SAMPLE.due, SAMPLE.opened, SAMPLE.synced, { kind: "closed", code: 1006, offline: true });
    assert.equal(walk.index, 0);
    walk.apply(...OPEN_THEN(1006));
    assert.equal(walk.index, 1, "the one strike before them still counts");
  });

  test("1012 goes to the same entry first, after a strike too; a relay that never comes back is left", () => {
    const walk = new Walk().started();
    walk.apply(...OPEN_THEN(1006));
    for (let restart = 0; restart < 20; restart += 1) walk.apply(...OPEN_THEN(1012));
    assert.equal(walk.index, 0, "a relay that works in between may restart as often as it likes");
    const lost = new Walk().started();
    const bare: WalkerEvent[] = [SAMPLE.due, SAMPLE.opened, { kind: "closed", code: 1012 }];
    lost.apply(...bare, ...bare);
    assert.equal(lost.index, 0);
    lost.apply(...bare);
    assert.equal(lost.index, 1);
  });

  test("C.44 after the last it wraps to 0 with one cycle event, once for each cycle", () => {
    const walk = new Walk().started();
    for (let tries = 0; tries < 9; tries += 1) walk.apply(...FAIL);
    assert.deepEqual([walk.index, walk.cycles, walk.advances.length], [0, 3, 9]);
    assert.deepEqual(walk.events.filter(({ name }) => name === "relay_cycle_all_failed")[0], { name: "relay_cycle_all_failed", labels: ["cf", "deno", "third"], at: walk.now });
  });

  test("a list of one cycles without advancing", () => {
    const walk = new Walk({ labels: ["cf"] }).started();
    assert.ok(delayOf(walk.apply(...FAIL)) >= WALKER_TIMES.minDelayMs);
    assert.deepEqual([walk.index, walk.cycles, walk.advances.length], [0, 1, 0]);
  });

  test("C.45 the position outlives a disconnect", () => {
    const walk = new Walk().started();
    walk.apply(...FAIL, SAMPLE.due, SAMPLE.opened, SAMPLE.disconnect, SAMPLE.start);
    assert.equal(walk.index, 1);
  });

  test("C.40 two walkers have positions of their own", () => {
    const [one, other] = [new Walk().started(), new Walk().started()];
    one.apply(...FAIL);
    assert.deepEqual([one.index, other.index], [1, 0]);
  });
});

describe("S2 pin", () => {
  test("C.47 C.48 100 failures: no advance, no cycle event, no probe", () => {
    const walk = new Walk({ pinned: 1 }).started();
    for (let tries = 0; tries < 50; tries += 1) walk.apply(...FAIL, ...OPEN_THEN(1006));
    assert.equal(walk.index, 1);
    assert.deepEqual(walk.events, []);
    assert.ok(!walk.effects.some(({ kind }) => kind === "probe"));
    assert.ok(walk.effects.every((effect) => effect.kind !== "connect" || effect.index === 1));
  });
});

describe("S1 tokens", () => {
  test("4401 asks for a fresh token and tries once more; the second in a row stops", () => {
    const walk = new Walk().started();
    const effects = walk.apply(SAMPLE.due, SAMPLE.opened, { kind: "closed", code: 4401 });
    assert.deepEqual(effects.map(({ kind }) => kind), ["refreshToken", "connect"]);
    assert.deepEqual(effects[0], { kind: "refreshToken", required: true });
    walk.apply(SAMPLE.due, SAMPLE.opened, { kind: "closed", code: 4401 });
    assert.deepEqual([walk.state.kind, walk.state.kind === "stopped" && walk.state.reason], ["stopped", "token_rejected"]);
  });

  test("a sync in between makes it the first again", () => {
    const walk = new Walk().started();
    for (let hour = 0; hour < 6; hour += 1) walk.apply(...OPEN_THEN(4401));
    assert.equal(walk.state.kind, "waiting");
  });

  test("no token: the same entry with backoff; none ever: stop", () => {
    const walk = new Walk().started();
    const delays = [0, 1, 2].map(() => delayOf(walk.apply(SAMPLE.due, SAMPLE.token_failed)));
    assert.deepEqual([walk.index, walk.events.length], [0, 0]);
    assert.ok(delays[2]! > delays[1]! && delays[1]! > delays[0]!);
    walk.apply(SAMPLE.due, { kind: "token_failed", final: true });
    assert.equal(walk.state.kind === "stopped" && walk.state.reason, "token_refused");
  });

  test("after a failed open another token is preferred, not required", () => {
    const effects = new Walk().started().apply(...FAIL);
    assert.deepEqual(effects[0], { kind: "refreshToken", required: false });
  });
});

describe("S1 stop band", () => {
  const reasons = { 1009: "frame_too_large", 4400: "protocol_violation", 4403: "forbidden", 4404: "deleted", 4409: "epoch_changed", 4413: "document_too_large", 4450: "refused" };
  for (const [code, reason] of Object.entries(reasons)) {
    test(`${code} stops with ${reason}, until restart`, () => {
      const walk = new Walk().started();
      const effects = walk.apply(...OPEN_THEN(Number(code)));
      assert.deepEqual(effects.at(-1), { kind: "stop", reason });
      for (const event of Object.values(SAMPLE)) if (event.kind !== "restart") walk.apply(event);
      assert.equal(walk.state.kind, "stopped");
      walk.apply(SAMPLE.restart);
      assert.equal(walk.state.kind, "waiting");
    });
  }
});

describe("S1 probe", () => {
  /** On entry 2, synced. */
  function fallback(): Walk {
    const walk = new Walk().started();
    walk.apply(...FAIL, ...FAIL, SAMPLE.due, SAMPLE.opened);
    return walk;
  }

  test("a fallback probes the earlier entries in turn, slowly and with jitter", () => {
    const walk = fallback();
    const targets: unknown[] = [walk.apply(SAMPLE.synced)[0]];
    for (const random of [0, 0.5, 0.999]) {
      walk.random = random;
      targets.push(walk.apply(SAMPLE.probe_failed)[0]);
    }
    const { probeMs } = WALKER_TIMES;
    assert.deepEqual(targets, [
      { kind: "probe", index: 0, afterMs: probeMs },
      { kind: "probe", index: 1, afterMs: probeMs * 0.5 },
      { kind: "probe", index: 0, afterMs: probeMs },
      { kind: "probe", index: 1, afterMs: probeMs * 1.499 },
    ]);
    assert.equal(walk.index, 2);
  });

  test("a probe that synced moves back, with one event, and goes on probing from a middle entry", () => {
    const walk = fallback();
    walk.apply(SAMPLE.synced, SAMPLE.probe_failed);
    const effects = walk.apply(SAMPLE.probe_synced);
    assert.deepEqual(effects.map(({ kind }) => kind), ["emit", "adoptProbe", "probe"]);
    assert.deepEqual(walk.events.at(-1), { name: "relay_advance", fromLabel: "third", toLabel: "deno", trigger: "recovered", at: walk.now });
    assert.deepEqual([walk.index, walk.state.kind], [1, "synced"]);
    assert.deepEqual(walk.apply(SAMPLE.probe_synced).map(({ kind }) => kind), ["emit", "adoptProbe"]);
    assert.equal(walk.index, 0);
  });

  test("a probe ends with the connection that it was to replace", () => {
    const walk = fallback();
    walk.apply(SAMPLE.synced);
    assert.equal(walk.apply(CLOSE_1006)[0]?.kind, "cancelProbe");
    const before = walk.state;
    walk.apply(SAMPLE.probe_synced, SAMPLE.probe_failed);
    assert.equal(walk.state, before);
  });
});

describe("delays", () => {
  test("full jitter: the ceiling doubles up to the cap, the floor stays", () => {
    const walk = new Walk({ labels: ["cf"] }).started();
    const { baseMs, capMs, minDelayMs } = WALKER_TIMES;
    for (let tries = 0; tries < 12; tries += 1) {
      walk.random = tries % 2 === 0 ? 0 : 0.999999;
      const delay = delayOf(walk.apply(...FAIL));
      const ceiling = Math.min(capMs, baseMs * 2 ** tries);
      if (tries % 2 === 0) assert.equal(delay, minDelayMs);
      else assert.ok(delay > ceiling * 0.99 && delay < ceiling, `${tries}: ${delay}`);
    }
  });

  test("only a stable connection ends the backoff and makes entries fresh again", () => {
    const walk = new Walk({ labels: ["cf"] }).started();
    for (let tries = 0; tries < 5; tries += 1) walk.apply(...FAIL);
    assert.equal(delayOf(walk.apply(...OPEN_THEN(1006))), 15_050, "it synced, and died at once");
    walk.apply(SAMPLE.due, SAMPLE.opened, SAMPLE.synced);
    walk.now += WALKER_TIMES.stableMs;
    assert.equal(delayOf(walk.apply(CLOSE_1006)), 1_050);
  });

  test("4429 waits at least its delay, and longer each time", () => {
    const walk = new Walk().started();
    const delays = [0, 1, 2].map(() => delayOf(walk.apply(...OPEN_THEN(4429))));
    assert.deepEqual(delays, [6_000, 7_000, 9_000]);
  });

  test("online again, or visible: soon", () => {
    const walk = new Walk({ labels: ["cf"] }).started();
    for (let tries = 0; tries < 9; tries += 1) walk.apply(...FAIL);
    assert.equal(delayOf(walk.apply(SAMPLE.wake)), 550);
    walk.apply(SAMPLE.offline);
    assert.equal(delayOf(walk.apply(SAMPLE.wake)), 550);
  });

  /** Times at which `count` walkers come after the same event, from evenly spread random numbers. */
  function arrivals(count: number, code: number): number[] {
    return Array.from({ length: count }, (_, client) => {
      const walk = new Walk().started();
      // The golden ratio's multiples fill an interval evenly and in no order.
      walk.random = (client * 0.6180339887) % 1;
      return delayOf(walk.apply(...OPEN_THEN(code)));
    });
  }

  function busiest(times: number[], bucketMs: number): number {
    const counts = new Map<number, number>();
    for (const time of times) counts.set(Math.floor(time / bucketMs), (counts.get(Math.floor(time / bucketMs)) ?? 0) + 1);
    return Math.max(...counts.values());
  }

  test("B08 500 clients of a relay that restarts come back over 5 s and more, under 150 a second", () => {
    const times = arrivals(500, 1012);
    assert.ok(Math.max(...times) - Math.min(...times) >= 5_000);
    assert.ok(busiest(times, 1_000) < 150, String(busiest(times, 1_000)));
  });

  test("A.25 1,000 clients of a relay that was killed: no 100 ms have more than 6 % of them", () => {
    const times = arrivals(1_000, 1006);
    assert.ok(busiest(times, 100) <= 60, String(busiest(times, 100)));
  });
});
