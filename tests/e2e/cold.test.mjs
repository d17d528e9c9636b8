// Cold recovery: what a receipt says is saved comes back from the database alone. No client has it any more,
// the relay that took it is another process, and no client may call the API.
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { after, before, describe, test } from "node:test";
import * as Y from "yjs";
import { browserEnvironment } from "../../client-sdk/src/browser.ts";
import { startStack } from "../../tools/stack.mjs";
import { person } from "./support/person.mjs";
import { startAnother, startBoth } from "./support/relays.mjs";
import { reconnects, verified } from "./support/verified.mjs";
import { PATIENCE, until } from "./support/waiting.mjs";

/** Where a local stack has its one D1 database. */
const D1 = join("v3", "d1", "miniflare-D1DatabaseObject");

describe("cold recovery", { concurrency: 1 }, () => {
  let dataDir;
  let cf;
  let deno;
  before(async () => {
    dataDir = mkdtempSync(join(tmpdir(), "yrelay-cold-"));
    ({ cf, deno } = await startBoth({ dataDir, relay: { onLog: () => {} } }));
  });
  after(async () => {
    await deno?.process.stop();
    await cf?.stop();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });

  /** A person whose every call of the API fails, and is noted. */
  function come(t, { label, url }, workspace, sub) {
    const calls = [];
    const blocked = (address) => (calls.push(address), Promise.reject(new TypeError("blocked")));
    const environment = { ...browserEnvironment(), fetch: blocked };
    const one = person({ seed: cf.stack.secrets.SCOPE_SIGNING_KEY, workspace: workspace.id, sub, relays: [{ label, url }], environment });
    t.after(() => one.stop());
    return Object.assign(one, { calls, flush: () => one.provider.flush(AbortSignal.timeout(2 * PATIENCE)) });
  }

  /** The rows of a document as they are in the file, decoded by stock Yjs. */
  function checkpoint(workspace) {
    const [file] = readdirSync(join(dataDir, D1)).filter((name) => name.endsWith(".sqlite") && name !== "metadata.sqlite");
    const database = new DatabaseSync(join(dataDir, D1, file), { readOnly: true });
    const rows = database.prepare("SELECT clock, part, data FROM doc_updates WHERE workspace = ? AND path = 'd' ORDER BY clock, part").all(workspace.id);
    database.close();
    const doc = new Y.Doc();
    for (const [, parts] of Map.groupBy(rows, ({ clock }) => clock)) {
      Y.applyUpdate(doc, Buffer.from(parts.map(({ data }) => data).join(""), "base64"));
    }
    return { doc, text: doc.getText("t").toString(), clock: Math.max(...rows.map(({ clock }) => clock)) };
  }

  async function replaced(label) {
    if (label === "deno") {
      const { port } = deno.process;
      await deno.process.kill();
      deno.process = (await startAnother(deno, { port, onLog: () => {} })).process;
    } else {
      await cf.stack.kill();
      cf.stack = await startStack({ dataDir, port: Number(new URL(cf.api).port) });
    }
  }

  for (const [label, otherLabel] of [["cf", "deno"], ["deno", "cf"]]) {
    test(`A.46 A.49 A.50 A.53 A.55 A.74 what was saved on ${label} comes back on ${otherLabel} and on ${label}, with every client and the relay's process gone`, { timeout: 120_000 }, async (t) => {
      const [first, other] = label === "cf" ? [cf, deno] : [deno, cf];
      const workspace = await cf.workspace();
      const [ann, ben] = ["ann", "ben"].map((sub) => come(t, first, workspace, sub));
      await until(() => ann.synced() && ben.synced(), "both are in");
      ann.type("a text of two, ");
      await until(() => ben.text() !== "", "ben has it");
      ben.type("written by both");
      await until(() => ann.text() === ben.text() && ann.text().endsWith("both"), "ann has it");
      ann.doc.getText("t").insert(2, "<marker> ");
      const receipt = await ann.flush();
      const whole = ann.text();
      const stored = checkpoint(workspace);
      assert.deepEqual([stored.text, stored.clock], [whole, receipt.clock], "the receipt names the version that is stored");
      const version = Y.encodeStateVector(ann.doc);
      for (const one of [ann, ben]) one.stop();
      await until(async () => (await first.sharing(workspace).inspect()).clients === 0, "everybody has left");
      await replaced(label);

      const [cat, dan] = [come(t, other, workspace, "cat"), come(t, first, workspace, "dan")];
      await until(() => cat.synced() && dan.synced(), "two who never had it", 2 * PATIENCE);
      for (const one of [cat, dan]) {
        assert.equal(one.text(), whole);
        assert.deepEqual(Y.encodeStateVector(one.doc), version, "at the same version");
        assert.equal((await one.flush()).clock, receipt.clock);
      }
      const etag = async () => (await workspace.rest("GET", "/docs/d?root=t", { headers: { accept: "text/plain" } })).headers.get("etag");
      assert.match(await etag(), new RegExp(`"${receipt.clock}"$`));
      assert.equal(checkpoint(workspace).clock, receipt.clock, "who came and read wrote nothing");

      cat.doc.getText("t").insert(0, "and goes on: ");
      const next = await cat.flush();
      await until(() => dan.text() === cat.text(), "a normal edit is at the other relay");
      assert.ok(next.clock > receipt.clock);
      assert.deepEqual([await workspace.text(), checkpoint(workspace).text, dan.text()], Array(3).fill(`and goes on: ${whole}`));
      assert.match(await etag(), new RegExp(`"${next.clock}"$`));
      const everybody = [ann, ben, cat, dan];
      assert.deepEqual(everybody.flatMap(({ calls }) => calls), [], "no client asked the API for anything");
      await verified(dataDir);
      t.diagnostic(reconnects(everybody.flatMap(({ closes }) => closes)));
    });
  }
});
