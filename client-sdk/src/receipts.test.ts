// W8: what is called saved, and what a flush waits for, against a real WebSocket server.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isSaved, isSynced, person } from "../test/sync-person.ts";
import { until } from "../test/waiting.ts";
import { relay } from "../test/walker-client.ts";
import { FlushError } from "./receipts.ts";

describe("W8 receipts", { timeout: 60_000 }, () => {
  test("saved is what a receipt says, and an edit after it is not", async () => {
    const cf = await relay();
    const ann = person([cf]);
    assert.equal(ann.provider.status.save, "pending");
    await until(isSaved(ann), "saved without being asked");
    ann.write("x");
    assert.equal(ann.provider.status.save, "relayed");
    const receipt = await ann.provider.flush();
    assert.deepEqual([receipt.clock, ann.provider.status.save], [cf.clock, "saved"]);
  });

  test("an edit between the question and the receipt is not covered by it", async () => {
    const cf = await relay();
    const ids: unknown[] = [];
    cf.answerFlush = (id) => {
      ids.push(id);
      return null;
    };
    const ann = person([cf], { autoSave: false });
    await until(isSynced(ann), "synced");
    let isDone = false;
    void ann.provider.flush().then(() => (isDone = true));
    await until(() => ids.length === 1, "a question");
    ann.write("late");
    const second = ann.provider.flush();
    const answer = () => cf.clients[0]!.send(JSON.stringify({ type: "receipt", id: ids.at(-1), clock: 7, epoch: 0 }));
    answer();
    await until(() => isDone, "the first flush is answered");
    assert.equal(ann.provider.status.save, "relayed");
    await until(() => ids.length === 2, "a second question");
    answer();
    await second;
    assert.equal(ann.provider.status.save, "saved");
  });

  test("a flush outlives the connection and the relay", async () => {
    const [cf, deno] = [await relay("cf"), await relay("deno")];
    cf.answerFlush = () => null;
    const ann = person([cf, deno], { autoSave: false });
    await until(isSynced(ann), "synced");
    ann.write("keep me");
    const flushed = ann.provider.flush();
    await until(() => cf.visits[0]!.texts.length === 1, "asked of cf");
    await cf.stop();
    await flushed;
    assert.deepEqual([ann.provider.status.label, ann.provider.status.save, deno.text()], ["deno", "saved", "keep me"]);
  });

  test("a failure that passes is asked about again, one that does not is an error with its reason", async () => {
    const cf = await relay();
    let failures = 0;
    cf.answerFlush = (id) => ((failures += 1) <= 2 ? { type: "flush_failed", id, reason: "storage_unavailable" } : { type: "receipt", id, clock: 1, epoch: 0 });
    const ann = person([cf], { autoSave: false });
    await ann.provider.flush();
    assert.equal(failures, 3);
    cf.answerFlush = (id) => ({ type: "flush_failed", id, reason: "document_too_large" });
    await assert.rejects(ann.provider.flush(), (error) => error instanceof FlushError && error.code === "document_too_large");
  });

  test("a flush can be given up, and ends with the provider", async () => {
    const cf = await relay();
    cf.answerFlush = () => null;
    const ann = person([cf], { autoSave: false });
    await until(isSynced(ann), "synced");
    const limit = new AbortController();
    const given = ann.provider.flush(limit.signal);
    limit.abort(new Error("enough"));
    await assert.rejects(given, /enough/);
    const left = ann.provider.flush();
    ann.provider.destroy();
    await assert.rejects(left, (error) => error instanceof FlushError && error.code === "destroyed");
    await assert.rejects(ann.provider.flush(), (error) => error instanceof FlushError && error.code === "destroyed");
  });

  test("asking by itself waits until edits rest: ten edits, one question", async () => {
    const cf = await relay();
    const ann = person([cf]);
    await until(isSaved(ann), "saved");
    const before = cf.visits[0]!.texts.length;
    for (let edits = 0; edits < 10; edits += 1) ann.write("x");
    await until(isSaved(ann), "saved again");
    assert.equal(cf.visits[0]!.texts.length, before + 1);
  });

  test("U03 a read-only user is told so, and no flush waits for ever", async () => {
    const cf = await relay();
    cf.readOnly = true;
    cf.answerFlush = (id) => ({ type: "flush_failed", id, reason: "forbidden" });
    const ann = person([cf]);
    await until(() => ann.provider.status.readOnly, "read-only");
    await until(isSynced(ann), "it still syncs down");
    await assert.rejects(ann.provider.flush(), (error) => error instanceof FlushError && error.code === "forbidden");
    assert.notEqual(ann.provider.status.save, "saved");
  });
});
