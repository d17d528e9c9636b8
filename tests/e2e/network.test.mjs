// Networks that are slow, that break in the middle of a frame, and that die without a word, before both
// relays and between a relay and its API: everybody ends with the same, each word once, receipts kept.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { person } from "./support/person.mjs";
import { startAnother, startBoth } from "./support/relays.mjs";
import { startGate } from "./support/tcp-gate.mjs";
import { reconnects, verified } from "./support/verified.mjs";
import { PATIENCE, sleep, until } from "./support/waiting.mjs";

/** How long each kind of network lasts, in s. */
const SECONDS = Number(process.env.YRELAY_NETWORK_SECONDS ?? 2);
const KEYSTROKE_MS = 60;
/** Between two breaks, in ms: people are back and type in between. */
const CUT_EVERY = 600;
/** A phone at the edge of a cell. */
const SLOW = { delayMs: 150 };
const NARROW = { bytesPerSecond: 12_000 };
/** A backoff that fits into a short test. */
const TIMES = { baseMs: 200, heartbeatMs: 700 };

describe("network", { concurrency: true }, () => {
  let dataDir;
  let cf;
  let deno;
  before(async () => {
    dataDir = mkdtempSync(join(tmpdir(), "yrelay-network-"));
    ({ cf, deno } = await startBoth({ dataDir, relay: { onLog: () => {} } }));
  });
  after(async () => {
    await deno?.stop();
    await cf?.stop();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });

  async function gated(t, address) {
    const gate = await startGate(address.replace(/^ws/, "http"));
    t.after(() => gate.stop());
    return { gate, url: `${gate.url.replace(/^http/, "ws")}/ws` };
  }

  function come(t, { label }, workspace, sub, url) {
    const one = person({ seed: cf.stack.secrets.SCOPE_SIGNING_KEY, workspace: workspace.id, sub, relays: [{ label, url }], times: TIMES });
    t.after(() => one.stop());
    const words = [];
    const say = () => {
      const word = `<${sub}.${words.length}>`;
      words.push(word);
      one.type(word);
    };
    return Object.assign(one, { words, say });
  }

  const sorted = (text) => (text.match(/<[^<>]*>/g) ?? []).toSorted();
  const wordsOf = (people) => people.flatMap(({ words }) => words).toSorted();

  /** Everybody has every word once, in the same order, and so has the database. */
  async function converged(people, workspace) {
    const wanted = wordsOf(people);
    await until(() => people.every((one) => sorted(one.text()).length >= wanted.length), "every word is at everybody", 2 * PATIENCE);
    await Promise.all(people.map(({ provider }) => provider.flush(AbortSignal.timeout(2 * PATIENCE))));
    const [text] = new Set(people.map((one) => one.text()));
    assert.deepEqual(sorted(text), wanted, "each once");
    assert.deepEqual([...new Set([...people.map((one) => one.text()), await workspace.text()])], [text]);
    await verified(dataDir);
  }

  /** Asks for one receipt after another; at each, what had been typed when it was asked for is in the database. */
  async function honoured(one, workspace, isOver) {
    let receipts = 0;
    for (; !isOver(); receipts += 1) {
      const typed = one.words.length;
      await one.provider.flush(AbortSignal.timeout(2 * PATIENCE));
      const stored = new Set(sorted((await workspace.text()) ?? ""));
      assert.deepEqual(one.words.slice(0, typed).filter((word) => !stored.has(word)), [], "a receipt for what is stored");
      await sleep(300);
    }
    return receipts;
  }

  for (const label of ["cf", "deno"]) {
    test(`N01 D3 a slow, a narrow and a breaking network before ${label}`, { timeout: SECONDS * 3000 + 120_000 }, async (t) => {
      const relay = label === "cf" ? cf : deno;
      const workspace = relay.sharing(await cf.workspace());
      const { gate, url } = await gated(t, relay.url);
      const away = ["ann", "ben"].map((sub) => come(t, relay, workspace, sub, url));
      const people = [...away, come(t, relay, workspace, "cat", relay.url)];
      await until(() => people.every((one) => one.synced()), "all are in");
      let isOver = false;
      const receipts = people.map((one) => honoured(one, workspace, () => isOver));
      const typing = setInterval(() => people.forEach((one) => one.say()), KEYSTROKE_MS);
      t.after(() => clearInterval(typing));
      for (const shape of [SLOW, NARROW]) {
        gate.shape(shape);
        await sleep(SECONDS * 1000);
      }
      gate.shape({ delayMs: 20 });
      let cuts = 0;
      const end = Date.now() + SECONDS * 1000;
      for (let n = 0; Date.now() < end; n += 1) {
        cuts += gate.cut(n % 2 ? "down" : "up");
        await sleep(CUT_EVERY);
      }
      clearInterval(typing);
      isOver = true;
      gate.shape();
      const counts = await Promise.all(receipts);
      await converged(people, workspace);
      const closes = away.flatMap((one) => one.closes);
      assert.ok(cuts > 2 && closes.length > 2, `${cuts} cuts, ${closes.length} closes`);
      assert.deepEqual([...new Set(closes)], [1006], "nobody was told anything");
      assert.deepEqual(people[2].closes, [], "who is not behind that network noticed nothing");
      assert.ok(counts.every((count) => count > 0));
      t.diagnostic(`${wordsOf(people).length} words, ${cuts} cuts, receipts ${counts.join(", ")}; ${reconnects(closes)}`);
    });

    test(`B01 a connection to ${label} that dies without a word is left for a new one, and its late end changes nothing`, async (t) => {
      const relay = label === "cf" ? cf : deno;
      const workspace = relay.sharing(await cf.workspace());
      const { gate, url } = await gated(t, relay.url);
      const [ann, ben] = [come(t, relay, workspace, "ann", url), come(t, relay, workspace, "ben", relay.url)];
      await until(() => ann.synced() && ben.synced(), "both are in");
      for (const one of [ann, ben]) {
        one.provider.awareness.setLocalStateField("name", one.sub);
        one.say();
      }
      await until(() => ann.text() === ben.text() && ann.words.length + ben.words.length === sorted(ann.text()).length, "they see each other");
      gate.mute();
      const receipt = ann.provider.flush(AbortSignal.timeout(PATIENCE));
      for (let n = 0; n < 5; n += 1) for (const one of [ann, ben]) one.say();
      await until(() => ann.closes.length === 1, "ann finds that nobody answers");
      await receipt;
      await converged([ann, ben], workspace);
      // The relay still has the dead one, unless pings of its own found it first (Deno, 30 s); ben sees ann once.
      const { clients } = await relay.sharing(workspace).inspect();
      assert.ok(clients === 3 || (label === "deno" && clients === 2), `${clients} connections`);
      const names = () => [...ben.provider.awareness.getStates().values()].map(({ name }) => name).toSorted();
      await until(() => names().join() === "ann,ben", "each of them once");
      const before = ann.closes.length;
      // Now both ends of the dead connection hear of it.
      await gate.stop();
      await until(async () => (await relay.sharing(workspace).inspect()).clients === 1, "the relay has forgotten both of ann's");
      assert.deepEqual([ann.closes[0], before], [0, 1], "counted once, as a dead link");
      assert.deepEqual(ben.closes, []);
      t.diagnostic(reconnects([...ann.closes, ...ben.closes]));
    });
  }

  test("B01 D1 D3 a relay whose connections to its API die without a word saves over new ones, and hears of others", { timeout: 120_000 }, async (t) => {
    const gate = await startGate(cf.api);
    const third = await startAnother(deno, { label: "third", api: gate.url, onLog: () => {} });
    t.after(async () => {
      await third.stop();
      await gate.stop();
    });
    const here = await cf.workspace();
    const [ann, ben] = [come(t, third, here, "ann", third.url), come(t, cf, here, "ben", cf.url)];
    await until(() => ann.synced() && ben.synced(), "both are in");
    ann.say();
    await until(() => ben.text() === ann.text() && ben.text() !== "", "over both relays");
    gate.mute();
    for (const one of [ann, ben]) one.say();
    await converged([ann, ben], here);
    assert.deepEqual([...ann.closes, ...ben.closes], []);
    t.diagnostic(reconnects([]));
  });
});
