// A page alone, several tabs of one browser, pages that die and devices that fail, over an API in memory.
import "fake-indexeddb/auto";
import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { IDBFactory } from "fake-indexeddb";
import { MiniApi, problem } from "../test/mini-api.ts";
import { until } from "../test/waiting.ts";
import { WorkspaceClient } from "./index.ts";
import type { WorkspaceClientOptions } from "./index.ts";
import { FakeBrowser, FakeClock, fakePage, settled } from "./testing.ts";
import type { FakePage, FakeTab } from "./testing.ts";

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

interface Page {
  readonly client: WorkspaceClient;
  readonly page: FakePage;
  readonly tab: FakeTab;
}

/** A tab of a person's browser. */
function open(browser: FakeBrowser, { sub = "ann", factory: own = factory as IDBFactory | null, ...options }: Partial<WorkspaceClientOptions> & { sub?: string; factory?: IDBFactory | null } = {}): Page {
  const tab = browser.tab();
  const fetch = async (url: string, init: RequestInit) => {
    if (tab.isFrozen) return new Promise<Response>(() => {});
    return api.fetch(url, init);
  };
  const page = fakePage(clock, { ...tab.members(clock), fetch, indexedDB: () => own });
  const client = new WorkspaceClient({ api: "http://127.0.0.1:1", workspace: `w${made}`, token: () => MiniApi.token(sub), environment: page, ...options });
  return { client, page, tab };
}

const text = (document: { doc: import("yjs").Doc }) => document.doc.getText("t");

describe("a page alone", () => {
  test("an edit is pending, then local, then saved, with a receipt and without a socket", async () => {
    const { client } = open(new FakeBrowser());
    const document = client.openDoc("notes/a");
    await until(() => document.status.isLoaded, "it is loaded");
    assert.deepEqual(document.status, { connection: "feed", save: "saved", isLoaded: true, isReadOnly: false });
    text(document).insert(0, "hello");
    assert.equal(document.status.save, "pending");
    await until(() => document.status.save === "local", "it is on the device");
    assert.equal(api.count("POST", "docs/"), 0);
    const receipt = await document.flush();
    assert.deepEqual([api.text("notes/a"), receipt, document.status.save], ["hello", { clock: 1, epoch: 1 }, "saved"]);
    await client.close();
  });

  test("B10 C.64 typing is coalesced; what was written comes back over the feed without being read", async () => {
    const { client } = open(new FakeBrowser());
    const document = client.openDoc("d");
    await until(() => document.status.isLoaded, "it is loaded");
    for (let n = 0; n < 100; n += 1) {
      text(document).insert(n, "x");
      await clock.advance(100);
    }
    await clock.advance(1_000);
    assert.equal(api.text("d").length, 100);
    assert.ok(api.count("POST", "docs/") <= 3, `${api.count("POST", "docs/")} writes`);
    assert.equal(api.count("GET", "docs/"), 1);
    await client.close();
  });

  test("A.27 C.26 what others write comes by the feed and is not written back", async () => {
    const { client } = open(new FakeBrowser());
    const document = client.openDoc("d");
    const changes: string[] = [];
    client.changes((item) => changes.push(item.kind === "reset" ? "reset" : `${item.kind} ${item.path}`), { prefix: "d" });
    await until(() => document.status.isLoaded && api.streams === 1, "it follows");
    api.edit("d", "bot", (doc) => doc.getText("t").insert(0, "from an agent"));
    await until(() => text(document).toString() === "from an agent", "it is here");
    await clock.advance(60_000);
    assert.deepEqual([api.count("POST", "docs/"), document.status.save, changes], [0, "saved", ["update d"]]);
    await client.close();
  });

  test("an edit right after opening, before anything is known, is saved", async () => {
    const { client } = open(new FakeBrowser());
    const document = client.openDoc("d");
    text(document).insert(0, "at once");
    assert.equal(document.status.save, "pending");
    await document.flush();
    assert.equal(api.text("d"), "at once");
    await client.close();
  });

  test("a read that lost a race against the document's first write is done again", async () => {
    let answer: (response: Response) => void = () => {};
    api.script = ({ method, path }) => (method === "GET" && path.startsWith("docs/") ? new Promise((settle) => (answer = settle)) : undefined);
    const { client } = open(new FakeBrowser());
    const document = client.openDoc("d");
    await until(() => client.status.role === "leader", "it leads");
    await settled();
    text(document).insert(0, "first");
    await clock.advance(1_000);
    assert.equal(api.text("d"), "first");
    api.script = () => undefined;
    answer(problem(409, "wrong_node_kind"));
    await until(() => document.status.isLoaded, "it is loaded");
    assert.equal(document.status.reason, undefined);
    await client.close();
  });

  test("A.28 C.32 the API is away, the page dies; the next one sends everything once, and the document is whole", async () => {
    const browser = new FakeBrowser();
    const before = open(browser);
    const document = before.client.openDoc("d");
    await until(() => document.status.isLoaded, "it is loaded");
    api.fault = "after";
    text(document).insert(0, "offline");
    void before.client.applyOp({ op: "put", path: "r", value: 1 });
    await clock.advance(5_000);
    await until(() => document.status.save === "local", "it is on the device");
    before.tab.crash();
    api.fault = "before";
    const after = open(browser, { account: "ann" });
    const again = after.client.openDoc("d");
    await until(() => text(again).toString() === "offline", "the device has it");
    assert.deepEqual([again.status.save, again.status.isLoaded], ["local", false]);
    api.fault = null;
    await clock.advance(30_000);
    await until(() => again.status.save === "saved" && again.status.isLoaded, "it is saved");
    await after.client.flush();
    assert.deepEqual([api.text("d"), api.records.get("r")], ["offline", 1]);
    // Both had arrived before the page died: they are not applied again.
    assert.equal(api.log.length, 2);
    assert.equal(after.client.status.waiting, 0);
    await after.client.close();
  });

  test("what one account left is not shown to another on the same device, nor sent", async () => {
    const first = open(new FakeBrowser());
    const document = first.client.openDoc("d");
    await until(() => document.status.isLoaded, "it is loaded");
    api.fault = "before";
    text(document).insert(0, "ann's");
    await until(() => document.status.save === "local", "it is on the device");
    first.tab.crash();
    api.fault = null;
    const { client } = open(new FakeBrowser(), { sub: "ben" });
    const other = client.openDoc("d");
    await until(() => other.status.isLoaded, "it is loaded");
    await clock.advance(60_000);
    assert.deepEqual([text(other).toString(), api.log.length], ["", 0]);
    await client.close();
  });

  test("a token of another account is not used for what this page writes", async () => {
    let sub = "ann";
    const { client } = open(new FakeBrowser(), { account: "ann", token: () => MiniApi.token(sub) });
    sub = "ben";
    void client.applyOp({ op: "put", path: "r", value: 1 });
    await clock.advance(10_000);
    assert.deepEqual([api.count("PUT", "nodes/"), client.status.needsSignIn, client.status.waiting], [0, true, 1]);
    sub = "ann";
    client.restart();
    await until(() => api.records.has("r"), "it is written");
    await client.close();
  });

  test("C.61 an edit that was committed in a later form is compared with the server, and nothing is missing", async () => {
    const { client } = open(new FakeBrowser());
    const document = client.openDoc("d");
    const refused: unknown[] = [];
    client.on("refused", (refusal) => refused.push(refusal));
    await until(() => document.status.isLoaded, "it is loaded");
    let answers = 0;
    api.script = ({ method, path }) => (method === "POST" && path.startsWith("docs/") && answers++ === 0 ? Promise.resolve(problem(422, "idempotency_key_reused")) : undefined);
    text(document).insert(0, "half a sentence");
    const receipt = await document.flush();
    assert.deepEqual([receipt, api.text("d"), document.status.save, document.status.reason, refused], [{ clock: 1, epoch: 1 }, "half a sentence", "saved", undefined, []]);
    await client.close();
  });

  test("an edit that the API refuses is kept and never called saved; after a retry it is", async () => {
    const { client } = open(new FakeBrowser());
    const document = client.openDoc("d");
    await until(() => document.status.isLoaded, "it is loaded");
    const refused: string[] = [];
    client.on("refused", ({ error }) => refused.push((error as { code: string }).code));
    api.script = ({ method }) => (method === "POST" ? Promise.resolve(problem(403, "forbidden")) : undefined);
    text(document).insert(0, "not allowed");
    await assert.rejects(document.flush(), { code: "forbidden" });
    await until(() => document.status.save === "local", "it is on the device");
    assert.deepEqual([refused, document.status.isReadOnly, document.status.reason, text(document).toString()], [["forbidden"], true, "forbidden", "not allowed"]);
    await assert.rejects(document.flush(), { code: "forbidden" });
    api.script = () => undefined;
    client.restart();
    await document.flush();
    assert.deepEqual([api.text("d"), document.status.save, document.status.isReadOnly], ["not allowed", "saved", false]);
    await client.close();
  });

  test("a reload is present under the same name, and leaves no row behind", async () => {
    const storage = new Map<string, string>();
    const tabStorage = () => ({ getItem: (key: string) => storage.get(key) ?? null, setItem: (key: string, value: string) => void storage.set(key, value), removeItem: (key: string) => void storage.delete(key) });
    for (let load = 1; load <= 3; load += 1) {
      const tab = new FakeBrowser().tab();
      const page = fakePage(clock, { ...tab.members(clock), fetch: api.fetch, tabStorage });
      const client = new WorkspaceClient({ api: `http://127.0.0.1:${load}`, workspace: `w${made}`, account: "ann", token: () => MiniApi.token("ann"), environment: page });
      client.openDoc("d");
      await until(() => api.count("PUT", "presence") === load, "it is present");
      tab.crash();
    }
    assert.equal(api.people.get("ann")?.size, 1);
  });

  test("W08 a duplicated tab, with the same storage, is another Yjs client; what both write while the API is away is all there", async () => {
    const browser = new FakeBrowser();
    const openCopy = (stored: Iterable<[string, string]>) => {
      const storage = new Map(stored);
      const tabStorage = () => ({ getItem: (key: string) => storage.get(key) ?? null, setItem: (key: string, value: string) => void storage.set(key, value), removeItem: (key: string) => void storage.delete(key) });
      const page = fakePage(clock, { ...browser.tab().members(clock), fetch: api.fetch, indexedDB: () => factory, tabStorage });
      const client = new WorkspaceClient({ api: "http://127.0.0.1:1", workspace: `w${made}`, account: "ann", token: () => MiniApi.token("ann"), environment: page });
      return { client, page, storage, document: client.openDoc("d") };
    };
    const first = openCopy([]);
    text(first.document).insert(0, "before ");
    await first.document.flush();
    assert.ok(first.storage.size > 0, "the tab keeps something that a duplicate copies");
    const copy = openCopy(first.storage);
    const both = [first, copy];
    await until(() => text(copy.document).toString() === "before ", "the copy has the document");
    assert.notEqual(first.document.doc.clientID, copy.document.doc.clientID);
    for (const { document } of both) assert.equal(document.awareness.clientID, document.doc.clientID);

    api.fault = "before";
    for (const [n, { document }] of both.entries()) text(document).insert(0, `${n} `);
    await clock.advance(2_000);
    api.fault = null;
    for (const { page } of both) page.change("online");
    for (const { document } of both) await document.flush();
    await until(() => both.every(({ document }) => text(document).toString() === api.text("d")), "both have what is stored");
    assert.deepEqual(api.text("d").split(" ").toSorted(), ["", "0", "1", "before"]);
    for (const { client } of both) await client.close();
  });

  test("B04 without a database everything works, and the status says so", async () => {
    const { client, page } = open(new FakeBrowser(), { factory: null });
    const document = client.openDoc("d");
    text(document).insert(0, "x");
    await document.flush();
    assert.equal(api.text("d"), "x");
    assert.deepEqual([client.status.storage, client.status.storageLoss, page.warnings.length], ["memory", "unavailable", 1]);
    await client.close();
  });

  test("W11 a document that was replaced stops, with a recovery copy; what is typed after that goes nowhere", async () => {
    const { client } = open(new FakeBrowser());
    const document = client.openDoc("d");
    text(document).insert(0, "old");
    await document.flush();
    const copies: boolean[] = [];
    document.on("recovery", ({ hasUnsaved }) => copies.push(hasUnsaved));
    text(document).insert(0, "unsaved ");
    api.replace("d");
    await until(() => document.status.connection === "stopped", "it stops");
    assert.deepEqual([document.status.reason, copies], ["epoch_changed", [true]]);
    await assert.rejects(document.flush(), { code: "epoch_changed" });
    await clock.advance(10_000);
    assert.equal(api.text("d"), "");
    document.close();
    const anew = client.openDoc("d");
    await until(() => anew.status.isLoaded, "it is loaded");
    assert.equal(text(anew).toString(), "");
    await client.close();
  });

  test("C.27 C.61 an hour with nine agents: no socket, and presence is asked about once a minute at most", async () => {
    let sockets = 0;
    class Counted {
      constructor() {
        sockets += 1;
        throw new Error("no socket");
      }
    }
    const tab = new FakeBrowser().tab();
    const page = fakePage(clock, { ...tab.members(clock), fetch: api.fetch, WebSocket: Counted as never });
    const relays = [{ label: "cf", url: "ws://127.0.0.1:1/ws" }];
    const client = new WorkspaceClient({ api: "http://127.0.0.1:1", workspace: `w${made}`, account: "ann", token: () => MiniApi.token("ann"), relays, environment: page });
    const document = client.openDoc("d");
    let heard = 0;
    client.changes(() => (heard += 1));
    await until(() => document.status.isLoaded && api.streams === 1, "it follows");
    for (let minute = 0; minute < 60; minute += 1) {
      for (let agent = 1; agent <= 9; agent += 1) api.put(`jobs/${agent}`, `bot-${agent}`, minute);
      await clock.advance(60_000);
    }
    await until(() => heard === 540, "every change is heard");
    const asked = api.count("GET", "presence") + api.count("PUT", "presence");
    assert.ok(asked <= 62, `${asked} calls about presence`);
    assert.deepEqual([sockets, api.count("GET", "docs/"), api.count("POST", ""), document.status.connection], [0, 1, 0, "feed"]);
    page.change("hidden");
    const before = api.calls.length;
    await clock.advance(120_000);
    const { length } = api.calls;
    await clock.advance(3_600_000);
    assert.equal(api.calls.length, length, `a hidden hour costs nothing; ${length - before} calls until it rested`);
    await client.close();
  });

  test("a hidden page sends what waits at once", async () => {
    const { client, page } = open(new FakeBrowser());
    void client.applyOp({ op: "put", path: "r", value: 1 });
    await until(() => client.status.role === "leader", "it leads");
    await settled();
    void client.applyOp({ op: "put", path: "s", value: 2 });
    page.change("hidden");
    await until(() => api.records.get("s") === 2, "it is written");
    await client.close();
  });

  test("a page that closes leaves no row behind, and sends what waits", async () => {
    const { client, page } = open(new FakeBrowser());
    client.openDoc("d");
    await until(() => api.people.size === 1, "it is here");
    await settled();
    void client.applyOp({ op: "put", path: "s", value: 2 });
    // As a browser does it: what waits goes out with the second.
    page.change("closing");
    page.change("hidden");
    await until(() => api.people.size === 0, "the row is gone");
    await until(() => api.records.get("s") === 2, "it is written");
    await settled();
    assert.equal(api.people.size, 0);
    await client.close();
  });
});

describe("tabs of one browser", () => {
  test("S11 A09 S5 one stream, one row of presence, one reader for four tabs; each has every edit and change", async () => {
    const browser = new FakeBrowser();
    const tabs = [1, 2, 3, 4].map(() => open(browser));
    await until(() => tabs[0]!.client.status.role === "leader", "one leads");
    const documents = tabs.map(({ client }) => client.openDoc("d"));
    await until(() => documents.every(({ status }) => status.isLoaded), "all are loaded");
    const heard = tabs.map(({ client }) => {
      const clocks: number[] = [];
      client.changes((item) => item.kind !== "reset" && clocks.push(item.clock));
      return clocks;
    });
    text(documents[2]!).insert(0, "from the third");
    const receipt = await documents[2]!.flush();
    await until(() => documents.every((document) => text(document).toString() === "from the third"), "all have it");
    await until(() => documents.every(({ status }) => status.save === "saved"), "all know that it is saved");
    assert.equal(receipt.clock, 1);
    assert.deepEqual([api.streams, api.people.get("ann")?.size, api.count("GET", "docs/"), api.count("POST", "docs/")], [1, 1, 1, 1]);
    await until(() => heard.every(({ length }) => length === 1), "all heard of it");
    for (const { client } of tabs) await client.close();
  });

  test("cursors are seen in every tab, and go with theirs, also when it crashes", async () => {
    const browser = new FakeBrowser();
    const tabs = [1, 2, 3].map(() => open(browser));
    await settled();
    const documents = tabs.map(({ client }) => client.openDoc("d"));
    await until(() => documents.every(({ status }) => status.isLoaded), "all are loaded");
    const [first, second, third] = documents as [(typeof documents)[0], (typeof documents)[0], (typeof documents)[0]];
    second.awareness.setLocalStateField("at", 7);
    third.awareness.setLocalStateField("at", 9);
    const seen = (by: typeof first, of: typeof first) => by.awareness.getStates().get(of.doc.clientID)?.["at"];
    await until(() => seen(first, second) === 7 && seen(third, second) === 7 && seen(second, third) === 9, "they are seen");
    tabs[2]!.tab.crash();
    await until(() => seen(first, third) === undefined && seen(second, third) === undefined, "a crashed tab is gone");
    await tabs[1]!.client.close();
    await until(() => seen(first, second) === undefined, "a closed tab is gone");
    await tabs[0]!.client.close();
  });

  test("C.72 the leader crashes while it saves: the next one has every edit and sends each write once", async () => {
    const browser = new FakeBrowser();
    const [a, b, c] = [open(browser), open(browser), open(browser)];
    await settled();
    const documents = [a, b, c].map(({ client }) => client.openDoc("d"));
    await until(() => documents.every(({ status }) => status.isLoaded), "all are loaded");
    api.fault = "after";
    text(documents[0]!).insert(0, "leader ");
    text(documents[1]!).insert(0, "follower ");
    const record = b.client.applyOp({ op: "put", path: "r", value: "b" });
    await clock.advance(1_000);
    assert.equal(api.records.get("r"), "b");
    // Nobody but the second tab has this, and nobody but the third will be told.
    text(documents[1]!).insert(0, "last ");
    a.tab.crash();
    api.fault = null;
    await until(() => b.client.status.role === "leader", "the second leads");
    await clock.advance(5_000);
    await record;
    await Promise.all([documents[1]!.flush(), documents[2]!.flush()]);
    assert.deepEqual([...api.text("d").split(" ")].sort().join(" ").trim(), "follower last leader");
    assert.equal(text(documents[2]!).toString(), api.text("d"));
    assert.deepEqual(api.log.filter(({ path }) => path === "r").length, 1);
    for (const { client } of [b, c]) await client.close();
  });

  test("B02 a hidden leader hands over to the tab that is looked at, without a lost edit or change", async () => {
    const browser = new FakeBrowser();
    const [a, b] = [open(browser), open(browser)];
    await until(() => a.client.status.role === "leader", "the first leads");
    const [first, second] = [a.client.openDoc("d"), b.client.openDoc("d")];
    const clocks: number[] = [];
    b.client.changes((item) => item.kind !== "reset" && clocks.push(item.clock));
    await until(() => first.status.isLoaded && second.status.isLoaded && api.streams === 1, "both are loaded");
    api.edit("d", "bot", (doc) => doc.getText("t").insert(0, "1"));
    await until(() => clocks.length === 1, "it is heard");
    text(first).insert(0, "typed in the first ");
    a.page.change("hidden");
    b.page.change("visible");
    await until(() => b.client.status.role === "leader", "the second leads");
    api.edit("d", "bot", (doc) => doc.getText("t").insert(0, "2"));
    await second.flush();
    await until(() => first.status.save === "saved" && text(first).length === text(second).length, "they are equal");
    await until(() => clocks.length === api.log.length, "every change was heard");
    assert.deepEqual(clocks, api.log.map((change) => change.clock));
    assert.equal(api.text("d").length, "typed in the first 12".length);
    assert.equal(a.client.status.role, "follower");
    await Promise.all([a.client.close(), b.client.close()]);
  });
});
