// Several replicas of the Deno relay that know each other: each workspace is on one of them, wherever people connect,
// while replicas come, go, hang and die.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { startCf } from "./support/relays.mjs";
import { agreed, holders, proxied, replicasOf } from "./support/replicas.mjs";
import { stockClient } from "./support/stock-client.mjs";
import { verified } from "./support/verified.mjs";
import { until } from "./support/waiting.mjs";

const REPLICAS = 4;
/** Enough that they are on three replicas at least, of which a chance of one in a thousand remains that they are not. */
const WORKSPACES = 10;
const TYPIST_PAUSE_MS = 100;
/** A stock client comes back after up to 2.5 s, and some of what happens takes it back more than once. */
const SETTLE_MS = 60_000;

/** Somebody who adds entries to a list until told to stop. */
function typist({ doc }, name) {
  const written = [];
  const timer = setInterval(() => {
    written.push(`${name}.${written.length}`);
    doc.getArray("entries").push([written.at(-1)]);
  }, TYPIST_PAUSE_MS);
  // A test that failed leaves it behind.
  timer.unref();
  return { written, stop: () => clearInterval(timer) };
}

const entries = ({ doc }) => doc.getArray("entries").toArray();

describe("replicas", { concurrency: 1 }, () => {
  let dataDir;
  let cf;
  let kit;
  let replicas = [];
  /** Also those that ended: the clients that came by them are theirs. */
  const ever = [];
  const start = async (place) => {
    const replica = await kit.start(place);
    ever.push(replica);
    return replica;
  };
  before(async () => {
    dataDir = mkdtempSync(join(tmpdir(), "yrelay-cluster-"));
    cf = await startCf({ dataDir, onLog: () => {} });
    kit = await replicasOf(cf, dataDir, REPLICAS);
    replicas = await Promise.all(Array.from({ length: REPLICAS }, (_, place) => start(place)));
    await agreed(replicas);
  });
  after(async () => {
    await Promise.all(ever.map((replica) => replica.stop()));
    await cf?.stop();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });

  /** The one replica that has the room of a workspace, in the end a certain one. */
  async function ownerOf(workspace, clients, expected) {
    const [[owner]] = await until(async () => {
      const found = await holders(replicas, workspace);
      return found.length === 1 && found[0][1] === clients && (expected ?? found[0][0]) === found[0][0] && found;
    }, `one replica has all ${clients} people of ${workspace.id}`, SETTLE_MS);
    return owner;
  }

  /** Three people who type in a workspace of their own, each on another replica, and none on its owner. */
  async function threeElsewhere() {
    const workspace = await cf.workspace();
    const probe = await replicas[0].sharing(workspace).connect();
    const owner = await ownerOf(workspace, 1);
    probe.close();
    const others = replicas.filter((replica) => replica !== owner);
    const clients = await Promise.all(others.map((replica, n) => stockClient(replica.sharing(workspace), { sub: `typist-${n}` })));
    await ownerOf(workspace, 3, owner);
    return { workspace, owner, clients, typists: clients.map((client, n) => typist(client, n)) };
  }

  /** Everybody has every entry once, and so has the database. */
  async function converged({ workspace, clients, typists }) {
    for (const { stop } of typists) stop();
    const all = typists.flatMap(({ written }) => written).sort();
    const stored = async () => (await workspace.rest("GET", "/docs/d", { headers: { accept: "application/json" } })).json?.entries;
    await until(() => clients.every((client) => entries(client).length >= all.length), "everybody has as many", SETTLE_MS);
    await until(async () => (await stored())?.length >= all.length, "and so has the database", SETTLE_MS);
    for (const list of [...clients.map(entries), await stored()]) assert.deepEqual(list.toSorted(), all);
    assert.ok(all.length > 20, `${all.length} entries`);
    for (const client of clients) assert.deepEqual(entries(client), entries(clients[0]));
  }

  test("A.4 A.6 A.7 A.52 each workspace is on one replica, people elsewhere are passed on to it, and it alone saves", async (t) => {
    const spread = new Map();
    let elsewhere = 0;
    const shared = async (n) => {
      const workspace = await cf.workspace();
      const chosen = [replicas[n % REPLICAS], replicas[(n + 1) % REPLICAS]];
      const [one, other] = await Promise.all(chosen.map((replica, at) => stockClient(replica.sharing(workspace), { sub: `s${at}` })));
      const owner = await ownerOf(workspace, 2);
      spread.set(owner, (spread.get(owner) ?? 0) + 1);
      elsewhere += chosen.filter((replica) => replica !== owner).length;
      one.doc.getText("t").insert(0, "one");
      await until(() => other.doc.getText("t").toString() === "one", "it arrives");
      other.doc.getText("t").insert(3, " other");
      await until(() => one.doc.getText("t").toString() === "one other", "and the other way");
      await until(async () => (await workspace.text()) === "one other", "it is saved");
      const { changes } = (await workspace.rest("GET", "/changes?since=0&limit=100")).json;
      // Two replicas that both had it would save each edit for themselves.
      assert.ok(changes.length <= 2, JSON.stringify(changes));
      assert.deepEqual([one.connects, other.connects], [1, 1]);
    };
    await Promise.all(Array.from({ length: WORKSPACES }, (_, n) => shared(n)));
    assert.ok(spread.size >= 3, `${spread.size} owners`);
    assert.equal(await proxied(replicas), elsewhere);
    t.diagnostic(`${WORKSPACES} workspaces on ${[...spread.values()]} of ${REPLICAS} replicas; ${elsewhere} of ${2 * WORKSPACES} connections passed on`);
  });

  test("A.5 A.12 A.75 an owner that hangs is replaced while people type; when it wakes up, what only it had is merged once", async (t) => {
    const work = await threeElsewhere();
    await until(() => work.typists.every(({ written }) => written.length > 5), "they type");
    work.owner.process.signal("SIGSTOP");
    const awake = replicas.filter((replica) => replica !== work.owner);
    await agreed(awake);
    await until(async () => (await holders(awake, work.workspace)).reduce((sum, [, clients]) => sum + clients, 0) === 3, "they go on elsewhere", SETTLE_MS);
    const before = work.typists.map(({ written }) => written.length);
    await until(() => work.typists.every(({ written }, n) => written.length > before[n] + 5), "and type there");
    work.owner.process.signal("SIGCONT");
    await agreed(replicas);
    await ownerOf(work.workspace, 3, work.owner);
    await converged(work);
    t.diagnostic(`closes ${JSON.stringify(work.clients.map(({ closes }) => closes))}`);
  });

  test("A.8 A.75 B.5 an owner that dies is replaced while people type; the one that is started in its place takes over without a loss", async (t) => {
    const work = await threeElsewhere();
    await until(() => work.typists.every(({ written }) => written.length > 5), "they type");
    const place = replicas.indexOf(work.owner);
    await work.owner.process.kill();
    replicas.splice(place, 1);
    await ownerOf(work.workspace, 3);
    await agreed(replicas);
    replicas.splice(place, 0, await start(place));
    await agreed(replicas);
    await ownerOf(work.workspace, 3);
    await converged(work);
    t.diagnostic(`closes ${JSON.stringify(work.clients.map(({ closes }) => closes))}`);
  });

  test("A.8 A.52 when two of four stop, only what they had moves, and nothing is lost", async () => {
    const works = await Promise.all(Array.from({ length: 4 }, threeElsewhere));
    const [leaving, staying] = [replicas.slice(0, 2), replicas.slice(2)];
    const instances = await Promise.all(works.map(async ({ workspace, owner }) => (await owner.inspect(workspace.id)).instance));
    const ends = await Promise.all(leaving.map(({ process }) => process.stop("SIGTERM")));
    assert.deepEqual(ends, leaving.map(() => ({ code: 0, signal: null })));
    replicas = staying;
    await agreed(replicas);
    for (const [n, work] of works.entries()) {
      // Who was on a replica that stopped has nowhere to go: their list of relays has one entry.
      const alive = work.clients.filter(({ provider }) => staying.some(({ url }) => provider.url.startsWith(url)));
      const stays = staying.includes(work.owner);
      await ownerOf(work.workspace, alive.length, stays ? work.owner : undefined);
      if (stays) assert.equal((await work.owner.inspect(work.workspace.id)).instance, instances[n], "its room was not touched");
      for (const { stop } of work.typists) stop();
      const all = work.typists.flatMap(({ written }) => written);
      const theirs = new Set(alive.flatMap((client) => work.typists[work.clients.indexOf(client)].written));
      await until(() => alive.every((client) => [...theirs].every((entry) => entries(client).includes(entry))), "they have what they wrote");
      for (const client of alive) {
        const found = entries(client);
        assert.equal(new Set(found).size, found.length, "each once");
        assert.ok(found.every((entry) => all.includes(entry)));
      }
      for (const client of work.clients) client.destroy();
    }
  });

  test("what all of it left in the database is whole", async () => {
    await verified(dataDir);
  });
});
