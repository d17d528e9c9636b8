// Stock clients: y-websocket as published, with nothing of ours.
import assert from "node:assert/strict";
import { test } from "node:test";
import { YJS_13, YJS_14, stockClient } from "../support/stock-client.mjs";
import { sleep, until } from "../support/waiting.mjs";

/** A stock client reconnects after 45 s of silence and looks every 4.5 s; this is well past both. */
const ALONE_MS = 72_000;

export function stockTests(relay) {
  test("A03 a lone stock client stays connected without an edit for over a minute", async () => {
    const workspace = await relay().workspace();
    const client = await stockClient(workspace);
    try {
      await sleep(ALONE_MS);
      assert.equal(client.connects, 1);
      assert.equal(client.provider.wsconnected, true);
    } finally {
      client.destroy();
    }
  });

  test("A.44 C.33 W10 W1 two stock clients converge both ways and never see JSON, also while the log grows", async () => {
    const workspace = await relay().workspace();
    const a = await stockClient(workspace);
    const b = await stockClient(workspace);
    try {
      a.doc.getText("t").insert(0, "hello ");
      await until(() => b.doc.getText("t").toString() === "hello ", "A's edit at B");
      b.doc.getText("t").insert(6, "world");
      await until(() => a.doc.getText("t").toString() === "hello world", "B's edit at A");
      assert.equal((await workspace.rest("PUT", "/nodes/x", { body: 1 })).status, 201);
      await until(async () => (await workspace.text()) === "hello world", "the text over REST");
      assert.deepEqual([a.texts, b.texts, a.connects, b.connects], [[], [], 1, 1]);
    } finally {
      a.destroy();
      b.destroy();
    }
  });

  test("W10 a client of Yjs 14 and one of Yjs 13 edit one document, and see each other", async () => {
    const workspace = await relay().workspace();
    const [old, next] = [await stockClient(workspace, { library: YJS_13 }), await stockClient(workspace, { library: YJS_14 })];
    const textOf = ({ doc }) => (doc.getText ? doc.getText("t") : doc.get("t")).toString();
    const numberOf = ({ doc }) => (doc.getMap ? doc.getMap("m").get("n") : doc.get("m").getAttr("n"));
    const both = (text, what) => until(() => textOf(old) === text && textOf(next) === text, what);
    try {
      next.doc.get("t").insert(0, "hello ");
      await both("hello ", "Yjs 14's edit at Yjs 13");
      old.doc.getText("t").insert(6, "world");
      await both("hello world", "Yjs 13's edit at Yjs 14");
      // At the same moment: deletes, formats, a key of both.
      next.doc.get("t").delete(0, 1);
      next.doc.get("t").format(0, 4, { bold: true });
      next.doc.get("m").setAttr("n", 14);
      old.doc.getText("t").insert(0, "Othello: ");
      old.doc.getMap("m").set("n", 13);
      await both("Othello: ello world", "what both did");
      await until(() => numberOf(old) !== undefined && numberOf(old) === numberOf(next), "one value of the key");
      assert.deepEqual(old.doc.getText("t").toDelta(), [{ insert: "Othello: " }, { insert: "ello", attributes: { bold: true } }, { insert: " world" }]);
      next.awareness.setLocalStateField("user", { name: "Fourteen" });
      old.awareness.setLocalStateField("user", { name: "Thirteen" });
      const sees = (client, other) => client.awareness.getStates().get(other.doc.clientID)?.user?.name;
      await until(() => sees(old, next) === "Fourteen" && sees(next, old) === "Thirteen", "each other's names");
      await until(async () => (await workspace.text()) === "Othello: ello world", "the text over REST");
      assert.deepEqual([old.connects, next.connects, old.texts, next.texts], [1, 1, [], []]);
      // And from what is stored, once nobody is there.
      for (const client of [old, next]) client.destroy();
      await until(async () => (await workspace.inspect()).clients === 0, "both left");
      for (const library of [YJS_13, YJS_14]) {
        const late = await stockClient(workspace, { library });
        assert.equal(textOf(late), "Othello: ello world");
        late.destroy();
      }
    } finally {
      for (const client of [old, next]) client.destroy();
    }
  });

  test("R08 a document that everybody left is there for the next one", async () => {
    const workspace = await relay().workspace();
    const a = await stockClient(workspace);
    a.doc.getText("t").insert(0, "kept");
    a.destroy();
    await until(async () => (await workspace.text()) === "kept", "the text over REST");
    const b = await stockClient(workspace);
    assert.equal(b.doc.getText("t").toString(), "kept");
    b.destroy();
  });
}
