// B05: Chromium keeps a page in its back/forward cache, and the page goes on when it is back, without a reload.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { until } from "../e2e/support/waiting.mjs";
import { openPage, startPeers } from "./p2p-support.mjs";
import { missingChromium } from "./support/chromium.mjs";

const PATIENCE = 60_000;

describe("the back/forward cache of a browser", { skip: missingChromium(), timeout: 240_000 }, () => {
  let relay, pages, browser, stop;
  before(async () => {
    ({ relay, pages, browser, stop } = await startPeers());
  });
  after(() => stop?.());

  async function scene() {
    const workspace = await relay.workspace();
    const options = { api: relay.api, workspace: workspace.id, path: "notes/a", p2p: false, relays: [{ label: "cf", url: relay.url }] };
    /** A person's page; `beside`: another page of the same browser. */
    return async (sub, beside) => {
      const one = await openPage(browser, pages.origin, { ...options, apiToken: workspace.apiToken({ sub, role: "editor" }) }, beside);
      await until(async () => (await one.call("status")).isLoaded, "it is loaded", PATIENCE);
      return one;
    };
  }

  /** Leaves for another page; answers how to come back, which fails with the browser's reasons if it was a reload. */
  async function away({ tab }) {
    await tab.evaluate(() => (globalThis.isSamePage = true));
    await tab.goto("about:blank");
    return async () => {
      await tab.goBack({ waitUntil: "commit" });
      await until(() => tab.evaluate(() => document.readyState === "complete" && "page" in globalThis), "a page is there", PATIENCE);
      const { isSame, reasons } = await tab.evaluate(() => ({ isSame: globalThis.isSamePage === true, reasons: performance.getEntriesByType("navigation")[0].notRestoredReasons }));
      assert.ok(isSame, `it was loaded anew: ${JSON.stringify(reasons)}`);
    };
  }

  const has = (one, text) => until(async () => (await one.call("text")) === text, `it has ${text}`, PATIENCE);
  const is = (one, connection) => until(async () => (await one.call("status")).connection === connection, `it is ${connection}`, PATIENCE);

  test("B05 the tab that leads goes away while another one writes: it comes back as it was, with what it missed", async () => {
    const person = await scene();
    const ann = await person("ann");
    const other = await person("ann", ann);
    await ann.call("insert", 0, "a");
    const comeBack = await away(ann);
    await other.call("insert", 0, "b");
    await other.call("flush");
    await has(other, "ba");
    await comeBack();
    await has(ann, "ba");
    await ann.call("insert", 0, "c");
    await has(other, "cba");
    await ann.call("flush");
    await ann.close();
  });

  test("B05 a page with a socket goes away while somebody else writes: it is back on the relay, and both see each other", async () => {
    const person = await scene();
    const [ann, bob] = [await person("ann"), await person("bob")];
    await bob.call("show", "Bob");
    await ann.call("look");
    await Promise.all([is(ann, "live"), is(bob, "live")]);
    const { sockets } = ann.frames;
    const comeBack = await away(ann);
    await bob.call("insert", 0, "b");
    await bob.call("flush");
    await comeBack();
    await has(ann, "b");
    await bob.call("look");
    await Promise.all([is(ann, "live"), is(bob, "live")]);
    assert.ok(ann.frames.sockets > sockets, "another socket");
    await until(async () => (await ann.call("names")).includes("Bob"), "Ann sees Bob", PATIENCE);
    await ann.call("insert", 0, "a");
    await has(bob, "ab");
    await Promise.all([ann.close(), bob.close()]);
  });
});
