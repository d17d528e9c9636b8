// Presence of editors: who leaves is removed, and only who leaves (W5).
import assert from "node:assert/strict";
import { test } from "node:test";
import { STEP_1, awarenessEntries, awarenessFrame, isAwareness, isStep1, named } from "../support/frames.mjs";
import { stockClient } from "../support/stock-client.mjs";
import { until } from "../support/waiting.mjs";

/** The entry of a client in a frame, if it is there. */
const entryOf = (frame, client) => awarenessEntries(frame)?.find(([id]) => id === client);

async function joined(workspace, ...entries) {
  const client = await workspace.connect();
  client.send(STEP_1);
  await client.next(isStep1);
  if (entries.length > 0) client.send(awarenessFrame(entries));
  return client;
}

export function awarenessTests(relay) {
  test("A01 a client whose TCP connection is reset is removed for the others", async () => {
    const workspace = await relay().workspace();
    const a = await joined(workspace);
    const b = await joined(workspace, [201, 1, { cursor: 4 }]);
    await a.next((frame) => entryOf(frame, 201));
    b.reset();
    await a.next((frame) => entryOf(frame, 201)?.[2] === null, "B's removal at A");
  });

  test("A.23 A02 who leaves takes exactly its own ids, both of them, and nobody else's", async () => {
    const workspace = await relay().workspace();
    const a = await joined(workspace, [101, 1, { name: "A" }]);
    const c = await joined(workspace, [301, 1, { name: "C" }]);
    const b = await joined(workspace, [201, 1, { name: "B" }], [202, 5, { name: "B2" }]);
    for (const other of [a, c]) await other.next((frame) => entryOf(frame, 201));
    await b.close();
    for (const other of [a, c]) {
      const frame = await other.next((hex) => awarenessEntries(hex)?.some(([, , state]) => state === null), "B's removal");
      const entries = awarenessEntries(frame);
      assert.deepEqual(entries.map(([client, , state]) => [client, state]).sort(), [[201, null], [202, null]]);
    }
    const late = await joined(workspace);
    await until(() => late.frames.some(isAwareness), "the presences of A and C");
    assert.deepEqual(late.frames.filter(isAwareness).flatMap(awarenessEntries).map(([client]) => client).sort(), [101, 301]);
  });

  test("A03 W5 a sender gets its own awareness back, which keeps a lone stock client connected", async () => {
    const workspace = await relay().workspace();
    const a = await workspace.connect();
    a.send(named("F06").frame);
    assert.equal(await a.next(isAwareness), named("F06").frame.toString("hex"));
  });

  test("A07 a client that rejoins is visible again, whatever the relay remembers of it", async () => {
    const workspace = await relay().workspace();
    const a = await stockClient(workspace);
    const b = await stockClient(workspace);
    try {
      b.awareness.setLocalStateField("user", { name: "B" });
      await until(() => a.awareness.getStates().get(b.doc.clientID)?.user?.name === "B", "B at A");
      const before = a.awareness.meta.get(b.doc.clientID).clock;
      b.provider.disconnect();
      await until(() => !a.awareness.getStates().has(b.doc.clientID), "B's leave at A");
      b.provider.connect();
      b.awareness.setLocalStateField("cursor", 7);
      await until(() => a.awareness.getStates().get(b.doc.clientID)?.cursor === 7, "B at A again");
      assert.equal(a.awareness.getStates().get(b.doc.clientID).user.name, "B");
      assert.ok(a.awareness.meta.get(b.doc.clientID).clock > before, "its clock went up");
    } finally {
      a.destroy();
      b.destroy();
    }
  });
}
