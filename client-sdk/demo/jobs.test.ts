// The board's model over records in memory, which answer when the test lets them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import type { FeedItem, Write } from "../src/index.ts";
import { Jobs, jobOf } from "./jobs.ts";
import type { Records } from "./jobs.ts";

function board(stored: Record<string, unknown> = {}) {
  const nodes = new Map(Object.entries(stored).map(([path, value], clock) => [path, { clock, value }]));
  const asked: { write: Write; settle: (clock: number) => void; refuse: (error: Error) => void }[] = [];
  const refused: unknown[] = [];
  let tell: (item: FeedItem) => void = () => {};
  const state = { isAway: false };
  const records: Records = {
    applyOp: (write) => new Promise((settle, refuse) => asked.push({ write, settle: (clock) => settle({ clock }), refuse })),
    changes: (listener) => ((tell = listener), () => {}),
    list: async function* () {
      if (state.isAway) throw new Error("away");
      for (const path of nodes.keys()) yield { path, kind: "record" };
    },
    node: async (path) => {
      const node = nodes.get(path);
      if (state.isAway || node === undefined) throw Object.assign(new Error(path), { code: state.isAway ? "unreachable" : "node_not_found" });
      return node;
    },
  };
  const jobs = new Jobs(records, { changed: () => {}, refused: (error) => refused.push(error) });
  const change = (kind: "delete" | "patch", path: string, clock: number) => tell({ kind, path, clock, actor: "bot", at: 0 });
  const shown = () => jobs.list.map(({ path, state, by }) => `${path} ${state} ${by ?? "-"}`);
  return { jobs, nodes, asked, refused, state, change, shown };
}

const OPEN = { title: "one", state: "open" };

test("what a person asks for is shown at once, and stays when it is committed", async () => {
  const { jobs, asked, shown } = board({ "jobs/1": OPEN });
  await jobs.load();
  jobs.move(jobs.list[0]!, "claimed", "wren-1");
  assert.deepEqual(shown(), ["jobs/1 claimed wren-1"]);
  assert.deepEqual(asked[0]!.write, { op: "patch", path: "jobs/1", patch: { state: "claimed", by: "wren-1" } });
  asked[0]!.settle(7);
  await turn();
  assert.deepEqual(shown(), ["jobs/1 claimed wren-1"]);
});

test("what is refused is taken back and told", async () => {
  const { jobs, asked, refused, shown } = board({ "jobs/1": OPEN });
  await jobs.load();
  jobs.remove(jobs.list[0]!);
  assert.deepEqual(shown(), []);
  asked[0]!.refuse(new Error("no"));
  await turn();
  assert.deepEqual([shown(), refused.length], [["jobs/1 open -"], 1]);
});

test("what others do is read; an answer that is older than what is known changes nothing", async () => {
  const { jobs, nodes, change, shown } = board({ "jobs/1": OPEN, "jobs/2": OPEN });
  await jobs.load();
  nodes.set("jobs/1", { clock: 9, value: { title: "one", state: "done", by: "bot" } });
  change("patch", "jobs/1", 9);
  await turn();
  assert.deepEqual(shown(), ["jobs/1 done bot", "jobs/2 open -"]);
  nodes.set("jobs/1", { clock: 4, value: OPEN });
  change("patch", "jobs/1", 4);
  change("delete", "jobs", 10);
  await turn();
  assert.deepEqual(shown(), [], "everything below a deleted path is gone, and the late answer brings nothing back");
});

test("a board that could not be read is read when the API is back", async () => {
  const { jobs, state, shown } = board({ "jobs/1": OPEN });
  state.isAway = true;
  await jobs.load();
  assert.deepEqual([jobs.isLoaded, shown()], [false, []]);
  state.isAway = false;
  await jobs.load();
  assert.deepEqual([jobs.isLoaded, shown()], [true, ["jobs/1 open -"]]);
});

test("records that are no jobs are not shown", () => {
  for (const value of [null, 1, [], {}, { state: "lost" }]) assert.equal(jobOf("jobs/x", value), null);
  assert.equal(jobOf("jobs/x", { state: "open", title: 5 })!.title, "jobs/x");
});
