// A whole session through the Durable Object: three stock clients replay it, each its author's part, as
// fast as it goes and with lost connections, while a stream follows and another relay's part, the
// compaction, happens underneath.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as breathe } from "node:timers/promises";
import * as Y from "yjs";
import { startFaulty } from "./support/faults.mjs";
import { loadSession, replay, sha256 } from "./support/session.mjs";
import { stockClient } from "./support/stock-client.mjs";
import { until } from "./support/waiting.mjs";

const DOCUMENT = "notes/session";
/** A flush is asked for each so many rows, so that the document is compacted during the session. */
const FLUSHES = 80;
/** Times that each author loses the connection, and rows written meanwhile. */
const OUTAGES = 2;
const OFFLINE_ROWS = 40;
/** How long an author may wait for what the others wrote, in ms. */
const ROW_LIMIT = 60_000;

test("a recorded session of three authors converges live, over REST and in the feed", async (t) => {
  const session = loadSession();
  const { updates, needs, rowsOf, text } = replay(session);
  const hash = session.endTextSha256 ?? sha256(text);
  assert.equal(sha256(text), hash, "the replay itself");
  t.diagnostic(`${session.source} session, ${updates.length} rows`);
  const relay = await startFaulty();
  try {
    const workspace = await relay.workspace();
    const stream = workspace.stream();
    const flusher = await workspace.connect(DOCUMENT, { sub: "flusher" });
    const authors = await Promise.all(rowsOf.map((_, agent) => stockClient(workspace, { document: DOCUMENT, sub: `author-${agent}` })));
    let written = 0;
    const isReady = (doc, row) => needs[row].every((clock, of) => Y.getState(doc.store, of + 1) >= clock);
    const write = (doc, row) => {
      Y.applyUpdate(doc, updates[row], "session");
      written += 1;
      if (written % Math.ceil(updates.length / FLUSHES) === 0) flusher.say({ type: "flush", id: written });
    };
    await Promise.all(authors.map(async ({ doc, provider }, agent) => {
      const rows = rowsOf[agent];
      const outages = new Set(Array.from({ length: OUTAGES }, (_, n) => Math.floor((rows.length * (n + 1)) / (OUTAGES + 1))));
      for (let at = 0; at < rows.length; at += 1) {
        if (outages.delete(at)) {
          provider.disconnect();
          for (const end = at + OFFLINE_ROWS; at < Math.min(end, rows.length - 1) && isReady(doc, rows[at]); at += 1) write(doc, rows[at]);
          provider.connect();
          await until(() => provider.synced, `author ${agent} is synced again`);
        }
        if (!isReady(doc, rows[at])) await until(() => isReady(doc, rows[at]), `what row ${rows[at]} builds on, at author ${agent}`, ROW_LIMIT);
        write(doc, rows[at]);
        if (at % 16 === 0) await breathe();
      }
    }));
    for (const { doc } of authors) {
      await until(() => sha256(doc.getText("t").toString()) === hash, "an author's text at the end");
      assert.equal(doc.store.pendingStructs, null);
    }
    for (const author of authors) {
      assert.equal(author.connects, 1 + OUTAGES, "no reconnect but ours");
      assert.deepEqual(author.texts, [], "W1: a stock client never sees JSON");
      author.destroy();
    }
    await flusher.settled();
    await flusher.close();
    await until(async () => (await workspace.inspect()).clients === 0, "every socket is closed");
    await until(async () => sha256((await workspace.text(DOCUMENT)) ?? "") === hash, "the text over REST");

    const [node] = await relay.sql("SELECT parts, base FROM nodes WHERE workspace = ? AND path = ?", workspace.id, DOCUMENT);
    const [{ rows }] = await relay.sql("SELECT COUNT(*) AS rows FROM doc_updates WHERE workspace = ?", workspace.id);
    assert.ok(node.base > 0, "the document was compacted along the way");
    assert.equal(node.parts, rows);
    const head = await workspace.head();
    assert.ok(rows < head, `${rows} rows stored of ${head} appended`);
    await stream.reaches(head);
    assert.deepEqual(stream.clocks, Array.from({ length: head }, (_, index) => index + 1), "every clock once, in order");
    t.diagnostic(`${head} changes, ${rows} rows stored, compacted up to ${node.base}`);
  } finally {
    await relay.stop();
  }
});
