import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import type { Answer } from "./api_client.ts";
import { createLog } from "./log.ts";
import { Metrics } from "./metrics.ts";
import { type KeptUpdate, Spool } from "./spool.ts";
import { SpoolDrain } from "./spool_drain.ts";
import type { Append } from "./storage.ts";

const log = createLog("deno", () => {});

function inFolder(name: string, test: (folder: string) => void | Promise<void>): void {
  Deno.test(name, async () => {
    const folder = Deno.makeTempDirSync({ dir: ".", prefix: "spool-test-" });
    try {
      await test(folder);
    } finally {
      Deno.removeSync(folder, { recursive: true });
    }
  });
}

function kept(number: number, changes: Partial<KeptUpdate> = {}): KeptUpdate {
  const update = new Uint8Array([number]);
  return { room: 1, workspace: "w", document: "d", epoch: 3, author: "ann", number, update, ...changes };
}

/** What the next run of the process finds. */
function leftIn(folder: string): number[][] {
  const spool = new Spool(folder, log);
  const left = spool.groups().map((group) =>
    [...spool.rows(group, 1e6)?.updates ?? []].map(([byte]) => byte ?? -1)
  );
  spool.close();
  return left;
}

inFolder("D6 the next run finds what was kept and not released, in order", (folder) => {
  const spool = new Spool(folder, log);
  for (let number = 1; number <= 5; number += 1) spool.keep(kept(number));
  spool.flush();
  spool.release(1, "w", "d", 2);
  spool.release(1, "w", "other", 5);
  spool.release(2, "w", "d", 5);
  assert.deepEqual(spool.groups(), [], "a room of this run saves its own");
  spool.close();
  assert.deepEqual(leftIn(folder), [[3, 4, 5]]);
});

inFolder("a room that has something is asked once a batch, and before the end", (folder) => {
  const spool = new Spool(folder, log);
  let [asked, next] = [0, 1];
  const room = {
    spool: () => {
      asked += 1;
      spool.keep(kept(next++));
    },
  };
  spool.gather(room);
  spool.gather(room);
  assert.equal(asked, 0);
  spool.flush();
  spool.flush();
  assert.equal(asked, 1);
  spool.gather(room);
  spool.close();
  spool.gather(room);
  assert.deepEqual([asked, leftIn(folder)], [2, [[1, 2]]]);
});

inFolder("what is released before it is written is never written", (folder) => {
  const spool = new Spool(folder, log);
  spool.keep(kept(1));
  spool.keep(kept(2));
  spool.keep(kept(1, { document: "e" }));
  spool.release(1, "w", "d", 1);
  spool.close();
  spool.keep(kept(3));
  spool.release(1, "w", "d", 3);
  assert.deepEqual(leftIn(folder), [[2], [1]], "and nothing after the close");
});

inFolder("the file has a write-ahead log", (folder) => {
  new Spool(folder, log).close();
  const database = new DatabaseSync(`${folder}/spool.sqlite`);
  assert.equal(database.prepare("PRAGMA journal_mode").get()?.["journal_mode"], "wal");
  database.close();
});

inFolder("a second process is told who has it, and a folder that is none is named", (folder) => {
  const spool = new Spool(folder, log);
  assert.throws(() => new Spool(folder, log), /another process has the spool open/);
  spool.close();
  new Spool(folder, log).close();
  Deno.writeTextFileSync(`${folder}/file`, "");
  assert.throws(() => new Spool(`${folder}/file`, log), /RELAY_SPOOL_DIR/);
});

inFolder("rows of another author, epoch or document do not mix, and large groups are cut", (folder) => {
  const first = new Spool(folder, log);
  const rows = [
    kept(1),
    kept(2, { author: "bob" }),
    kept(3),
    kept(4, { epoch: undefined }),
    kept(5, { document: "e" }),
    kept(6, { update: new Uint8Array(100).fill(6) }),
  ];
  for (const row of rows) first.keep(row);
  first.close();
  const spool = new Spool(folder, log);
  const groups = spool.groups();
  assert.deepEqual(groups.map(({ document, epoch, author }) => [document, epoch, author]), [
    ["d", 3, "ann"],
    ["d", 3, "bob"],
    ["d", undefined, "ann"],
    ["e", 3, "ann"],
  ]);
  const [group] = groups;
  assert.ok(group);
  assert.deepEqual(spool.rows(group, 50)?.updates.map((update) => update.length), [1, 1]);
  assert.deepEqual(spool.rows(group, 0)?.updates.map((update) => update.length), [1]);
  assert.deepEqual(spool.rows(group, 1e6)?.updates.map((update) => update.length), [1, 1, 100]);
  spool.close();
});

/** Drains what an earlier run left, against answers given by status and code. */
async function drain(folder: string, answers: ([number, string] | undefined)[]) {
  const sent: Append[] = [];
  const spool = new Spool(folder, log);
  const metrics = new Metrics();
  const work = new SpoolDrain({
    spool,
    send: (append) => {
      sent.push(append);
      const answer = answers[Math.min(sent.length, answers.length) - 1];
      if (!answer) return Promise.resolve(undefined);
      const [status, code] = answer;
      return Promise.resolve(
        { status, code, headers: new Headers(), body: new Uint8Array() } satisfies Answer,
      );
    },
    merge: (updates) => Uint8Array.from(updates.flatMap((update) => [...update])),
    log,
    metrics,
    retry: { min: 1, max: 2 },
  });
  await work.run();
  const counts = spool.counts();
  spool.close();
  return { sent, metrics, counts };
}

inFolder("D6 the drain sends merged rows, and rows that are saved are gone", async (folder) => {
  const spool = new Spool(folder, log);
  for (let number = 1; number <= 3; number += 1) spool.keep(kept(number));
  spool.keep(kept(4, { author: "bob" }));
  spool.close();
  const { sent, metrics, counts } = await drain(folder, [[201, ""]]);
  assert.deepEqual(sent.map(({ author, update }) => [author, ...update]), [["ann", 1, 2, 3], ["bob", 4]]);
  assert.deepEqual([counts, metrics.spoolSent], [{ kept: 0, refused: 0 }, 4]);
});

inFolder(
  "a row that cannot be sent now is sent again under the same key, and holds up no other",
  async (folder) => {
    const spool = new Spool(folder, log);
    spool.keep(kept(1));
    spool.keep(kept(2, { document: "e" }));
    spool.close();
    const { sent, counts } = await drain(folder, [undefined, [201, ""], [503, "storage_unavailable"], [
      404,
      "",
    ], [200, ""]]);
    assert.deepEqual(sent.map(({ document }) => document), ["d", "e", "d", "d", "d"]);
    assert.equal(new Set(sent.filter(({ document }) => document === "d").map(({ key }) => key)).size, 1);
    assert.notEqual(sent[0]?.key, sent[1]?.key);
    assert.deepEqual(counts, { kept: 0, refused: 0 });
  },
);

inFolder("what the API refuses for good is put aside, and the rest goes on", async (folder) => {
  const spool = new Spool(folder, log);
  spool.keep(kept(1));
  spool.keep(kept(2, { document: "e" }));
  spool.close();
  const { sent, counts, metrics } = await drain(folder, [[409, "epoch_changed"], [201, ""]]);
  assert.equal(sent.length, 2);
  assert.deepEqual([counts, metrics.spoolRefused, metrics.spoolSent], [{ kept: 0, refused: 1 }, 1, 1]);
});

inFolder(
  "a room that ended without saving is drained in the same run, other rooms are not",
  async (folder) => {
    const spool = new Spool(folder, log);
    spool.keep(kept(1));
    spool.keep(kept(2, { room: 2 }));
    spool.abandon(1);
    const sent: Append[] = [];
    const send = (append: Append) => {
      sent.push(append);
      return Promise.resolve({ status: 200, code: "", headers: new Headers(), body: new Uint8Array() });
    };
    const merge = (updates: Uint8Array[]) => updates[0] ?? new Uint8Array();
    await new SpoolDrain({ spool, send, merge, log, metrics: new Metrics() }).run();
    assert.deepEqual(sent.map(({ update }) => [...update]), [[1]]);
    assert.deepEqual(spool.counts().kept, 1);
    spool.close();
  },
);

inFolder(
  "on a full disk what is sent is sent again under the same key, and holds up no other",
  async (folder) => {
    const first = new Spool(folder, log);
    first.keep(kept(1));
    first.keep(kept(2, { document: "e" }));
    first.close();
    const spool = new Spool(folder, log);
    let isFull = true;
    spool.saved = (group, rows) => !isFull && Spool.prototype.saved.call(spool, group, rows);
    const sent: Append[] = [];
    const metrics = new Metrics();
    const send = (append: Append) => {
      sent.push(append);
      isFull = sent.length < 4;
      return Promise.resolve({ status: 200, code: "", headers: new Headers(), body: new Uint8Array() });
    };
    const merge = (updates: Uint8Array[]) => updates[0] ?? new Uint8Array();
    await new SpoolDrain({ spool, send, merge, log, metrics, retry: { min: 1, max: 2 } }).run();
    assert.deepEqual(sent.map(({ document }) => document), ["d", "e", "d", "e", "d"]);
    assert.equal(new Set(sent.map(({ key }) => key)).size, 2);
    assert.deepEqual([spool.counts().kept, metrics.spoolSent], [0, 2]);
    spool.close();
  },
);

inFolder("a room that ended while nothing could be written is drained when that is over", (folder) => {
  const events: string[] = [];
  const spool = new Spool(folder, createLog("deno", (line) => events.push(JSON.parse(line).event)));
  spool.onRecovered = () => events.push(`${spool.groups().length} groups`);
  // No integer: the table refuses it, and with it the whole transaction.
  spool.keep(kept(1, { document: "e", epoch: 0.5 }));
  spool.keep(kept(2));
  spool.abandon(1);
  assert.equal(spool.flush(), false);
  assert.deepEqual([events, spool.groups(), spool.healthy], [["spool_failed"], [], false], "told once");
  spool.release(1, "w", "e", 1);
  assert.equal(spool.flush(), true);
  assert.deepEqual([events, spool.healthy], [["spool_failed", "spool_recovered", "1 groups"], true]);
  spool.close();
});
