import assert from "node:assert/strict";
import { until } from "./_test_support.ts";
import { type Delays, People } from "./people.ts";
import type { Present, Said } from "./storage.ts";

const SOON = { row: 400, renew: 200, linger: 20, retry: { min: 1, max: 5 } };
const later = () => Date.now() + 600_000;

/** People whose API is scripted: what it was told, in order, and what it answers; "said" when nothing is left. */
function told(delays: Partial<Delays> = {}) {
  const calls: string[] = [];
  const answers: Said[] = [];
  let running = 0;
  const say = async (what: string, { workspace, sub, session }: Present): Promise<Said> => {
    running += 1;
    assert.equal(running, 1, "one call at a time");
    await new Promise((settle) => setTimeout(settle, 1));
    running -= 1;
    calls.push(`${what} ${workspace} ${sub} ${session}`);
    return answers.shift() ?? "said";
  };
  const people = new People({
    session: "deno",
    present: (who, ttl) => say(`here ${ttl}`, who),
    absent: (who) => say("gone", who),
    delays: { linger: 20, retry: SOON.retry, ...delays },
  });
  return { people, calls, answers };
}

Deno.test("A09 S3 a person comes and goes with one call each, however many tabs", async () => {
  const { people, calls } = told();
  const leaves = [1, 2, 3].map(() => people.enter("w", "ann", later()));
  const other = people.enter("v", "ann", later());
  await until(() => calls.length === 2, "both workspaces are told");
  assert.deepEqual(calls, ["here 300 w ann deno", "here 300 v ann deno"]);
  for (const leave of leaves.slice(1)) leave();
  leaves[1]?.();
  other();
  await until(() => calls.length === 3, "who left is told");
  leaves[0]?.();
  await until(() => people.count === 0, "nothing is kept of who left");
  assert.deepEqual(calls.slice(2), ["gone v ann deno", "gone w ann deno"]);
});

Deno.test("a socket in place of another, as with a fresh token, is neither a leave nor a join", async () => {
  const { people, calls } = told();
  let leave = people.enter("w", "ann", later());
  await until(() => calls.length === 1, "she is told");
  for (let reload = 0; reload < 5; reload += 1) {
    leave();
    leave = people.enter("w", "ann", later());
  }
  leave();
  await until(() => people.count === 0, "she left");
  assert.deepEqual(calls, ["here 300 w ann deno", "gone w ann deno"]);
});

Deno.test("the people of a workspace that moved to another replica are told by that one, until they come here again", async () => {
  const { people, calls } = told();
  const leave = people.enter("w", "ann", later());
  const stay = people.enter("v", "ann", later());
  await until(() => calls.length === 2, "both workspaces are told");
  people.moved("w");
  leave();
  await until(() => people.count === 1, "she is forgotten there");
  const again = people.enter("w", "ann", later());
  await until(() => calls.length === 3, "she came again");
  again();
  stay();
  await until(() => people.count === 0, "she left");
  assert.deepEqual(calls.slice(2, 3), ["here 300 w ann deno"]);
  assert.deepEqual(calls.slice(3).sort(), ["gone v ann deno", "gone w ann deno"]);
});

Deno.test("a row that is about to end is renewed while a token is good, and no longer", async () => {
  const { people, calls } = told(SOON);
  const leave = people.enter("w", "ann", later());
  const ended = people.enter("w", "bob", Date.now() - 1);
  await until(() => calls.length === 3, "two renewals");
  leave();
  await until(() => people.count === 1, "she left");
  ended();
  await until(() => people.count === 0, "nobody is kept");
  assert.deepEqual(calls.slice(0, 3), Array(3).fill("here 0.4 w ann deno"));
  assert.equal(calls.filter((call) => call.startsWith("gone")).length, 1);
  assert.ok(calls.every((call) => call.includes(" ann ")), "whose token is over is nobody");
});

Deno.test("A.12 a renewal that fails does not take the row: it is tried again", async () => {
  const { people, calls, answers } = told(SOON);
  const leave = people.enter("w", "ann", later());
  await until(() => calls.length === 1, "she is told");
  answers.push("unknown", "unknown", "said");
  await until(() => calls.length === 4, "the third try");
  assert.deepEqual(calls, Array(4).fill("here 0.4 w ann deno"), "renewed, and never removed");
  leave();
  await until(() => people.count === 0, "she left");
});

Deno.test("A.13 what nobody answers is said again, and a row that may be there goes with its person", async () => {
  const { people, calls, answers } = told();
  answers.push("unknown", "unknown");
  const leave = people.enter("w", "ann", later());
  await until(() => calls.length === 3, "the third try is answered");
  answers.push("unknown");
  leave();
  await until(() => people.count === 0, "she left");
  assert.deepEqual(calls.map((call) => call.split(" ")[0]), ["here", "here", "here", "gone", "gone"]);
  answers.push("unknown");
  const [again] = [people.enter("w", "bob", later())];
  await until(() => calls.length === 6, "the first try");
  again();
  await until(() => people.count === 0, "he left");
  assert.equal(calls.at(-1), "gone w bob deno");
});

Deno.test("what the API refuses is not said again until somebody comes, and a stop says nothing", async () => {
  const { people, calls, answers } = told();
  answers.push("refused");
  const leave = people.enter("w", "ann", later());
  await until(() => calls.length === 1, "it was refused");
  leave();
  await until(() => people.count === 0, "there is no row to remove");
  const stays = people.enter("w", "ann", later());
  await until(() => calls.length === 2, "said again");
  people.stop();
  stays();
  people.enter("w", "bob", later());
  await new Promise((settle) => setTimeout(settle, 100));
  assert.equal(calls.length, 2);
});
