// What a hostile peer may cost in memory, as the operating system counts it (R10, P02). One test at a
// time, since they count everything that their relay's process has.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { FrameClient } from "./support/frame-client.mjs";
import { HI, STEP_1, isStep1, isUpdate, named, textAt, textUpdate, updateFrame } from "./support/frames.mjs";
import { RELAYS } from "./support/relays.mjs";
import { until, within } from "./support/waiting.mjs";

const MIB = 1024 * 1024;
/** What a runtime's own heap comes and goes by under load, in bytes (seen here: 25 MiB). */
const NOISE = 96 * MIB;
/** Connections of a room and of one subject in it, topics of a connection (docs/PROTOCOL.md). */
const [MAX_CONNECTIONS, MAX_OF_SUBJECT, MAX_TOPICS] = [512, 64, 32];
/** Query awareness (F08): makes a connection a member without asking for the document. */
const QUERY = named("F08").frame;

for (const { label, start } of RELAYS) {
  describe(`memory of relay ${label}`, { concurrency: 1, timeout: 400_000, skip: process.platform !== "linux" && "reads /proc" }, () => {
    let relay;
    before(async () => {
      relay = await start();
    });
    after(() => relay?.stop());

    /** Resident bytes of the relay's process. */
    function resident() {
      const pid = relay.process?.pid ?? relay.stack.pids.workerd;
      return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) * 1024;
    }

    test("R10 connections that do not read cost a bounded queue each; the others get everything", async (t) => {
      const workspace = await relay.workspace();
      // The same update again and again: the document stays small, what is relayed does not.
      const frame = updateFrame(textUpdate(9, 200_000));
      const [writer, reader] = [await workspace.connect(), await workspace.connect()];
      for (const client of [writer, reader]) {
        client.send(QUERY);
        await client.settled();
      }
      let sent = 0;
      let highest = 0;
      const send = async (updates) => {
        for (let n = 0; n < updates; n += 1) {
          writer.send(updateFrame(textUpdate(1_000 + (sent += 1), 1)));
          writer.send(frame);
          // A hot room merges what comes within its window: the next one waits until this one is out.
          await reader.next((hex) => hex.length > 2 * 200_000, "the update at the reader");
          highest = Math.max(highest, resident());
        }
      };
      // What the traffic itself costs comes first.
      await send(100);
      const before = highest;
      const sleepers = [];
      for (let n = 0; n < 16; n += 1) {
        const sleeper = await workspace.connect("d", { sub: `sleeper-${n}` });
        sleeper.send(QUERY);
        await sleeper.settled();
        sleeper.socket._socket.pause();
        sleepers.push(sleeper);
      }
      await send(150);
      t.diagnostic(`${Math.round(before / MIB)} MiB, then ${Math.round(highest / MIB)} MiB at most, after ${sent} updates of 200 kB`);
      // Without a bound it would be 16 times 30 MB; with it it is 16 times 4 MiB.
      assert.ok(highest - before < 16 * 4 * MIB + NOISE, `${Math.round((highest - before) / MIB)} MiB more`);
      // A hot room merges updates, so what counts is the text.
      await until(() => textAt(reader).length === 200_000 + sent, "every update at the reader");
      for (const sleeper of sleepers) sleeper.socket._socket.resume();
      assert.deepEqual([...new Set((await Promise.all(sleepers.map((sleeper) => sleeper.closing()))).map(({ code }) => code))], [1013]);
      for (const client of [writer, reader]) assert.equal(client.closed, undefined);
    });

    test("A.18 P02 topics by the hundred thousand, from as many connections as a room takes, are freed", async (t) => {
      const [workspace, other] = [await relay.workspace(), await relay.workspace()];
      const [a, b] = [await other.connect("d", { sub: "ann" }), await other.connect("d", { sub: "bob" })];
      for (const client of [a, b]) {
        client.send(STEP_1);
        await client.next(isStep1);
        client.say({ type: "subscribe", topics: ["mine"] });
        await client.settled();
      }
      const clients = [];
      for (let subject = 0; clients.length < MAX_CONNECTIONS; subject += 1) {
        const token = await workspace.scope({ sub: `s${subject}` });
        const open = () => FrameClient.open(`${workspace.url("d")}?token=${token}`);
        clients.push(...(await Promise.all(Array.from({ length: MAX_OF_SUBJECT }, open))).map((client) => relay.opened(client)));
      }
      await assert.rejects(workspace.connect(), (error) => error.status === 429);
      const counted = (client, type) => client.texts.filter((text) => JSON.parse(text).type === type).length;
      let topics = 0;
      /** Every connection takes as many topics as it may, one more, and leaves them. */
      const round = async () => {
        await Promise.all(clients.map(async (client) => {
          const names = Array.from({ length: MAX_TOPICS + 1 }, () => `${(topics += 1)}`.padStart(60, "t"));
          client.say({ type: "subscribe", topics: names.slice(0, -1) });
          client.say({ type: "subscribe", topics: names.slice(-1) });
          const refused = await client.nextText(({ type }) => type === "error", "the answer to one topic too many");
          assert.equal(refused.code, "too_many_topics");
          client.say({ type: "publish", topic: names.at(-1), data: 1 });
          client.say({ type: "publish", topic: "mine", data: 1 });
          client.say({ type: "unsubscribe", topics: names });
          await client.settled();
          assert.equal(counted(client, "publish"), 0, "nobody publishes where it is not subscribed");
          client.forgetTexts();
        }));
      };
      for (let n = 0; n < 5; n += 1) await round();
      const before = resident();
      while (topics < 600_000) await round();
      const grown = resident() - before;
      t.diagnostic(`${topics} topics; ${Math.round(before / MIB)} MiB, ${Math.round(grown / MIB)} MiB more at the end`);
      // Kept, their names alone would be 33 MB, and what holds them as much again.
      assert.ok(grown < 48 * MIB, `${Math.round(grown / MIB)} MiB more`);
      a.say({ type: "publish", topic: "mine", data: 2 });
      assert.deepEqual((await b.nextText(({ type }) => type === "publish")).data, 2, "another workspace heard nothing else");
      a.send(HI);
      assert.equal(await b.next(isUpdate), HI);
      await within(Promise.all(clients.map((client) => client.close())), "all leave");
      await until(async () => (await workspace.inspect()).clients === 0, "the room is empty");
    });
  });
}
