// Who is seen, and for how long, against a real WebSocket server.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Awareness } from "y-protocols/awareness";
import * as Y from "yjs";
import { isSynced, person } from "../test/sync-person.ts";
import type { Person } from "../test/sync-person.ts";
import { pass, until } from "../test/waiting.ts";
import { cleanups, relay } from "../test/walker-client.ts";

describe("awareness", { timeout: 60_000 }, () => {
  const names = (one: Person) => [...one.provider.awareness.getStates().values()].map((state) => state["name"] as unknown).filter(Boolean).sort();

  test("W6 nothing is renewed by a timer, and others do not time out", async () => {
    const cf = await relay();
    const [ann, ben] = [person([cf]), person([cf])];
    await until(() => isSynced(ann)() && isSynced(ben)(), "both are synced");
    ann.provider.awareness.setLocalStateField("name", "ann");
    await until(() => names(ben).includes("ann"), "ben sees ann");
    const count = () => cf.visits.flatMap(({ binary }) => binary.filter((frame) => frame[0] === 1)).length;
    const before = count();
    // What an awareness with a timer of its own does every 15 s.
    ann.provider.awareness.setLocalState(ann.provider.awareness.getLocalState());
    await pass(200);
    assert.equal(count(), before);
    assert.equal((ann.provider.awareness._checkInterval as { _destroyed?: boolean })._destroyed, true);
    ann.provider.awareness.setLocalStateField("name", "anna");
    await until(() => names(ben).includes("anna"), "a change is sent");
  });

  test("A07 who reconnects is seen at once, with a newer clock", async () => {
    const cf = await relay();
    const [ann, ben] = [person([cf]), person([cf])];
    ann.provider.awareness.setLocalStateField("name", "ann");
    await until(() => names(ben).includes("ann"), "ben sees ann");
    const clockOf = () => ben.provider.awareness.meta.get(ann.doc.clientID)?.clock ?? 0;
    const before = clockOf();
    ann.provider.disconnect();
    ann.provider.connect();
    await until(() => clockOf() > before && names(ben).includes("ann"), "ben sees a newer ann");
  });

  test("without a connection nobody else is there; with one they are again, at the same clock", async () => {
    const cf = await relay();
    const [ann, ben] = [person([cf]), person([cf])];
    ben.provider.awareness.setLocalStateField("name", "ben");
    await until(() => names(ann).includes("ben"), "ann sees ben");
    const state = cf.visits.flatMap(({ binary }) => binary).findLast((frame) => frame[0] === 1)!;
    ann.provider.disconnect();
    assert.deepEqual(names(ann), []);
    ann.provider.connect();
    await until(isSynced(ann), "synced again");
    cf.clients.at(-1)!.send(state);
    await until(() => names(ann).includes("ben"), "ann sees ben again");
  });

  test("who moves back to a relay sees who is there, and is seen, at once", async () => {
    const [cf, deno] = [await relay("cf"), await relay("deno")];
    await cf.stop();
    const ann = person([cf, deno], { times: { probeMs: 6_000 } });
    ann.provider.awareness.setLocalStateField("name", "ann");
    await until(isSynced(ann, "deno"), "ann is on deno");
    await cf.start();
    const ben = person([cf]);
    ben.provider.awareness.setLocalStateField("name", "ben");
    await until(() => names(ann).includes("ben") && names(ben).includes("ann"), "they see each other");
    assert.equal(ann.provider.status.label, "cf");
  });

  test("A06 a relay that says that this client is gone is corrected", async () => {
    const cf = await relay();
    const ann = person([cf]);
    ann.provider.awareness.setLocalStateField("name", "ann");
    await until(isSynced(ann), "synced");
    const count = () => cf.visits[0]!.binary.filter((frame) => frame[0] === 1).length;
    const other = new Awareness(new Y.Doc());
    cleanups.push(() => other.destroy());
    const before = count();
    const id = ann.doc.clientID;
    const varint = (value: number): number[] => (value > 127 ? [(value % 128) | 128, ...varint(Math.floor(value / 128))] : [value]);
    const gone = [1, ...varint(id), ...varint(50), 4, ...Buffer.from("null")];
    cf.clients[0]!.send(Uint8Array.of(1, gone.length, ...gone));
    await until(() => count() === before + 1, "it speaks up, once");
    await pass(100);
    assert.equal(count(), before + 1);
    assert.deepEqual(names(ann), ["ann"]);
  });
});

test("S9 an awareness of the application's own stays alive after destroy", { timeout: 30_000 }, async () => {
  const cf = await relay();
  const doc = new Y.Doc();
  const awareness = new Awareness(doc);
  cleanups.push(() => awareness.destroy());
  const ann = person([cf], { doc, awareness });
  await until(isSynced(ann), "synced");
  ann.provider.destroy();
  assert.equal(ann.provider.awareness, awareness);
  assert.notEqual(awareness.getLocalState(), null);
  ann.write("after");
  await pass(50);
  assert.equal(cf.text(), "");
});
