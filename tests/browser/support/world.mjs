// What a file of browser tests runs against: the real stack with both relays behind gates, the demo page
// of its own origin, and one Chromium. People are contexts of the browser: each has storage of its own.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { startDemo } from "../../../tools/demo-host.mjs";
import { ROOT } from "../../../tools/wrangler-config.mjs";
import { startBoth } from "../../e2e/support/relays.mjs";
import { startGate } from "../../e2e/support/tcp-gate.mjs";
import { launch } from "./chromium.mjs";
import { Person } from "./person.mjs";

export const NOTE = "notes/demo";
const PICTURES = join(ROOT, "target", "browser");

export class World {
  #people = [];

  static async start() {
    const world = new World();
    world.demo = await startDemo({ host: "127.0.0.1", port: 0 });
    const origins = { ALLOWED_ORIGINS: world.demo.origin };
    Object.assign(world, await startBoth({ vars: origins, relay: { vars: { RELAY_ALLOWED_ORIGINS: world.demo.origin } } }));
    world.gates = { api: await startGate(world.cf.api), cf: await startGate(world.cf.api), deno: await startGate(world.deno.process.http) };
    Object.assign(world, await launch());
    mkdirSync(PICTURES, { recursive: true });
    return world;
  }

  async stop() {
    await this.browser?.close();
    for (const gate of Object.values(this.gates ?? {})) await gate.stop();
    await this.deno?.stop();
    await this.cf?.stop();
    this.demo?.close();
  }

  /** A workspace of its own, which the page is served for from now on. `relays` are labels or entries, in order. */
  async workspace({ relays = ["cf", "deno"] } = {}) {
    const workspace = await this.cf.workspace();
    const entry = (relay) => (typeof relay === "string" ? { label: relay, url: `${this.gates[relay].url.replace("http", "ws")}/ws` } : relay);
    const { secrets } = this.cf.stack;
    this.demo.open({ api: this.gates.api.url, relays: relays.map(entry), workspace: workspace.id, secret: secrets.API_JWT_SECRET });
    return workspace;
  }

  /** A person with a browser of their own. */
  async person(name, options = {}) {
    const person = await Person.of(this, name, options);
    this.#people.push(person);
    return person;
  }

  /** Ends everybody's pages; fails if one of them had an error that it should not have. */
  async clear() {
    const people = this.#people.splice(0);
    for (const gate of Object.values(this.gates)) gate.open();
    await Promise.all(people.map((person) => person.close()));
    for (const { name, errors } of people) assert.deepEqual(errors, [], `errors in the pages of ${name}`);
  }

  picture(name) {
    return join(PICTURES, `${name}.png`);
  }
}
