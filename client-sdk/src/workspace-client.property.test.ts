// Two browsers of three tabs each, an API that comes and goes, tabs that hide, crash and come back. What
// a page called local or saved is never lost, all copies converge, and nothing is written twice.
import "fake-indexeddb/auto";
import assert from "node:assert/strict";
import { test } from "node:test";
import { IDBFactory } from "fake-indexeddb";
import { MiniApi } from "../test/mini-api.ts";
import { until } from "../test/waiting.ts";
import { WorkspaceClient } from "./index.ts";
import type { SharedDocument } from "./index.ts";
import { FakeBrowser, FakeClock, fakePage, settled } from "./testing.ts";
import type { FakePage, FakeTab } from "./testing.ts";

/** More with `SEEDS=`, from `FIRST_SEED=` on. */
const SEEDS = Number(process.env["SEEDS"] ?? 8);
const FIRST = Number(process.env["FIRST_SEED"] ?? 1);
const STEPS = 40;

interface Tab {
  readonly sub: string;
  readonly client: WorkspaceClient;
  readonly document: SharedDocument;
  readonly page: FakePage;
  readonly tab: FakeTab;
  /** A record that this tab alone writes: between tabs the last one to arrive wins. */
  readonly record: string;
  /** Words of this tab that it has not called local or saved yet. */
  open: string[];
}

class World {
  readonly clock = new FakeClock();
  readonly api = new MiniApi();
  readonly promised = new Set<string>();
  readonly acknowledged = new Map<string, number>();
  readonly tabs: Tab[] = [];
  readonly #name: string;
  readonly #browsers = new Map<string, { browser: FakeBrowser; factory: IDBFactory }>();
  #words = 0;
  #made = 0;
  #state: number;

  constructor(seed: number) {
    this.#state = seed * 2_654_435_761;
    this.#name = `world-${seed}`;
    for (const sub of ["ann", "ben"]) {
      this.#browsers.set(sub, { browser: new FakeBrowser(), factory: new IDBFactory() });
      for (let n = 0; n < 3; n += 1) this.open(sub);
    }
  }

  /** From 0 to below a number (mulberry32). */
  below(bound: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * bound);
  }

  open(sub: string): void {
    const { browser, factory } = this.#browsers.get(sub)!;
    const tab = browser.tab();
    const fetch = async (url: string, init: RequestInit) => (tab.isFrozen ? new Promise<Response>(() => {}) : this.api.fetch(url, init));
    const page = fakePage(this.clock, { ...tab.members(this.clock), fetch, indexedDB: () => factory });
    // Not shared by the two browsers, which would be one process here.
    const api = `http://127.0.0.1:${sub === "ann" ? 1 : 2}`;
    const client = new WorkspaceClient({ api, workspace: this.#name, account: sub, token: () => MiniApi.token(sub), environment: page });
    this.tabs.push({ sub, client, page, tab, document: client.openDoc("d"), open: [], record: `r/${(this.#made += 1)}` });
  }

  step(): Promise<void> | void {
    const it = this.tabs[this.below(this.tabs.length)]!;
    switch (this.below(11)) {
      case 0:
      case 1:
      case 2:
        return this.#type(it);
      case 3:
        return this.#put(it);
      case 4:
        return it.page.change(it.page.isHidden() ? "visible" : "hidden");
      case 5:
        return this.#crash(it);
      case 6:
        this.api.fault = ([null, null, "before", "after"] as const)[this.below(4)]!;
        return;
      case 7:
        // Nobody has the time to store it, or to tell more than the channel does.
        this.#type(it);
        return this.#crash(this.#another(it));
      case 8:
        for (const other of this.tabs.filter(({ sub }) => sub === it.sub)) this.#crash(other);
        return;
      default:
        return this.clock.advance(this.below(4_000));
    }
  }

  #type(it: Tab): void {
    const word = `${it.sub}-${(this.#words += 1)}`;
    it.document.doc.getText("t").insert(0, `${word} `);
    it.open.push(word);
  }

  #put(it: Tab): void {
    const path = it.record;
    const value = (this.#words += 1);
    it.client.applyOp({ op: "put", path, value }).then(() => this.acknowledged.set(path, value), () => {});
  }

  /** The tab that leads in the same browser, or one of the others. */
  #another(it: Tab): Tab {
    const others = this.tabs.filter((other) => other !== it && other.sub === it.sub);
    return others.find(({ client }) => client.status.role === "leader") ?? others[0]!;
  }

  #crash(it: Tab): void {
    it.tab.crash();
    this.tabs.splice(this.tabs.indexOf(it), 1);
    this.open(it.sub);
  }

  /** What a page says is believed. */
  note(): void {
    for (const it of this.tabs) {
      if (!["local", "saved"].includes(it.document.status.save)) continue;
      for (const word of it.open) this.promised.add(word);
      it.open = [];
    }
  }

  text(): string {
    return this.api.text("d");
  }
}

for (let seed = FIRST; seed < FIRST + SEEDS; seed += 1) {
  test(`S5 A.28 nothing that was called local or saved is lost (FIRST_SEED=${seed})`, { timeout: 120_000 }, async () => {
    const world = new World(seed);
    await settled();
    for (let n = 0; n < STEPS; n += 1) {
      await world.step();
      await settled();
      world.note();
    }
    world.api.fault = null;
    for (const { page } of world.tabs) page.change("visible");
    await world.clock.advance(60_000);
    await until(() => world.tabs.every(({ document }) => document.status.isLoaded && document.status.save === "saved"), `seed ${seed}: all is saved: ${JSON.stringify(world.tabs.map(({ document }) => document.status))}`);
    await until(() => world.tabs.every(({ document }) => document.doc.getText("t").toString() === world.text()), `seed ${seed}: all copies are equal`);
    const words = world.text().trim().split(" ");
    for (const { open } of world.tabs) for (const word of open) world.promised.add(word);
    assert.deepEqual([...world.promised].filter((word) => !words.includes(word)), [], "lost");
    assert.equal(new Set(words).size, words.length, "twice");
    for (const [path, value] of world.acknowledged) assert.ok((world.api.records.get(path) as number) >= value, `${path} is at least what was acknowledged`);
    await Promise.all(world.tabs.map(({ client }) => client.close()));
  });
}
