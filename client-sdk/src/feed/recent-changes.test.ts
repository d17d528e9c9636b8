import assert from "node:assert/strict";
import { test } from "node:test";
import { changesOf, filterOf } from "./change-filter.ts";
import { MAX_RECENT } from "../api/limits.ts";
import { RecentChanges, parseChange } from "./recent-changes.ts";
import type { Change, ChangeKind } from "../api/types.ts";

const change = (clock: number, path = "a", kind: ChangeKind = "put"): Change => ({ clock, kind, path, actor: "ann", at: 1 });

test("each clock is taken once and in order", () => {
  const recent = new RecentChanges();
  assert.deepEqual([recent.head, recent.push(change(1)), recent.after(0)], [null, "gap", undefined]);
  recent.start(5);
  assert.deepEqual([5, 6, 6, 8, 7, 8].map((clock) => recent.push(change(clock))), ["known", "taken", "known", "gap", "taken", "taken"]);
  assert.equal(recent.head, 8);
  const found = [4, 5, 6, 7, 8, 9].map((clock) => recent.after(clock));
  assert.deepEqual(found, ["behind", change(6), change(7), change(8), undefined, undefined]);
});

test("the oldest ones go", () => {
  const recent = new RecentChanges();
  recent.start(0);
  for (let clock = 1; clock <= MAX_RECENT + 10; clock += 1) recent.push(change(clock));
  assert.deepEqual([recent.after(9), recent.after(10), recent.head], ["behind", change(11), MAX_RECENT + 10]);
  recent.start(3);
  assert.deepEqual([recent.head, recent.after(2), recent.after(3)], [3, "behind", undefined]);
});

test("what is not a change is told from one, and a kind from the future is one", () => {
  const good = change(1);
  assert.deepEqual(parseChange({ ...good, more: 1 }), good);
  assert.equal(parseChange({ ...good, kind: "sing" })?.clock, 1);
  for (const bad of [null, 1, [], {}, { ...good, clock: 1.5 }, { ...good, clock: -1 }, { ...good, clock: "1" }, { ...good, path: 1 }, { ...good, at: null }]) assert.equal(parseChange(bad), null);
});

test("filters follow whole segments, kinds, deletes and moves from above, and the end of the workspace", () => {
  const jobs = filterOf({ prefix: "jobs/" });
  assert.deepEqual(["jobs", "jobs/1", "jobs2", "job", "x/jobs"].filter((path) => jobs(change(1, path))), ["jobs", "jobs/1"]);
  const one = filterOf({ prefix: "jobs/1", kinds: ["delete"] });
  assert.ok(one(change(1, "jobs", "delete")) && !one(change(1, "jobs", "put")) && !one(change(1, "jobs/1", "put")));
  const node = changesOf("jobs/1");
  const seen = [change(1, "jobs/1"), change(1, "jobs/1/log"), change(1, "jobs", "delete"), change(1, "jobs", "move"), change(1, "jobs", "put"), change(1, "", "delete_workspace")];
  assert.deepEqual(seen.map(node), [true, false, true, true, false, true]);
  assert.ok(one(change(1, "", "delete_workspace")) && filterOf({})(change(1)) && filterOf({ kinds: [] })(change(1)));
  assert.throws(() => filterOf({ kinds: ["putt" as ChangeKind] }), /"putt" is not a kind/);
});
