// Documents on the device: what a page leaves, the next one finds; and a full device.
import "fake-indexeddb/auto";
import assert from "node:assert/strict";
import { test } from "node:test";
import { IDBFactory } from "fake-indexeddb";
import * as Y from "yjs";
import { Database } from "./database.ts";
import { IndexedDbStore } from "./store.ts";
import { FakeClock, fakePage, settled } from "./testing.ts";
import { until } from "../test/waiting.ts";

function storeOf(factory: IDBFactory) {
  const database = new Database(fakePage(new FakeClock(), { indexedDB: () => factory }), "d", () => {});
  const rows = () => database.run((transaction) => transaction.objectStore("updates").count());
  return { database, store: new IndexedDbStore(database), rows };
}

function typing(store: IndexedDbStore, path: string, letters: number): Y.Doc {
  const doc = new Y.Doc();
  doc.on("update", (update: Uint8Array) => store.append(path, update));
  for (let n = 0; n < letters; n += 1) doc.getText("t").insert(n, String(n % 10));
  return doc;
}

function textOf(update: Uint8Array | undefined): string {
  const doc = new Y.Doc();
  if (update !== undefined) Y.applyUpdate(doc, update);
  return doc.getText("t").toString();
}

test("the next page finds the document, its epoch, and that a relay may not have saved it", async () => {
  const factory = new IDBFactory();
  const { store } = storeOf(factory);
  typing(store, "a", 5);
  store.note({ path: "a", epoch: 3, hasUnsaved: true });
  assert.equal(store.isStored("a"), false);
  await settled();
  assert.equal(store.isStored("a"), true);
  const found = await storeOf(factory).store.load("a");
  assert.deepEqual([textOf(found?.update), found?.epoch, found?.hasUnsaved], ["01234", 3, true]);
  assert.equal(await storeOf(factory).store.load("b"), null);
});

test("many rows become one, and nothing of another document", async () => {
  const factory = new IDBFactory();
  const { store, rows } = storeOf(factory);
  typing(store, "b", 3);
  const doc = typing(store, "a", 450);
  await until(() => store.isStored("a"), "it is stored");
  assert.ok((await rows())! < 203, `${await rows()} rows`);
  assert.equal(textOf((await store.load("a"))?.update), doc.getText("t").toString());
  assert.equal(textOf((await store.load("b"))?.update), "012");
});

test("a document that is dropped is gone, with what it was known by", async () => {
  const { store, rows } = storeOf(new IDBFactory());
  typing(store, "a", 3);
  store.note({ path: "a", epoch: 1, hasUnsaved: false });
  store.drop("a");
  typing(store, "a", 1);
  await settled();
  const found = await store.load("a");
  assert.deepEqual([await rows(), textOf(found?.update), found?.epoch], [1, "0", undefined]);
});

test("B04 without a database it stores nothing, says so, and keeps nobody waiting", async () => {
  const database = new Database(fakePage(new FakeClock(), { indexedDB: () => null }), "d", () => {});
  const store = new IndexedDbStore(database);
  assert.equal(await store.load("a"), null);
  typing(store, "a", 1);
  assert.equal(store.isStored("a"), false);
});
