// S3: who gets a socket. The table is whole.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ConnectionPolicy, shouldOpenWs } from "./connection-policy.ts";

const COUNTS = [null, 0, 1, 2, 40] as const;

test("C.7 C.24 S3 a socket needs company and a Yjs surface, both", () => {
  const open: string[] = [];
  for (const otherHumans of COUNTS) for (const isYjs of [false, true]) if (shouldOpenWs({ otherHumans, isYjs })) open.push(`${otherHumans} ${isYjs}`);
  assert.deepEqual(open, ["1 true", "2 true", "40 true"]);
});

/** What a policy decides for each count, from closed and from open. */
function decisions(isYjs: boolean, isHidden: boolean): string {
  return COUNTS.map((otherHumans) => {
    return [false, true].map((wasOpen) => {
      const policy = new ConnectionPolicy();
      policy.evaluate({ otherHumans: wasOpen ? 1 : 0, isYjs: true }, false);
      return policy.evaluate({ otherHumans, isYjs }, isHidden) ? "open" : "-";
    }).join("/");
  }).join(" ");
}

test("S3 what is decided from each state: unknown company changes nothing, a hidden page opens nothing", () => {
  // From closed / from open, for an unknown number of others, 0, 1, 2 and 40.
  assert.equal(decisions(true, false), "-/open -/- open/open open/open open/open");
  assert.equal(decisions(true, true), "-/open -/- -/open -/open -/open");
  assert.equal(decisions(false, false), "-/- -/- -/- -/- -/-");
  assert.equal(decisions(false, true), "-/- -/- -/- -/- -/-");
});

test("a reason is taken back by itself alone, and a reason against wins", () => {
  const policy = new ConnectionPolicy();
  const alone = { otherHumans: 0, isYjs: true };
  policy.hold("application");
  policy.hold("demonstration");
  assert.equal(policy.evaluate(alone, false), true);
  policy.hold("demonstration", false);
  assert.equal(policy.evaluate(alone, false), true);
  policy.block("offline");
  assert.equal(policy.evaluate({ otherHumans: 3, isYjs: true }, false), false);
  policy.block("offline", false);
  assert.equal(policy.evaluate(alone, false), true);
  policy.hold("application", false);
  assert.equal(policy.evaluate(alone, false), false);
});
