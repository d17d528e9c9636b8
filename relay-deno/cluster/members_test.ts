import assert from "node:assert/strict";
import { until } from "../_test_support.ts";
import { createLog } from "../log.ts";
import { type Asked, counts, Members, type PeerAnswer, step, UNKNOWN } from "./members.ts";

const here = (instance = "b", changes: Partial<PeerAnswer> = {}): PeerAnswer => ({
  instance,
  label: "deno",
  state: "in",
  ...changes,
});

Deno.test("B.27 B.40 who counts follows from the answers of an address", () => {
  const rows: [string, Asked[], boolean][] = [
    ["a newcomer", [here()], false],
    ["three answers", [here(), here(), here()], true],
    ["one question without an answer", [here(), here(), here(), "silent"], true],
    ["two of them", [here(), here(), here(), "silent", "silent"], false],
    ["two of them, not in a row", [here(), here(), here(), "silent", here(), "silent"], true],
    ["a refusal", [here(), here(), here(), "refused"], false],
    ["another secret", [here(), here(), here(), "denied"], false],
    ["it leaves", [here(), here(), here(), here("b", { state: "leaving" })], false],
    ["back again", [here(), here(), here(), "refused", here(), here()], false],
    ["back for long enough", [here(), here(), here(), "refused", here(), here(), here()], true],
    ["another process at the address", [here(), here(), here(), here("c")], false],
    ["another relay", [1, 2, 3].map(() => here("b", { label: "third" })), false],
  ];
  for (const [what, answers, expected] of rows) {
    const standing = answers.reduce((standing, asked) => step(standing, asked, "deno"), UNKNOWN);
    assert.equal(counts(standing), expected, what);
  }
});

/** Members with scripted addresses, asked as fast as a test wants. */
async function withMembers(
  answers: Map<string, Asked>,
  test: (members: Members, changes: () => number, lines: string[]) => Promise<void>,
): Promise<void> {
  let changes = 0;
  const lines: string[] = [];
  const members = new Members({
    self: "a",
    label: "deno",
    lookup: () => Promise.resolve([...answers.keys()]),
    ask: (address) => Promise.resolve(answers.get(address) ?? "refused"),
    log: createLog("deno", (line) => lines.push(line)),
    onChange: () => changes += 1,
  });
  members.start();
  try {
    await test(members, () => changes, lines);
  } finally {
    members.stop();
  }
}

Deno.test("B.26 B.29 itself and a second address of the same replica add nothing; another label or secret is told once", async () => {
  const answers = new Map<string, Asked>([
    ["http://a", here("a")],
    ["http://b", here("b")],
    ["http://b2", here("b")],
    ["http://c", here("c", { label: "third" })],
    ["http://d", "denied"],
  ]);
  await withMembers(answers, async (members, changes, lines) => {
    await until(() => members.count === 2, "the second replica counts");
    assert.deepEqual([members.live, changes()], [[{ instance: "b", address: "http://b" }], 1]);
    const told = lines.map((line) => JSON.parse(line)).filter(({ event }) => event === "no_member");
    assert.deepEqual(told.map(({ address }) => address), ["http://c", "http://d"]);
    const workspaces = Array.from({ length: 50 }, (_, n) => `w${n}`);
    const candidates = workspaces.map((workspace) => members.candidates(workspace));
    assert.ok(candidates.every((list) => list.at(-1) === undefined), "in the end it is this replica");
    const lengths = new Set(candidates.map((list) => list.length));
    assert.deepEqual([...lengths].sort(), [1, 2], "after itself nobody is tried");
    members.failed("b");
    assert.deepEqual([members.count, changes()], [1, 2]);
    assert.deepEqual(members.candidates("w"), [undefined]);
    await until(() => members.count === 2, "it answers like a newcomer");
    for (const address of ["http://b", "http://b2"]) answers.delete(address);
    await until(() => members.count === 1, "its addresses are gone");
  });
});
