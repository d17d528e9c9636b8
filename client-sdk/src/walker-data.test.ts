// The walker's answers to every event in every state, as data: the simulator's walker is another
// program (sim/src/people/walker.rs) and has to give the same. `UPDATE_WALKER_TABLE=1` writes the file.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { WALKER_TIMES, step } from "./relay-walker.ts";
import type { Position, WalkerConfig, WalkerEvent, WalkerState } from "./relay-walker.ts";
import { TABLE } from "./walker-table.ts";

const FILE = new URL("../../tests/data/walker_table.json", import.meta.url);
const NOW = 1_000_000;
const CODES = [0, 1000, 1001, 1006, 1009, 1011, 1012, 1013, 4400, 4401, 4403, 4404, 4409, 4413, 4429, 4450];

/** Values of each kind of event; the compiler asks for those of a new one. */
const EVENTS: Record<WalkerEvent["kind"], readonly WalkerEvent[]> = {
  closed: [...CODES.map((code) => ({ kind: "closed" as const, code })), { kind: "closed", code: 1006, offline: true }],
  disconnect: [{ kind: "disconnect" }],
  due: [{ kind: "due" }],
  failed: (["close_before_open", "error_before_open", "open_timeout"] as const).map((trigger) => ({ kind: "failed" as const, trigger })),
  offline: [{ kind: "offline" }],
  opened: [{ kind: "opened" }],
  probe_failed: [{ kind: "probe_failed" }],
  probe_synced: [{ kind: "probe_synced" }],
  restart: [{ kind: "restart" }],
  start: [{ kind: "start" }],
  stop: [{ kind: "stop", reason: "frame_too_large" }],
  synced: [{ kind: "synced" }],
  token_failed: [false, true].map((final) => ({ kind: "token_failed" as const, final })),
  wake: [{ kind: "wake" }],
};

const POSITIONS: readonly Position[] = [
  { index: 0, strikes: 0, restarts: 0, failures: 0, fresh: 2, refreshed: false, probe: 0 },
  { index: 1, strikes: 1, restarts: 1, failures: 3, fresh: 0, refreshed: true, probe: 0 },
  { index: 2, strikes: 1, restarts: 0, failures: 9, fresh: 1, refreshed: false, probe: 1 },
];

/** Synced lately, and for so long that the connection counts as stable. */
const SINCE = [NOW - 1_000, NOW - 60_000];

function statesOf(kind: WalkerState["kind"], at: Position): readonly WalkerState[] {
  if (kind === "synced") return SINCE.map((since) => ({ kind, at, since }));
  return [kind === "stopped" ? { kind, at, reason: "deleted" } : { kind, at }];
}

function answers(): string {
  const lines: string[] = [];
  for (const pinned of [null, 1]) {
    const config: WalkerConfig = { labels: ["a", "b", "c"], pinned, times: WALKER_TIMES };
    for (const kind of Object.keys(TABLE) as WalkerState["kind"][]) {
      // A pin changes where to go, which one position shows.
      for (const state of (pinned === null ? POSITIONS : POSITIONS.slice(1, 2)).flatMap((at) => statesOf(kind, at))) {
        for (const event of Object.values(EVENTS).flat()) {
          const taken = step(state, event, { config, now: NOW, random: 0.5 });
          // Most cells of the table are empty: the same state, and nothing to do.
          const answer = taken.state === state ? {} : { then: taken.state, effects: taken.effects };
          if (taken.state === state) assert.deepEqual(taken.effects, []);
          lines.push(JSON.stringify({ pinned, state, event, ...answer }));
        }
      }
    }
  }
  return `[\n${lines.join(",\n")}\n]\n`;
}

test("S1 the walker's table is the one that the simulator has", () => {
  const now = answers();
  if (process.env["UPDATE_WALKER_TABLE"]) writeFileSync(FILE, now);
  assert.equal(readFileSync(FILE, "utf8"), now);
});
