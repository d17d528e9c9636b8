// S05: readers of the change stream that vanish without a word, or stay and do not read. The stream
// has to end by itself, and hold neither D1 nor the room.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { startStack } from "../../tools/stack.mjs";
import { Api, tap } from "./support/http.mjs";
import { openSocket, openStream } from "./support/stream.mjs";
import { startGate } from "./support/tcp-gate.mjs";
import { sleep, until } from "./support/waiting.mjs";

const ENTRY = join(import.meta.dirname, "support", "d1-tap.mjs");
/** Longer than the longest pause between two reads of a stream that polls, in ms. */
const WINDOW = 6_000;
/** Longer than a stream may live, in ms: 5 minutes, and a tenth for jitter. */
const LIFETIME = 6 * 60_000;
/** Longer than a reader may take nothing, in ms. */
const STALLED = 90_000;
/** Longer than the Worker sleeps between two looks at the clock, in ms. */
const LOOK = 45_000;

// One at a time: they set the clock ahead for all, and count everything in D1.
describe("readers that are gone", { concurrency: 1, timeout: 180_000 }, () => {
  let api;
  let d1;
  let gate;
  before(async () => {
    api = new Api(await startStack({ entry: ENTRY }));
    d1 = tap(api);
    gate = await startGate(api.stack.url);
  });
  after(async () => {
    await gate?.stop();
    await api?.finish();
  });

  /** A reader whose token outlasts what the clock is set ahead. */
  const reading = (workspace) => api.actor("reader", "agent", { [workspace]: "viewer" }, { ttl: 24 * 3600 });
  /** The same behind the gate. */
  const gated = (workspace) => new Api({ ...api.stack, url: gate.url }, reading(workspace).token, api.seen);

  test("s05 readers whose network died: their streams end with their lifetime and stop reading D1", async () => {
    const owner = await api.workspace("silent");
    await api.workspace("silent-live");
    const person = await openSocket(api, "silent-live", "d");
    const polling = await Promise.all(Array.from({ length: 10 }, () => openStream(gated("silent"), "silent", { query: "since=0" })));
    const bridged = await Promise.all(Array.from({ length: 5 }, () => openStream(gated("silent-live"), "silent-live", { query: "since=0" })));
    await owner.put("/api/workspaces/silent/nodes/a", 0);
    await Promise.all(polling.map((reader) => reader.changes(1)));
    await until(async () => (await d1.sockets("silent-live")) === 6, "five bridges and a person");
    gate.silence();
    assert.equal(gate.count(), 15);
    await d1.counts();
    await sleep(WINDOW);
    assert.ok((await d1.counts()).batches >= 10, "nobody told the Worker, and its streams read on");
    await d1.advance(LIFETIME);
    await until(() => gate.count() === 0, "all streams have ended", LOOK);
    assert.equal(await until(() => d1.sockets("silent-live"), "the room"), 1, "the bridges are closed");
    await d1.counts();
    await sleep(WINDOW);
    assert.equal((await d1.counts()).batches, 0);
    for (const reader of [...polling, ...bridged]) reader.close();
    person.close();
  });

  test("s05 a reader that stays and does not read is given up, and holds no bridge to the room", async (t) => {
    const owner = await api.workspace("stalled");
    await owner.put("/api/workspaces/stalled/nodes/a", 0);
    // More than all the buffers between the Worker and a reader take: 40 MB.
    const rows = 80_000;
    await d1.sql(
      `WITH RECURSIVE n(clock) AS (SELECT 2 UNION ALL SELECT clock + 1 FROM n WHERE clock < ${rows})
       INSERT INTO change_log (workspace, clock, kind, path, actor, at) SELECT 'stalled', clock, 'put', ?1, 'x', 1 FROM n`,
      "p".repeat(400),
    );
    const person = await openSocket(api, "stalled", "d");
    const reader = await openStream(reading("stalled"), "stalled", { query: "since=0" });
    await reader.changes(1);
    reader.fallSilent();
    await until(async () => (await d1.sockets("stalled")) === 2, "a bridge and a person");
    // It reads page after page until its reader's buffers are full, then no more.
    await until(async () => {
      await d1.counts();
      await sleep(2_000);
      return (await d1.counts()).batches === 0;
    }, "the stream waits for its reader", 60_000);
    // A buffer that finds room for a little more lets the stream go on, and its time starts again.
    const isClosed = async () => (await d1.sockets("stalled")) === 1;
    for (let attempt = 1; attempt <= 4 && !(await isClosed()); attempt += 1) {
      await d1.advance(STALLED);
      await until(isClosed, "the bridge is closed", LOOK).catch(() => {});
      t.diagnostic(`attempt ${attempt}: ${await d1.sockets("stalled")} sockets, ${(await d1.counts()).batches} reads`);
    }
    assert.equal(await d1.sockets("stalled"), 1, "the bridge is closed");
    // Who wakes up reads what was on its way, then the end, and resumes where it was.
    reader.socket.resume();
    await reader.ended;
    const last = reader.pending.filter(({ event }) => event === "change").at(-1);
    assert.ok(Number(last.id) < rows, `it was stopped at ${last.id}`);
    const again = await openStream(reading("stalled"), "stalled", { lastEventId: last.id });
    assert.equal((await again.changes(1))[0].id, String(Number(last.id) + 1));
    again.close();
    person.close();
  });
});
