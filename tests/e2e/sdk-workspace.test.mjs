// WorkspaceClient, from its sources, against the real stack: alone without a socket, together over a
// relay, and nothing lost when either side dies.
import "fake-indexeddb/auto";
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { browser } from "./support/browser.mjs";
import { FrameClient } from "./support/frame-client.mjs";
import { startCf } from "./support/relays.mjs";
import { stockClient } from "./support/stock-client.mjs";
import { until, within } from "./support/waiting.mjs";

const text = ({ doc }) => doc.getText("t");
const loaded = (document) => until(() => document.status.isLoaded, "it is loaded");

describe("workspace client", { concurrency: 4, timeout: 150_000 }, () => {
  let relay;
  before(async () => {
    relay = await startCf();
  });
  after(() => relay?.stop());

  test("C.27 S3 one person and an agent: edits go both ways, records too, and no socket is opened", async () => {
    const workspace = await relay.workspace();
    const ann = browser(relay, workspace, "ann");
    const { client } = ann.page();
    const document = client.openDoc("notes/a");
    const changes = [];
    client.changes((item) => changes.push(`${item.kind} ${item.path} ${item.actor}`));
    await loaded(document);
    text(document).insert(0, "tomorow");
    const receipt = await within(document.flush(), "a receipt");
    assert.deepEqual(receipt, { clock: 1, epoch: 1 });
    assert.equal(document.status.save, "saved");
    const agent = workspace.apiToken({ sub: "bot", kind: "agent", role: "editor" });
    const edit = { root: "t", edits: [{ op: "replace", quote: "tomorow", with: "tomorrow" }] };
    assert.equal((await workspace.rest("POST", "/docs/notes/a/edits", { body: edit, token: agent })).status, 200);
    await until(() => text(document).toString() === "tomorrow", "the agent's edit is here");
    assert.deepEqual(await client.applyOp({ op: "put", path: "jobs/1", value: { by: "ann" } }), { clock: 3 });
    assert.deepEqual((await client.node("jobs/1")).value, { by: "ann" });
    const listed = [];
    for await (const { path, kind, clock } of client.list({ prefix: "jobs" })) listed.push({ path, kind, clock });
    assert.deepEqual(listed, [{ path: "jobs/1", kind: "record", clock: 3 }]);
    await until(() => changes.length >= 3, "the changes are told");
    assert.deepEqual(changes, ["update notes/a ann", "update notes/a bot", "put jobs/1 ann"]);
    assert.deepEqual([ann.sockets, document.status.connection, client.presence.otherHumans], [0, "feed", 0]);
    assert.equal((await relay.inspect(workspace.id)).clients, 0);
    // The application may want one all the same.
    document.holdSocket("demo");
    await until(() => document.status.connection === "live", "it is held");
    assert.equal(document.status.label, "cf");
    document.holdSocket("demo", false);
    await until(() => document.status.connection === "feed", "it is let go");
    assert.equal(document.status.label, undefined);
    assert.equal(ann.sockets, 1);
  });

  test("S3 A.71 C.7 a second person comes: both connect, see each other, converge, and what they type is saved", async () => {
    const workspace = await relay.workspace();
    const [ann, ben] = [browser(relay, workspace, "ann"), browser(relay, workspace, "ben")];
    const first = ann.page();
    const mine = first.client.openDoc("d");
    await loaded(mine);
    text(mine).insert(0, "ann ");
    await within(mine.flush(), "a receipt over REST");
    assert.equal(ann.sockets, 0);
    const second = ben.page();
    const theirs = second.client.openDoc("d");
    await until(() => theirs.status.connection === "live" && text(theirs).toString() === "ann ", "ben is on the relay and has what was there");
    text(theirs).insert(0, "ben ");
    await until(() => mine.status.connection === "live" && text(mine).toString() === "ben ann ", "ann hears of it and connects");
    mine.awareness.setLocalStateField("user", { name: "ann" });
    theirs.awareness.setLocalStateField("user", { name: "ben" });
    const sees = (by, of) => by.awareness.getStates().get(of.doc.clientID)?.user?.name;
    await until(() => sees(mine, theirs) === "ben" && sees(theirs, mine) === "ann", "they see each other");
    text(mine).insert(0, "live ");
    await within(mine.flush(), "a receipt over the relay");
    assert.equal(await workspace.text("d"), "live ben ann ");
    assert.equal(mine.status.save, "saved");
    // A token is good for one workspace, whoever has it.
    const elsewhere = (await relay.workspace()).url("d");
    const token = await workspace.scope({ sub: "ben" });
    await assert.rejects(FrameClient.open(`${elsewhere}?token=${token}`), ({ status }) => status === 403);
    // Ben leaves; what ann asks for next tells her so, and she works alone again.
    await second.client.close();
    await until(() => sees(mine, theirs) === undefined, "ben is gone from ann's screen");
    await until(async () => (await relay.inspect(workspace.id)).clients === 1, "and from the relay");
    await until(async () => (await first.client.presence.refresh())?.otherHumans === 0, "and from the list of who is here");
  });

  test("S3 who is alone again lets the socket go, and nothing typed around that is lost", async () => {
    const workspace = await relay.workspace();
    const [ann, ben] = [browser(relay, workspace, "ann"), browser(relay, workspace, "ben")];
    const first = ann.page();
    const mine = first.client.openDoc("d");
    await loaded(mine);
    const second = ben.page();
    const theirs = second.client.openDoc("d");
    await until(() => theirs.status.connection === "live", "ben is on the relay");
    await first.client.presence.refresh();
    await until(() => mine.status.connection === "live", "ann too");
    await second.client.close();
    await until(async () => (await relay.inspect(workspace.id)).clients === 1, "ben is gone");
    text(mine).insert(0, "typed on the relay ");
    await first.client.presence.refresh();
    await until(() => mine.status.connection === "feed", "ann is off it");
    text(mine).insert(0, "typed after it ");
    await within(mine.flush(), "a receipt");
    assert.equal(await workspace.text("d"), "typed after it typed on the relay ");
    assert.equal((await relay.inspect(workspace.id)).clients, 0);
  });

  test("S5 C.72 two tabs over one socket: both are seen and heard, and the second goes on when the first crashes", async () => {
    const workspace = await relay.workspace();
    const [ann, ben] = [browser(relay, workspace, "ann"), browser(relay, workspace, "ben")];
    const [first, second] = [ann.page(), ann.page()];
    const [one, two] = [first.client.openDoc("d"), second.client.openDoc("d")];
    await Promise.all([loaded(one), loaded(two)]);
    const theirs = ben.page().client.openDoc("d");
    await until(() => theirs.status.connection === "live", "ben is on the relay");
    await second.client.presence.refresh();
    await until(() => one.status.connection === "live" && two.status.connection === "live", "so are ann's tabs");
    assert.equal(ann.sockets, 1);
    one.awareness.setLocalStateField("tab", 1);
    two.awareness.setLocalStateField("tab", 2);
    const sees = (by, of) => by.awareness.getStates().get(of.doc.clientID)?.tab;
    await until(() => sees(theirs, one) === 1 && sees(theirs, two) === 2, "ben sees both tabs");
    theirs.awareness.setLocalStateField("tab", 9);
    await until(() => sees(one, theirs) === 9 && sees(two, theirs) === 9, "both tabs see ben");
    text(two).insert(0, "from the second tab ");
    assert.equal((await within(two.flush(), "a receipt")).clock, await workspace.head());
    text(two).insert(0, "last ");
    first.die();
    await until(() => second.client.status.role === "leader" && two.status.connection === "live", "the second tab is on the relay");
    await until(() => sees(theirs, one) === undefined && sees(theirs, two) === 2, "ben sees the second tab alone");
    text(two).insert(0, "after ");
    await within(two.flush(), "a receipt");
    assert.equal(await workspace.text("d"), "after last from the second tab ");
    await until(() => text(theirs).toString() === text(two).toString(), "they converge");
    assert.equal(ann.sockets, 2);
  });

  test("C.26 C.8 no relay can be reached: two people and an agent still have each other's edits, and their own are saved", async () => {
    const workspace = await relay.workspace();
    const [ann, ben] = ["ann", "ben"].map((sub) => browser(relay, workspace, sub));
    // A port that answers, and is no relay.
    const url = relay.api.replace(/^http/, "ws") + "/blocked/ws";
    const documents = [ann.page({ url }).client.openDoc("d"), ben.page({ url }).client.openDoc("d")];
    await Promise.all(documents.map(loaded));
    text(documents[0]).insert(0, "ann ");
    text(documents[1]).insert(0, "ben ");
    await within(Promise.all(documents.map((document) => document.flush())), "receipts");
    const edit = { root: "t", edits: [{ op: "append", text: "bot" }] };
    assert.equal((await workspace.rest("POST", "/docs/d/edits", { body: edit, token: workspace.apiToken({ sub: "bot", kind: "agent", role: "editor" }) })).status, 200);
    const whole = await workspace.text("d");
    assert.deepEqual(whole.split(" ").sort(), ["ann", "ben", "bot"]);
    await until(() => documents.every((document) => text(document).toString() === whole), "both have all of it");
    assert.ok(ann.sockets + ben.sockets > 0, "a relay was tried");
    assert.deepEqual(documents.map(({ status }) => status.save), ["saved", "saved"]);
  });

  test("C.58 the client only adds: each part of it may be off, and a page of stock y-websocket notices nothing of either", async () => {
    const workspace = await relay.workspace();
    const stock = await stockClient(workspace, { sub: "stock" });
    stock.doc.getText("t").insert(0, "stock ");
    const off = { storage: false, tabs: false, relays: [] };
    const kinds = { whole: {}, undone: off, ...Object.fromEntries(Object.entries(off).map(([option, value]) => [option, { [option]: value }])) };
    const people = Object.entries(kinds).map(([sub, options]) => {
      const person = browser(relay, workspace, sub);
      const { client } = person.page(options);
      return { sub, person, client, document: client.openDoc("d") };
    });
    await Promise.all(people.map(({ document }) => loaded(document)));
    for (const { sub, document } of people) text(document).insert(0, `${sub} `);
    await within(Promise.all(people.map(({ document }) => document.flush())), "receipts");
    stock.doc.getText("t").insert(0, "again ");
    const words = ["again", "stock", ...people.map(({ sub }) => sub)].sort();
    const wordsOf = (found) => found.toString().trim().split(" ").sort().join();
    for (const found of [stock.doc.getText("t"), ...people.map(({ document }) => text(document))]) {
      await until(() => wordsOf(found) === words.join(), "each word, once, for everybody");
    }
    await until(async () => wordsOf(await workspace.text("d")) === words.join(), "and stored");
    assert.deepEqual([stock.connects, stock.texts, stock.closes], [1, [], []]);
    const of = (name) => people.find(({ sub }) => sub === name);
    assert.deepEqual([of("undone").person.sockets, of("relays").person.sockets], [0, 0], "without relays there is no socket");
    assert.deepEqual([of("whole"), of("storage"), of("undone")].map(({ client }) => client.status.storage), ["durable", "memory", "memory"]);
  });

  test("A.28 the page dies before its writes were sent: the next one sends them", async () => {
    const workspace = await relay.workspace();
    const ann = browser(relay, workspace, "ann");
    const first = ann.page();
    const document = first.client.openDoc("d");
    await loaded(document);
    first.die();
    text(document).insert(0, "not lost");
    void first.client.applyOp({ op: "put", path: "r", value: 1 }).catch(() => {});
    await until(() => document.status.save === "local", "it is on the device");
    assert.equal(await workspace.head(), 0);
    const { client } = ann.page();
    const again = client.openDoc("d");
    await until(() => again.status.isLoaded && again.status.save === "saved", "it is saved");
    await within(client.flush(), "the record too");
    assert.equal(await workspace.text("d"), "not lost");
    assert.deepEqual((await client.node("r")).value, 1);
    assert.equal(await workspace.head(), 2);
  });
});

test("C.32 SIGKILL of the stack under two people: each edit and each record is there afterwards, once", { timeout: 150_000 }, async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "yrelay-sdk-"));
  let relay = await startCf({ dataDir });
  const { port } = new URL(relay.api);
  try {
    const here = await relay.workspace("kill");
    const [ann, ben] = ["ann", "ben"].map((sub) => browser(relay, here, sub).page().client);
    const documents = [ann.openDoc("d"), ben.openDoc("d")];
    await until(() => documents.some(({ status }) => status.connection === "live"), "one is on the relay");
    await Promise.all([ann.presence.refresh(), ben.presence.refresh()]);
    await until(() => documents.every(({ status }) => status.connection === "live"), "both are");
    for (let n = 0; n < 40; n += 1) {
      for (const [index, document] of documents.entries()) text(document).insert(0, `${"ab"[index]}${n} `);
      void ann.applyOp({ op: "put", path: `r/${n}`, value: n }).catch(() => {});
      if (n === 20) await relay.stack.kill();
      await new Promise((settle) => setTimeout(settle, 20));
    }
    await until(() => documents.every(({ status }) => status.connection !== "live"), "the loss is noticed");
    relay = await startCf({ dataDir, port: Number(port) });
    const after = await relay.workspace("kill");
    await within(Promise.all(documents.map((document) => document.flush())), "receipts", 60_000);
    await within(ann.flush(), "the records", 60_000);
    const words = (await after.text("d")).trim().split(" ");
    const wanted = Array.from({ length: 40 }, (_, n) => [`a${n}`, `b${n}`]).flat();
    assert.deepEqual(words.sort(), wanted.sort());
    const { json } = await after.rest("GET", "/nodes?prefix=r&limit=100");
    assert.equal(json.nodes.length, 40);
    await until(() => text(documents[0]).toString() === text(documents[1]).toString(), "they converge");
    await Promise.all([ann.close(), ben.close()]);
  } finally {
    await relay.stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
});
