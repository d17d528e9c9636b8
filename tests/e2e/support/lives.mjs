// One database that lives under several releases of the Worker, one after another: what a release left
// has to read the same under the next, every kind of write has to work there, keys give their first
// answers, readers and people who were there before go on. Used by rollback.test.mjs, where both releases
// are one build, and by `cargo xtask rollback`, where they are two.
import assert from "node:assert/strict";
import * as Y from "yjs";
import { stockClient } from "./stock-client.mjs";
import { PATIENCE, until } from "./waiting.mjs";
import { refusals, words, writes } from "./writes.mjs";

const ID = "lives";
/** The document that people have open. */
const LIVE = "live";
/** What a path of the OpenAPI description may have, besides its parameters. */
const METHODS = ["get", "put", "patch", "post", "delete"];
/** Rows with an end are compared only while that is further away than this, in ms. */
const MARGIN = 15_000;
/** How long a signal is there, in ms (docs/API.md). */
const SIGNAL_MS = 60_000;
/** Until when a row is there, of what has an end. */
const LASTING = { presence: ({ expiresAt }) => expiresAt, signals: ({ id }) => id + SIGNAL_MS };

export class Lives {
  /** How many releases have run. */
  life = 0;
  /** What everything read as when the release before ended, by name. */
  #left = {};
  /** Writes under a key with their answers: `{operation, call, answer}`. */
  #answered = [];
  #people = [];
  /** In how many lives an operation was there. */
  #lives = new Map();
  #done = 0;

  /**
   * Runs one release: `relay` is its started stack, which the caller stops. Fails at the first difference;
   * `label` names the release in what it says.
   */
  async run(relay, label) {
    this.life += 1;
    this.label = `life ${this.life}, ${label}`;
    try {
      this.here = await relay.workspace(ID);
      this.here.token = relay.stack.mint({ sub: "owner", kind: "human", workspaces: { "*": "owner" }, ttl: 3600 });
      this.offered = await this.#operations();
      await this.#compare();
      await this.#repeat();
      await this.#meet();
      await this.#write();
      await this.#refuse();
      await this.#follow();
      await this.#sweep();
      this.#left = { ...this.#left, ...(await this.#read()) };
    } catch (error) {
      throw new Error(`${this.label}: ${error.message}`, { cause: error });
    }
  }

  /** What the last release was asked for, for whoever waits. */
  summary() {
    const { changes, nodes } = this.#left;
    return `${this.offered.size} operations offered, ${this.#done} writes; ${changes.length} changes and ${Object.keys(nodes).length} nodes are there, ${this.#answered.length} keys were given`;
  }

  /** Ends the people and the reader, who outlive each release. */
  async end() {
    for (const person of this.#people) person.destroy();
    await this.reader?.stop();
  }

  async #operations() {
    const { json } = await this.#get("", { path: "/api/openapi.json" });
    const names = Object.entries(json.paths).flatMap(([path, item]) =>
      METHODS.filter((method) => method in item).map((method) => `${method} ${path.replaceAll(/\{\w+\}/g, "{}")}`));
    // Meant for relays, and therefore in no description: whether it is there is asked.
    const batch = await this.here.rest("POST", "", { path: "/api/batch", body: { requests: [] } });
    return new Set(batch.status === 404 ? names : [...names, "post /api/batch"]);
  }

  async #get(below, options) {
    const answer = await this.here.rest("GET", below, options);
    assert.equal(answer.status, 200, `GET ${options?.path ?? below}: ${answer.text}`);
    return answer;
  }

  /** Everything that can be read, as far as the release offers it; only members that have been there from the start. */
  async #read() {
    const seen = { changes: await this.#changes(), ...(await this.#nodes()), workspaces: await this.#workspaces() };
    seen.head = (({ head, floor }) => ({ head, floor }))((await this.#get("")).json);
    if (this.offered.has("get /api/relays")) {
      const { relays, cyclesAllFailed } = (await this.#get("", { path: "/api/relays" })).json;
      seen.relays = { relays, cyclesAllFailed };
    }
    if (this.offered.has("get /api/workspaces/{}/presence")) {
      const { presence } = (await this.#get("/presence")).json;
      // Without a session: somebody's open socket, which ends with the release.
      seen.presence = presence.filter(({ session }) => session !== null).map(({ sub, kind, session, state, expiresAt }) => ({ sub, kind, session, state, expiresAt }));
    }
    if (this.offered.has("get /api/workspaces/{}/p2p/signal")) {
      const { signals } = (await this.#get("/p2p/signal?peer=peer&topic=live&after=0")).json;
      seen.signals = signals.map(({ id, from, sub, topic, data }) => ({ id, from, sub, topic, data }));
    }
    return seen;
  }

  async #changes() {
    const changes = [];
    for (;;) {
      const page = (await this.#get(`/changes?since=${changes.at(-1)?.clock ?? 0}&limit=1000`)).json.changes;
      if (page.length === 0) return changes;
      changes.push(...page.map(({ clock, kind, path, actor, at }) => ({ clock, kind, path, actor, at })));
    }
  }

  /** Records with their values, documents as stock Yjs reads them. */
  async #nodes() {
    const nodes = {};
    const documents = {};
    const list = (await this.#get("/nodes?limit=1000")).json.nodes;
    for (const { path, kind, clock } of list) {
      nodes[path] = { kind, clock, value: (await this.#get(`/nodes/${path}`)).json.value };
      if (kind === "document") documents[path] = await this.#document(path);
    }
    return { nodes, documents };
  }

  async #document(path) {
    const answer = await fetch(`${this.here.relay.api}/api/workspaces/${ID}/docs/${path}`, {
      headers: { authorization: `Bearer ${this.here.token}`, accept: "application/octet-stream" },
      signal: AbortSignal.timeout(PATIENCE),
    });
    assert.equal(answer.status, 200, path);
    const doc = new Y.Doc();
    Y.applyUpdate(doc, new Uint8Array(await answer.arrayBuffer()));
    const text = doc.getText("t").toString();
    assert.equal(await this.here.text(path), text, `${path} as text`);
    return { text, etag: answer.headers.get("etag"), epoch: answer.headers.get("yrelay-epoch") };
  }

  /** Those that were made and deleted in each life. */
  async #workspaces() {
    const answers = {};
    for (let life = 1; life <= this.life; life += 1) {
      const { status, json } = await this.here.rest("GET", "", { path: `/api/workspaces/made-${life}` });
      answers[`made-${life}`] = { status, code: json.code };
    }
    return answers;
  }

  /** What the release before left reads the same. What ends by itself may be gone. */
  async #compare() {
    const now = await this.#read();
    delete now.workspaces[`made-${this.life}`];
    for (const [name, left] of Object.entries(this.#left)) {
      // Not read by this release.
      if (now[name] === undefined) continue;
      const lasts = LASTING[name];
      if (!lasts) {
        assert.deepEqual(now[name], left, `${name} read as they were left`);
        continue;
      }
      for (const row of left.filter((row) => lasts(row) > Date.now() + MARGIN)) {
        const found = now[name].find(({ id, session }) => id === row.id && session === row.session);
        assert.deepEqual(found, row, `${name} read as they were left`);
      }
    }
  }

  /** A write that was answered in an earlier life is not done again, and is answered the same. */
  async #repeat() {
    for (const { operation, call, answer } of this.#answered) {
      if (!this.offered.has(operation)) continue;
      const again = await this.here.rest(...call);
      const what = `${operation} under the key of an earlier life`;
      assert.deepEqual([again.status, again.json], [answer.status, answer.json], what);
      if (operation !== "post /api/batch") assert.equal(again.headers.get("idempotency-replayed"), "true", what);
    }
    if (this.life > 1) assert.deepEqual((await this.#changes()).length, this.#left.changes.length, "a repetition writes nothing");
  }

  /** Two people who have been there since the first life write while no relay runs, come back, and meet a new one. */
  async #meet() {
    const { relay } = this.here;
    const names = ["ann", "ben"];
    if (this.life === 1) {
      for (const sub of names) this.#people.push(await stockClient(this.here, { document: LIVE, sub }));
    }
    this.#people.forEach(({ doc }, index) => doc.getText("t").insert(0, `${names[index]}-${this.life} `));
    for (const { provider } of this.#people) provider.serverUrl = relay.url;
    const newcomer = await stockClient(this.here, { document: LIVE, sub: "new" });
    const all = [...this.#people, newcomer];
    const expected = names.flatMap((name) => words(this.life, name)).sort();
    const texts = () => all.map(({ doc }) => doc.getText("t").toString());
    const met = (text) => assert.deepEqual(text.trim().split(" ").sort(), expected, "words of people");
    await until(() => new Set(texts()).size === 1 && texts()[0].length >= expected.join(" ").length, "people have the same text");
    met(texts()[0]);
    await until(async () => (await this.here.text(LIVE)) === texts()[0], "what people wrote is saved");
    newcomer.destroy();
  }

  async #write() {
    const done = [];
    for (const operation of this.offered) this.#lives.set(operation, (this.#lives.get(operation) ?? 0) + 1);
    for (const write of writes(this.life).filter(({ operation }) => this.offered.has(operation))) {
      const [method, below, options = {}] = write.call;
      const headers = { ...options.headers, ...(write.keyless ? {} : { "idempotency-key": `life-${this.life}-${done.length}` }) };
      const call = [method, below, { ...options, headers }];
      const answer = await this.here.rest(...call);
      assert.ok([200, 201, 204].includes(answer.status), `${write.operation}: ${answer.status} ${answer.text}`);
      const { error, result, answers = [] } = answer.json ?? {};
      assert.ok(!error && !result?.isError && answers.every(({ status }) => status < 300), `${write.operation}: ${answer.text}`);
      if (!write.keyless) this.#answered.push({ operation: write.operation, call, answer });
      done.push(write);
    }
    this.#done = done.length;
    const seen = await this.#read();
    for (const { operation, call, shows } of done) {
      const [found, expected] = shows(seen, this.#lives.get(operation));
      assert.deepEqual(found, expected, `what ${operation} of ${call[2]?.path ?? call[1]} wrote`);
    }
  }

  async #refuse() {
    for (const [operation, call, status, code] of refusals(this.life).filter(([name]) => this.offered.has(name))) {
      const answer = await this.here.rest(...call);
      assert.deepEqual([answer.status, answer.json?.code], [status, code], `${operation} has to be refused`);
    }
  }

  /** One reader of the stream since the first life: it has each clock once, and none is missing. */
  async #follow() {
    if (this.life === 1) this.reader = this.here.stream(0);
    const { api } = this.here.relay;
    this.reader.url = `${api}/api/workspaces/${ID}/changes/stream?since=0`;
    const head = await this.here.head();
    await this.reader.reaches(head);
    const gapless = Array.from({ length: head }, (_, index) => index + 1);
    assert.deepEqual(this.reader.clocks, gapless, "the stream's clocks");
    assert.deepEqual((await this.#changes()).map(({ clock }) => clock), gapless, "the log's clocks");
  }

  /** The hourly trigger, as the platform fires it: nothing here is old. */
  async #sweep() {
    await this.#get("", { path: "/cdn-cgi/local/scheduled" });
  }
}
