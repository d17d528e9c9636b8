// Bounds: nesting, size of a frame, and what a connection that does not read may cost.
import assert from "node:assert/strict";
import { test } from "node:test";
import { STEP_1, awarenessEntries, awarenessFrame, isAwareness, isStep1, isUpdate, named, nestedFrame, textUpdate, updateFrame } from "../support/frames.mjs";

/** Largest frame (docs/PROTOCOL.md). */
const MAX_FRAME = 1024 * 1024;

/** Query awareness (F08): makes a connection a member without asking for the document. */
const QUERY = named("F08").frame;

/** An update frame of exactly so many bytes. */
function frameOf(bytes, client) {
  // What a frame of about this size has around its text.
  const around = updateFrame(textUpdate(client, bytes)).length - bytes;
  const frame = updateFrame(textUpdate(client, bytes - around));
  assert.equal(frame.length, bytes);
  return frame;
}

export function limitTests(relay) {
  test("W06 a nesting bomb closes its sender and resets nothing, here or in another room", async () => {
    const victim = await relay().workspace();
    const v = await victim.connect();
    v.send(STEP_1);
    await v.next(isStep1);
    v.send(awarenessFrame([[7, 3, { user: "V" }]]));
    await v.settled();
    const attacked = await relay().workspace();
    const witness = await attacked.connect();
    witness.send(STEP_1);
    await witness.next(isStep1);
    const before = [await victim.inspect(), await attacked.inspect()];
    for (const levels of [5_500, 20_000, 100_000]) {
      const attacker = await attacked.connect();
      attacker.send(nestedFrame(levels));
      assert.equal((await attacker.closing()).code, 4400, `${levels} levels`);
    }
    const after = [await victim.inspect(), await attacked.inspect()];
    assert.deepEqual(after.map(({ instance }) => instance), before.map(({ instance }) => instance), "no object was built anew");
    await witness.settled();
    assert.deepEqual(witness.frames.filter(isUpdate), []);
    const third = await victim.connect();
    third.send(STEP_1);
    assert.deepEqual(awarenessEntries(await third.next(isAwareness)), [[7, 3, { user: "V" }]]);
  });

  test("A.21 W07 a frame of the limit is relayed whole; one byte more closes with 1009 and a reason", async () => {
    const workspace = await relay().workspace();
    const a = await workspace.connect();
    const b = await workspace.connect();
    b.send(STEP_1);
    await b.next(isStep1);
    for (const [index, size] of [MAX_FRAME - 1, MAX_FRAME].entries()) {
      const frame = frameOf(size, 50 + index);
      a.send(frame);
      const got = await b.next(isUpdate, `a frame of ${size} bytes at B`);
      assert.ok(got === frame.toString("hex"), `${size} bytes arrive as they were sent`);
    }
    a.send(frameOf(MAX_FRAME + 1, 60));
    const closed = await a.closing();
    assert.equal(closed.code, 1009);
    assert.match(closed.reason, /1 MiB/);
    await b.settled();
    assert.equal(b.frames.filter(isUpdate).length, 2);
    assert.equal((await workspace.text()).length > 2_000_000, true, "both are stored");
  });

  test("A.22 R10 W9 a connection that does not read is closed with 1013; the others miss nothing", async () => {
    const workspace = await relay().workspace();
    const [a, b, c] = [await workspace.connect(), await workspace.connect(), await workspace.connect()];
    for (const client of [b, c]) {
      client.send(QUERY);
      await client.settled();
    }
    b.socket._socket.pause();
    // The same update again and again: the document stays small, what is relayed does not.
    const frame = updateFrame(textUpdate(9, 200_000));
    let sent = 0;
    for (let round = 0; round < 20; round += 1) {
      for (let n = 0; n < 5; n += 1, sent += 1) a.send(frame);
      await a.settled();
      await c.settled();
    }
    b.socket._socket.resume();
    assert.equal((await b.closing()).code, 1013);
    assert.equal(c.closed, undefined);
    assert.equal(c.frames.filter(isUpdate).length, sent);
    assert.ok(b.frames.filter(isUpdate).length < sent, "it was closed before all was sent");
    const again = await workspace.connect();
    again.send(STEP_1);
    const step2 = await again.next();
    assert.ok(step2.length > 2 * 200_000, "a reconnect brings the document");
  });
}
