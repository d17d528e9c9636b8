// D1b: a Rust panic, asked for through the development route. The lints forbid what can panic; this
// shows what happens when something does all the same.
import assert from "node:assert/strict";
import { test } from "node:test";
import { STEP_1, isStep1, isUpdate, textUpdate, updateFrame } from "./support/frames.mjs";
import { startCf } from "./support/relays.mjs";
import { PATIENCE, sleep } from "./support/waiting.mjs";

/** When a room has looked for what others saved, in ms. */
const LOOKED = 3000;

test("D1b a panic in a room is an error to its caller and closes its sockets; another room goes on", async () => {
  const relay = await startCf();
  try {
    const [struck, other, unsaved] = [await relay.workspace(), await relay.workspace(), await relay.workspace()];
    const join = async (workspace) => {
      const client = await workspace.connect();
      client.send(STEP_1);
      await client.next(isStep1);
      return client;
    };
    const victim = await join(struck);
    victim.send(updateFrame(textUpdate(1, 5)));
    await victim.settled();
    const [a, b] = [await join(other), await join(other)];
    // Until two seconds after a join a room owes a look at storage, and would send its clients away.
    await sleep(LOOKED);

    const writer = await join(unsaved);
    const reader = await join(unsaved);
    writer.send(updateFrame(textUpdate(4, 3)));
    await reader.next(isUpdate);

    const answer = await fetch(`${relay.api}/__dev/rooms/${struck.id}/panic`, { signal: AbortSignal.timeout(PATIENCE) });
    await answer.text();
    assert.equal(answer.status, 500);
    const { code } = await victim.closing();
    assert.equal(code, 1006, "a client takes that as a lost connection, and comes back");

    // The next request works, and the struck room is there again with what was saved.
    assert.equal((await other.rest("PUT", "/nodes/a", { body: 1 })).status, 201);
    const again = await join(struck);
    again.send(updateFrame(textUpdate(2, 2)));
    await again.settled();
    assert.equal((await struck.text()).length, 7);

    // A room that had relayed something and not saved it sends its clients away: they bring it back,
    // and nobody gets a receipt for what was lost with the memory (W8).
    writer.say({ type: "flush", id: "lost" });
    assert.equal((await writer.closing()).code, 1012);
    assert.deepEqual(writer.texts, []);
    assert.equal((await reader.closing()).code, 1012);
    const back = await join(unsaved);
    back.send(updateFrame(textUpdate(4, 3)));
    await back.settled();
    assert.equal(await unsaved.text(), "xxx");

    // The other room's sockets are open; its frames are forwarded and saved.
    const mark = updateFrame(textUpdate(3, 4)).toString("hex");
    a.send(mark);
    assert.equal(await b.next(isUpdate), mark);
    await a.settled();
    assert.deepEqual([a.closed, b.closed, await other.text()], [undefined, undefined, "xxxx"]);
  } finally {
    await relay.stop();
  }
});
