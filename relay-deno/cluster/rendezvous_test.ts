import assert from "node:assert/strict";
import { rank } from "./rendezvous.ts";

const WORKSPACES = Array.from({ length: 2_000 }, (_, n) => `workspace-${n}`);
const instances = (count: number) => Array.from({ length: count }, () => crypto.randomUUID());
const owners = (all: string[]) => WORKSPACES.map((workspace) => rank(workspace, all)[0] ?? "");

Deno.test("A.6 every order of the same members gives the same order of owners", () => {
  const all = instances(5);
  for (const workspace of WORKSPACES.slice(0, 50)) {
    assert.deepEqual(rank(workspace, all.toReversed()), rank(workspace, all));
    assert.deepEqual(rank(workspace, all).toSorted(), all.toSorted());
  }
  assert.deepEqual(rank("w", []), []);
});

Deno.test("A.6 a member more or less moves only what it gets or had, about an equal share", () => {
  for (let count = 1; count <= 6; count += 1) {
    const all = instances(count + 1);
    const [newcomer, before, after] = [all[count], owners(all.slice(0, count)), owners(all)];
    const moved = after.filter((owner, n) => owner !== before[n]);
    assert.ok(moved.every((owner) => owner === newcomer), "only to it, and the reverse when it goes");
    const share = moved.length / WORKSPACES.length;
    // Six standard deviations of an even share of 2,000.
    const slack = 6 * Math.sqrt((1 / (count + 1)) * (count / (count + 1)) / WORKSPACES.length);
    assert.ok(Math.abs(share - 1 / (count + 1)) < slack, `${count} and one more: ${share}`);
  }
});

Deno.test("A.6 workspaces whose names hardly differ are spread as well", () => {
  const [a, b] = [..."ab"].map((letter) => `00000000-0000-4000-8000-00000000000${letter}`);
  const ofA =
    WORKSPACES.slice(0, 200).filter((workspace) => rank(workspace, [a ?? "", b ?? ""])[0] === a).length;
  assert.ok(ofA > 60 && ofA < 140, `${ofA} of 200`);
});
