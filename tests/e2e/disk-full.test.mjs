// The disk of the Deno relay's spool is full (D6). The spool is for the death of the process in the middle
// of an outage; that it cannot be written costs this and nothing else, and is told.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { startDenoRelay } from "../../tools/deno-relay.mjs";
import { publicScopeKey } from "../../tools/scope-key.mjs";
import { startStack } from "../../tools/stack.mjs";
import { person } from "./support/person.mjs";
import { Relay } from "./support/relays.mjs";
import { noSmallDisk, smallDisk } from "./support/small-disk.mjs";
import { startGate } from "./support/tcp-gate.mjs";
import { reconnects, verified } from "./support/verified.mjs";
import { PATIENCE, sleep, until } from "./support/waiting.mjs";

/** Letters of a word: a few of them fill whatever a database had reserved. */
const WORD = 4_000;

describe("a full disk", { concurrency: true, skip: noSmallDisk() }, () => {
  let dataDir;
  let stack;
  before(async () => {
    dataDir = mkdtempSync(join(tmpdir(), "yrelay-full-"));
    stack = await startStack({ dataDir });
  });
  after(async () => {
    await stack?.stop();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });

  async function gated(t) {
    const gate = await startGate(stack.url);
    t.after(() => gate.stop());
    return gate;
  }

  /** A relay on a small disk, behind a gate; ended with the test. */
  async function start(t, disk, gate, port = 0) {
    const process = await startDenoRelay({
      api: gate.url,
      token: stack.mint({ sub: "relay-deno", kind: "service", workspaces: { "*": "editor" }, ttl: 3600 }),
      publicKey: publicScopeKey(stack.secrets.SCOPE_SIGNING_KEY),
      spoolDir: join(disk.folder, "spool"),
      launcher: disk.launcher,
      // With nothing to save to, a stop takes all of its window.
      vars: { RELAY_DRAIN_MS: "1500" },
      port,
      onLog: () => {},
    });
    const relay = new Relay({ label: "deno", stack, url: process.url, process });
    const get = (path) => fetch(`${process.http}${path}`, { signal: AbortSignal.timeout(PATIENCE) });
    t.after(() => process.kill());
    return Object.assign(relay, {
      get,
      metric: async (name) => Number(new RegExp(`^yrelay_${name}\\{[^}]*\\} (\\S+)$`, "m").exec(await (await get("/metrics")).text())[1]),
      logged: (event) => process.logs.filter((line) => line.event === event),
    });
  }

  function come(t, relay, workspace, sub) {
    const relays = [{ label: relay.label, url: relay.url }];
    const one = person({ seed: stack.secrets.SCOPE_SIGNING_KEY, workspace: workspace.id, sub, relays });
    t.after(() => one.stop());
    return one;
  }

  const saved = (one) => until(() => one.provider.status.save === "saved", `${one.sub} has a receipt`);

  /** Words until the spool has noticed that it cannot write. */
  const typeUntilFull = (relay, one) => until(async () => {
    one.type("x".repeat(WORD));
    await sleep(300);
    return (await relay.metric("spool_failing")) === 1;
  }, "the spool fails");

  test("D6 on a full disk people go on, come and are saved; the relay says what it lacks, claims nothing, and recovers", async (t) => {
    const disk = smallDisk();
    t.after(() => disk.remove());
    const gate = await gated(t);
    const relay = await start(t, disk, gate);
    const workspace = await relay.workspace();
    const [ann, ben] = [come(t, relay, workspace, "ann"), come(t, relay, workspace, "ben")];
    await until(() => ann.synced() && ben.synced(), "both are in");
    ann.type("before ");
    await saved(ann);
    await until(async () => (await relay.metric("spool_rows")) === 0, "the spool is empty");
    assert.equal(await relay.metric("spool_failing"), 0);

    disk.fill(relay.process.pid);
    await typeUntilFull(relay, ann);
    await saved(ann);
    await until(() => ben.text() === ann.text(), "relaying goes on");
    assert.equal(await workspace.text(), ann.text(), "and saving");
    assert.deepEqual([(await relay.get("/healthz")).status, (await relay.get("/readyz")).status], [200, 200]);
    const cat = come(t, relay, workspace, "cat");
    await until(() => cat.synced() && cat.text() === ann.text(), "who comes is let in");

    // Neither the API nor the disk: what is typed is with those who have it, and nobody is told otherwise.
    gate.shut();
    const rows = await relay.metric("spool_rows");
    ann.type("during ");
    await until(() => [ben, cat].every((one) => one.text() === ann.text()), "people still have each other");
    const receipt = ann.provider.flush();
    await until(async () => (await relay.metric("flush_errors_total")) > 0, "a flush failed");
    assert.equal(await Promise.race([receipt, sleep(1_000, "none")]), "none");
    assert.equal(ann.provider.status.save, "relayed");
    assert.ok((await relay.metric("unsaved_age_seconds")) > 0);
    assert.equal(await relay.metric("spool_rows"), rows, "nothing is counted as kept");
    assert.deepEqual([relay.logged("spool_failed").length, relay.logged("spool_recovered").length], [1, 0], "told once");
    gate.open();
    await receipt;
    assert.equal(await workspace.text(), ann.text());

    disk.free(relay.process.pid);
    ann.type("after ");
    await until(async () => (await relay.metric("spool_failing")) === 0, "the spool is written again");
    assert.deepEqual([relay.logged("spool_failed").length, relay.logged("spool_recovered").length], [1, 1]);
    await saved(ann);
    await until(async () => (await relay.metric("spool_rows")) === 0, "what was released meanwhile is gone from it");
    gate.shut();
    ann.type("in the spool only");
    await until(async () => (await relay.metric("spool_rows")) > 0, "it keeps again");
    await relay.process.kill();
    const whole = ann.text();
    const closes = [ann, ben, cat].flatMap((one) => (one.stop(), one.closes));
    gate.open();
    await start(t, disk, gate);
    await until(async () => (await workspace.text()) === whole, "the next run stores it");
    await verified(dataDir);
    t.diagnostic(reconnects(closes));
  });

  test("D6 O07 a stop with neither disk nor API says that what is unsaved is kept nowhere; its author brings it back", async (t) => {
    const disk = smallDisk();
    t.after(() => disk.remove());
    const gate = await gated(t);
    const relay = await start(t, disk, gate);
    const workspace = await relay.workspace();
    const ann = come(t, relay, workspace, "ann");
    await until(() => ann.synced(), "ann is in");
    disk.fill(relay.process.pid);
    await typeUntilFull(relay, ann);
    await saved(ann);
    gate.shut();
    ann.type("nowhere else");
    await until(async () => (await relay.metric("unsaved_age_seconds")) > 0, "the relay has it");
    assert.deepEqual(await relay.process.stop(), { code: 0, signal: null });
    const [{ level, in_spool: isKept }] = relay.logged("unsaved_at_exit");
    assert.deepEqual([level, isKept], ["error", false]);
    disk.empty();
    gate.open();
    const next = await start(t, disk, gate, relay.process.port);
    await saved(ann);
    assert.equal(await workspace.text(), ann.text());
    assert.equal(await next.metric("spool_failing"), 0);
    assert.deepEqual([...new Set(ann.closes)], [1012]);
    await verified(dataDir);
    t.diagnostic(reconnects(ann.closes));
  });
});
