// Signaling over HTTP: two peers find each other with no WebSocket at all (C.69).
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { startStack } from "../../tools/stack.mjs";
import { Api, tap } from "./support/http.mjs";
import { until } from "./support/waiting.mjs";

const ENTRY = join(import.meta.dirname, "support", "d1-tap.mjs");
const MINUTE = 60_000;
const place = (id) => `/api/workspaces/${id}/p2p/signal`;

/** One side of a connection: it sends, and takes in what it has not seen yet. */
class Peer {
  id = randomUUID();
  seen = [];
  #after = 0;

  constructor(client, workspace, topic) {
    Object.assign(this, { client, workspace, topic });
  }

  async send(to, data) {
    const answer = await this.client.post(place(this.workspace), { to, from: this.id, topic: this.topic, data });
    assert.equal(answer.status, 201, answer.text);
    return answer.json;
  }

  async poll() {
    const { status, json, text } = await this.client.get(`${place(this.workspace)}?peer=${this.id}&topic=${this.topic}&after=${this.#after}`);
    assert.equal(status, 200, text);
    this.#after = json.signals.at(-1)?.id ?? this.#after;
    this.seen.push(...json.signals);
    return json.signals;
  }

  /** The data of the first signal of a type, once it is here. */
  next(type) {
    return until(async () => {
      await this.poll();
      return this.seen.find(({ data }) => data.type === type);
    }, `a signal of type ${type}`);
  }
}

// One at a time: the counts are of the whole stack, which has no Durable Object bound, so that no
// WebSocket could be opened.
describe("signaling over HTTP", { concurrency: 1, timeout: 120_000 }, () => {
  let api;
  let d1;
  before(async () => {
    api = new Api(await startStack({ entry: ENTRY, without: ["ROOM"] }));
    d1 = tap(api);
  });
  after(() => api.finish());

  const member = (id, sub, role = "editor", kind = "human") => api.actor(sub, kind, { [id]: role });
  const stored = (id) => d1.sql("SELECT peer, id, topic, sender, sub, data FROM signals WHERE workspace = ?1 ORDER BY peer, id", id);

  test("C.69 two peers exchange offer, answer and candidates with no socket, each in order and once", async () => {
    await api.workspace("c69");
    const ann = new Peer(member("c69", "ann"), "c69", "notes");
    const vic = new Peer(member("c69", "vic", "viewer"), "c69", "notes");
    const candidates = async (from, to, name) => {
      for (let n = 0; n < 5; n += 1) await from.send(to.id, { type: "candidate", candidate: `${name} ${n}` });
    };
    await ann.send(vic.id, { type: "offer", sdp: "v=0 ann" });
    await candidates(ann, vic, "ann");
    const offer = await vic.next("offer");
    assert.deepEqual([offer.from, offer.sub, offer.topic, offer.data.sdp], [ann.id, "ann", "notes", "v=0 ann"]);
    await vic.send(offer.from, { type: "answer", sdp: "v=0 vic" });
    await candidates(vic, ann, "vic");
    assert.equal((await ann.next("answer")).sub, "vic");
    for (const [peer, first, name] of [[vic, "offer", "ann"], [ann, "answer", "vic"]]) {
      await until(async () => (await peer.poll(), peer.seen.length >= 6), "all candidates");
      assert.deepEqual(peer.seen.map(({ data }) => data.candidate ?? data.type), [first, ...Array.from({ length: 5 }, (_, n) => `${name} ${n}`)]);
      const ids = peer.seen.map(({ id }) => id);
      assert.deepEqual(ids, [...new Set(ids)].sort((a, b) => a - b), "ids grow");
      assert.deepEqual(await peer.poll(), [], "nothing comes twice");
    }
    // Another topic, another peer and another workspace hear nothing.
    const other = await ann.client.get(`${place("c69")}?peer=${vic.id}&topic=other`);
    assert.deepEqual(other.json, { signals: [] });
    assert.deepEqual((await ann.client.get(`${place("c69")}?peer=${randomUUID()}`)).json, { signals: [] });
    await api.workspace("c69b");
    assert.deepEqual((await member("c69b", "ann").get(`${place("c69b")}?peer=${vic.id}`)).json, { signals: [] });
    // A lost answer is asked for again.
    assert.equal((await vic.client.get(`${place("c69")}?peer=${vic.id}`)).json.signals.length, 6);
  });

  test("C.69 each call is one batch, a signal is one row, none is a change, and many at once keep their ids apart", async () => {
    const owner = await api.workspace("cost");
    const [ann, bob] = [new Peer(owner, "cost", "t"), new Peer(member("cost", "bob"), "cost", "t")];
    await d1.counts();
    const sent = await ann.send(bob.id, null);
    assert.ok(Math.abs(sent.expiresAt - Date.now() - MINUTE) < MINUTE);
    assert.deepEqual(await d1.counts().then(({ batches, rowsWritten }) => [batches, rowsWritten]), [1, 1]);
    const [signal] = await bob.poll();
    assert.deepEqual([signal.id, signal.data], [sent.id, null]);
    assert.deepEqual(await d1.counts().then(({ batches, rowsWritten }) => [batches, rowsWritten]), [1, 0]);
    const ids = (await Promise.all(Array.from({ length: 30 }, (_, n) => ann.send(bob.id, { n })))).map(({ id }) => id);
    assert.equal(new Set(ids).size, 30);
    assert.deepEqual((await bob.poll()).map(({ id }) => id), ids.sort((a, b) => a - b));
    assert.equal((await owner.get("/api/workspaces/cost")).json.head, 0);
  });

  test("C.69 a signal is gone after a minute, the sweep removes it, and a cursor stays good all the same", async () => {
    const owner = await api.workspace("age");
    const [ann, bob] = [new Peer(owner, "age", "t"), new Peer(member("age", "bob"), "age", "t")];
    await ann.send(bob.id, 1);
    await bob.poll();
    await ann.send(bob.id, 2);
    await d1.sql("UPDATE signals SET expires_at = expires_at - 60000 WHERE workspace = 'age'");
    assert.deepEqual(await bob.poll(), [], "too late");
    assert.equal((await stored("age")).length, 2);
    await d1.sql("INSERT INTO signals WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4500) SELECT 'w' || i % 90, 'gone', i, 't', 's', 's', '1', 1 FROM n");
    assert.equal((await api.as(undefined).get("/cdn-cgi/local/scheduled")).status, 200);
    api.seen.delete("GET /cdn-cgi/local/scheduled 200");
    assert.deepEqual(await d1.sql("SELECT COUNT(*) AS n FROM signals WHERE expires_at < ?1", Date.now()), [{ n: 0 }]);
    assert.deepEqual(await stored("age"), []);
    await ann.send(bob.id, 3);
    assert.deepEqual((await bob.poll()).map(({ data }) => data), [3]);
    // A write takes some of what is over along.
    await d1.sql("INSERT INTO signals WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30) SELECT 'age', 'gone', i, 't', 's', 's', '1', 1 FROM n");
    await ann.send(bob.id, 4);
    assert.equal((await stored("age")).length, 30 - 20 + 2);
  });

  test("R4 a peer has 100 signals waiting and a workspace 2000", async () => {
    const owner = await api.workspace("full");
    const ann = new Peer(owner, "full", "t");
    const fill = (peer, count) => d1.sql("INSERT INTO signals WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?3) SELECT 'full', ?1 || CASE WHEN ?3 > 100 THEN i ELSE '' END, i, 't', 's', 's', '1', ?2 FROM n", peer, Date.now() + MINUTE, count);
    await fill("bob", 99);
    await ann.send("bob", "the 100th");
    const send = (to) => owner.post(place("full"), { to, from: ann.id, topic: "t", data: 1 });
    const refused = await send("bob");
    assert.deepEqual([refused.status, refused.json.code, refused.headers["retry-after"]], [429, "rate_limited", "60"]);
    assert.equal((await owner.get(`${place("full")}?peer=bob`)).json.signals.length, 100);
    await ann.send("cat", "another peer still hears");
    await fill("p", 2000 - 101);
    assert.deepEqual([(await send("dan")).status, (await stored("full")).length], [429, 2000]);
    await d1.sql("UPDATE signals SET expires_at = 1 WHERE workspace = 'full' AND peer = 'bob'");
    assert.equal((await send("bob")).status, 201);
  });

  test("R4 bad requests are refused, say what is wrong, and store nothing", async () => {
    const owner = await api.workspace("bad");
    const body = { to: "b", from: "a", topic: "t", data: {} };
    const bodies = [{}, [], { ...body, sub: "eve" }, { to: "b", from: "a", topic: "t" }];
    for (const name of ["to", "from", "topic"]) for (const value of ["", 1, null, "x".repeat(257), "a\nb"]) bodies.push({ ...body, [name]: value });
    for (const name of ["to", "from"]) for (const value of ["a b", "é", "x".repeat(65)]) bodies.push({ ...body, [name]: value });
    for (const wrong of bodies) {
      const refused = await owner.post(place("bad"), wrong);
      assert.deepEqual([refused.status, refused.json.code], [400, "bad_request"], JSON.stringify(wrong).slice(0, 100));
    }
    const json = { "content-type": "application/json" };
    assert.equal((await owner.post(place("bad"), "{", json)).json.code, "invalid_json");
    const data = (bytes) => ({ ...body, data: "x".repeat(bytes - 2) });
    const large = await owner.post(place("bad"), data(16 * 1024 + 1));
    assert.deepEqual([large.status, large.json.code, large.json.limit], [413, "payload_too_large", 16 * 1024]);
    const larger = await owner.post(place("bad"), `${" ".repeat(32 * 1024)}{}`, json);
    assert.deepEqual([larger.status, larger.json.limit], [413, 32 * 1024]);
    assert.equal((await owner.post(place("bad"), JSON.stringify(body), { "content-type": "text/plain" })).status, 415);
    for (const query of ["", "?peer=", "?peer=a%20b", "?peer=a&peer=b", "?peer=a&topic=", `?peer=${"x".repeat(65)}`]) {
      assert.equal((await owner.get(`${place("bad")}${query}`)).json.code, "bad_request", query);
    }
    for (const after of ["", "-1", "x", "1.5"]) {
      assert.equal((await owner.get(`${place("bad")}?peer=a&after=${after}`)).json.code, "invalid_cursor", after);
    }
    const put = await owner.put(place("bad"), body);
    assert.deepEqual([put.status, put.headers.allow], [405, "GET, POST"]);
    assert.deepEqual(await stored("bad"), []);
    assert.equal((await owner.post(place("bad"), data(16 * 1024))).status, 201);
  });

  test("U07 only who has a role signals, and a workspace that is gone has no inbox", async () => {
    const owner = await api.workspace("roles");
    const answers = async (client, id = "roles") => {
      const told = [await client.post(place(id), { to: "b", from: "a", topic: "t", data: 1 }), await client.get(`${place(id)}?peer=b`)];
      return told.map(({ status, json }) => json.code ?? status);
    };
    assert.deepEqual(await answers(api.as(undefined)), Array(2).fill("unauthorized"));
    assert.deepEqual(await answers(api.actor("eve", "human", { other: "owner" })), Array(2).fill("forbidden"));
    assert.deepEqual(await stored("roles"), []);
    for (const role of ["viewer", "editor"]) assert.deepEqual(await answers(member("roles", "vic", role)), [201, 200]);
    assert.deepEqual(await answers(member("nowhere", "ann"), "nowhere"), Array(2).fill("workspace_not_found"));
    assert.equal((await owner.delete("/api/workspaces/roles")).status, 200);
    assert.deepEqual(await answers(owner), Array(2).fill("workspace_deleted"));
    assert.equal((await stored("roles")).length, 2);
  });
});
