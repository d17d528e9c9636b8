// POST /api/batch: several appends in one request, each as if it had come alone.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { textUpdate } from "./support/frames.mjs";
import { RELAYS, startCf } from "./support/relays.mjs";
import { stockClient } from "./support/stock-client.mjs";
import { until } from "./support/waiting.mjs";

describe("batch", { concurrency: true, timeout: 60_000 }, () => {
  let relay;
  before(async () => {
    relay = await startCf();
  });
  after(() => relay?.stop());

  const append = ({ id }, document, client, { query = "", ...headers } = {}) => ({
    path: `/api/workspaces/${id}/docs/${document}/updates${query}`,
    headers,
    body: Buffer.from(textUpdate(client, 3)).toString("base64"),
  });
  const send = (workspace, requests, options) => workspace.rest("POST", "", { path: "/api/batch", body: { requests }, ...options });

  test("each append is answered in its place, and what one is refused for keeps no other from its work", async () => {
    const [here, other] = [await relay.workspace(), await relay.workspace()];
    const requests = [
      append(here, "a", 101, { query: "?since=0" }),
      append(here, "b", 102, { query: "?epoch=7" }),
      append(other, "c", 103),
      append(here, "d%20e", 104, { "idempotency-key": "once" }),
    ];
    const { status, json } = await send(here, requests);
    assert.equal(status, 200);
    const [a, b, c, d] = json.answers;
    assert.deepEqual([a.status, a.body.epoch > 0, a.body.missed], [201, true, false]);
    assert.deepEqual([b.status, b.body.code], [409, "epoch_changed"]);
    assert.equal(c.status, 403, "its token is that of the request around it");
    assert.deepEqual([d.status, d.body.clock + a.body.clock], [201, 3]);
    assert.equal(await here.head(), 2);
    assert.deepEqual(await Promise.all(["a", "d%20e"].map((document) => here.text(document))), ["xxx", "xxx"]);
    // I01: sent again, the key gives the first answer and writes nothing.
    const again = await send(here, requests.slice(3));
    assert.deepEqual([again.json.answers[0].body, await here.head()], [d.body, 2]);
  });

  test("who asks is asked for every append: author, token and origin", async () => {
    const here = await relay.workspace();
    const authored = [append(here, "a", 101, { "yrelay-author": "zo%C3%AB" }), append(here, "b", 102, { "yrelay-author": "ben" })];
    const statuses = async (options) => (await send(here, authored, options)).json.answers.map(({ status }) => status);
    assert.deepEqual(await statuses(), [403, 403], "only a service names authors");
    assert.deepEqual(await statuses({ token: "none" }), [401, 401]);
    assert.deepEqual(await statuses({ headers: { origin: "https://else.example" } }), [403, 403]);
    assert.equal(await here.head(), 0);
    const service = relay.stack.mint({ sub: "relay", kind: "service", workspaces: { "*": "editor" }, ttl: 60 });
    assert.deepEqual(await statuses({ token: service }), [201, 201]);
    const { json } = await here.rest("GET", "/changes?since=0");
    assert.deepEqual(json.changes.map(({ actor }) => actor).sort(), ["ben", "zoë"]);
  });

  test("what is no batch is refused as a whole, and nothing of it is done", async () => {
    const here = await relay.workspace();
    const good = append(here, "a", 101);
    const bad = [
      { body: { requests: [] } },
      { body: { requests: Array.from({ length: 41 }, () => good) } },
      { body: { requests: [good, { ...good, path: `/api/workspaces/${here.id}/nodes/a` }] } },
      { body: { requests: [good, { ...good, path: "https://else.example/api/workspaces/w/docs/a/updates" }] } },
      { body: { requests: [good, { ...good, path: 7 }, null] } },
      { body: { requests: [good, { ...good, body: "no base64!" }] } },
      { body: { requests: [good, { ...good, body: undefined }] } },
      { body: { requests: [good, { ...good, headers: { "idempotency-key": "a\nb" } }] } },
      { body: [good] },
      { body: new TextEncoder().encode("{") },
    ];
    for (const { body } of bad) {
      const answer = await here.rest("POST", "", { path: "/api/batch", body });
      assert.deepEqual([answer.status, answer.json.code, answer.headers.get("content-type")], [400, "bad_request", "application/problem+json"], JSON.stringify(body));
      assert.ok(answer.json.detail.length > 10, answer.text);
    }
    const large = await here.rest("POST", "", { path: "/api/batch", body: { requests: [good], filler: "x".repeat(1024 * 1024) } });
    assert.deepEqual([large.status, large.json.code], [413, "payload_too_large"]);
    for (const method of ["GET", "PUT"]) assert.equal((await here.rest(method, "", { path: "/api/batch" })).status, 404);
    assert.equal(await here.head(), 0);
  });
});

test("the Deno relay saves all documents of a room, each as the change of its author", { timeout: 60_000 }, async (t) => {
  const relay = await RELAYS.find(({ label }) => label === "deno").start();
  t.after(() => relay.stop());
  const here = await relay.workspace();
  const names = Array.from({ length: 5 }, (_, n) => `d${n}`);
  const clients = await Promise.all(names.map((document) => stockClient(here, { document, sub: document })));
  for (const { doc } of clients) doc.getText("t").insert(0, "saved");
  await until(async () => (await Promise.all(names.map((name) => here.text(name)))).every((text) => text === "saved"), "all are stored");
  const { json } = await here.rest("GET", "/changes?since=0");
  assert.deepEqual(json.changes.map(({ path, actor }) => [path, actor]).sort(), names.map((name) => [name, name]));
});
