// What a file of browser tests runs against: the real stack with both relays behind gates, the demo page
// of its own origin, and one Chromium. People are contexts of the browser: each has storage of its own.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { startDemo } from "../../../tools/demo-host.mjs";
import { ROOT } from "../../../tools/wrangler-config.mjs";
import { startBoth } from "../../e2e/support/relays.mjs";
import { startGate } from "../../e2e/support/tcp-gate.mjs";
import { until } from "../../e2e/support/waiting.mjs";
import { launch } from "./chromium.mjs";
import { Person } from "./person.mjs";

export const NOTE = "notes/demo";
const PICTURES = join(ROOT, "target", "browser");

export class World {
  #workspaces = new Map();

  static async start() {
    const world = new World();
    world.demo = await startDemo({ host: "127.0.0.1", port: 0 });
    const origins = { ALLOWED_ORIGINS: world.demo.origin };
    Object.assign(world, await startBoth({ vars: origins, relay: { vars: { RELAY_ALLOWED_ORIGINS: world.demo.origin } } }));
    const { relays, secrets } = world.cf.stack;
    world.demo.open({ api: world.cf.api, relays, secret: secrets.API_JWT_SECRET, workspaces: world.#workspaces });
    Object.assign(world, await launch());
    mkdirSync(PICTURES, { recursive: true });
    return world;
  }

  async stop() {
    await this.browser?.close();
    await this.deno?.stop();
    await this.cf?.stop();
    this.demo?.close();
  }

  /**
   * What one test has: a workspace, whose page is for it alone, and people, who leave with the test.
   * `relays` are labels or entries, in order; `isGated`: the server can be put out of the page's reach.
   */
  async scene(t, { relays = ["cf", "deno"], isGated = false } = {}) {
    const workspace = await this.cf.workspace();
    const gate = isGated ? await startGate(this.cf.api) : null;
    const scene = new Scene(this, workspace, gate);
    t.after(() => scene.end());
    const urls = { cf: this.cf.url, deno: this.deno.url, ...(gate && { cf: `${gate.url.replace("http", "ws")}/ws` }) };
    const entries = relays.map((relay) => (typeof relay === "string" ? { label: relay, url: urls[relay] } : relay));
    this.#workspaces.set(workspace.id, { api: gate?.url ?? this.cf.api, relays: entries });
    return scene;
  }

  picture(name) {
    return join(PICTURES, `${name}.png`);
  }
}

class Scene {
  #people = [];

  constructor(world, workspace, gate) {
    Object.assign(this, { world, workspace, gate });
  }

  /** A person with a browser of their own. */
  async person(name, options) {
    const person = await Person.of(this, name, options);
    this.#people.push(person);
    return person;
  }

  /** The note has this text in the database. */
  stored(text) {
    return until(async () => (await this.workspace.text(NOTE, "content")) === text, `"${text.slice(0, 40)}" in the database`);
  }

  /** Nobody is here any more: a row that was left behind counts for minutes. */
  empty() {
    return until(async () => (await this.workspace.rest("GET", "/presence")).json?.presence?.length === 0, "nobody is here");
  }

  /** Ends everybody's pages; fails if one of them had an error that it should not have. */
  async end() {
    await Promise.all(this.#people.map((person) => person.context.close()));
    await this.gate?.stop();
    for (const { name, errors } of this.#people) assert.deepEqual(errors, [], `errors in the pages of ${name}`);
  }
}
