// Properties of the walker over random sequences of events, sensible or not.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { WALKER_TIMES, initialState, step } from "./relay-walker.ts";
import type { Effect, WalkerConfig, WalkerEvent, WalkerInput, WalkerState } from "./relay-walker.ts";

const RUNS = { numRuns: 2_000 };
const CODES = [0, 1000, 1001, 1006, 1009, 1011, 1012, 1013, 4400, 4401, 4403, 4404, 4409, 4413, 4429, 4450];

/** A value for each kind of event, so that the compiler asks for the generator of a new one. */
const EVENTS: Record<WalkerEvent["kind"], fc.Arbitrary<WalkerEvent>> = {
  closed: fc.record({ kind: fc.constant("closed" as const), code: fc.constantFrom(...CODES), offline: fc.boolean() }),
  disconnect: fc.constant({ kind: "disconnect" }),
  due: fc.constant({ kind: "due" }),
  failed: fc.record({ kind: fc.constant("failed" as const), trigger: fc.constantFrom("close_before_open" as const, "error_before_open" as const, "open_timeout" as const) }),
  offline: fc.constant({ kind: "offline" }),
  opened: fc.constant({ kind: "opened" }),
  probe_failed: fc.constant({ kind: "probe_failed" }),
  probe_synced: fc.constant({ kind: "probe_synced" }),
  restart: fc.constant({ kind: "restart" }),
  start: fc.constant({ kind: "start" }),
  stop: fc.constant({ kind: "stop", reason: "frame_too_large" }),
  synced: fc.constant({ kind: "synced" }),
  token_failed: fc.record({ kind: fc.constant("token_failed" as const), final: fc.boolean() }),
  wake: fc.constant({ kind: "wake" }),
};
/** The life of a connection comes more often than the rest, else few sequences get far. */
const LIFE = (["due", "due", "due", "opened", "opened", "synced", "failed", "closed", "closed", "start"] as const).map((kind) => EVENTS[kind]);
const MOMENT = fc.record({
  event: fc.oneof(...Object.values(EVENTS), ...LIFE),
  random: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  passed: fc.integer({ min: -3_600_000, max: 3_600_000 }),
});
const SEQUENCE = fc.array(MOMENT, { maxLength: 150, size: "max" });
const COUNT = fc.integer({ min: 1, max: 5 });

interface Taken {
  before: WalkerState;
  event: WalkerEvent;
  after: WalkerState;
  effects: readonly Effect[];
  input: WalkerInput;
}

function walk(count: number, pinned: number | null, moments: readonly { event: WalkerEvent; random: number; passed: number }[]): Taken[] {
  const labels = Array.from({ length: count }, (_, index) => `relay-${index}`);
  const config: WalkerConfig = { labels, pinned, times: WALKER_TIMES };
  let state = initialState(config);
  let now = 0;
  return moments.map(({ event, random, passed }) => {
    now += passed;
    const before = state;
    const input = { config, now, random };
    const { state: after, effects } = step(before, event, input);
    state = after;
    return { before, event, after, effects, input };
  });
}

const emitted = (taken: Taken[]) => taken.flatMap(({ effects }) => effects.flatMap((effect) => (effect.kind === "emit" ? [effect.event] : [])));

test("C.45 S1 the index stays in range, and moves by one forward or to an entry that was probed", () => {
  fc.assert(
    fc.property(COUNT, SEQUENCE, (count, moments) => {
      for (const { before, after, event } of walk(count, null, moments)) {
        assert.ok(after.at.index >= 0 && after.at.index < count);
        if (after.at.index === before.at.index) continue;
        if (event.kind === "probe_synced") assert.ok(after.at.index < before.at.index);
        else assert.equal(after.at.index, (before.at.index + 1) % count);
      }
    }),
    RUNS,
  );
});

test("C.44 C.46 S1 each change of the index has one relay_advance with its labels, each wrap one cycle event, and nothing else has any", () => {
  fc.assert(
    fc.property(COUNT, SEQUENCE, (count, moments) => {
      const taken = walk(count, null, moments);
      for (const one of taken) {
        const { before, after, event } = one;
        const events = emitted([one]);
        const moved = before.at.index !== after.at.index;
        const advances = events.filter(({ name }) => name === "relay_advance");
        assert.equal(advances.length, moved ? 1 : 0);
        for (const advance of advances) {
          assert.ok(advance.name === "relay_advance");
          assert.deepEqual([advance.fromLabel, advance.toLabel], [`relay-${before.at.index}`, `relay-${after.at.index}`]);
        }
        const wrapped = event.kind !== "probe_synced" && before.at.index === count - 1 && moved;
        const cycles = events.filter(({ name }) => name === "relay_cycle_all_failed").length;
        if (count > 1) assert.equal(cycles, wrapped ? 1 : 0);
        else assert.ok(cycles <= 1);
      }
    }),
    RUNS,
  );
});

test("C.47 C.48 S2 pinned: no advance, no event, no probe, and every try goes to the pinned entry", () => {
  fc.assert(
    fc.property(COUNT, SEQUENCE, (count, moments) => {
      const pinned = count - 1;
      const taken = walk(count, pinned, moments);
      assert.deepEqual(emitted(taken), []);
      for (const { after, effects } of taken) {
        assert.equal(after.at.index, pinned);
        for (const effect of effects) {
          assert.notEqual(effect.kind, "probe");
          if (effect.kind === "connect" || effect.kind === "openSocket") assert.equal(effect.index, pinned);
        }
      }
    }),
    RUNS,
  );
});

test("S1 a stop is final until restart, and has told its reason", () => {
  fc.assert(
    fc.property(COUNT, SEQUENCE, (count, moments) => {
      for (const { before, after, event, effects } of walk(count, null, moments)) {
        const stops = effects.filter((effect) => effect.kind === "stop");
        assert.equal(stops.length, after.kind === "stopped" && before.kind !== "stopped" ? 1 : 0);
        if (stops[0] && after.kind === "stopped") assert.equal(stops[0].reason, after.reason);
        if (before.kind === "stopped" && event.kind !== "restart") assert.deepEqual([after, effects], [before, []]);
      }
    }),
    RUNS,
  );
});

test("every delay is within its bounds; without one are only a start and fresh entries, so there is no busy loop", () => {
  fc.assert(
    fc.property(COUNT, SEQUENCE, (count, moments) => {
      let immediate = 0;
      const { minDelayMs, capMs, rateLimitMs, probeMs } = WALKER_TIMES;
      for (const { before, after, event, effects } of walk(count, null, moments)) {
        if (event.kind === "start" || event.kind === "restart") immediate = 0;
        // Stable since the connection before: entries are fresh again.
        if (before.kind === "synced" && after.at.fresh > before.at.fresh) immediate = 0;
        for (const effect of effects) {
          if (effect.kind === "probe") assert.ok(effect.afterMs >= probeMs / 2 && effect.afterMs <= probeMs * 1.5);
          if (effect.kind !== "connect") continue;
          assert.ok(effect.afterMs === 0 || (effect.afterMs >= minDelayMs && effect.afterMs <= rateLimitMs + capMs), String(effect.afterMs));
          if (effect.afterMs === 0) immediate += 1;
          assert.ok(immediate <= count, `${immediate} tries without a delay among ${count} entries`);
        }
      }
    }),
    RUNS,
  );
});

test("a walker that is neither idle nor stopped waits for something that its effects started", () => {
  fc.assert(
    fc.property(COUNT, SEQUENCE, (count, moments) => {
      for (const { before, after, effects } of walk(count, null, moments)) {
        const has = (kind: Effect["kind"]) => effects.some((effect) => effect.kind === kind);
        if (after.kind === "waiting" && after !== before) assert.ok(has("connect"));
        if (after.kind === "connecting" && before.kind !== "connecting") assert.ok(has("openSocket"));
        if (before.kind === "synced" && after.kind !== "synced") assert.ok(has("cancelProbe"));
        if (["idle", "offline"].includes(after.kind) && after !== before) assert.ok(has("closeSocket"));
      }
    }),
    RUNS,
  );
});
