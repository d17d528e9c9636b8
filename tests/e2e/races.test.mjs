// What happens in the middle of something else: a statement is held while the world goes on. See
// support/faulty-worker.mjs.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { startFaulty } from "./support/faults.mjs";
import { textUpdate } from "./support/frames.mjs";
import { until } from "./support/waiting.mjs";

const EXTEND = "SET live_until = ?2";
const CLEAR = "SET live_until = 0";
const DELETE_WORKSPACE = "SET deleted_at = ?2";
const PARTS = "SELECT clock, part, data FROM doc_updates";

// One at a time: the rules are for the whole stack.
describe("races", { concurrency: 1 }, () => {
  let relay;
  before(async () => {
    relay = await startFaulty();
  });
  after(() => relay?.stop());

  async function leaseOf(workspace) {
    const [row] = await relay.sql("SELECT live_until FROM workspaces WHERE id = ?", workspace.id);
    return row.live_until;
  }

  /** A connection that asked for changes and is known to the room. */
  async function listening(workspace) {
    const client = await workspace.connect();
    client.say({ type: "hello", changes: true });
    client.say({ type: "ping" });
    await client.nextText(({ type }) => type === "pong");
    return client;
  }

  const held = (count) => until(async () => (await relay.hits())[0] === count, `${count} statements on hold`);

  async function hears(workspace, client) {
    const { json } = await workspace.rest("PUT", "/nodes/a", { body: 1 });
    assert.equal((await client.nextText(({ type, clock }) => type === "change" && clock === json.clock)).path, "a");
  }

  test("r3 who comes while the lease of those before is still being written is listened for", async () => {
    const workspace = await relay.workspace();
    await relay.faults({ on: "d1", match: EXTEND, how: "hold" });
    const first = await listening(workspace);
    await held(1);
    await first.close();
    const second = await listening(workspace);
    await until(async () => (await workspace.inspect()).clients === 1, "only the second");
    assert.deepEqual(await relay.hits(), [1], "no second write beside the first");
    await relay.faults();
    await until(async () => (await leaseOf(workspace)) > 0, "a lease");
    await hears(workspace, second);
    await second.close();
    await until(async () => (await leaseOf(workspace)) === 0, "no lease without listeners");
  });

  test("r3 a write that was given up and lands late takes no lease from people", { timeout: 60_000 }, async () => {
    const workspace = await relay.workspace();
    const first = await listening(workspace);
    await until(async () => (await leaseOf(workspace)) > 0, "a lease");
    const before = await leaseOf(workspace);
    await relay.faults({ on: "d1", match: CLEAR, how: "hold" });
    await first.close();
    await held(1);
    const second = await listening(workspace);
    // The room gives D1 8 s, then writes the newest wish.
    await until(async () => (await leaseOf(workspace)) > before, "the lease of the second");
    const lease = await leaseOf(workspace);
    await relay.faults();
    await relay.sql("SELECT 1");
    await hears(workspace, second);
    assert.equal(await leaseOf(workspace), lease);
  });

  test("r3 a4 a socket that comes while its workspace is being deleted is closed with 4404", async () => {
    const workspace = await relay.workspace();
    await relay.faults({ on: "d1", match: DELETE_WORKSPACE, how: "hold" });
    const deleting = workspace.rest("DELETE", "");
    await held(1);
    const client = await listening(workspace);
    await until(async () => (await leaseOf(workspace)) > 0, "a lease");
    await relay.faults();
    assert.equal((await deleting).status, 200);
    assert.equal((await client.closing()).code, 4404);
  });

  test("r3 a4 a socket whose lease is written after the delete is closed with 4404", async () => {
    const workspace = await relay.workspace();
    await relay.faults({ on: "d1", match: EXTEND, how: "hold" });
    const client = await listening(workspace);
    await held(1);
    assert.equal((await workspace.rest("DELETE", "")).status, 200);
    await relay.faults();
    assert.equal((await client.closing()).code, 4404);
  });

  test("d02 a document that is replaced between two pages is read anew, not as two halves", async () => {
    const workspace = await relay.workspace();
    const post = (update) => workspace.rest("POST", "/docs/d/updates", { body: update, headers: { "content-type": "application/octet-stream" } });
    const first = await post(textUpdate(1, 1));
    // More rows than a page has: the same update again and again, which changes nothing.
    await relay.sql(
      `INSERT INTO doc_updates (workspace, path, clock, part, data)
       WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
       SELECT workspace, path, i, 0, data FROM doc_updates, n WHERE workspace = ?`,
      workspace.id,
    );
    await relay.faults({ on: "d1", match: PARTS, how: "hold", skip: 1 });
    const reading = workspace.rest("GET", "/docs/d", { headers: { accept: "text/plain" } });
    await held(1);
    assert.equal((await workspace.rest("DELETE", "/nodes/d")).status, 200);
    const second = await post(textUpdate(2, 3));
    assert.ok(second.json.epoch > first.json.epoch);
    await relay.faults();
    const read = await reading;
    assert.equal(read.text, "xxx");
    assert.equal(Number(read.headers.get("yrelay-epoch")), second.json.epoch);
  });
});
