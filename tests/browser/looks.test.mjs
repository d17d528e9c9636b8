// How the demo page looks and is used without a mouse. Its pictures are in target/browser, to be looked at.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { WorkspaceAgent } from "../../client-sdk/src/agent/index.ts";
import { until } from "../e2e/support/waiting.mjs";
import { missingChromium } from "./support/chromium.mjs";
import { NOTE, World } from "./support/world.mjs";

const DESKTOP = { width: 1280, height: 900 };
const PHONE = { width: 360, height: 740 };
const VIEWS = [
  { name: "desktop-light", viewport: DESKTOP, colorScheme: "light" },
  { name: "desktop-dark", viewport: DESKTOP, colorScheme: "dark" },
  { name: "phone-light", viewport: PHONE, colorScheme: "light", isMobile: true, hasTouch: true },
  { name: "phone-dark", viewport: PHONE, colorScheme: "dark", isMobile: true, hasTouch: true },
];
/** WCAG AA for text of this size. */
const MIN_CONTRAST = 4.5;

describe("looks", { skip: missingChromium(), timeout: 170_000 }, () => {
  let world;
  before(async () => {
    world = await World.start();
  });
  after(() => world?.stop());

  test("light and dark, on a desk and on a phone: nothing is cut off, and every text can be read", async (t) => {
    const scene = await world.scene(t);
    const tabs = [];
    for (const { name, ...view } of VIEWS) tabs.push(await (await scene.person(`${["heron", "otter", "lynx", "wren"][tabs.length]}-${40 + tabs.length}`, view)).open());
    const token = scene.workspace.apiToken({ sub: "gardener", kind: "agent", role: "editor" });
    const agent = new WorkspaceAgent({ api: world.cf.api, workspace: scene.workspace.id, getToken: () => token });
    await agent.write("jobs/1", { title: "Water the plants on the sill", state: "done", by: "gardener" });
    await agent.write("jobs/2", { title: "Ask Ida for the key of the shed", state: "claimed", by: "otter-41" });
    await agent.write("jobs/3", { title: "A title without any gap: https://example.com/a/very/long/address/that/does/not/end", state: "open" });
    await agent.write("jobs/4", { title: "Order seeds", state: "open" });
    await tabs[0].type("# Saturday\n\nThe beans go left of the path.");
    await tabs[0].saved();
    await agent.edit(NOTE, [{ op: "append", text: "\ngardener: the sill is done" }], { root: "content" });
    agent.close();
    for (const tab of tabs) await until(async () => (await tab.jobs("open")).length === 2 && (await tab.note()).includes("gardener"), "everybody sees all of it");
    await tabs[1].type("\nAnd the peas?");
    for (const tab of tabs) await tab.shows("connection", /^Live on cf$/);
    for (const tab of tabs) await tab.saved();
    for (const [n, { name, viewport }] of VIEWS.entries()) {
      const { page } = tabs[n];
      await page.evaluate(() => scrollTo(0, 0));
      await page.screenshot({ path: world.picture(name), fullPage: true });
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(width <= viewport.width, `${name} is ${width} wide`);
      assert.deepEqual(await page.evaluate(unreadable, MIN_CONTRAST), [], name);
      assert.deepEqual(await page.evaluate(unnamed), [], name);
    }
  });

  test("by the keyboard alone: a job is added, moved and deleted, and the focus stays where the work is", async (t) => {
    const scene = await world.scene(t);
    const tab = await (await scene.person("heron-417", { viewport: DESKTOP })).open();
    const { page } = tab;
    const focused = () => page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? (document.activeElement.id || document.activeElement.classList[0]));
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the board");
    await page.keyboard.press("Enter");
    const tabTo = async (wanted) => {
      for (let n = 0; n < 12 && (await focused()) !== wanted; n += 1) await page.keyboard.press("Tab");
      assert.equal(await focused(), wanted);
    };
    await tabTo("new-job-title");
    await page.keyboard.type("prune");
    await page.keyboard.press("Enter");
    await until(async () => (await tab.jobs("open")).length === 1, "it is added");
    await tabTo("Move prune to Claimed");
    await page.screenshot({ path: world.picture("keyboard"), fullPage: true });
    await page.keyboard.press("Enter");
    assert.deepEqual([await tab.jobs("claimed"), await focused()], [["prune"], "Move prune to Done"]);
    await page.keyboard.press("ArrowRight");
    assert.deepEqual([await tab.jobs("done"), await focused()], [["prune"], "Move prune to Claimed"]);
    assert.equal(await page.locator("#announcements").textContent(), "prune: Done");
    await until(async () => (await scene.workspace.rest("GET", "/changes?since=0")).json.changes.length >= 1, "it is stored");
    await tabTo("Delete prune");
    await page.keyboard.press("Enter");
    assert.deepEqual([await tab.jobs("done"), await focused()], [[], "new-job-title"]);
    // The editor takes no Tab: the way out of it is the way in.
    await tabTo("cm-content");
    await page.keyboard.type("typed");
    await page.keyboard.press("Shift+Tab");
    assert.notEqual(await focused(), "cm-content");
    assert.equal(await tab.note(), "typed");
    await tab.saved();
  });

  test("where no server gives a session, the page asks for a token", async (t) => {
    const scene = await world.scene(t);
    const heron = await scene.person("heron-417", { viewport: PHONE });
    await heron.context.route("**/session.json*", (route) => route.fulfill({ status: 404 }));
    const page = await heron.context.newPage();
    await page.goto(world.demo.origin);
    await page.getByLabel("Workspace").fill(scene.workspace.id);
    await page.screenshot({ path: world.picture("sign-in"), fullPage: true });
    await page.getByLabel("API token").fill(scene.workspace.apiToken({ sub: "ida", role: "editor" }));
    await page.getByRole("button", { name: "Open the workspace" }).click();
    await until(() => page.locator("#desk").isVisible(), "the workspace is open");
  });
});

/** Runs in the page: texts whose colour is too near to what is behind them. */
function unreadable(least) {
  // A canvas turns any way of writing a colour into bytes.
  const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const bytes = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, n) => {
    const part = [r, g, b][n] / 255;
    return sum + weight * (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  }, 0);
  const ground = (element) => {
    for (let at = element; at !== null; at = at.parentElement) {
      const colour = bytes(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255];
  };
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { parentElement: element, data } = walker.currentNode;
    if (data.trim() === "" || !element.checkVisibility() || element.matches("script, .unseen, .skip, .cm-ySelectionCaret") !== null) continue;
    const [a, b] = [light(bytes(getComputedStyle(element).color)), light(ground(element))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < least) found.add(`${data.trim().slice(0, 30)} (${element.className}): ${contrast.toFixed(2)}`);
  }
  return [...found];
}

/** Runs in the page: what can be operated and has no name. */
function unnamed() {
  const name = (element) => element.getAttribute("aria-label") ?? element.getAttribute("aria-labelledby") ?? (element.labels?.length ? "label" : element.textContent.trim());
  return [...document.querySelectorAll("button, input, textarea, [contenteditable=true]")].filter((element) => element.checkVisibility() && !name(element)).map((element) => element.outerHTML);
}
