// Idempotency keys of workspaces (R1): creating and deleting are done once, and the answer repeated.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { startStack } from "../../tools/stack.mjs";
import { Api } from "./support/http.mjs";

const WORKSPACES = "/api/workspaces";

describe("workspaces", { concurrency: true, timeout: 120_000 }, () => {
  let api;
  before(async () => {
    api = new Api(await startStack());
  });
  after(() => api.finish());

  const key = (text) => ({ "idempotency-key": text });
  const shown = ({ status, text, headers }) => [status, text, headers["idempotency-replayed"]];

  test("r1 a creation under a key is one workspace, and the answer is repeated", async () => {
    const owner = api.actor("ada", "human", { "*": "owner" });
    const create = (body, headers) => owner.post(WORKSPACES, body, headers);
    const first = await create({ id: "named" }, key("c1"));
    assert.deepEqual([first.status, first.json, first.headers["idempotency-replayed"]], [201, { id: "named", head: 0, floor: 0 }, undefined]);
    await owner.put(`${WORKSPACES}/named/nodes/a`, 1);
    const again = await create({ id: "named" }, key('"c1"'));
    assert.deepEqual(shown(again), [201, first.text, "true"], "the first answer, whatever happened since");
    assert.equal(again.headers.location, "/api/workspaces/named");
    for (const body of [{ id: "other" }, {}, undefined]) {
      const reused = await create(body, key("c1"));
      assert.deepEqual([reused.status, reused.json.code], [422, "idempotency_key_reused"], JSON.stringify(body));
    }
    assert.equal((await owner.get(`${WORKSPACES}/other`)).status, 404, "and nothing was created");
    for (const headers of [{}, key("c2")]) assert.equal((await create({ id: "named" }, headers)).json.code, "exists");
    assert.equal((await create({ id: "later" }, key("c2"))).status, 201, "a refused key is not used up");
  });

  test("r1 of 20 parallel creations without an id under one key there is one workspace", async () => {
    const owner = api.actor("bob", "human", { "*": "owner" });
    const answers = await Promise.all(Array.from({ length: 20 }, () => owner.post(WORKSPACES, {}, key("parallel"))));
    assert.deepEqual(new Set(answers.map(({ status, json }) => `${status} ${json.id}`)).size, 1);
    assert.equal(answers[0].status, 201);
    assert.equal(answers.filter(({ headers }) => headers["idempotency-replayed"] === "true").length, 19);
    const cyd = await api.actor("cyd", "human", { "*": "owner" }).post(WORKSPACES, {}, key("parallel"));
    assert.notEqual(cyd.json.id, answers[0].json.id, "the key of another actor is another key");
  });

  test("r1 a deletion under a key happens once, and the answer is repeated", async () => {
    const owner = await api.workspace("gone");
    await owner.put(`${WORKSPACES}/gone/nodes/a`, 1);
    const remove = (headers, body) => owner.call("DELETE", `${WORKSPACES}/gone`, { headers, body });
    const first = await remove(key("d1"));
    assert.deepEqual([first.status, first.json], [200, { id: "gone", clock: 2 }]);
    assert.deepEqual(shown(await remove(key("d1"))), [200, first.text, "true"]);
    // Node sends the body of a DELETE without its length unless told.
    assert.equal((await remove({ ...key("d1"), "content-length": 5 }, "other")).json.code, "idempotency_key_reused");
    for (const headers of [{}, key("d2")]) assert.equal((await remove(headers)).json.code, "workspace_deleted");
    const other = api.actor("eve", "human", { gone: "owner" });
    assert.equal((await other.delete(`${WORKSPACES}/gone`, key("d1"))).json.code, "workspace_deleted", "her key is another");
    assert.equal((await api.actor("eve", "human", { never: "owner" }).delete(`${WORKSPACES}/never`, key("d1"))).json.code, "workspace_not_found");
  });

  test("r1 of 20 parallel deletions under one key one happens and all get its answer", async () => {
    const owner = await api.workspace("gone-20");
    const answers = await Promise.all(Array.from({ length: 20 }, () => owner.delete(`${WORKSPACES}/gone-20`, key("d"))));
    assert.deepEqual(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size, 1);
    assert.equal(answers.filter(({ headers }) => headers["idempotency-replayed"] === "true").length, 19);
  });

  test("r1 keys that cannot be read are refused and nothing happens", async () => {
    const owner = await api.workspace("kept");
    for (const bad of ["", "a b", "k".repeat(129)]) {
      assert.equal((await owner.delete(`${WORKSPACES}/kept`, key(bad))).json.code, "bad_request", bad);
      assert.equal((await owner.post(WORKSPACES, { id: "kept" }, key(bad))).json.code, "bad_request", bad);
    }
    const large = await owner.call("DELETE", `${WORKSPACES}/kept`, { body: "x".repeat(1024 * 1024 + 1) });
    assert.deepEqual([large.status, large.json.code], [413, "payload_too_large"]);
    assert.equal((await owner.get(`${WORKSPACES}/kept`)).status, 200);
  });
});
