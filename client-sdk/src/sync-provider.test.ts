// The provider against a real WebSocket server: convergence and refusals.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as Y from "yjs";
import { MiniRelay } from "../test/mini-relay.ts";
import { isSaved, isSynced, person } from "../test/sync-person.ts";
import { pass, until } from "../test/waiting.ts";
import { cleanups, relay } from "../test/walker-client.ts";
import { FlushError } from "./receipts.ts";
import { MAX_FRAME_BYTES } from "./sync-session.ts";
import type { RecoveryCopy } from "./sync-provider.ts";

describe("sync", { timeout: 60_000 }, () => {
  test("two people converge, and what was written before the connection goes along", async () => {
    const cf = await relay();
    const early = new Y.Doc();
    early.getText("t").insert(0, "early ");
    const [ann, ben] = [person([cf], { doc: early }), person([cf])];
    await until(() => isSynced(ann)() && isSynced(ben)(), "both are synced");
    ann.write("ann ");
    ben.write("ben ");
    await until(() => ann.text() === ben.text() && ann.text().length === 14, "they converge");
    assert.equal(cf.text(), ann.text());
    assert.deepEqual(ann.statuses.map(({ connection }) => connection).filter((kind, index, all) => kind !== all[index - 1]), ["connected", "synced"]);
  });

  test("edits made while away are sent by the next sync, each once", async () => {
    const cf = await relay();
    const [ann, ben] = [person([cf]), person([cf])];
    await until(() => isSynced(ann)() && isSynced(ben)(), "both are synced");
    for (let losses = 0; losses < 3; losses += 1) {
      await until(() => isSynced(ann)() && isSynced(ben)(), "both are synced");
      for (const socket of cf.clients) socket.terminate();
      await until(() => !isSynced(ann)() && !isSynced(ben)(), "both notice the loss");
      ann.write(`a${losses}`);
      ben.write(`b${losses}`);
    }
    await until(() => ann.text() === ben.text() && ann.text().length === 12, "they converge");
    for (const word of ["a0", "a1", "a2", "b0", "b1", "b2"]) assert.equal(ann.text().split(word).length, 2, ann.text());
  });

  test("W11 nothing is written before the relay has said what it has", async () => {
    const cf = await relay();
    let visit: MiniRelay["visits"][number] | undefined;
    const frames: string[] = [];
    cf.greet = (it) => {
      visit = it;
      it.socket.on("message", (data: Buffer, isBinary: boolean) => isBinary && frames.push(data.toString("hex").slice(0, 4)));
      return true;
    };
    const ann = person([cf]);
    await until(() => visit !== undefined && frames.length >= 1, "step 1 arrives");
    ann.write("typed too early");
    await pass(100);
    assert.deepEqual(frames.filter((frame) => frame !== "0000" && !frame.startsWith("01")), []);
    visit!.socket.send(Uint8Array.of(0, 1, 2, 0, 0));
    visit!.socket.send(Uint8Array.of(0, 0, 1, 0));
    await until(() => frames.some((frame) => frame === "0001"), "the answer to the relay's step 1");
    assert.equal(ann.provider.status.connection, "synced");
  });

  test("a broken frame is a lost connection, and the next sync heals it", async () => {
    const cf = await relay();
    const ann = person([cf]);
    await until(isSynced(ann), "synced");
    cf.clients[0]!.send(Uint8Array.of(0, 2, 200));
    await until(() => cf.visits.length === 2 && isSynced(ann)(), "synced again");
    assert.deepEqual(ann.closes, [0]);
  });

  test("several messages in a frame all count", async () => {
    const cf = await relay();
    const ann = person([cf]);
    await until(isSynced(ann), "synced");
    const updates: Uint8Array[] = [];
    const other = new Y.Doc();
    other.on("update", (update: Uint8Array) => updates.push(update));
    for (const letter of ["x", "y"]) other.getText("t").insert(0, letter);
    cf.clients[0]!.send(Buffer.concat(updates.map((update) => Buffer.from([0, 2, update.length, ...update]))));
    await until(() => ann.text() === "yx", "both updates are there");
  });

  test("paths are encoded segment by segment", async () => {
    const cf = await relay();
    const ann = person([cf], { workspace: "w1", document: "notes/café x" });
    await until(isSynced(ann), "synced");
    assert.equal(cf.visits[0]?.url, "/ws/w1/notes/caf%C3%A9%20x");
  });

  test("W7 changes come to who asked", async () => {
    const cf = await relay();
    const [ann, ben] = [person([cf], { changes: true }), person([cf])];
    await until(() => isSynced(ann)() && isSynced(ben)(), "both are synced");
    await until(() => cf.visits.some(({ texts }) => texts.some(({ type }) => type === "hello")), "hello");
    assert.equal(cf.visits.flatMap(({ texts }) => texts.filter(({ type }) => type === "hello")).length, 1);
    const changes: unknown[] = [];
    ann.provider.on("change", (change) => changes.push(change));
    for (const socket of cf.clients) socket.send('{"type":"change","clock":4,"kind":"put","path":"a","actor":"x"}');
    await until(() => changes.length === 1, "a change");
    assert.deepEqual(changes, [{ type: "change", clock: 4, kind: "put", path: "a", actor: "x" }]);
  });

  test("an observer that throws costs neither the connection nor the edits", async () => {
    const cf = await relay();
    const [ann, ben] = [person([cf]), person([cf])];
    await until(() => isSynced(ann)() && isSynced(ben)(), "both are synced");
    const uncaught: string[] = [];
    const hear = (error: Error) => void uncaught.push(error.message);
    const others = process.listeners("uncaughtException");
    process.removeAllListeners("uncaughtException");
    process.on("uncaughtException", hear);
    cleanups.push(() => {
      process.off("uncaughtException", hear);
      for (const other of others) process.on("uncaughtException", other);
    });
    ben.doc.getText("t").observe(() => {
      throw new Error("an application's bug");
    });
    ann.write("hello");
    await until(() => uncaught.length > 0, "the error is reported");
    assert.deepEqual([ben.text(), ben.closes, uncaught], ["hello", [], ["an application's bug"]]);
  });
});

test("W11 who may only read learns the epoch from the refusal of a receipt", { timeout: 60_000 }, async () => {
  const cf = await relay();
  cf.answerFlush = (id) => ({ type: "flush_failed", id, reason: "forbidden", epoch: 9 });
  const ann = person([cf]);
  await until(() => ann.provider.epoch === 9, "an epoch");
  assert.ok(ann.provider.status.readOnly);
});

describe("refusals", { timeout: 60_000 }, () => {
  test("W11 4409 stops with a recovery copy, and the epoch of receipts is stated at the next connect", async () => {
    const cf = await relay();
    cf.epoch = 9;
    const ann = person([cf]);
    const copies: RecoveryCopy[] = [];
    ann.provider.on("recovery", (copy) => copies.push(copy));
    await until(isSaved(ann), "saved");
    assert.equal(ann.provider.epoch, 9);
    cf.greet = ({ url, socket }) => url.endsWith("?epoch=9") && (socket.close(4409), true);
    cf.closeAll(1012);
    await until(() => ann.closes.length > 0, "a loss");
    ann.write("unsent");
    const flushed = ann.provider.flush().catch((error: FlushError) => error.code);
    await until(() => ann.provider.status.connection === "stopped", "stopped");
    assert.deepEqual([ann.provider.status.reason, await flushed, copies.length], ["epoch_changed", "epoch_changed", 1]);
    assert.deepEqual([copies[0]!.hasUnsaved, copies[0]!.epoch], [true, 9]);
    const recovered = new Y.Doc();
    Y.applyUpdate(recovered, copies[0]!.document);
    assert.equal(recovered.getText("t").toString(), "unsent");
    assert.equal(cf.text(), "", "it was not merged");
  });

  test("W07 an edit larger than a frame is not sent, is kept, and stops once", async () => {
    const cf = await relay();
    const ann = person([cf]);
    await until(isSaved(ann), "saved");
    ann.write("x".repeat(MAX_FRAME_BYTES + 1));
    await until(() => ann.provider.status.connection === "stopped", "stopped");
    assert.deepEqual([ann.provider.status.reason, ann.provider.status.save, ann.text().length], ["frame_too_large", "pending", MAX_FRAME_BYTES + 1]);
    ann.provider.restart();
    await until(() => cf.visits.length === 2 && ann.provider.status.connection === "stopped", "it stops again");
    await pass(100);
    assert.deepEqual([cf.visits.length, cf.text()], [2, ""]);
    assert.ok(cf.visits.flatMap(({ binary }) => binary).every((frame) => frame.length <= MAX_FRAME_BYTES));
  });

  test("W07 1009 and 4413 of the relay stop, so the same bytes are not sent in a loop", async () => {
    for (const [code, reason] of [[1009, "frame_too_large"], [4413, "document_too_large"]] as const) {
      const cf = await relay();
      const ann = person([cf]);
      await until(isSaved(ann), "saved");
      cf.clients[0]!.once("message", () => cf.closeAll(code));
      ann.write("too much");
      await until(() => ann.provider.status.connection === "stopped", "stopped");
      await pass(100);
      assert.deepEqual([ann.provider.status.reason, cf.visits.length, ann.text()], [reason, 1, "too much"]);
    }
  });

  test("a text frame that the relay refuses is told", async () => {
    const cf = await relay();
    const ann = person([cf]);
    const refusals: unknown[] = [];
    ann.provider.on("refusal", (refusal) => refusals.push(refusal));
    await until(isSynced(ann), "synced");
    for (const text of ["not JSON", "[]", '{"type":"error","code":"bad_message","detail":"why"}']) cf.clients[0]!.send(text);
    await until(() => refusals.length === 1, "a refusal");
    assert.deepEqual(refusals, [{ code: "bad_message", detail: "why" }]);
  });
});

test("a document that is destroyed takes its provider along", { timeout: 30_000 }, async () => {
  const cf = await relay();
  const ann = person([cf]);
  await until(isSynced(ann), "synced");
  ann.doc.destroy();
  await until(() => cf.clients.length === 0, "the socket is closed");
  await assert.rejects(ann.provider.flush(), (error) => error instanceof FlushError && error.code === "destroyed");
});
