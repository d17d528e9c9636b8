// Two people's browsers connect by real WebRTC, over the loopback address, and do without a relay.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { until } from "../e2e/support/waiting.mjs";
import { openPage, startPeers } from "./p2p-support.mjs";
import { missingChromium } from "./support/chromium.mjs";

/** A connection over HTTP waits 3 s for a relay, a relay 5 s for a connection; machines may be slow. */
const PATIENCE = 60_000;

/** Somebody types two lines. */
const KEYSTROKES = 200;

/** The shortest pause after which the SDK writes. */
const MIN_WRITE_GAP_MS = 250;

describe("p2p in a browser", { skip: missingChromium(), timeout: 300_000 }, () => {
  let relay, pages, browser, stop;
  before(async () => {
    ({ relay, pages, browser, stop } = await startPeers());
  });
  after(() => stop?.());

  /** Two people in one document, who know of each other. */
  async function together({ url = relay.url, hasRoute = true } = {}) {
    const workspace = await relay.workspace();
    const options = { api: relay.api, workspace: workspace.id, path: "notes/a", p2p: true, hasRoute, relays: [{ label: "cf", url }] };
    const person = (sub, role = "editor") => openPage(browser, pages.origin, { ...options, apiToken: workspace.apiToken({ sub, role }) });
    const ann = await person("ann");
    await until(async () => (await ann.call("status")).isLoaded, "it is loaded", PATIENCE);
    await ann.call("insert", 0, "!");
    await ann.call("flush");
    const bob = await person("bob");
    await until(async () => (await bob.call("text")) === "!", "Bob has it", PATIENCE);
    await isListed(bob, 1);
    await ann.call("look");
    const both = [ann, bob];
    const arePeers = async () => (await Promise.all(both.map((one) => one.call("status")))).every(({ connection }) => connection === "peer");
    return { ann, bob, both, arePeers, workspace, person, close: () => Promise.all(both.map((one) => one.close())) };
  }

  /** Whoever looks from now on finds this person: who has said that they are here gets the list of the others. */
  const isListed = (one, others) => until(async () => (await one.call("others")) === others, "who else is here is known", PATIENCE);

  const same = (both, text) => until(async () => (await Promise.all(both.map((one) => one.call("text")))).every((it) => it === text), `both have ${text}`, PATIENCE);

  test("C.6 C.28 C.73 signaling over the relay: edits and cursors go by WebRTC, and no Yjs message through the relay", async () => {
    const { ann, bob, both, arePeers, workspace, close } = await together();
    await until(arePeers, "they are connected", PATIENCE);
    // A relay that was opened while the connection was made is let go.
    const before = both.map(({ frames }) => frames.binary);
    for (let n = 0; n < 20; n += 1) {
      await ann.call("insert", 0, "a");
      await bob.call("insert", 0, "b");
    }
    await until(async () => (await ann.call("text")).length === 41 && (await ann.call("text")) === (await bob.call("text")), "both have all", PATIENCE);
    await ann.call("show", "Ann");
    await until(async () => (await bob.call("names")).includes("Ann"), "Bob sees Ann", PATIENCE);
    await ann.call("flush");
    await bob.call("flush");
    assert.ok(await arePeers());
    assert.deepEqual(both.map(({ frames }) => frames.binary), before, "binary frames");
    assert.ok(both.every(({ frames }) => frames.text > 0), "the signals went over the relay");
    const stored = await workspace.rest("GET", "/docs/notes/a?root=t", { headers: { accept: "text/plain" } });
    assert.equal(stored.text, await ann.call("text"));
    await close();
  });

  test("C.64 each keystroke goes by WebRTC, and the database is written to when a pause comes", async (t) => {
    const { ann, bob, arePeers, workspace, close } = await together();
    await until(arePeers, "they are connected", PATIENCE);
    const writes = async () => (await workspace.rest("GET", "/changes?limit=1000")).json.changes.length;
    const before = await writes();
    const sent = await ann.call("peerBytes");
    const begun = performance.now();
    for (let n = 0; n < KEYSTROKES; n += 1) await ann.call("insert", 0, "k");
    await ann.call("flush");
    const limit = Math.ceil((performance.now() - begun) / MIN_WRITE_GAP_MS);
    const made = (await writes()) - before;
    await until(async () => (await bob.call("text")).length === KEYSTROKES + 1, "Bob has all", PATIENCE);
    assert.equal(await bob.call("peerUpdates"), KEYSTROKES, "updates that came from a peer");
    const perKeystroke = ((await ann.call("peerBytes")) - sent) / KEYSTROKES;
    t.diagnostic(`C.70: ${perKeystroke.toFixed(0)} bytes from browser to browser for a keystroke`);
    assert.ok(perKeystroke > 0);
    assert.ok(made >= 1 && made <= limit, `${made} writes, at most ${limit}`);
    await close();
  });

  test("C.69 no relay answers: the browsers find each other over HTTP, and no WebSocket is ever open", async () => {
    const { ann, bob, both, arePeers, close } = await together({ url: "ws://127.0.0.1:1/ws" });
    await until(arePeers, "they are connected", PATIENCE);
    await ann.call("insert", 0, "a");
    await same(both, "a!");
    await bob.call("insert", 0, "b");
    await same(both, "ba!");
    assert.deepEqual(both.map(({ frames }) => frames.binary + frames.text), [0, 0]);
    await close();
  });

  test("C.70 where no browser reaches another, the relay carries everything, and nobody waits for what does not come", async () => {
    const { ann, both, close } = await together({ hasRoute: false });
    const areLive = async () => (await Promise.all(both.map((one) => one.call("status")))).every(({ connection }) => connection === "live");
    await until(areLive, "both are on the relay", PATIENCE);
    await ann.call("insert", 0, "a");
    await same(both, "a!");
    assert.ok(both.every(({ frames }) => frames.binary > 0));
    assert.deepEqual(await Promise.all(both.map((one) => one.call("peerUpdates"))), [0, 0]);
    await close();
  });

  test("a third browser is reached too; when a viewer comes, the relay serves everybody, and what it shows is complete", async () => {
    const { ann, bob, workspace, person, close } = await together();
    const cem = await person("cem");
    await isListed(cem, 2);
    const three = [ann, bob, cem];
    const look = () => Promise.all(three.map((one) => one.call("look")));
    const all = async (connection) => (await Promise.all(three.map((one) => one.call("status")))).every((status) => status.connection === connection);
    await look();
    await until(() => all("peer"), "all three are connected", PATIENCE);
    const before = three.map(({ frames }) => frames.binary);
    for (const [n, one] of three.entries()) await one.call("insert", 0, String(n));
    await until(async () => (await Promise.all(three.map((one) => one.call("text")))).every((text, _, texts) => text.length === 4 && text === texts[0]), "all have all", PATIENCE);
    assert.deepEqual(three.map(({ frames }) => frames.binary), before);
    const eve = await person("eve", "viewer");
    await isListed(eve, 3);
    // A viewer sends no signals and writes nothing, so nobody has noticed. She gets what is saved.
    await bob.call("insert", 0, "w");
    await until(async () => (await eve.call("text")).startsWith("w"), "the viewer sees what is saved", PATIENCE);
    await look();
    await until(() => all("live"), "the relay is used", PATIENCE);
    await ann.call("insert", 0, "x");
    await until(async () => (await eve.call("text")) === (await ann.call("text")), "the viewer sees it", PATIENCE);
    await eve.call("insert", 0, "evil");
    await ann.call("insert", 0, "y");
    await until(async () => (await cem.call("text")).startsWith("yxw"), "it arrives", PATIENCE);
    assert.ok((await Promise.all(three.map((one) => one.call("text")))).every((text) => !text.includes("evil")));
    assert.equal((await workspace.rest("POST", "/tokens", { body: { purpose: "relay" }, token: workspace.apiToken({ sub: "eve", role: "viewer" }) })).json.peerSecret, undefined);
    await Promise.all([cem.close(), eve.close(), close()]);
  });

  test("P04 the connection is cut: the relay takes over, what is typed meanwhile arrives, and it is let go again", async () => {
    const { ann, bob, both, arePeers, close } = await together();
    await until(arePeers, "they are connected", PATIENCE);
    for (const one of both) await one.call("block");
    await ann.call("insert", 0, "a");
    await bob.call("insert", 0, "b");
    await until(async () => (await ann.call("text")).length === 3 && (await ann.call("text")) === (await bob.call("text")), "both have all", PATIENCE);
    await until(async () => (await ann.call("status")).connection === "live" && (await bob.call("status")).connection === "live", "over the relay", PATIENCE);
    assert.ok(both.every(({ frames }) => frames.binary > 0));
    for (const one of both) await one.call("unblock");
    await until(arePeers, "they are connected again", PATIENCE * 2);
    const before = both.map(({ frames }) => frames.binary);
    await ann.call("insert", 0, "c");
    await until(async () => (await bob.call("text")).startsWith("c"), "it arrives", PATIENCE);
    assert.deepEqual(both.map(({ frames }) => frames.binary), before);
    await close();
  });
});
