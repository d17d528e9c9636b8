// A person and the pages that they have open: what they read and do there.
import { until } from "../../e2e/support/waiting.mjs";

/** How long a page may take to open, in ms: a second on an idle machine, more when seven open at once. */
const OPENING = 40_000;

/** What a page that loses its server logs by itself, which no page can help. */
const NETWORK = /Failed to load resource|WebSocket connection to|net::ERR_/;

export class Person {
  sockets = { opened: 0, open: 0, most: 0 };
  errors = [];

  static async of(scene, name, { script, ...options } = {}) {
    const person = new Person();
    const context = await scene.world.browser.newContext(options);
    context.setDefaultTimeout(scene.world.limit);
    await context.addInitScript((own) => {
      try {
        localStorage.setItem("yrelay-demo.person", own);
      } catch {}
    }, name);
    if (script !== undefined) await context.addInitScript(script);
    Object.assign(person, { scene, name, context });
    context.on("page", (page) => person.#watch(page));
    return person;
  }

  /** A tab with the demo, once the note can be written in. */
  async open(query = "") {
    const { world, workspace } = this.scene;
    const tab = new Tab(await this.context.newPage(), this);
    await tab.page.goto(`${world.demo.origin}/?workspace=${workspace.id}${query}`);
    await tab.loaded();
    return tab;
  }

  #watch(page) {
    page.on("pageerror", (error) => this.errors.push(String(error)));
    page.on("console", (message) => {
      if (message.type() === "error" && !NETWORK.test(message.text())) this.errors.push(message.text());
    });
    page.on("websocket", (socket) => {
      const { sockets } = this;
      sockets.opened += 1;
      sockets.open += 1;
      sockets.most = Math.max(sockets.most, sockets.open);
      socket.on("close", () => (sockets.open -= 1));
    });
  }
}

export class Tab {
  constructor(page, person) {
    Object.assign(this, { page, person });
  }

  loaded() {
    return until(() => this.page.evaluate(() => document.querySelector("#note .cm-content")?.ariaReadOnly === null && document.querySelector("#note .cm-content") !== null), `${this.person.name} may write`, OPENING);
  }

  /** The note as it is shown, without the cursors of others; `null` before there is an editor. */
  note() {
    return this.page.evaluate(() => {
      const content = document.querySelector("#note .cm-content")?.cloneNode(true);
      if (!content) return null;
      for (const extra of content.querySelectorAll(".cm-ySelectionCaret, .cm-placeholder, .cm-widgetBuffer")) extra.remove();
      return [...content.querySelectorAll(".cm-line")].map((line) => line.textContent).join("\n");
    });
  }

  /** Types at the end of the note. */
  async type(text) {
    await this.page.locator("#note .cm-content").focus();
    await this.page.keyboard.press("Control+End");
    await this.page.keyboard.type(text);
  }

  chip(id) {
    return this.page.locator(`#${id}`).textContent();
  }

  async shows(id, pattern) {
    let last;
    const matches = async () => pattern.test((last = await this.chip(id)));
    await until(matches, `#${id} of ${this.person.name} shows ${pattern}`).catch((error) => {
      throw new Error(`${error.message}; it shows ${last}`);
    });
  }

  async saved() {
    await this.shows("saved", /^Saved$/);
  }

  /** Who is here, by the names that are shown. */
  present() {
    return this.page.locator("#present .person").allTextContents();
  }

  /** Titles of a column's jobs. */
  jobs(state) {
    return this.page.locator(`.column[data-state="${state}"] .card-title`).allTextContents();
  }

  async addJob(title) {
    await this.page.locator("#new-job-title").fill(title);
    await this.page.keyboard.press("Enter");
  }

  /** A session of the browser's own protocol for this tab. */
  cdp() {
    return this.person.context.newCDPSession(this.page);
  }
}

/** All show the same note, which `wanted` accepts; answers it. */
export async function equal(tabs, wanted, what) {
  let last;
  return until(async () => {
    last = await Promise.all(tabs.map((tab) => tab.note()));
    return new Set(last).size === 1 && wanted(last[0]) && last[0];
  }, what).catch((error) => {
    throw new Error(`${error.message}; they show ${JSON.stringify(last)}`);
  });
}
