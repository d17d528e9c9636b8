// applyOp over a real outbox in a database in memory, with time and the API in the test's hands.
import "fake-indexeddb/auto";
import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { IDBFactory } from "fake-indexeddb";
import * as Y from "yjs";
import type { Failure } from "../api/api.ts";
import { ProblemError, UnreachableError } from "../api/problem.ts";
import { Database } from "../database.ts";
import { FakeClock, fakePage, settled } from "../testing.ts";
import { TokenRefusedError } from "../token-source.ts";
import { Ops } from "./apply-op.ts";
import type { Refusal } from "./apply-op.ts";
import { Outbox } from "./outbox.ts";
import type { OutboxEntry } from "./outbox.ts";
import type { WriteReceipt } from "./sender.ts";

const AWAY: Failure = { error: new UnreachableError("away", null), passes: true, retryAfterMs: null };
const refusal = (code: string, status: number): Failure => ({ error: new ProblemError({ code: code as never, status, detail: "", extra: {} }), passes: false, retryAfterMs: null });

interface Call {
  readonly entry: OutboxEntry;
  readonly keepalive: boolean;
  answer(answer: Failure | WriteReceipt): Promise<void>;
}

let factory: IDBFactory;
let clock: FakeClock;
beforeEach(() => {
  factory = new IDBFactory();
  clock = new FakeClock();
});

/** A page of an account; `answer` answers each call at once, else the test does. */
function page({ account = "ann", answer }: { account?: string; answer?: (entry: OutboxEntry) => Failure | WriteReceipt } = {}) {
  const environment = fakePage(clock, { indexedDB: () => factory });
  const database = new Database(environment, account, () => {});
  const outbox = new Outbox(environment.uuid);
  void outbox.attach(database);
  const calls: Call[] = [];
  const refused: Refusal[] = [];
  const send = (entry: OutboxEntry, { keepalive }: { keepalive: boolean }) =>
    new Promise<Failure | WriteReceipt>((settle) => {
      const give = async (value: Failure | WriteReceipt) => {
        settle(value);
        await settled();
      };
      calls.push({ entry, keepalive, answer: give });
      if (answer !== undefined) settle(answer(entry));
    });
  const ops = new Ops({ environment, outbox, send });
  ops.on("refused", (refusal) => refused.push(refusal));
  /** The page dies: nothing of it runs any more. */
  const kill = async () => {
    await outbox.settled();
    ops.stop();
    database.close();
    await settled();
  };
  return { ops, outbox, calls, refused, database, environment, kill, values: () => calls.map(({ entry }) => (entry.write as { value?: unknown }).value) };
}

const put = (value: unknown, path = "a") => ({ op: "put", path, value }) as const;

describe("applyOp", () => {
  test("C.29 C.64 a burst is one write, with its last value", async () => {
    const { ops, calls } = page();
    await ops.start();
    const all = [1, 2, 3].map((value) => ops.applyOp(put(value)));
    await clock.advance(499);
    assert.equal(calls.length, 0);
    await clock.advance(1);
    assert.deepEqual(calls.map(({ entry }) => entry.write), [put(3)]);
    await calls[0]!.answer({ clock: 7 });
    assert.deepEqual(await Promise.all(all), [{ clock: 7 }, { clock: 7 }, { clock: 7 }]);
    assert.equal(ops.isWaiting(), false);
  });

  test("A.26 a slow server has one request of a surface, and the last value wins", async () => {
    const { ops, calls, values } = page();
    await ops.start();
    for (let value = 1; value <= 50; value += 1) {
      void ops.applyOp(put(value));
      await clock.advance(300);
    }
    await clock.advance(5_000);
    assert.equal(calls.length, 1);
    await calls[0]!.answer({ clock: 1 });
    await clock.advance(500);
    assert.equal(calls.length, 2);
    assert.equal(values()[1], 50);
    assert.notEqual(calls[0]!.entry.key, calls[1]!.entry.key);
  });

  test("two surfaces go out side by side, and ops that do not merge keep their order", async () => {
    const { ops, calls } = page({ answer: () => ({ clock: 1 }) });
    await ops.start();
    void ops.applyOp(put(1));
    void ops.applyOp({ op: "delete", path: "a" });
    void ops.applyOp(put(2));
    void ops.applyOp(put(9, "b"));
    await clock.advance(3_000);
    assert.deepEqual(calls.filter(({ entry }) => entry.surface === "nodes/a").map(({ entry }) => entry.write.op), ["put", "delete", "put"]);
    assert.equal(calls.filter(({ entry }) => entry.surface === "nodes/b").length, 1);
  });

  test("A.28 R2 a failed write is sent again, as it was and under its key; what came meanwhile follows", async () => {
    const { ops, calls, values } = page();
    await ops.start();
    void ops.applyOp(put("first"));
    await clock.advance(500);
    await calls[0]!.answer(AWAY);
    void ops.applyOp(put("second"));
    void ops.applyOp(put("third"));
    await clock.advance(60_000);
    assert.equal(calls.length, 2);
    assert.equal(calls[1]!.entry.key, calls[0]!.entry.key);
    await calls[1]!.answer({ clock: 1 });
    await clock.advance(500);
    assert.deepEqual(values(), ["first", "first", "third"]);
  });

  test("A.28 a page that dies leaves its writes to the next one, which sends each once and in order, under the same keys", async () => {
    const before = page({ answer: () => AWAY });
    await before.ops.start();
    void before.ops.applyOp(put(1));
    await clock.advance(500);
    const { key } = before.calls[0]!.entry;
    void before.ops.applyOp({ op: "delete", path: "a" });
    void before.ops.applyOp(put(2));
    assert.equal(before.ops.isStored(), false);
    await before.outbox.settled();
    assert.equal(before.ops.isStored(), true);
    await before.kill();
    const after = page({ answer: () => ({ clock: 1 }) });
    void after.ops.applyOp(put(3));
    await after.ops.start();
    await clock.advance(5_000);
    assert.deepEqual(after.calls.map(({ entry }) => [entry.write.op, (entry.write as { value?: unknown }).value]), [["put", 1], ["delete", undefined], ["put", 2], ["put", 3]]);
    assert.equal(after.calls[0]!.entry.key, key);
    await after.kill();
    assert.equal((await page().outbox.loaded, page().outbox).size, 0);
  });

  test("an outbox that is taken over keeps its order, also when its last keeper sends an entry before it is read", async () => {
    const before = page({ answer: () => AWAY });
    await before.ops.start();
    void before.ops.applyOp(put(1));
    await clock.advance(500);
    void before.ops.applyOp({ op: "delete", path: "a" });
    const { entry } = before.calls[0]!;
    await before.kill();
    const after = page({ answer: () => ({ clock: 1 }) });
    void after.ops.applyOp(entry.write, { surface: entry.surface, key: entry.key });
    await after.ops.start();
    await clock.advance(5_000);
    assert.deepEqual(after.calls.map(({ entry: { write } }) => write.op), ["put", "delete"]);
  });

  test("what one account left is neither sent nor shown by another", async () => {
    const ann = page({ answer: () => AWAY });
    await ann.ops.start();
    void ann.ops.applyOp(put("ann's"));
    await ann.kill();
    const ben = page({ account: "ben" });
    await ben.ops.start();
    await clock.advance(60_000);
    assert.deepEqual([ben.outbox.size, ben.calls.length], [0, 0]);
    const again = page();
    await again.ops.start();
    await clock.advance(0);
    assert.deepEqual(again.values(), ["ann's"]);
  });

  test("B10 S4 a page that is hidden sends at once, in calls that outlive it", async () => {
    const { ops, calls } = page();
    await ops.start();
    void ops.applyOp(put(1));
    ops.hide();
    assert.deepEqual(calls.map(({ keepalive }) => keepalive), [true]);
  });

  test("C.61 a write whose later form is committed, by a page that died before it stored it, is done and no refusal", async () => {
    const { ops, calls, refused, outbox } = page();
    const superseded: string[] = [];
    ops.on("superseded", ({ surface }) => superseded.push(surface));
    await ops.start();
    const written = ops.applyOp(put(1));
    await clock.advance(500);
    await calls[0]!.answer(refusal("idempotency_key_reused", 422));
    assert.deepEqual([await written, superseded, refused, outbox.size], [{ clock: 0 }, ["nodes/a"], [], 0]);
  });

  test("a refusal ends its write with an event and an error, and the next one goes on", async () => {
    const { ops, calls, refused } = page();
    await ops.start();
    const first = ops.applyOp({ ...put(1), ifMatch: 3 });
    await clock.advance(500);
    const second = ops.applyOp(put(2));
    await calls[0]!.answer(refusal("precondition_failed", 412));
    await assert.rejects(first, { code: "precondition_failed" });
    assert.deepEqual(refused.map(({ write }) => write), [{ ...put(1), ifMatch: 3 }]);
    await clock.advance(500);
    await calls[1]!.answer({ clock: 9 });
    assert.deepEqual(await second, { clock: 9 });
  });

  test("without a token nothing is sent and nothing is lost; after signing in everything is", async () => {
    const { ops, calls } = page();
    await ops.start();
    const done = ops.applyOp(put(1));
    await clock.advance(500);
    await calls[0]!.answer({ error: new TokenRefusedError(), passes: false, retryAfterMs: null });
    await clock.advance(3_600_000);
    assert.equal(calls.length, 1);
    assert.ok(ops.blocked instanceof TokenRefusedError);
    ops.retry();
    await settled();
    await calls[1]!.answer({ clock: 2 });
    assert.deepEqual(await done, { clock: 2 });
  });

  test("S08 an API that is away is asked ever less often, and at once when the network is back", async () => {
    const { ops, calls } = page({ answer: () => AWAY });
    await ops.start();
    void ops.applyOp(put(1));
    await clock.advance(60_000);
    const inAMinute = calls.length;
    await clock.advance(600_000);
    assert.ok(calls.length - inAMinute <= 60, `${calls.length - inAMinute} calls in ten minutes`);
    const before = calls.length;
    ops.retry();
    await settled();
    assert.equal(calls.length, before + 1);
  });

  test("flush answers when all that was asked for is committed", async () => {
    const { ops, calls } = page();
    await ops.start();
    assert.equal(await ops.flush(), null);
    void ops.applyOp(put(1));
    void ops.applyOp(put(2, "b"));
    let receipt: unknown;
    void ops.flush().then((value) => (receipt = value));
    await settled();
    assert.equal(calls.length, 2);
    void ops.applyOp(put(3));
    await calls[0]!.answer({ clock: 5 });
    assert.equal(receipt, undefined);
    await calls[1]!.answer({ clock: 4 });
    assert.deepEqual(receipt, { clock: 5 });
    await assert.rejects(ops.flush("nodes/a", AbortSignal.abort(new Error("no time"))), /no time/);
  });

  test("what is no write is refused at once and damages nothing", async () => {
    const { ops, database } = page();
    await ops.start();
    assert.throws(() => ops.applyOp(put(undefined)), TypeError);
    assert.throws(() => ops.applyOp(put(1, "a//b")), TypeError);
    const value = { list: [1] };
    void ops.applyOp(put(value));
    value.list.push(2);
    await settled();
    assert.equal(database.state, "durable");
  });

  test("a write that another tab sends twice under its key is one", async () => {
    const { ops, calls } = page({ answer: () => ({ clock: 1 }) });
    await ops.start();
    const both = [ops.applyOp(put(1), { key: "K" }), ops.applyOp(put(1), { key: "K" })];
    await clock.advance(500);
    await Promise.all(both);
    assert.deepEqual(calls.map(({ entry }) => entry.key), ["K"]);
  });

  test("C.64 two hundred keystrokes of a document are few updates that hold all of them", async () => {
    const copy = new Y.Doc();
    const { ops, calls } = page({
      answer: ({ write }) => {
        if (write.op === "update") Y.applyUpdate(copy, write.update);
        return { clock: 1, epoch: 1 };
      },
    });
    await ops.start();
    const doc = new Y.Doc();
    doc.on("update", (update: Uint8Array) => void ops.applyOp({ op: "update", path: "d", update }));
    for (let n = 0; n < 200; n += 1) {
      doc.getText("t").insert(n, "x");
      await clock.advance(100);
    }
    await clock.advance(500);
    assert.ok(calls.length <= 5, `${calls.length} writes in 20 s`);
    assert.equal(copy.getText("t").length, 200);
  });
});
