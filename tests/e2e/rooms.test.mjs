// A hundred workspaces at once (A.1): each is a room of its own, which costs the same however many there are, asks
// storage for its own document once, and is gone when its people are.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { commanded, startBothFaulty } from "./support/faults.mjs";
import { STEP_1, docAt, isStep2, isUpdate, textUpdate, updateFrame } from "./support/frames.mjs";
import { readMetrics } from "./support/metrics.mjs";
import { verified } from "./support/verified.mjs";
import { until } from "./support/waiting.mjs";

const MIB = 1024 * 1024;
/** Rooms of a row, and how many are there when counting begins: what a runtime takes once comes first. */
const [ROOMS, FIRST] = [100, 10];
/** How many come at once, so that a small machine is not what is measured. */
const AT_ONCE = 10;
/** What a room of two people may cost, in bytes; 0.7 MiB were seen, most of it the runtime's own for what was asked. */
const ROOM_BYTES = MIB;
/** What a runtime's own heap comes and goes by, in bytes. */
const NOISE = 24 * MIB;
/** The reads of whole documents: those past a clock begin with that clock. */
const LOAD = { on: "d1", match: "ORDER BY clock, part LIMIT 256 -- 0 ", how: "pass" };
/** The letters of the document before anybody comes, and those that the two people write. */
const [STORED, WRITTEN] = [5, [30, 400]];

describe("a hundred workspaces", { concurrency: 1, timeout: 240_000, skip: process.platform !== "linux" && "reads /proc" }, () => {
  let dataDir;
  let both;
  before(async () => {
    dataDir = mkdtempSync(join(tmpdir(), "yrelay-rooms-"));
    both = await startBothFaulty({ dataDir, onLog: () => {}, relay: { onLog: () => {} } });
  });
  after(async () => {
    await both?.deno.process.stop();
    await both?.cf.stop();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });

  /** A workspace with a stored document; no other has updates of these Yjs clients. */
  async function stored(relay, n) {
    const workspace = await relay.workspace(`${relay.label}-${n}`);
    const clients = [1, 2, 3].map((client) => 1_000 * (n + 1) + client);
    const headers = { "content-type": "application/octet-stream" };
    const made = await workspace.rest("POST", "/docs/d/updates", { body: textUpdate(clients[0], STORED), headers });
    assert.equal(made.status, 201, made.text);
    return Object.assign(workspace, { clients });
  }

  /** Two people who write in it, each until it is saved and at the other. */
  async function inhabited(workspace) {
    const people = await Promise.all(["ann", "ben"].map((sub) => workspace.connect("d", { sub })));
    for (const person of people) {
      person.send(STEP_1);
      await person.next(isStep2, "the document");
    }
    for (const [n, person] of people.entries()) {
      person.send(updateFrame(textUpdate(workspace.clients[1 + n], WRITTEN[n])));
      await people[1 - n].next(isUpdate, "the other's update");
      assert.equal((await person.settled()).type, "receipt");
    }
    return people;
  }

  for (const label of ["cf", "deno"]) {
    test(`A.1 D3 ${ROOMS} rooms on ${label}: memory by room, each loads its own, and all of them end`, async (t) => {
      const relay = both[label];
      const d1 = commanded(both.cf);
      const resident = () => {
        const pid = relay.process?.pid ?? relay.stack.pids.workerd;
        return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) * 1024;
      };
      const workspaces = [];
      while (workspaces.length < ROOMS) workspaces.push(...(await Promise.all(Array.from({ length: AT_ONCE }, (_, n) => stored(relay, workspaces.length + n)))));
      await d1.faults(LOAD);
      const [people, sizes] = [[], []];
      for (let n = 0; n < ROOMS; n += AT_ONCE) {
        people.push(...(await Promise.all(workspaces.slice(n, n + AT_ONCE).map(inhabited))).flat());
        sizes.push(resident());
      }
      const [loads] = await d1.hits();
      const [first, half, last] = [FIRST, (FIRST + ROOMS) / 2, ROOMS].map((rooms) => sizes[Math.ceil(rooms / AT_ONCE) - 1]);
      const grown = last - first;
      t.diagnostic(`${ROOMS} rooms, ${loads} loads; ${sizes.map((size) => Math.round(size / MIB)).join(", ")} MiB: ${Math.round(grown / (ROOMS - FIRST) / 1024)} KiB a room`);
      assert.ok(grown < (ROOMS - FIRST) * ROOM_BYTES, `${Math.round(grown / MIB)} MiB for ${ROOMS - FIRST} rooms`);
      assert.ok(last - half < half - first + NOISE, "a room costs no more where there are many");
      // A feed that opens during a load may make a room of the Deno relay ask for the same once more.
      assert.ok(loads >= ROOMS && loads <= (label === "cf" ? ROOMS : 2 * ROOMS), `${loads} loads of ${ROOMS} documents`);
      assert.deepEqual(people.filter(({ closed }) => closed), []);
      const inside = async () => (await Promise.all(workspaces.map((workspace) => workspace.inspect()))).map(({ clients }) => clients);
      assert.deepEqual(new Set(await inside()), new Set([2]));
      for (const [n, { clients }] of workspaces.entries()) {
        for (const person of people.slice(2 * n, 2 * n + 2)) {
          const heard = [...docAt(person, (hex) => isStep2(hex) || isUpdate(hex)).store.clients.keys()];
          assert.deepEqual(heard.filter((client) => !clients.includes(client)), [], "nothing of another room");
          assert.ok(heard.length > 1, "what was stored, and what the other one wrote");
        }
      }
      const texts = await Promise.all(workspaces.map((workspace) => workspace.text()));
      assert.deepEqual(new Set(texts.map((text) => text.length)), new Set([STORED + WRITTEN[0] + WRITTEN[1]]));

      await Promise.all(people.map((person) => person.close()));
      await until(async () => (await inside()).every((clients) => clients === 0), "all rooms are empty");
      if (relay.process) {
        await until(async () => (await readMetrics(relay.process.http)).gauge("rooms") === 0, "no room is left");
      } else {
        await until(async () => (await d1.sql("SELECT count(*) AS n FROM workspaces WHERE live_until > 0"))[0].n === 0, "nobody is to be told of changes any more");
      }
    });
  }

  test("A.1 the database of all of them is whole", () => verified(dataDir));
});
