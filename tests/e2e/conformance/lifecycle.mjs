// Rooms under joins, leaves and lost connections.
import assert from "node:assert/strict";
import { test } from "node:test";
import { STEP_1, awarenessEntries, awarenessFrame, isStep1, textAt, textUpdate, updateFrame } from "../support/frames.mjs";
import { sleep, until } from "../support/waiting.mjs";

export function lifecycleTests(relay) {
  test("R05 ten of twenty connections are reset while the others send: the ten others get everything", async () => {
    const workspace = await relay().workspace();
    const clients = await Promise.all(Array.from({ length: 20 }, () => workspace.connect()));
    for (const [index, client] of clients.entries()) {
      client.send(STEP_1);
      client.send(awarenessFrame([[500 + index, 1, { index }]]));
      await client.settled();
    }
    const survivors = clients.slice(0, 10);
    const doomed = clients.slice(10);
    let sent = 0;
    for (let round = 0; round < 20; round += 1) {
      for (const client of survivors) client.send(updateFrame(textUpdate(10_000 + (sent += 1), 1)));
      if (round % 2 === 1) doomed[(round - 1) / 2].reset();
      await sleep(20);
    }
    for (const client of survivors) {
      // Its own 20 do not come back, or do when a hot room packs them for all.
      await until(() => textAt(client).length >= sent - 20, "every message at a survivor");
      const gone = () => client.frames.flatMap((frame) => awarenessEntries(frame) ?? []).filter(([, , state]) => state === null);
      await until(() => gone().length >= 10, "the leaves of the ten");
      await client.settled();
      assert.deepEqual(gone().map(([id]) => id).sort(), doomed.map((_, index) => 510 + index), "each leave comes once");
      assert.equal(client.closed, undefined);
    }
    assert.equal((await workspace.text()).length, sent);
    for (const client of survivors) await client.close();
  });

  test("a close of the client is answered with its own code, while others keep the room awake", async () => {
    const workspace = await relay().workspace();
    const witness = await workspace.connect();
    const ticking = setInterval(() => witness.say({ type: "hello", changes: false }), 1_000);
    try {
      for (const code of [1000, 1001, 4999]) {
        const client = await workspace.connect();
        client.send(STEP_1);
        await client.next(isStep1);
        assert.equal((await client.close(code)).code, code);
      }
      const client = await workspace.connect();
      assert.equal((await client.close(undefined)).code, 1005, "a close frame without a code");
    } finally {
      clearInterval(ticking);
    }
    assert.equal((await workspace.inspect()).clients, 1);
  });

  test("R08 200 rounds of a last one that leaves while the next one joins: no update is lost", async () => {
    const lanes = await Promise.all([relay().workspace(), relay().workspace()]);
    const rounds = 100;
    await Promise.all(lanes.map(async (workspace) => {
      let last = await workspace.connect();
      for (let round = 0; round < rounds; round += 1) {
        const closing = last.close();
        await sleep((round * 7) % 51);
        const next = await workspace.connect();
        next.send(STEP_1);
        next.send(updateFrame(textUpdate(1_000 + round, 1)));
        await next.next(isStep1);
        await closing;
        last = next;
      }
      await last.close();
      await until(async () => (await workspace.text())?.length === rounds, "every update over REST");
      assert.equal((await workspace.inspect()).clients, 0);
    }));
  });
}
