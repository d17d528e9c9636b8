// y-webrtc signaling over the relay's text frames.
import assert from "node:assert/strict";
import { test } from "node:test";
import { STEP_1, isStep1 } from "../support/frames.mjs";

/** Topics that one connection may be on (docs/PROTOCOL.md). */
const MAX_TOPICS = 32;

const subscribe = (...topics) => ({ type: "subscribe", topics });

export function signalingTests(relay) {
  test("P01 malformed signaling messages are answered or end their own connection only", async () => {
    const workspace = await relay().workspace();
    const other = await workspace.connect();
    other.say(subscribe("room"));
    for (const message of ["{", "[]", "null", '{"type":"publish"}', '{"type":"subscribe","topics":"x"}', '{"type":"subscribe","topics":[1]}', '{"type":7}']) {
      const client = await workspace.connect();
      client.say(message);
      assert.equal((await client.nextText()).type, "error", message);
      await client.settled();
    }
    const large = await workspace.connect();
    large.say(JSON.stringify({ type: "publish", topic: "room", data: "x".repeat(1_000_000) }));
    assert.equal((await large.closing()).code, 1009);
    const binary = await workspace.connect();
    binary.say(subscribe("room"));
    binary.send(Buffer.from([0xff]));
    assert.equal((await binary.closing()).code, 4400);
    await other.settled();
    assert.deepEqual(other.texts.map((text) => JSON.parse(text).type), ["receipt"]);
  });

  test("P02 two stock y-webrtc peers find each other; the relay stamps who published", async () => {
    const workspace = await relay().workspace();
    const a = await workspace.connect("", { sub: "ann" });
    const b = await workspace.connect("", { sub: "bob" });
    for (const peer of [a, b]) {
      peer.say(subscribe("my-room"));
      await peer.settled();
    }
    // With and without a password: an object, or an encrypted one as base64.
    for (const data of [{ type: "announce", from: "peer-a" }, "c2VjcmV0"]) {
      a.say({ type: "publish", topic: "my-room", data });
      const got = await b.nextText();
      assert.deepEqual([got.type, got.topic, got.data, got.clients], ["publish", "my-room", data, 2]);
      assert.ok(JSON.stringify(got).includes('"ann"'), "stamped with the sender");
    }
    a.say({ type: "publish", topic: "my-room", data: {}, sub: "bob", from: "bob", actor: "bob", sender: "bob" });
    assert.ok(JSON.stringify(await b.nextText()).includes('"ann"'), "the stamp cannot be forged away");
    a.say('{"type":"ping"}');
    assert.deepEqual(await a.nextText(({ type }) => type === "pong"), { type: "pong" });
  });

  test("P02 topics are bounded, stay inside their workspace, and only a subscriber may publish", async () => {
    const [here, there] = await Promise.all([relay().workspace(), relay().workspace()]);
    const a = await here.connect();
    const b = await there.connect();
    const outsider = await here.connect();
    a.say(subscribe("t"));
    b.say(subscribe("t"));
    await Promise.all([a.settled(), b.settled()]);
    outsider.say({ type: "publish", topic: "t", data: 1 });
    a.say({ type: "publish", topic: "t", data: 2 });
    await outsider.settled();
    await a.settled();
    await b.settled();
    const published = (client) => client.texts.map((text) => JSON.parse(text)).filter(({ type }) => type === "publish").map(({ data }) => data);
    assert.deepEqual([published(a), published(b), published(outsider)], [[2], [], []]);
    // Many topics, one after the other, are no more than one at a time.
    for (let n = 0; n < 500; n += 1) {
      outsider.say(subscribe(`topic-${n}`));
      outsider.say({ type: "unsubscribe", topics: [`topic-${n}`] });
    }
    await outsider.settled();
    assert.deepEqual(outsider.texts.filter((text) => JSON.parse(text).type === "error"), []);
    for (let n = 0; n <= MAX_TOPICS; n += 1) outsider.say(subscribe(`kept-${n}`));
    assert.equal((await outsider.nextText(({ type }) => type === "error")).code, "too_many_topics");
    outsider.say({ type: "publish", topic: `kept-${MAX_TOPICS}`, data: 3 });
    await outsider.settled();
    assert.deepEqual(published(outsider), [], "it is not on the topic that was too many");
  });

  test("W1 JSON goes only to who sent text, binary only to who sent binary", async () => {
    const workspace = await relay().workspace();
    const [binary, text] = [await workspace.connect(), await workspace.connect()];
    binary.send(STEP_1);
    await binary.next(isStep1);
    text.say({ type: "hello", changes: true });
    await text.settled();
    assert.equal((await workspace.rest("PUT", "/nodes/a", { body: {} })).status, 201);
    const change = await text.nextText(({ type }) => type === "change");
    assert.deepEqual([change.kind, change.path, change.clock], ["put", "a", 1]);
    assert.deepEqual([binary.texts, text.frames], [[], []]);
  });

  test("W7 a change frame of a client is a hint to others, never data", async () => {
    const workspace = await relay().workspace();
    const [a, b] = [await workspace.connect(), await workspace.connect()];
    b.say({ type: "hello", changes: true });
    await b.settled();
    a.say({ type: "change", clock: 999, kind: "put", path: "forged" });
    const hint = await b.nextText(({ type }) => type === "change");
    assert.deepEqual([hint.hint, hint.path], [true, "forged"]);
    assert.equal(await workspace.head(), 0);
  });
}
