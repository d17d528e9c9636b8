// B04: whatever the browser's database does, the SDK goes on without it and says so.
import "fake-indexeddb/auto";
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { IDBFactory } from "fake-indexeddb";
import { Database } from "./database.ts";
import type { StorageLoss } from "./database.ts";
import { FakeClock, fakePage, settled } from "./testing.ts";

const WRITE = { key: "k", surface: "s", write: { op: "delete", path: "a" } } as const;

function setUp(factory: () => IDBFactory | null, name = "d") {
  const clock = new FakeClock();
  const losses: StorageLoss[] = [];
  const database = new Database(fakePage(clock, { indexedDB: factory }), name, (reason) => losses.push(reason));
  const add = () => database.run((transaction) => transaction.objectStore("outbox").add(WRITE));
  const count = () => database.run((transaction) => transaction.objectStore("outbox").count());
  return { clock, database, losses, add, count };
}

/** A factory whose databases have a transaction of the test's own. */
function broken(transaction: (real: () => IDBTransaction, number: number) => IDBTransaction): IDBFactory {
  const factory = new IDBFactory();
  const { open } = factory;
  let number = 0;
  factory.open = function (...args) {
    const request = open.apply(factory, args);
    request.addEventListener("success", () => {
      const database = request.result;
      const real = database.transaction.bind(database);
      database.transaction = (...names) => transaction(() => real(...names), (number += 1));
    });
    return request;
  };
  return factory;
}

describe("B04 a database that fails", () => {
  test("there is none, or asking for it throws", async () => {
    for (const factory of [() => null, () => { throw new DOMException("no", "SecurityError"); }]) {
      const { database, losses, add } = setUp(factory);
      assert.equal(await add(), undefined);
      assert.equal(await add(), undefined);
      assert.deepEqual([database.state, losses], ["memory", ["unavailable"]]);
    }
  });

  test("an open that never answers is given up after 3 s", async () => {
    const silent = new IDBFactory();
    silent.open = () => new (globalThis.IDBOpenDBRequest as unknown as new () => IDBOpenDBRequest)();
    const { clock, database, losses, add } = setUp(() => silent);
    const added = add();
    await clock.advance(2_999);
    assert.deepEqual(losses, []);
    await clock.advance(1);
    assert.equal(await added, undefined);
    assert.deepEqual([database.state, losses, clock.armed], ["memory", ["timeout"], 0]);
  });

  test("a connection that the platform closed is opened once more, and not again", async () => {
    let bad = (number: number): boolean => number === 2;
    const { database, losses, add, count } = setUp(() => factory);
    const factory = broken((real, number) => {
      if (bad(number)) throw new DOMException("closing", "InvalidStateError");
      return real();
    });
    await add();
    await add();
    assert.deepEqual([await count(), losses], [2, []]);
    bad = () => true;
    assert.equal(await add(), undefined);
    assert.deepEqual([database.state, losses], ["memory", ["closed"]]);
  });

  test("a full one gets room made once; then it is memory", async () => {
    let isFull = true;
    const factory = broken((real) => {
      if (isFull) throw new DOMException("full", "QuotaExceededError");
      return real();
    });
    const first = setUp(() => factory);
    const relieved: number[] = [];
    const relieve = async () => void relieved.push(1);
    const run = (it: typeof first) => it.database.run((transaction) => transaction.objectStore("outbox").count(), relieve);
    assert.equal(await run(first), undefined);
    assert.deepEqual(first.losses, ["full"]);
    isFull = false;
    const second = setUp(() => factory, "other");
    let tries = 0;
    const value = await second.database.run(async (transaction) => {
      tries += 1;
      if (tries === 1) throw new DOMException("full", "QuotaExceededError");
      return transaction.objectStore("outbox").count();
    }, relieve);
    assert.deepEqual([value, tries, relieved.length, second.losses], [0, 2, 1, []]);
  });

  test("another tab deletes it, or a newer build wants it: nobody is kept waiting", async () => {
    const factory = new IDBFactory();
    const { database, losses, add } = setUp(() => factory);
    await add();
    const deletion = factory.deleteDatabase("d");
    await new Promise((settle, reject) => Object.assign(deletion, { onsuccess: settle, onerror: reject, onblocked: reject }));
    assert.equal(await add(), undefined);
    assert.deepEqual([database.state, losses], ["memory", ["replaced"]]);
  });

  test("what was written before is there for the next page", async () => {
    const factory = new IDBFactory();
    const before = setUp(() => factory);
    await before.add();
    before.database.close();
    await settled();
    assert.deepEqual([await setUp(() => factory).count(), await setUp(() => factory, "other account").count()], [1, 0]);
  });
});
