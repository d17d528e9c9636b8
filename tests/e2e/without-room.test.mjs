// C.80: without the binding of the Durable Object, everything but the relay works.
import assert from "node:assert/strict";
import { test } from "node:test";
import { HI } from "./support/frames.mjs";
import { startCf } from "./support/relays.mjs";

test("C.2 C.80 REST and the change stream work with no Durable Object bound", async () => {
  const relay = await startCf({ without: ["ROOM"] });
  try {
    const workspace = await relay.workspace();
    const stream = workspace.stream();
    const put = await workspace.rest("PUT", "/nodes/jobs/1", { body: { a: 1 }, headers: { "idempotency-key": "k" } });
    assert.deepEqual([put.status, put.json.clock], [201, 1]);
    const patch = await workspace.rest("PATCH", "/nodes/jobs/1", { body: { b: 2 }, headers: { "if-match": '"1"' } });
    assert.equal(patch.status, 200);
    assert.equal((await workspace.rest("PUT", "/nodes/jobs/1", { body: 0, headers: { "if-match": '"1"' } })).status, 412);
    const ops = await workspace.rest("POST", "/ops", { body: { ops: [{ op: "put", path: "x", value: 1 }, { op: "put", path: "y", value: 2 }] } });
    assert.equal(ops.status, 200, ops.text);
    // The update of HI, without the frame around it.
    const update = Buffer.from(HI.slice(6), "hex");
    const posted = await workspace.rest("POST", "/docs/d/updates", { body: update, headers: { "content-type": "application/octet-stream" } });
    assert.equal(posted.status, 201, posted.text);
    assert.equal(await workspace.text(), "hi");
    assert.equal((await workspace.rest("GET", "/nodes/jobs/1")).json.value.b, 2);
    assert.equal((await workspace.rest("DELETE", "/nodes/jobs")).status, 200);
    const head = await workspace.head();
    assert.equal(head, 6);
    await stream.reaches(head);
    assert.deepEqual(stream.clocks, [1, 2, 3, 4, 5, 6]);
    const listed = await workspace.rest("GET", "/changes?since=0");
    assert.deepEqual(listed.json.changes.map(({ kind }) => kind), ["put", "patch", "put", "put", "update", "delete"]);
    await assert.rejects(workspace.connect(), (error) => error.status === 503);
    assert.equal((await fetch(`${relay.api}/readyz`, { signal: AbortSignal.timeout(10_000) })).status, 200);
  } finally {
    await relay.stop();
  }
});
