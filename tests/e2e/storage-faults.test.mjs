// D1 fails before the commit, after it, or does not answer, on each of the three ways to it: REST, the
// flush of the Durable Object, the flush of the Deno relay. A receipt is given for what is stored and
// nothing else, a retry under its key gets the first answer, and the database is whole afterwards.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import * as Y from "yjs";
import { startBothFaulty } from "./support/faults.mjs";
import { HI, STEP_1, isStep1, isUpdate, textUpdate, updateFrame } from "./support/frames.mjs";
import { readMetrics } from "./support/metrics.mjs";
import { person } from "./support/person.mjs";
import { reconnects, verified } from "./support/verified.mjs";
import { PATIENCE, sleep, until } from "./support/waiting.mjs";

/** How long D1 does not answer, in s. The whole case is a minute; it has to be longer than a request waits, 8 s. */
const OUTAGE_SECONDS = Number(process.env.YRELAY_OUTAGE_SECONDS ?? 10);
/** A request under a key is answered within this: three tries of 8 s, and their pauses. In ms. */
const ANSWERED = 40_000;
/** Pause of a person between two words, in ms. */
const WORD_PAUSE = 300;
/** The insert that every change is made with, and the append of an update. */
const CHANGE = "INSERT INTO change_log";
const APPEND = "INSERT INTO doc_updates";
/** As often as the Worker tries a request that has a key. */
const ATTEMPTS = 3;

const range = (count, from = 0) => Array.from({ length: count }, (_, n) => n + from);

// One at a time: the rules are for the whole stack.
describe("storage faults", { concurrency: 1 }, () => {
  let dataDir;
  let cf;
  let deno;
  before(async () => {
    dataDir = mkdtempSync(join(tmpdir(), "yrelay-faults-"));
    ({ cf, deno } = await startBothFaulty({ dataDir, onLog: () => {}, relay: { onLog: () => {} } }));
  });
  after(async () => {
    await deno?.stop();
    await cf?.stop();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });

  /** Two editors of a document on a relay. */
  async function pair(workspace) {
    const clients = [await workspace.connect("d", { sub: "ann" }), await workspace.connect("d", { sub: "ben" })];
    for (const client of clients) {
      client.send(STEP_1);
      await client.next(isStep1);
    }
    return clients;
  }

  /** The log has no gap, and what it has at the clock of a receipt is a change of the document. */
  async function honoured(workspace, receipt) {
    const { changes } = (await workspace.rest("GET", "/changes")).json;
    assert.deepEqual(changes.map(({ clock }) => clock), range(changes.length, 1));
    assert.ok(receipt.clock >= 1 && receipt.clock <= changes.length, `a receipt at ${receipt.clock} of ${changes.length}`);
    return changes;
  }

  /** Each kind of write: what is to be there before, the request, and how many changes it is. */
  const WRITES = {
    put: { send: (workspace, headers) => workspace.rest("PUT", "/nodes/a", { body: { n: 1 }, headers }) },
    patch: {
      first: (workspace) => workspace.rest("PUT", "/nodes/a", { body: { n: 1 } }),
      send: (workspace, headers) => workspace.rest("PATCH", "/nodes/a", { body: { n: 2 }, headers: { ...headers, "content-type": "application/merge-patch+json" } }),
    },
    delete: {
      first: (workspace) => workspace.rest("PUT", "/nodes/a", { body: { n: 1 } }),
      send: (workspace, headers) => workspace.rest("DELETE", "/nodes/a", { headers }),
    },
    move: {
      changes: 2,
      first: (workspace) => workspace.rest("PUT", "/nodes/a", { body: { n: 1 } }),
      send: (workspace, headers) => workspace.rest("POST", "/nodes/a/move", { body: { to: "b" }, headers }),
    },
    ops: { changes: 2, send: (workspace, headers) => workspace.rest("POST", "/ops", { body: { ops: [{ op: "put", path: "a", value: 1 }, { op: "put", path: "b", value: 2 }] }, headers }) },
    update: {
      send: (workspace, headers) => workspace.rest("POST", "/docs/d/updates", { body: Buffer.from(HI.slice(6), "hex"), headers: { ...headers, "content-type": "application/octet-stream" } }),
    },
    edits: { send: (workspace, headers) => workspace.rest("POST", "/docs/d/edits", { body: { root: "t", edits: [{ op: "append", text: "hi" }] }, headers }) },
    replace: {
      send: (workspace, headers) => workspace.rest("PUT", "/docs/d?root=t", { body: new TextEncoder().encode("hi"), headers: { ...headers, "content-type": "text/plain" } }),
    },
  };

  for (const [how, isStored] of [["fail", false], ["fail_after", true]]) {
    test(`A.10 A.11 D01 I06 REST, ${how}: 503 after a bounded number of attempts, then the same key gives the one answer`, async () => {
      for (const [what, { first, send, changes = 1 }] of Object.entries(WRITES)) {
        const workspace = await cf.workspace();
        await first?.(workspace);
        const before = await workspace.head();
        const listener = await workspace.connect();
        listener.say({ type: "hello", changes: true });
        await listener.settled();
        const announced = () => listener.texts.map((text) => JSON.parse(text)).filter(({ type }) => type === "change").map(({ clock }) => clock);
        const once = () => send(workspace, { "idempotency-key": "k" });
        await cf.faults({ on: "d1", match: CHANGE, how, times: ATTEMPTS });
        const refused = await once();
        assert.deepEqual([refused.status, await cf.hits()], [503, [ATTEMPTS]], `${what}: ${refused.text}`);
        assert.ok(Number(refused.headers.get("retry-after")) > 0, what);
        const stored = (await workspace.head()) - before;
        assert.equal(stored > 0, isStored, `${what} stored ${stored} changes`);
        assert.ok(announced().every((clock) => clock <= before + stored), `${what}: ${announced()} is announced and not stored`);
        const [second, third] = [await once(), await once()];
        assert.ok(second.status < 300, `${what}: ${second.text}`);
        assert.equal(second.headers.get("idempotency-replayed"), isStored ? "true" : null, what);
        assert.deepEqual([third.status, third.json], [second.status, second.json], what);
        assert.equal(third.headers.get("idempotency-replayed"), "true", what);
        await honoured(workspace, { clock: await workspace.head() });
        assert.equal((await workspace.head()) - before, changes, `${what} is ${changes} changes and no more`);
        if (!isStored) await until(() => announced().includes(before + changes), `${what} is announced`);
        await listener.settled();
        assert.ok(announced().every((clock) => clock > before && clock <= before + changes), `${what}: announced ${announced()}`);
        await listener.close();
      }
      await cf.faults();
      await verified(dataDir);
    });
  }

  for (const label of ["cf", "deno"]) {
    for (const how of ["fail", "fail_after"]) {
      test(`A.16 A.17 D01 the flush of ${label}, ${how}: no receipt until it is stored, relaying goes on, and nothing is twice`, async () => {
        const relay = label === "cf" ? cf : deno;
        const here = relay.sharing(await cf.workspace());
        const [ann, ben] = await pair(here);
        const stored = async () => (await cf.sql("SELECT COUNT(*) AS n FROM doc_updates WHERE workspace = ?", here.id))[0].n;
        await cf.faults({ on: "d1", match: APPEND, how });
        ann.send(HI);
        assert.equal(await ben.next(isUpdate), HI);
        ann.say({ type: "flush", id: "during" });
        assert.deepEqual(await ann.nextText(({ id }) => id === "during"), { type: "flush_failed", id: "during", reason: "storage_unavailable" });
        const mark = updateFrame(textUpdate(7, 3)).toString("hex");
        ben.send(mark);
        assert.equal(await ann.next(isUpdate), mark);
        assert.equal((await stored()) > 0, how === "fail_after", "what a failed flush left");
        assert.deepEqual([...ann.texts, ...ben.texts].filter((text) => text.includes('"receipt"')), []);
        await cf.faults();
        const receipts = await Promise.all([ann, ben].map(receiptOf));
        // Asked of the database after the receipt and nothing else.
        const text = await here.text();
        assert.deepEqual([text.length, text.includes("hi")], [5, true]);
        const changes = await honoured(here, { clock: Math.max(...receipts.map(({ clock }) => clock)) });
        assert.deepEqual(changes.filter(({ kind }) => kind !== "update"), []);
        assert.equal(new Set(receipts.map(({ epoch }) => epoch)).size, 1);
        assert.deepEqual([ann.closed, ben.closed], [undefined, undefined]);
        await verified(dataDir);
      });
    }
  }

  /** Writes under one key after another, each until it is carried out; answers the clocks, and how often it was refused. */
  async function agent(workspace, name, isOver) {
    const done = { clocks: [], refusals: 0 };
    for (let n = 0; !isOver(); n += 1) {
      for (;;) {
        const headers = { "idempotency-key": `${name}-${n}` };
        const answer = await workspace.rest("PUT", `/nodes/${name}/${n}`, { body: n, headers, token: workspace.apiToken({ sub: name, kind: "agent", role: "editor" }), ms: ANSWERED });
        if (answer.status === 201) {
          done.clocks.push(answer.json.clock);
          break;
        }
        assert.equal(answer.status, 503, answer.text);
        assert.ok(Number(answer.headers.get("retry-after")) > 0);
        done.refusals += 1;
        await sleep(WORD_PAUSE);
      }
      await sleep(WORD_PAUSE);
    }
    return done;
  }

  test("A.2 A.75 A.85 D02 D4 while D1 does not answer people on both relays go on without a reconnect, then all of it is saved once", { timeout: OUTAGE_SECONDS * 1000 + 120_000 }, async (t) => {
    const here = await cf.workspace();
    const stream = here.stream();
    const people = [cf, cf, deno, deno].map(({ label, url }, n) => {
      const one = person({ seed: cf.stack.secrets.SCOPE_SIGNING_KEY, workspace: here.id, sub: `p${n}`, relays: [{ label, url }] });
      return cf.opened(Object.assign(one, { label, n, words: [] }));
    });
    const say = (one) => {
      const word = `<${one.n}.${one.words.length}>`;
      one.words.push(word);
      one.type(word);
    };
    const wordsOf = (some) => some.flatMap(({ words }) => words);
    const isTold = (readers, writers) => readers.every((one) => wordsOf(writers).every((word) => one.text().includes(word)));
    await until(() => people.every((one) => one.synced()), "all are synced");
    people.forEach(say);
    await until(() => isTold(people, people), "everybody has the first words");
    await until(() => people.every(({ provider }) => provider.status.save === "saved"), "and they are saved");
    const storedBefore = (await here.text()).length;

    await cf.faults({ on: "d1", how: "stall" });
    let isOver = false;
    const agents = ["ada", "bob", "cyd"].map((name) => agent(here, name, () => isOver));
    const unkeyed = here.rest("PUT", "/nodes/unkeyed", { body: 1 });
    const waiting = new Set(people);
    const end = Date.now() + OUTAGE_SECONDS * 1000;
    let ages = [];
    for (let n = 0; Date.now() < end; n += 1) {
      people.forEach(say);
      if (n === 0) for (const one of people) void one.provider.flush().then(() => waiting.delete(one), () => {});
      await sleep(WORD_PAUSE);
      ages.push(await unsavedAge());
    }
    for (const side of [cf, deno]) {
      const room = people.filter(({ label }) => label === side.label);
      await until(() => isTold(room, room), `the people on ${side.label} have each other's words`);
    }
    assert.deepEqual(people.map(({ provider }) => provider.status.save), Array(4).fill("relayed"), "nobody is told that it is saved");
    assert.equal(waiting.size, 4, "and there is no receipt");
    ages = ages.filter((age) => age > 0);
    assert.ok(ages.length > 2 && ages.at(-1) > ages[0], `the unsaved age is shown and grows: ${ages}`);

    await cf.faults();
    const refused = await unkeyed;
    assert.deepEqual([refused.status, Number(refused.headers.get("retry-after")) > 0], [503, true]);
    assert.ok((await here.text()).length >= storedBefore);
    await until(() => waiting.size === 0, "everybody has a receipt", 2 * PATIENCE);
    await until(() => isTold(people, people), "everything is at everybody", 2 * PATIENCE);
    await Promise.all(people.map(({ provider }) => provider.flush(AbortSignal.timeout(PATIENCE))));
    await until(async () => (await unsavedAge()) === 0, "nothing is unsaved");
    isOver = true;
    const done = await Promise.all(agents);

    const text = people[0].text();
    assert.deepEqual(text.match(/<[^<>]*>/g).toSorted(), wordsOf(people).toSorted(), "each word once");
    assert.deepEqual([...new Set([...people.map((one) => one.text()), await here.text()])], [text]);
    const versions = people.map(({ doc }) => Y.encodeStateVector(doc));
    for (const version of versions) assert.deepEqual(version, versions[0]);
    const head = await here.head();
    const log = [];
    for (let since = 0; since < head; since += 1000) log.push(...(await here.rest("GET", `/changes?since=${since}&limit=1000`)).json.changes);
    assert.deepEqual(log.map(({ clock }) => clock), range(head, 1));
    assert.deepEqual(log.filter(({ path }) => path === "unkeyed"), [], "what was refused does not happen later");
    for (const [n, { clocks }] of done.entries()) {
      const name = ["ada", "bob", "cyd"][n];
      assert.deepEqual(log.filter(({ actor }) => actor === name).map(({ clock }) => clock), clocks, `${name}: each write once, in order`);
    }
    await stream.reaches(head);
    assert.deepEqual(stream.clocks, range(head, 1));
    assert.deepEqual(people.flatMap(({ closes }) => closes), []);
    await verified(dataDir);
    t.diagnostic(`${OUTAGE_SECONDS} s without D1: ${wordsOf(people).length} words, ${head} changes, ${done.map(({ refusals }) => refusals).join(", ")} refusals; unsaved for up to ${Math.max(...ages)} s; ${reconnects(people.flatMap(({ closes }) => closes))}`);
  });

  /** Age of what the Deno relay has not saved, in s. */
  async function unsavedAge() {
    return (await readMetrics(deno.process.http)).gauge("unsaved_age_seconds");
  }

  /** Asks until there is a receipt: a relay that failed waits before it tries again. */
  const receiptOf = (client) => until(async () => {
    const answer = await client.settled();
    return answer.type === "receipt" && answer;
  }, "a receipt");
});
