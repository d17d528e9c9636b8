// B10: a person writes for ten minutes as it was recorded, on a clock that the test moves; the client, the
// Worker and D1 are the real ones. Meanwhile the page is hidden, offline, refused once, and an agent writes too.
import "fake-indexeddb/auto";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { IDBFactory } from "fake-indexeddb";
import { browserEnvironment } from "../../client-sdk/src/browser.ts";
import { WorkspaceClient } from "../../client-sdk/src/index.ts";
import { FakeBrowser, FakeClock, fakePage } from "../../client-sdk/src/testing.ts";
import { ROOT } from "../../tools/wrangler-config.mjs";
import { startCf } from "./support/relays.mjs";
import { PATIENCE } from "./support/waiting.mjs";

/** Not part of the repository; see the licence note in that folder. */
const RECORDED = join(ROOT, "..", "shared", "cases", "trace_single.json");
const TEN_MINUTES = 600_000;
const WINDOW_MS = 500;
/** More than a transaction of a database in memory takes. */
const TURNS = 40;

/** `[ms, [position, deleted, inserted]]` of one person: the recorded ones, or words of seven letters. */
function keystrokes() {
  try {
    const { txns } = JSON.parse(readFileSync(RECORDED, "utf8"));
    return txns.filter(([at]) => at - txns[0][0] < TEN_MINUTES);
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
    return Array.from({ length: 700 }, (_, n) => [Math.floor(n / 7) * 5_900 + (n % 7) * 180, [n, 0, n % 7 === 6 ? " " : "abcdef"[n % 7]]]);
  }
}

/** `fetch` that is done when its answer is whole, so that a clock can wait for it. A stream is never done. */
function countedFetch() {
  const it = { running: 0, isAway: false, refusals: 0 };
  const real = browserEnvironment().fetch;
  it.fetch = async (url, init) => {
    if (it.isAway) throw new TypeError("offline");
    if (url.includes("/stream")) return real(url, init);
    if (it.refusals > 0 && init.method === "POST") {
      it.refusals -= 1;
      return new Response("{}", { status: 503 });
    }
    it.running += 1;
    try {
      const answer = await real(url, { ...init, signal: AbortSignal.any([AbortSignal.timeout(PATIENCE), ...(init.signal ? [init.signal] : [])]) });
      const body = await answer.arrayBuffer();
      return new Response(body.byteLength > 0 ? body : null, { status: answer.status, headers: answer.headers });
    } finally {
      it.running -= 1;
    }
  };
  return it;
}

test("B10 C.30 C.64 ten minutes of typing are in D1 as they were typed, in few writes, whatever happens inside a window", { timeout: 180_000 }, async (t) => {
  const relay = await startCf();
  t.after(() => relay.stop());
  const workspace = await relay.workspace();
  const net = countedFetch();
  const clock = new FakeClock(async () => {
    do for (let n = 0; n < TURNS; n += 1) await turn();
    while (net.running > 0);
  });
  clock.now = Date.now();
  const storage = new IDBFactory();
  const page = fakePage(clock, { ...new FakeBrowser().tab().members(clock), fetch: net.fetch, indexedDB: () => storage });
  const client = new WorkspaceClient({ api: relay.api, workspace: workspace.id, account: "ann", relays: [{ label: relay.label, url: relay.url }], token: () => workspace.apiToken({ sub: "ann", role: "editor" }), environment: page });
  t.after(() => client.close());
  const document = client.openDoc("d");
  await clock.advance(1_000);
  const text = document.doc.getText("t");
  const stored = async () => (await workspace.rest("GET", "/docs/d?root=t", { headers: { accept: "text/plain" } })).text;

  const typed = keystrokes();
  const start = clock.now - typed[0][0];
  let agent = "";
  const happens = {
    // A page that goes away sends at once what waits; so does one that closes.
    [Math.floor(typed.length * 0.3)]: async () => {
      page.change("hidden");
      await clock.advance(0);
      assert.equal(await stored(), text.toString(), "what was typed when the page was hidden");
      page.change("visible");
    },
    [Math.floor(typed.length * 0.5)]: () => {
      net.isAway = true;
      page.change("offline");
    },
    [Math.floor(typed.length * 0.6)]: () => {
      net.isAway = false;
      page.change("online");
    },
    [Math.floor(typed.length * 0.7)]: () => (net.refusals = 1),
    [Math.floor(typed.length * 0.8)]: async () => {
      agent = "<by an agent>";
      assert.equal((await workspace.rest("POST", "/docs/d/edits", { body: { root: "t", edits: [{ op: "append", text: agent }] } })).status, 200);
    },
  };
  let own = "";
  for (const [n, [at, [position, deleted, inserted]]] of typed.entries()) {
    await clock.advance(Math.max(0, start + at - clock.now));
    await happens[n]?.();
    // Positions are of the person's own text: wherever the agent's words came to stand, they are stepped over.
    const words = agent === "" ? -1 : text.toString().indexOf(agent);
    const place = position + (words >= 0 && words < position ? agent.length : 0);
    document.doc.transact(() => {
      if (deleted > 0) text.delete(place, deleted);
      if (inserted !== "") text.insert(place, inserted);
    });
    own = own.slice(0, position) + inserted + own.slice(position + deleted);
  }
  await clock.advance(60_000);
  const { clock: receipt } = await document.flush(AbortSignal.timeout(PATIENCE));
  assert.deepEqual([net.refusals, document.status.save], [0, "saved"]);

  const head = await workspace.head();
  const { changes } = (await workspace.rest("GET", "/changes?since=0&limit=1000")).json;
  const writes = changes.filter(({ actor }) => actor === "ann").length;
  assert.ok(receipt > 0 && receipt <= head);
  assert.equal((await stored()).replace(agent, ""), own, "each keystroke, once");
  assert.equal((await stored()).split(agent).length, 2, "and the agent's words");
  await clock.advance(60_000);
  assert.equal(text.toString(), await stored(), "the page has what D1 has");
  let [windows, open] = [0, -Infinity];
  for (const [at] of typed) if (at >= open + WINDOW_MS) [windows, open] = [windows + 1, at];
  const minutes = (typed.at(-1)[0] - typed[0][0]) / 60_000;
  t.diagnostic(`${typed.length} keystrokes in ${minutes.toFixed(1)} min: ${writes} writes, ${(typed.length / writes).toFixed(1)} keystrokes in each; windows of ${WINDOW_MS} ms: ${windows}`);
  assert.ok(writes < windows && writes <= (minutes * 60_000) / 250);
});
