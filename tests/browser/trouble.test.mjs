// What goes wrong in a browser: no network, tabs that freeze, crash and close, a database that fails. Each
// time the person types on, and what they typed ends up saved.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { until } from "../e2e/support/waiting.mjs";
import { missingChromium } from "./support/chromium.mjs";
import { FAILING_DATABASES, FILLING_UP } from "./support/failing-databases.mjs";
import { equal } from "./support/person.mjs";
import { World } from "./support/world.mjs";

/** How much a person pastes onto a device that is nearly full: more than FILLING_UP leaves room for. */
const PASTED = 300_000;

describe("trouble", { skip: missingChromium(), concurrency: 3, timeout: 170_000 }, () => {
  let world;
  before(async () => {
    world = await World.start();
  });
  after(() => world?.stop());

  test("C.60 typed offline, kept over a reload while the server is out of reach, saved when it is back", async (t) => {
    const scene = await world.scene(t, { isGated: true });
    const heron = await scene.person("heron-417");
    const tab = await heron.open();
    await tab.type("online ");
    await tab.saved();
    await heron.context.setOffline(true);
    await tab.type("offline ");
    await tab.shows("saved", /^On this device$/);
    // The page itself comes from another server than the API.
    scene.gate.shut();
    await heron.context.setOffline(false);
    await tab.page.reload();
    await equal([tab], (note) => note === "online offline ", "the device had it");
    await tab.loaded();
    await tab.type("reloaded");
    await tab.shows("saved", /^On this device$/);
    scene.gate.open();
    // The network is back, which a browser says.
    await heron.context.setOffline(true);
    await heron.context.setOffline(false);
    await tab.saved();
    await scene.stored("online offline reloaded");
  });

  test("C.72 the leading tab freezes: another one saves; awake again it has everything", async (t) => {
    const scene = await world.scene(t);
    const heron = await scene.person("heron-417");
    const leader = await heron.open();
    const other = await heron.open();
    await leader.type("one ");
    await equal([leader, other], (note) => note === "one ", "both tabs have it");
    const cdp = await leader.cdp();
    await cdp.send("Page.setWebLifecycleState", { state: "frozen" });
    await other.type("two ");
    await scene.stored("one two ");
    await other.saved();
    await cdp.send("Page.setWebLifecycleState", { state: "active" });
    await leader.type("three");
    await equal([leader, other], (note) => note === "one two three", "the tab that slept has all");
    await Promise.all([leader.saved(), other.saved()]);
    await scene.stored("one two three");
  });

  test("C.72 the leading tab crashes: another one has what it typed, and saves it", async (t) => {
    const scene = await world.scene(t);
    const heron = await scene.person("heron-417");
    const leader = await heron.open();
    const other = await heron.open();
    await leader.type("before ");
    await equal([leader, other], (note) => note === "before ", "both tabs have it");
    const crashed = leader.page.waitForEvent("crash");
    // It never answers: nobody is left to.
    void (await leader.cdp()).send("Page.crash").catch(() => {});
    await crashed;
    await other.type("after");
    await other.saved();
    await scene.stored("before after");
  });

  test("C.61 the only tab is closed in the middle of a write: what was typed is there at the next visit", async (t) => {
    const scene = await world.scene(t);
    const heron = await scene.person("heron-417");
    const first = await heron.open();
    await first.addJob("closed over");
    await first.type("typed and gone");
    await first.page.close();
    await scene.empty();
    const next = await heron.open();
    await equal([next], (note) => note === "typed and gone", "the next page has it");
    await next.saved();
    await scene.stored("typed and gone");
    await until(async () => (await next.jobs("open")).includes("closed over"), "the job too");
  });

  test("C.72 the leading tab is closed in the middle of a write: another one ends it", async (t) => {
    const scene = await world.scene(t);
    const heron = await scene.person("heron-417");
    const leader = await heron.open();
    const other = await heron.open();
    await leader.type("half a sent");
    await leader.page.close();
    await equal([other], (note) => note === "half a sent", "the other tab has it");
    await other.saved();
    await scene.stored("half a sent");
  });

  test("B05 away to another page and back, out of the back/forward cache: nothing is lost, and it goes on", async (t) => {
    const scene = await world.scene(t);
    const heron = await scene.person("heron-417", { script: () => addEventListener("pageshow", ({ persisted }) => (globalThis.wasPersisted = persisted)) });
    const tab = await heron.open();
    const other = await heron.open();
    await tab.type("here ");
    await tab.page.goto("about:blank");
    await other.type("meanwhile ");
    await other.saved();
    // A page that comes out of it is not loaded, so there is no such event.
    await tab.page.goBack({ waitUntil: "commit" });
    await equal([tab, other], (note) => note === "here meanwhile ", "it caught up");
    await tab.loaded();
    assert.equal(await tab.page.evaluate(() => globalThis.wasPersisted), true, "it was not loaded anew");
    await tab.type("back");
    await equal([tab, other], (note) => note === "here meanwhile back", "and it goes on");
    await Promise.all([tab.saved(), other.saved()]);
    await scene.stored("here meanwhile back");
  });

  for (const { name, script, shown } of FAILING_DATABASES) {
    test(`B04 the device's database ${name}: the page says so, and what is typed is saved all the same`, async (t) => {
      const scene = await world.scene(t);
      const heron = await scene.person("heron-417", { script });
      const tab = await heron.open();
      await tab.type("no matter");
      await tab.saved();
      await tab.shows("storage", shown);
      await tab.addJob("this too");
      await until(async () => (await scene.workspace.rest("GET", "/nodes?prefix=jobs")).json?.nodes?.length === 1, "the job is stored");
      await scene.stored("no matter");
    });
  }

  test("B04 the device fills up in the middle of the work: the page says so, and what is pasted is saved all the same", async (t) => {
    const scene = await world.scene(t);
    const tab = await (await scene.person("heron-417", { script: FILLING_UP })).open();
    await tab.type("small ");
    await tab.saved();
    assert.equal(await tab.chip("storage"), "");
    const large = "x".repeat(PASTED);
    await tab.page.keyboard.insertText(large);
    await tab.shows("storage", /full/);
    await tab.saved();
    await scene.stored(`small ${large}`);
  });
});
