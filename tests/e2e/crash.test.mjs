// The runtime is killed while it writes, and started again on the same folder.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { startCf } from "./support/relays.mjs";
import { STEP_1, isStep1, textUpdate, updateFrame } from "./support/frames.mjs";
import { stockClient } from "./support/stock-client.mjs";
import { reconnects, verified } from "./support/verified.mjs";
import { sleep, until } from "./support/waiting.mjs";

test("A.75 D06 I06 SIGKILL during writes: every acknowledged write is there, and the clocks have no gap", async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), "yrelay-crash-"));
  let relay = await startCf({ dataDir });
  try {
    const acknowledged = new Map();
    const closes = [];
    let saved = 0;
    let highest = 0;
    for (let life = 0; life < 2; life += 1) {
      const here = await relay.workspace("crash");
      let dead = false;
      // Four writers by REST, each with its own keys, and one by socket that asks for receipts.
      const writers = [1, 2, 3, 4].map(async (writer) => {
        for (let n = 0; !dead; n += 1) {
          const path = `life-${life}/writer-${writer}/${n}`;
          try {
            const answer = await here.rest("PUT", `/nodes/${path}`, { body: n, headers: { "idempotency-key": path } });
            if (answer.status === 201) acknowledged.set(path, answer.json.clock);
          } catch {
            return;
          }
        }
      });
      const editor = await here.connect();
      editor.send(STEP_1);
      await editor.next(isStep1);
      const edits = (async () => {
        for (let n = 0; !dead; n += 1) {
          editor.send(updateFrame(textUpdate(1_000 + saved + 1, 1)));
          const receipt = await editor.settled();
          if (receipt.type === "receipt") saved += 1;
        }
      })().catch(() => {});
      await sleep(2_500);
      await relay.stack.kill();
      dead = true;
      await Promise.all([...writers, edits]);
      closes.push(editor.closed?.code);
      editor.stop();
      relay = await startCf({ dataDir });
    }
    assert.ok(acknowledged.size > 20 && saved > 2, `${acknowledged.size} writes and ${saved} receipts before the kills`);
    const after = await relay.workspace("crash");
    const seen = [];
    for (;;) {
      const { json } = await after.rest("GET", `/changes?since=${seen.length}`);
      if (json.changes.length === 0) break;
      seen.push(...json.changes);
    }
    assert.deepEqual(seen.map(({ clock }) => clock), Array.from({ length: seen.length }, (_, index) => index + 1));
    const at = new Map(seen.map(({ path, clock }) => [path, clock]));
    for (const [path, clock] of acknowledged) assert.equal(at.get(path), clock, path);
    highest = Math.max(...acknowledged.values());
    assert.ok(seen.length >= highest);
    assert.ok((await after.text()).length >= saved, "every receipt is kept");
    // A write under a key that was answered before the kill is not applied again.
    const [[path, clock]] = acknowledged;
    const replay = await after.rest("PUT", `/nodes/${path}`, { body: 0, headers: { "idempotency-key": path } });
    assert.deepEqual([replay.json.clock, replay.headers.get("idempotency-replayed")], [clock, "true"]);
    assert.equal((await after.rest("PUT", "/nodes/next", { body: 1 })).json.clock, seen.length + 1);
    await verified(dataDir);
    t.diagnostic(`${acknowledged.size} writes and ${saved} receipts before two kills; ${reconnects(closes)}`);
  } finally {
    await relay.stop();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  }
});

test("A.46 A.50 everybody leaves and the runtime is killed: a fresh client has everything, from the database alone", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "yrelay-cold-"));
  let relay = await startCf({ dataDir });
  try {
    const before = await relay.workspace("cold");
    const [ann, ben] = [await stockClient(before, { sub: "ann" }), await stockClient(before, { sub: "ben" })];
    ann.doc.getText("t").insert(0, "a marker that only the database has, ");
    await until(() => ben.doc.getText("t").length > 0, "ann's text at ben");
    ben.doc.getText("t").insert(ben.doc.getText("t").length, "written by two");
    await until(() => ann.doc.getText("t").toString().endsWith("two"), "ben's text at ann");
    const text = ann.doc.getText("t").toString();
    ann.destroy();
    ben.destroy();
    await until(async () => (await before.text()) === text, "saved when the last one left");
    await relay.stack.kill();
    relay = await startCf({ dataDir });
    const fresh = await stockClient(await relay.workspace("cold"), { sub: "cat" });
    assert.equal(fresh.doc.getText("t").toString(), text);
    fresh.doc.getText("t").insert(0, "and goes on: ");
    await until(async () => (await (await relay.workspace("cold")).text()) === `and goes on: ${text}`, "a normal edit is saved again");
    fresh.destroy();
    await verified(dataDir);
  } finally {
    await relay.stop();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  }
});
