// What a relay does with each frame of tests/data/frames.json, sent over live sockets.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as Y from "yjs";
import { FRAMES, HI, STEP_1, awarenessEntries, awarenessFrame, isAwareness, isStep1, isStep2, isUpdate, named, textUpdate, updateFrame } from "../support/frames.mjs";

/** Frames that are not the protocol: their sender is closed with 4400 (W4). */
const REFUSED = ["F20", "F21", "F22", "F24", "F25", "F27", "F28", "F31", "F32", "F33", "F35", "F38", "F44"];
/** Frames that are skipped, or answered to their sender only; the socket stays open. */
const SKIPPED = ["F23", "F45", "F60", "F61", "F62", "F63"];

/** The text that a client has after these frames. */
function textOf(frames) {
  const doc = new Y.Doc();
  for (const frame of frames.filter((hex) => isStep2(hex) || isUpdate(hex))) {
    // Type, sub-type, then the update with its length as a varint of up to 4 bytes.
    const bytes = Buffer.from(frame, "hex");
    let at = 2;
    while (bytes[at] & 128) at += 1;
    Y.applyUpdate(doc, bytes.subarray(at + 1));
  }
  return doc.getText("t").toString();
}

function put(client, { frame, text }) {
  if (text === undefined) client.send(frame);
  else client.say(text);
}

export function frameTests(relay) {
  test("every frame of the list is in a table of this suite", () => {
    const valid = ["F01", "F02", "F03", "F04", "F06", "F07", "F08", "F09", "F37", "F42", "F43"];
    assert.deepEqual([...REFUSED, ...SKIPPED, ...valid].sort(), FRAMES.map(({ id }) => id).sort());
  });

  test("W01 W02 W10 malformed frames are refused or skipped, the room goes on, and nothing of them is relayed", async () => {
    const workspace = await relay().workspace();
    const b = await workspace.connect();
    b.send(STEP_1);
    await b.next(isStep1);
    let a = await workspace.connect();
    a.send(STEP_1);
    await a.next(isStep1);
    let marks = 0;
    for (const entry of FRAMES.filter(({ id }) => [...REFUSED, ...SKIPPED].includes(id))) {
      put(a, entry);
      if (REFUSED.includes(entry.id)) {
        const { code } = await a.closing();
        assert.equal(code, 4400, `${entry.id} closes its sender`);
        a = await workspace.connect();
        a.send(STEP_1);
        await a.next(isStep1, `the answer to F01 after ${entry.id}`);
      }
      marks += 1;
      const mark = updateFrame(textUpdate(1_000 + marks, 1)).toString("hex");
      b.send(mark);
      await a.next((frame) => frame === mark, `B's frame at A after ${entry.id}`);
    }
    await b.settled();
    assert.equal(b.closed, undefined);
    assert.deepEqual(b.frames.filter((frame) => isUpdate(frame) || frame === ""), [], "nobody else sent an update");
    assert.deepEqual(b.frames.filter((frame) => FRAMES.some((entry) => entry.frame?.toString("hex") === frame && entry.id !== "F01")), []);
    assert.deepEqual(b.texts.filter((text) => JSON.parse(text).type !== "receipt"), [], "text frames are not relayed");
    assert.equal(await workspace.text(), "x".repeat(marks), "nothing of a refused frame is stored");
  });

  test("F01 F02 a step 1 is answered by step 2, then by the relay's own step 1", async () => {
    const workspace = await relay().workspace();
    const a = await workspace.connect();
    a.send(named("F02").frame);
    await a.next(isStep1);
    assert.equal(a.frames.length, 2);
    assert.ok(isStep2(a.frames[0]), a.frames[0]);
    a.send(HI);
    const late = await workspace.connect();
    late.send(STEP_1);
    await late.next(isStep1);
    assert.equal(textOf(late.frames), "hi");
  });

  test("F03 F04 F37 updates reach the others byte for byte; a step 2 reaches them as an update", async () => {
    const workspace = await relay().workspace();
    const a = await workspace.connect();
    const b = await workspace.connect();
    b.send(STEP_1);
    await b.next(isStep1);
    a.send(named("F03").frame);
    assert.equal(await b.next(isUpdate), HI);
    a.send(HI);
    assert.equal(await b.next(isUpdate), HI);
    a.send(named("F37").frame);
    assert.equal(await b.next(isUpdate), named("F37").frame.toString("hex"));
    await a.settled();
    assert.deepEqual(a.frames, [], "nothing is echoed");
  });

  test("F06 F07 F08 awareness is relayed, told to whoever joins or asks, and gone after null", async () => {
    const workspace = await relay().workspace();
    const a = await workspace.connect();
    const b = await workspace.connect();
    b.send(STEP_1);
    await b.next(isStep1);
    a.send(named("F06").frame);
    assert.equal(await b.next(isAwareness), named("F06").frame.toString("hex"));
    const late = await workspace.connect();
    late.send(STEP_1);
    assert.deepEqual(awarenessEntries(await late.next(isAwareness)), [[101, 1, { user: { name: "Ann", color: "#f00" } }]]);
    late.send(named("F08").frame);
    assert.deepEqual(awarenessEntries(await late.next(isAwareness)).map(([client]) => client), [101]);
    a.send(named("F07").frame);
    assert.deepEqual(awarenessEntries(await b.next(isAwareness)), [[101, 2, null]]);
    const last = await workspace.connect();
    last.send(STEP_1);
    await last.settled();
    assert.deepEqual(last.frames.filter(isAwareness), []);
  });

  test("F09 several messages of one frame are all processed", async () => {
    const workspace = await relay().workspace();
    const a = await workspace.connect();
    const b = await workspace.connect();
    b.send(STEP_1);
    await b.next(isStep1);
    a.send(named("F09").frame);
    await a.next(isStep1);
    assert.deepEqual(awarenessEntries(await b.next(isAwareness)), [[102, 1, {}]]);
  });

  test("A06 F42 F43 nobody else can null or freeze a presence", async () => {
    const workspace = await relay().workspace();
    const a = await workspace.connect("d", { sub: "ann" });
    const b = await workspace.connect("d", { sub: "eve" });
    const c = await workspace.connect("d", { sub: "cat" });
    for (const client of [b, c]) {
      client.send(STEP_1);
      await client.next(isStep1);
    }
    a.send(named("F06").frame);
    await b.next(isAwareness);
    b.send(named("F42").frame);
    b.send(named("F43").frame);
    const again = b.closed ? await workspace.connect("d", { sub: "eve" }) : b;
    await until0(again);
    a.send(awarenessFrame([[101, 2, { user: { name: "Ann" } }]]));
    await c.next((frame) => awarenessEntries(frame)?.[0][1] === 2, "A's next state at C");
    const seen = c.frames.filter(isAwareness).map((frame) => awarenessEntries(frame)[0]);
    assert.deepEqual(seen.map(([client, clock, state]) => [client, clock, state?.user.name]), [[101, 1, "Ann"], [101, 2, "Ann"]]);
  });

  test("A06 W7 what a state says of its person is not verified; the actor of a hint is", async () => {
    const workspace = await relay().workspace();
    const [eve, reader] = [await workspace.connect("d", { sub: "eve" }), await workspace.connect("d", { sub: "cat" })];
    reader.send(STEP_1);
    await reader.next(isStep1);
    reader.say({ type: "hello", changes: true });
    await reader.settled();
    const claim = awarenessFrame([[901, 1, { user: { name: "Ann", sub: "ann" } }]]);
    eve.send(claim);
    assert.equal(await reader.next(isAwareness), claim.toString("hex"), "the relay passes on what it was sent");
    for (const forged of [{ actor: "ann" }, { actor: "ann", sub: "ann", hint: false }, { actor: { $: "ann" } }, {}]) {
      eve.say({ type: "change", clock: 1, kind: "put", path: "a", ...forged });
      const hint = await reader.nextText(({ type }) => type === "change");
      assert.deepEqual([hint.actor, hint.hint], ["eve", true], JSON.stringify(forged));
    }
  });
}

/** Lets the relay deal with what a client sent, whether or not that closed it. */
async function until0(client) {
  await client.settled().catch(() => client.closing());
}
