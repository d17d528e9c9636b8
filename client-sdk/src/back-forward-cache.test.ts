// A page goes into the back/forward cache and comes out of it: it lets go of what others wait for or what would
// throw it out of there, and goes on afterwards. That a real browser keeps such a page is tested in one.
import "fake-indexeddb/auto";
import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { IDBFactory } from "fake-indexeddb";
import { MiniApi } from "../test/mini-api.ts";
import { until } from "../test/waiting.ts";
import { client as walker, isSynced, relay } from "../test/walker-client.ts";
import { WorkspaceClient } from "./index.ts";
import { FakeBrowser, FakeClock, fakePage, settled } from "./testing.ts";

let clock: FakeClock;
let api: MiniApi;
let factory: IDBFactory;
let made = 0;
beforeEach(() => {
  clock = new FakeClock();
  api = new MiniApi();
  factory = new IDBFactory();
  made += 1;
});

function open(browser: FakeBrowser) {
  const tab = browser.tab();
  const fetch = (url: string, init: RequestInit) => (tab.isFrozen ? new Promise<Response>(() => {}) : api.fetch(url, init));
  const page = fakePage(clock, { ...tab.members(clock), fetch, indexedDB: () => factory });
  const client = new WorkspaceClient({ api: "http://127.0.0.1:1", workspace: `bfcache${made}`, token: () => MiniApi.token("ann"), account: "ann", environment: page });
  const document = client.openDoc("d");
  /** As a browser does it: the page is told, and then it stands still. */
  const leave = async () => {
    page.change("stored");
    page.change("hidden");
    await settled();
    tab.freeze();
  };
  const comeBack = () => {
    tab.thaw();
    page.change("restored");
    page.change("visible");
  };
  return { client, document, tab, text: document.doc.getText("t"), leave, comeBack, role: () => client.status.role };
}

/** Two tabs, of which the first leads. */
async function two() {
  const browser = new FakeBrowser();
  const first = open(browser);
  await until(() => first.role() === "leader" && first.document.status.isLoaded, "the first leads");
  const other = open(browser);
  await until(() => other.role() === "follower" && other.document.status.isLoaded, "the other follows");
  const close = () => Promise.all([first.client.close(), other.client.close()]);
  return { first, other, close };
}

describe("the back/forward cache", () => {
  test("a leader lets go of its place, channel, stream and row at once, and has everything when it is back", async () => {
    const { first, other, close } = await two();
    first.text.insert(0, "typed and left ");
    await first.leave();
    assert.deepEqual([first.role(), first.tab.hasChannel], [null, false]);
    await until(() => other.role() === "leader" && api.streams === 1, "the other leads, without waiting for anybody");
    assert.equal(api.people.get("ann")?.size, 1);
    other.text.insert(0, "meanwhile ");
    await other.document.flush();
    assert.equal(api.text("d"), "meanwhile typed and left ");
    first.comeBack();
    await until(() => first.role() === "follower" && first.text.toString() === "meanwhile typed and left ", "it caught up");
    first.text.insert(0, "back ");
    await first.document.flush();
    assert.deepEqual([api.text("d"), other.text.toString(), first.document.status.save], ["back meanwhile typed and left ", "back meanwhile typed and left ", "saved"]);
    await close();
  });

  test("alone it has no stream meanwhile, and reads what it missed", async () => {
    const page = open(new FakeBrowser());
    await until(() => page.document.status.isLoaded && api.streams === 1, "it follows");
    await page.leave();
    assert.deepEqual([api.streams, api.people.size], [0, 0]);
    api.edit("d", "bot", (doc) => doc.getText("t").insert(0, "missed"));
    page.comeBack();
    await until(() => page.text.toString() === "missed" && api.streams === 1 && api.people.size === 1, "it has it, and follows");
    await page.client.close();
  });

  test("a follower's write that was on its way is neither refused nor done twice, and who waits for it is answered", async () => {
    const { first, other, close } = await two();
    const refused: unknown[] = [];
    other.client.on("refused", (refusal) => refused.push(refusal));
    first.tab.freeze();
    const written = other.client.applyOp({ op: "put", path: "r", value: 1 });
    other.text.insert(0, "x");
    const flushed = other.document.flush();
    await clock.advance(500);
    await other.leave();
    first.tab.thaw();
    await clock.advance(10_000);
    other.comeBack();
    await until(() => other.role() !== null, "it is back");
    await clock.advance(10_000);
    await Promise.all([written, flushed]);
    assert.deepEqual([api.records.get("r"), api.text("d"), refused], [1, "x", []]);
    assert.equal(new Set(api.calls.filter(({ method, path }) => method === "PUT" && path === "nodes/r").map(({ key }) => key)).size, 1);
    await close();
  });

  test("a page that is closed while it is away stays closed", async () => {
    const page = open(new FakeBrowser());
    await until(() => page.document.status.isLoaded, "it is loaded");
    await page.leave();
    await page.client.close();
    const { length } = api.calls;
    page.comeBack();
    await clock.advance(10_000);
    assert.deepEqual([page.role(), api.calls.length], [null, length]);
  });

  test("a socket is closed, without a strike, and opened again; one that was not wanted stays closed", async () => {
    const cf = await relay("cf");
    const it = walker([cf.entry]);
    await until(isSynced("cf", it), "synced");
    it.environment.change("stored");
    await until(() => cf.clients.length === 0, "no socket");
    it.environment.change("restored");
    await until(() => cf.visits.length === 2 && isSynced("cf", it)(), "synced again");
    assert.deepEqual([it.advances(), it.closes], [[], []]);
    it.socket.disconnect();
    it.environment.change("stored");
    it.environment.change("restored");
    assert.equal(it.socket.status.kind, "idle");
  });
});
