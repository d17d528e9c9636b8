import assert from "node:assert/strict";
import { test } from "node:test";
import { colourOf, isPerson, kindOf, nameOf, ownPerson } from "./people.ts";

test("a name that the page gave is a person's, and any other is shown as it is", () => {
  const person = ownPerson();
  assert.ok(isPerson(person), person);
  assert.ok(!isPerson("agent-417") && !isPerson("heron-41777") && !isPerson("heron"));
  assert.deepEqual(["heron-417", "agent-417", "relay:cf"].map(nameOf), ["Heron 417", "agent-417", "People on cf"]);
  assert.equal(colourOf(person), colourOf(person));
});

test("what the presence list says of a writer comes before what its name says", () => {
  const present = new Map([["heron-417", "agent"], ["ann", "human"]] as const);
  assert.deepEqual(["heron-417", "ann", "wren-1", "bot", "relay:cf"].map((sub) => kindOf(sub, present)), ["agent", "human", "human", "agent", "relay"]);
});
