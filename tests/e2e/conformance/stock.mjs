// Stock clients: y-websocket as published, with nothing of ours.
import assert from "node:assert/strict";
import { test } from "node:test";
import { stockClient } from "../support/stock-client.mjs";
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
