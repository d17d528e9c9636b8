// Two people's browsers connect directly: over an API in memory and a double of WebRTC, on a clock. With
// real WebRTC it is tested in a browser.
import "fake-indexeddb/auto";
import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { IDBFactory } from "fake-indexeddb";
import { FakeNetwork } from "../test/fake-rtc.ts";
import { MiniApi } from "../test/mini-api.ts";
import type { WebSocketLike } from "./browser.ts";
import { WorkspaceClient } from "./index.ts";
import type { WorkspaceClientOptions } from "./index.ts";
import { webRtc } from "./p2p.ts";
import { FakeBrowser, FakeClock, fakePage } from "./testing.ts";

let clock: FakeClock;
let api: MiniApi;
let network: FakeNetwork;
let sockets: string[];
let made = 0;
let clients: WorkspaceClient[];
beforeEach(() => {
  clock = new FakeClock();
  api = new MiniApi();
  network = new FakeNetwork();
  sockets = [];
  clients = [];
  made += 1;
});

/** A relay that never answers; who wants a document from it is counted. */
class MuteSocket implements WebSocketLike {
  binaryType = "";
  readonly bufferedAmount = 0;
  onopen: WebSocketLike["onopen"] = null;
  onmessage: WebSocketLike["onmessage"] = null;
  onerror: WebSocketLike["onerror"] = null;
  onclose: WebSocketLike["onclose"] = null;

  constructor(url: string) {
    sockets.push(new URL(url).pathname.split("/").slice(3).join("/"));
  }

  send(): void {}
  close(): void {}
}

function open(sub: string, options: Partial<WorkspaceClientOptions> = {}) {
  const factory = new IDBFactory();
  const members = { ...new FakeBrowser().tab().members(clock), fetch: api.fetch, indexedDB: () => factory, WebSocket: MuteSocket };
  const page = { ...fakePage(clock, members), connectPeer: network.connect };
  const relays = [{ label: "cf", url: "ws://127.0.0.1:1/ws" }];
  const client = new WorkspaceClient({ api: "http://127.0.0.1:1", workspace: `w${made}`, token: () => MiniApi.token(sub), environment: page, p2p: webRtc(), relays, ...options });
  clients.push(client);
  const document = client.openDoc("d");
  return { client, page, document, text: document.doc.getText("t") };
}

/** Lets time pass until it is so, or it is too late. */
async function within(ms: number, isSo: () => boolean, what: string): Promise<void> {
  for (let passed = 0; passed < ms && !isSo(); passed += 500) await clock.advance(500);
  assert.ok(isSo(), what);
}

/** Two people in one document, each of whom knows of the other. */
async function together(options: { ann?: Partial<WorkspaceClientOptions>; bob?: Partial<WorkspaceClientOptions> } = {}) {
  api.edit("d", "seed", (doc) => doc.getText("t").insert(0, "!"));
  const ann = open("ann", options.ann);
  await within(5_000, () => ann.document.status.isLoaded, "Ann's is loaded");
  const bob = open("bob", options.bob);
  await within(5_000, () => bob.document.status.isLoaded, "Bob's is loaded");
  await ann.client.presence.refresh();
  return { ann, bob };
}

const documentSockets = () => sockets.filter((path) => path === "d").length;
const close = () => Promise.all(clients.map((client) => client.close()));

describe("p2p", () => {
  test("C.28 C.69 two browsers connect over HTTP before a relay is opened; edits and cursors go from one to the other", async () => {
    const { ann, bob } = await together();
    await within(5_000, () => ann.document.status.connection === "peer" && bob.document.status.connection === "peer", "both are connected");
    assert.equal(documentSockets(), 0);
    const reads = api.count("GET", "docs/");
    ann.text.insert(0, "hello");
    ann.document.awareness.setLocalStateField("user", "ann");
    await clock.advance(0);
    assert.equal(bob.text.toString(), "hello!");
    assert.equal(api.count("GET", "docs/"), reads, "it did not come from the API");
    assert.deepEqual(bob.document.awareness.getStates().get(ann.document.doc.clientID), { user: "ann" });
    await within(2_000, () => ann.document.status.save === "saved", "it is saved");
    assert.equal(api.text("d"), "hello!");
    assert.equal(api.calls.filter(({ method, path, sub }) => method === "POST" && path.startsWith("docs/") && sub === "bob").length, 0, "each saves its own");
    assert.equal(documentSockets(), 0);
    await close();
  });

  test("P04 a network that lets no connection through: the relay is asked after the grace, and nothing is lost", async () => {
    network.isBlocked = true;
    const { ann, bob } = await together();
    ann.text.insert(0, "a");
    bob.text.insert(0, "b");
    await within(6_000, () => documentSockets() === 2, "both ask the relay");
    await clock.advance(30_000);
    assert.equal(ann.document.status.connection, "connecting");
    assert.deepEqual([ann.text.toString().length, ann.text.toString()], [3, bob.text.toString()]);
    assert.equal(api.text("d"), ann.text.toString());
    await close();
  });

  test("a connection that is cut: the relay is asked at once, what was typed meanwhile arrives, and the connection comes back", async () => {
    const { ann, bob } = await together();
    await within(5_000, () => ann.document.status.connection === "peer", "they are connected");
    ann.document.awareness.setLocalStateField("user", "ann");
    await clock.advance(0);
    network.cut();
    assert.equal(bob.document.awareness.getStates().has(ann.document.doc.clientID), false, "who is not reached is not shown");
    await clock.advance(0);
    assert.equal(documentSockets(), 2);
    bob.text.insert(0, "still ");
    await clock.advance(3_000);
    assert.equal(ann.text.toString(), "still !");
    await within(60_000, () => ann.document.status.connection === "peer", "they are connected again");
    assert.deepEqual(bob.document.awareness.getStates().get(ann.document.doc.clientID), { user: "ann" });
    await close();
  });

  test("A5 a viewer gets no secret: nobody connects to it, and the relay serves both", async () => {
    api.viewers.add("bob");
    await together();
    await within(10_000, () => documentSockets() === 2, "both ask the relay");
    await clock.advance(60_000);
    assert.equal(network.open, 0);
    await close();
  });

  test("one person alone asks for no secret and connects to nobody; nor does a client that was not told to", async () => {
    const ann = open("ann");
    await within(5_000, () => ann.document.status.isLoaded, "it is loaded");
    await clock.advance(600_000);
    assert.deepEqual([api.count("POST", "tokens"), network.connections.length, sockets.length], [0, 0, 0]);
    await close();
    api = new MiniApi();
    await together({ ann: { p2p: null }, bob: { p2p: null } });
    await within(10_000, () => documentSockets() === 2, "both ask the relay");
    assert.deepEqual([api.count("POST", "p2p/"), network.connections.length], [0, 0]);
    await close();
  });

  test("W11 a document that was replaced: the old copy does not get into the new one by way of a peer", async () => {
    const { ann, bob } = await together();
    await within(5_000, () => ann.document.status.connection === "peer" && bob.document.status.connection === "peer", "they are connected");
    const copies: string[] = [];
    ann.document.on("recovery", () => copies.push("ann"));
    bob.document.on("recovery", () => copies.push("bob"));
    api.replace("d");
    await within(5_000, () => copies.length === 2, "both are told");
    const fresh = open("cem");
    await within(5_000, () => fresh.document.status.isLoaded, "it is loaded");
    await clock.advance(30_000);
    assert.equal(fresh.text.toString(), "");
    await close();
  });

  test("somebody who has another document open needs no relay for this one, and a third who is not reached does", async () => {
    const { ann } = await together();
    await within(5_000, () => ann.document.status.connection === "peer", "they are connected");
    const other = ann.client.openDoc("e");
    await within(5_000, () => other.status.isLoaded, "it is loaded");
    assert.equal(sockets.filter((path) => path === "e").length, 0);
    open("cem", { p2p: null });
    await clock.advance(1_000);
    await ann.client.presence.refresh();
    await within(10_000, () => sockets.filter((path) => path === "e").length > 0, "the relay is asked");
    assert.ok(documentSockets() > 0);
    await close();
  });
});
