// Several people and agents on the demo page, in a real browser over the real stack.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { WorkspaceAgent } from "../../client-sdk/src/agent/index.ts";
import { ROOT } from "../../tools/wrangler-config.mjs";
import { startAnother } from "../e2e/support/relays.mjs";
import { until } from "../e2e/support/waiting.mjs";
import { missingChromium } from "./support/chromium.mjs";
import { equal } from "./support/person.mjs";
import { NOTE, World } from "./support/world.mjs";

const WAYS = [
  { name: "on cf", queries: ["&relay=cf", "&relay=cf"], labels: ["cf", "cf"] },
  { name: "on deno", queries: ["&relay=deno", "&relay=deno"], labels: ["deno", "deno"] },
  { name: "split over both", queries: ["&relay=cf", "&relay=deno"], labels: ["cf", "deno"] },
];

describe("together", { skip: missingChromium(), concurrency: 3, timeout: 170_000 }, () => {
  let world;
  before(async () => {
    world = await World.start();
  });
  after(() => world?.stop());

  for (const { name, queries, labels } of WAYS) {
    test(`A.44 two browsers converge ${name}: the note, the board, and who is here`, async (t) => {
      const scene = await world.scene(t);
      const people = [await scene.person("heron-417"), await scene.person("otter-22")];
      const tabs = [];
      for (const [n, person] of people.entries()) tabs.push(await person.open(queries[n]));
      // Somebody who was alone hears of another one by what that one does first.
      await Promise.all(tabs.map((tab, n) => tab.type(`${n}a${n}b`)));
      for (const [n, tab] of tabs.entries()) await tab.shows("connection", new RegExp(`^Live on ${labels[n]}$`));
      await Promise.all(tabs.map((tab, n) => tab.type(`${n}c`)));
      const text = await equal(tabs, (note) => note.length === 12, "both have both");
      await Promise.all(tabs.map((tab) => tab.saved()));
      await scene.stored(text);
      await tabs[0].addJob("water the plants");
      await until(async () => (await tabs[1].jobs("open")).includes("water the plants"), "the job at the other");
      await tabs[1].page.getByRole("button", { name: "Move water the plants to Claimed" }).click();
      await until(async () => (await tabs[0].jobs("claimed")).includes("water the plants"), "the move comes back");
      for (const tab of tabs) await until(async () => (await tab.present()).length === 2, "both are here");
      // Cursors are of one relay: they are not stored, and relays talk to the database only.
      if (labels[0] === labels[1]) await until(() => tabs[0].page.locator(".cm-ySelectionInfo", { hasText: "Otter 22" }).count(), "the other's cursor");
    });
  }

  test("C.27 a person alone opens no socket at all while agents write", async (t) => {
    const scene = await world.scene(t);
    const heron = await scene.person("heron-417");
    const tab = await heron.open();
    await tab.type("tomorow");
    await tab.saved();
    const token = scene.workspace.apiToken({ sub: "bot", kind: "agent", role: "editor" });
    const agent = new WorkspaceAgent({ api: world.cf.api, workspace: scene.workspace.id, getToken: () => token });
    await agent.edit(NOTE, [{ op: "replace", quote: "tomorow", with: "tomorrow" }], { root: "content" });
    for (let n = 0; n < 10; n += 1) {
      await agent.edit(NOTE, [{ op: "append", text: ` ${n}` }], { root: "content" });
      await agent.write(`jobs/${n}`, { title: `job ${n}`, state: "open" });
    }
    agent.close();
    await equal([tab], (note) => note === "tomorrow 0 1 2 3 4 5 6 7 8 9", "all that the agent wrote");
    await until(async () => (await tab.jobs("open")).length === 10, "its jobs");
    await tab.shows("connection", /^Alone, no socket$/);
    assert.equal(await tab.page.locator('#activity .line[data-kind="agent"]').count() > 0, true);
    assert.deepEqual(heron.sockets, { opened: 0, open: 0, most: 0 });
  });

  test("the example agent shows up: it takes a job from the page, and writes into the note", async (t) => {
    const scene = await world.scene(t);
    const tab = await (await scene.person("heron-417")).open();
    const env = { ...process.env, API: world.cf.api, TOKEN: scene.workspace.apiToken({ sub: "bot", kind: "agent", role: "editor" }), WORKSPACE: scene.workspace.id, NAME: "bot" };
    const agent = spawn(process.execPath, [join(ROOT, "examples", "agent", "agent.mjs")], { env, stdio: ["ignore", "inherit", "inherit"] });
    try {
      await tab.addJob("sweep the yard");
      await until(async () => (await tab.jobs("done")).includes("sweep the yard"), "the agent did it");
      await equal([tab], (note) => note.includes("bot: sweep the yard"), "its line in the note");
      await until(() => tab.page.locator('#activity .line[data-kind="agent"]', { hasText: "bot" }).count(), "it is in the activity");
    } finally {
      agent.kill();
    }
  });

  test("C.40 a relay is killed under typing: both go on over the next one, and nothing is lost", async (t) => {
    const third = await startAnother(world.deno, { label: "third", vars: { RELAY_ALLOWED_ORIGINS: world.demo.origin } });
    try {
      const scene = await world.scene(t, { relays: [{ label: "third", url: third.url }, "cf"] });
      const tabs = [];
      for (const name of ["heron-417", "otter-22"]) tabs.push(await (await scene.person(name)).open());
      for (const [n, tab] of tabs.entries()) await tab.type(`${n}`);
      for (const tab of tabs) await tab.shows("connection", /^Live on third$/);
      const typing = Promise.all(tabs.map((tab, n) => tab.type(`${n}`.repeat(59))));
      await until(async () => (await tabs[0].note()).includes("11"), "they type together");
      await third.process.kill();
      await typing;
      for (const tab of tabs) await tab.shows("connection", /^Live on cf$/);
      const text = await equal(tabs, (note) => note.length === 120, "every letter of both");
      await Promise.all(tabs.map((tab) => tab.saved()));
      await scene.stored(text);
    } finally {
      await third.stop();
    }
  });

  test("C.72 seven tabs of one person share one socket, and all have everything", async (t) => {
    const scene = await world.scene(t);
    const heron = await scene.person("heron-417");
    const other = await (await scene.person("otter-22")).open();
    const tabs = await Promise.all(Array.from({ length: 7 }, () => heron.open()));
    for (const tab of tabs) await tab.shows("connection", /^Live on cf$/);
    for (const [n, tab] of tabs.entries()) await tab.type(`${n}`);
    await other.type("x");
    const text = await equal([...tabs, other], (note) => note.length === 8, "everything in every tab");
    await Promise.all(tabs.map((tab) => tab.saved()));
    assert.equal([...text].sort().join(""), "0123456x");
    await scene.stored(text);
    assert.equal(heron.sockets.most, 1, "one socket at a time");
  });
});
