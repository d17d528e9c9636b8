// The Deno relay as a process: what its platform, its spool and its end add to what the conformance
// suite shows of every relay.
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { startDenoRelay } from "../../tools/deno-relay.mjs";
import { publicScopeKey } from "../../tools/scope-key.mjs";
import { startStack } from "../../tools/stack.mjs";
import { FrameClient, Refused } from "./support/frame-client.mjs";
import { HI, STEP_1, awarenessEntries, awarenessFrame, isAwareness, isStep1, isUpdate, textUpdate, updateFrame } from "./support/frames.mjs";
import { Relay } from "./support/relays.mjs";
import { reset } from "./support/reset.mjs";
import { startSilentClient } from "./support/silent-client.mjs";
import { startGate } from "./support/tcp-gate.mjs";
import { PATIENCE, sleep, until, within } from "./support/waiting.mjs";

/** A delay of flushes that no test waits for: what is sent stays unsaved. */
const NEVER = JSON.stringify({ flushAfter: 600_000 });

/** Several times what updates gather before the spool writes them, in ms. */
const SPOOLED = 3000;

let stack;
let gate;
const folders = [];

before(async () => {
  stack = await startStack();
  gate = await startGate(stack.url);
});
after(async () => {
  await gate?.stop();
  await stack?.stop();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function spoolFolder() {
  folders.push(mkdtempSync(join(tmpdir(), "yrelay-spool-")));
  return folders.at(-1);
}

/** Starts a relay, before the gate or before the Worker itself, and ends it with the test. */
async function start(t, { api = stack.url, roomConfig, vars = {}, ...options } = {}) {
  const process = await startDenoRelay({
    api,
    token: stack.mint({ sub: "relay", kind: "service", workspaces: { "*": "editor" }, ttl: 3600 }),
    publicKey: publicScopeKey(stack.secrets.SCOPE_SIGNING_KEY),
    vars: { ...(roomConfig ? { RELAY_ROOM_CONFIG: roomConfig } : {}), ...vars },
    onLog: () => {},
    ...options,
  });
  const clients = [];
  t.after(async () => {
    for (const client of clients) client.stop();
    await process.kill();
  });
  // The API of the tests is always the Worker's own address.
  const relay = new Relay({ label: "deno", stack, url: process.url, process });
  relay.opened = (client) => {
    clients.push(client);
    return client;
  };
  return Object.assign(relay, {
    get: (path) => fetch(`${process.http}${path}`, { signal: AbortSignal.timeout(PATIENCE) }),
    metric: async (name, labels = "") => {
      const text = await (await relay.get("/metrics")).text();
      const line = text.split("\n").find((line) => line.startsWith(`yrelay_${name}{relay="deno"${labels}} `));
      return line === undefined ? undefined : Number(line.split(" ").at(-1));
    },
    logged: (event) => process.logs.filter((line) => line.event === event),
  });
}

async function joined(workspace, document, options) {
  const client = await workspace.connect(document, options);
  client.send(STEP_1);
  await client.next(isStep1, "the answer to step 1");
  return client;
}

/** How an upgrade is answered. */
async function outcome(workspace) {
  try {
    const client = await workspace.connect();
    await client.close();
    return 101;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return error.status;
  }
}

describe("start", { concurrency: 2 }, () => {
  test("a configuration that cannot work is told whole, and ends with 2", async () => {
    const logs = [];
    const options = { api: stack.url, token: "two words", publicKey: "AAAA", vars: { RELAY_ROOM_CONFIG: "[]" }, onLog: (line) => logs.push(line) };
    await assert.rejects(startDenoRelay(options), /code 2/);
    const causes = logs.map((line) => JSON.parse(line).cause.split(" ")[0]);
    assert.deepEqual(causes, ["RELAY_API_TOKEN", "RELAY_TOKEN_PUBLIC_KEY", "RELAY_ROOM_CONFIG"]);
    assert.ok(!logs.join().includes("two words"));
  });

  test("what only the core can judge is told whole too; a taken port is another end", async (t) => {
    const logs = [];
    const vars = { RELAY_ROOM_CONFIG: '{"nope":1}', RELAY_ALLOWED_ORIGINS: "https://a.example/path" };
    const smallOrder = Buffer.alloc(32).toString("base64url");
    const base = { api: stack.url, token: "t", publicKey: smallOrder, vars, onLog: (line) => logs.push(line) };
    await assert.rejects(startDenoRelay(base), /code 2/);
    const causes = logs.map((line) => JSON.parse(line).cause.split(":")[0]);
    assert.deepEqual(causes, ["RELAY_ALLOWED_ORIGINS", "RELAY_TOKEN_PUBLIC_KEY", "RELAY_ROOM_CONFIG"]);
    const relay = await start(t);
    const publicKey = publicScopeKey(stack.secrets.SCOPE_SIGNING_KEY);
    await assert.rejects(startDenoRelay({ ...base, vars: {}, publicKey, port: relay.process.port }), /code 1\): .*in use/);
  });

  test("B.57 a spool that another process has open keeps a relay from being ready until it is free", async (t) => {
    const spoolDir = spoolFolder();
    const first = await start(t, { spoolDir });
    const second = await start(t, { spoolDir });
    const workspace = await second.workspace();
    assert.deepEqual([(await first.get("/readyz")).status, (await second.get("/readyz")).status], [200, 503]);
    assert.match(second.logged("spool_unavailable")[0].cause, /another process has the spool open/);
    assert.equal(await outcome(workspace), 503);
    assert.equal((await second.get("/healthz")).status, 200);
    await first.process.stop();
    await until(async () => (await second.get("/readyz")).status === 200, "the second relay is ready");
    assert.equal(await outcome(workspace), 101);
  });
});

describe("bad peers", { concurrency: 3 }, () => {
  const handshake = (path) =>
    `GET ${path} HTTP/1.1\r\nHost: relay\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";

  /** Finishes the handshake by hand, sends bytes, and returns the close code that comes back, or 0. */
  async function garbage(port, path, bytes) {
    const socket = connect(port, "127.0.0.1");
    let received = Buffer.alloc(0);
    const ended = new Promise((settle) => socket.on("close", settle).on("error", () => {}));
    socket.on("data", (data) => {
      const before = received.indexOf("\r\n\r\n");
      received = Buffer.concat([received, data]);
      const start = received.indexOf("\r\n\r\n");
      if (before < 0 && start >= 0) socket.write(bytes);
      // A close frame is an end as well; a peer that does not answer it keeps its connection.
      if (start >= 0 && received[start + 4] === 0x88) socket.destroy();
    });
    socket.write(handshake(path));
    await within(ended, `the relay ends the connection after ${bytes.toString("hex")}`);
    assert.match(received.toString("latin1"), /^HTTP\/1\.1 101 /);
    const frames = received.subarray(received.indexOf("\r\n\r\n") + 4);
    return frames[0] === 0x88 && frames.length >= 4 ? frames.readUInt16BE(2) : 0;
  }

  const masked = (first, second, payload = Buffer.alloc(0)) => Buffer.concat([Buffer.from([first, second | 0x80, 0, 0, 0, 0]), payload]);
  const GARBAGE = {
    "a continuation of nothing": masked(0x80, 0),
    "a reserved bit": masked(0xa2, 1, Buffer.from("a")),
    "text that is not UTF-8": masked(0x81, 2, Buffer.from([0xc3, 0x28])),
    "a frame without a mask": Buffer.from([0x82, 1, 0]),
    "a ping of 126 bytes": Buffer.concat([Buffer.from([0x89, 0xfe, 0, 126, 0, 0, 0, 0]), Buffer.alloc(126)]),
    "an unknown opcode": masked(0x83, 0),
  };

  test("W03 garbage below WebSocket ends its connection and nothing else, a thousand times", async (t) => {
    const relay = await start(t);
    const workspace = await relay.workspace();
    const [a, b] = [await joined(workspace), await joined(workspace)];
    const path = `/ws/${workspace.id}/d?token=${await workspace.scope({ sub: "garbage" })}`;
    const codes = {};
    for (const [what, bytes] of Object.entries(GARBAGE)) codes[what] = await garbage(relay.process.port, path, bytes);
    t.diagnostic(`close codes: ${JSON.stringify(codes)}`);
    const files = () => readdirSync(`/proc/${relay.process.pid}/fd`).length;
    const before = process.platform === "linux" ? files() : undefined;
    const kinds = Object.values(GARBAGE);
    for (let round = 0; round < 1000; round += 20) {
      await Promise.all(Array.from({ length: 20 }, (_, n) => garbage(relay.process.port, path, kinds[(round + n) % kinds.length])));
    }
    a.send(HI);
    assert.equal(await b.next(isUpdate), HI);
    await until(async () => (await relay.metric("connections")) === 2, "the connections are forgotten");
    assert.deepEqual([await relay.metric("traps_total"), await relay.metric("unhandled_errors_total")], [0, 0]);
    if (before !== undefined) await until(() => files() <= before + 5, "the sockets are freed");
  });

  test("N01 handshakes that are cut, and resets with data in flight, leave nothing behind", async (t) => {
    const relay = await start(t);
    const workspace = await relay.workspace();
    const [a, b] = [await joined(workspace), await joined(workspace)];
    const token = await workspace.scope({ sub: "cut" });
    for (let round = 0; round < 10; round += 1) {
      await Promise.all(
        Array.from({ length: 20 }, async (_, n) => {
          const socket = connect(relay.process.port, "127.0.0.1");
          const ended = new Promise((settle) => socket.on("close", settle).on("error", () => {}));
          socket.write(handshake(`/ws/${workspace.id}/d?token=${token}`));
          if (n % 2) await new Promise((settle) => socket.once("data", settle).once("close", settle));
          if (n % 4 === 3) socket.write(masked(0x82, 126, Buffer.alloc(60)));
          if (n % 3) reset(socket);
          else socket.destroy();
          await within(ended, "the socket is gone");
        }),
      );
    }
    a.send(HI);
    assert.equal(await b.next(isUpdate), HI);
    await until(async () => (await relay.metric("connections")) === 2, "the connections are forgotten");
    assert.equal(await relay.metric("unhandled_errors_total"), 0);
  });

  test("B01 A01 a peer that went silent is found by a ping: its awareness is taken back", { timeout: 120_000 }, async (t) => {
    const relay = await start(t);
    const workspace = await relay.workspace();
    const watcher = await joined(workspace);
    const url = `${workspace.url("d")}?token=${await workspace.scope({ sub: "sleeper" })}`;
    const sleeper = await startSilentClient(url, STEP_1, awarenessFrame([[4711, 1, { name: "sleeper" }]]).toString("hex"));
    t.after(() => sleeper.stop());
    await watcher.next((frame) => isAwareness(frame) && awarenessEntries(frame)[0][0] === 4711, "the sleeper's awareness");
    sleeper.signal("SIGSTOP");
    const gone = await watcher.next((frame) => isAwareness(frame) && awarenessEntries(frame)[0][0] === 4711, "its removal", 70_000);
    assert.equal(awarenessEntries(gone)[0][2], null);
    await until(async () => (await relay.metric("connections")) === 1, "the connection is forgotten");
  });

  test("R10 W9 a peer that does not read is cut off from its room, holds a bounded queue, and hears 1013 when it wakes", { timeout: 120_000 }, async (t) => {
    const relay = await start(t);
    const workspace = await relay.workspace();
    const [writer, reader] = [await joined(workspace), await joined(workspace)];
    const sleeper = await startSilentClient(`${workspace.url("d")}?token=${await workspace.scope({ sub: "sleeper" })}`, STEP_1);
    t.after(() => sleeper.stop());
    await until(async () => (await relay.metric("connections")) === 3, "all three are in");
    sleeper.signal("SIGSTOP");
    let sent = 0;
    while (!(await relay.metric("closed_total", ',code="1013"')) && sent < 400) {
      for (let n = 0; n < 10; n += 1) writer.send(updateFrame(textUpdate(1 + (sent += 1), 50_000)));
      await until(() => reader.frames.filter(isUpdate).length === sent, `the reader has all ${sent} updates`);
    }
    assert.equal(await relay.metric("closed_total", ',code="1013"'), 1);
    const stuck = await relay.metric("stuck_bytes");
    assert.ok(stuck > 0 && stuck < 6 * 1024 * 1024, `${stuck} bytes wait`);
    writer.send(HI);
    await reader.next((frame) => frame === HI, "the others go on");
    sleeper.signal("SIGCONT");
    assert.equal(await within(sleeper.closed, "the sleeper is told"), 1013);
    await until(async () => (await relay.metric("connections_parting")) === 0, "it is gone");
    assert.equal(await relay.metric("stuck_bytes"), 0);
  });
});

// One at a time: they shut the gate for all.
describe("outages", { concurrency: 1 }, () => {
  test("D4 with the API away people who were in go on, and what they wrote is saved when it is back", async (t) => {
    const roomConfig = JSON.stringify({ flushAfter: 100, retryMin: 50, retryMax: 200 });
    const relay = await start(t, { api: gate.url, spoolDir: spoolFolder(), roomConfig });
    const workspace = await relay.workspace();
    const [a, b] = [await joined(workspace), await joined(workspace)];
    gate.shut();
    t.after(() => gate.open());
    a.send(HI);
    assert.equal(await b.next(isUpdate), HI);
    a.say({ type: "flush", id: 1 });
    assert.deepEqual(await a.nextText(), { type: "flush_failed", id: 1, reason: "storage_unavailable" });
    await until(async () => (await relay.metric("spool_rows")) === 1, "the update is in the spool");
    assert.ok((await relay.metric("flush_errors_total")) > 0);
    assert.ok((await relay.metric("unsaved_age_seconds")) > 0);
    assert.equal((await relay.get("/readyz")).status, 200, "a relay without its API is of use");
    assert.equal(await outcome(workspace), 101, "and lets people in");
    assert.equal(await workspace.text(), undefined);
    gate.open();
    await until(async () => (await workspace.text()) === "hi", "the update is stored");
    await until(async () => (await relay.metric("spool_rows")) === 0, "the spool is empty");
    const { json } = await workspace.rest("GET", "/changes");
    assert.deepEqual(json.changes.map(({ kind, actor }) => [kind, actor]), [["update", "editor"]]);
  });

  test("D4 N08 C.71 a relay that starts while the API is away lets people work together, and calls nothing complete", async (t) => {
    const relay = await start(t, { api: gate.url });
    const workspace = await relay.workspace();
    const token = await workspace.scope();
    const open = async () => relay.opened(await FrameClient.open(`${workspace.url("d")}?token=${token}`));
    const isStep2 = (frame) => frame.startsWith("0001");
    gate.shut();
    t.after(() => gate.open());
    const a = await open();
    a.send(STEP_1);
    await until(() => a.frames.some(isStep1), "A is asked for what it has");
    a.send(HI);
    const b = await open();
    b.send(STEP_1);
    await until(() => b.frames.includes(HI), "B gets what A brought");
    b.send(updateFrame(textUpdate(102, 3)));
    await until(() => a.frames.some(isUpdate), "A gets what B types");
    assert.deepEqual([...a.frames, ...b.frames].filter(isStep2), [], "nobody is told that this is all");
    gate.open();
    await until(() => [a, b].every(({ frames }) => frames.some(isStep2)), "the stored document is read");
    await until(async () => (await workspace.text())?.length === 5, "and what they typed is stored");
  });

  test("A.19 rooms that nobody is in are dropped, and come back as they were", async (t) => {
    const relay = await start(t);
    const workspaces = [];
    for (let n = 0; n < 25; n += 1) {
      const workspace = await relay.workspace();
      const client = await joined(workspace);
      client.send(updateFrame(textUpdate(200 + n, n + 1)));
      client.stop();
      workspaces.push(workspace);
    }
    await until(async () => (await relay.metric("rooms")) === 0, "no room is left");
    assert.deepEqual([await relay.metric("connections"), await relay.metric("unsaved_age_seconds")], [0, 0]);
    for (const [n, workspace] of workspaces.entries()) {
      assert.equal((await workspace.text()).length, n + 1);
      const client = await joined(workspace);
      assert.ok(client.frames.some((frame) => frame.startsWith("0001") && frame.length > 12), "it is served what was stored");
      client.stop();
    }
    await until(async () => (await relay.metric("rooms")) === 0, "no room is left again");
  });

  test("D6 what was unsaved when the process was killed is stored by the next run, each row once", async (t) => {
    const spoolDir = spoolFolder();
    const killed = await start(t, { spoolDir, roomConfig: NEVER });
    const workspace = await killed.workspace();
    const [a, b] = [await joined(workspace), await joined(workspace, "d", { sub: "bob" })];
    for (const [from, to] of [[a, b], [b, a]]) {
      const heard = to.frames.length;
      for (let n = 0; n < 25; n += 1) from.send(updateFrame(textUpdate((from === a ? 100 : 200) + n, 3)));
      await until(() => to.frames.length === heard + 25, "all updates are relayed");
      await sleep(SPOOLED);
    }
    const rows = await killed.metric("spool_rows");
    assert.ok(rows >= 2 && rows < 50, `${rows} rows for 50 updates`);
    await killed.process.kill();
    assert.equal(await workspace.text(), undefined, "nothing is stored yet");
    const next = await start(t, { spoolDir });
    await until(async () => (await next.metric("spool_rows")) === 0, "the spool is empty");
    assert.equal((await workspace.text()).length, 150);
    assert.equal(await next.metric("spool_sent_total"), rows);
    const { json } = await workspace.rest("GET", "/changes");
    assert.deepEqual(json.changes.map(({ actor }) => actor).sort(), ["bob", "editor"]);
    const third = await start(t, { spoolDir: (await next.process.stop(), spoolDir) });
    assert.deepEqual([await third.metric("spool_rows"), await third.metric("spool_refused_rows")], [0, 0]);
  });

  test("D6 what can never be stored is put aside, counted, and holds up nothing", async (t) => {
    const spoolDir = spoolFolder();
    const killed = await start(t, { spoolDir, roomConfig: NEVER });
    const [lost, kept] = [await killed.workspace(), await killed.workspace()];
    for (const workspace of [lost, kept]) (await joined(workspace)).send(HI);
    await until(async () => (await killed.metric("spool_rows")) === 2, "both updates are in the spool");
    await killed.process.kill();
    assert.ok((await lost.rest("DELETE", "")).status < 300);
    const next = await start(t, { spoolDir });
    await until(async () => (await next.metric("spool_rows")) === 0, "the spool is empty");
    assert.deepEqual([await kept.text(), await next.metric("spool_refused_rows")], ["hi", 1]);
    assert.equal(next.logged("spool_refused")[0].cause, "workspace_deleted");
  });
});

describe("stop", { concurrency: 1 }, () => {
  test("B.47 B.50 B.58 O07 a stop under load sends 1012 to everybody who listens, loses nothing that was relayed, and ends with 0", async (t) => {
    const relay = await start(t, { spoolDir: spoolFolder(), vars: { RELAY_DRAIN_MS: "10000" } });
    const workspace = await relay.workspace();
    const clients = await Promise.all(Array.from({ length: 60 }, (_, n) => joined(workspace, "d", { sub: `s${n % 2}` })));
    const writers = clients.slice(0, 5);
    let [clock, isOver] = [0, false];
    const load = (async () => {
      while (!isOver) {
        const open = writers.filter((client) => !client.closed);
        if (open.length > 0) open[clock % open.length].send(updateFrame(textUpdate(1000 + (clock += 1), 1)));
        await sleep(2);
      }
    })();
    await until(() => clients.at(-1).frames.filter(isUpdate).length > 50, "the room is busy");
    relay.process.signal("SIGTERM");
    const ends = await Promise.all(clients.map((client) => client.closing()));
    const end = await within(relay.process.waitForExit(), "the process ends");
    isOver = true;
    await load;
    const codes = Object.groupBy(ends, ({ code }) => code);
    t.diagnostic(`close codes: ${JSON.stringify(Object.fromEntries(Object.entries(codes).map(([code, list]) => [code, list.length])))}`);
    assert.deepEqual([...new Set(ends.slice(writers.length).map(({ code }) => code))], [1012]);
    // The runtime drops a connection that sends between the close frame and its answer: who writes at
    // this very moment may find that out before it reads why.
    for (const { code } of ends.slice(0, writers.length)) assert.ok([1006, 1012].includes(code), `a writer's ${code}`);
    assert.deepEqual(end, { code: 0, signal: null });
    const stored = (await workspace.text()).length;
    for (const client of clients) {
      const seen = new Set(client.frames.filter(isUpdate)).size;
      assert.ok(stored >= seen, `${stored} letters are stored, a client was relayed ${seen}`);
    }
  });

  test("B.51 D1 O07 a stop saves what nobody asked to save", async (t) => {
    const relay = await start(t, { roomConfig: NEVER });
    const workspace = await relay.workspace();
    (await joined(workspace)).send(HI);
    await until(async () => (await relay.metric("unsaved_age_seconds")) > 0, "the update has arrived");
    assert.deepEqual(await relay.process.stop("SIGINT"), { code: 0, signal: null });
    assert.equal(await workspace.text(), "hi");
  });

  test("B.48 after a signal a relay that is still behind a proxy serves who comes, until its time is over", async (t) => {
    const relay = await start(t, { spoolDir: spoolFolder(), vars: { RELAY_PRESTOP_MS: "3000", RELAY_TERMINATION_MS: "10000" } });
    const workspace = await relay.workspace();
    const early = await joined(workspace);
    relay.process.signal("SIGTERM");
    await until(async () => (await relay.get("/readyz")).status === 503, "proxies are told");
    const late = await joined(workspace, "d", { sub: "bob" });
    early.send(HI);
    await until(() => late.frames.some(isUpdate), "both are served");
    assert.deepEqual([(await early.closing()).code, (await late.closing()).code], [1012, 1012]);
    assert.deepEqual(await within(relay.process.waitForExit(), "the process ends"), { code: 0, signal: null });
    assert.equal(await workspace.text(), "hi");
  });

  test("B.49 O07 a second signal ends it at once; what was unsaved is in the spool", async (t) => {
    const spoolDir = spoolFolder();
    const relay = await start(t, { api: gate.url, spoolDir, roomConfig: NEVER, vars: { RELAY_DRAIN_MS: "600000" } });
    const workspace = await relay.workspace();
    const client = await joined(workspace);
    client.send(HI);
    await until(async () => (await relay.metric("unsaved_age_seconds")) > 0, "the update has arrived");
    gate.stall();
    t.after(() => gate.open());
    relay.process.signal("SIGTERM");
    assert.equal((await client.closing()).code, 1012);
    assert.equal((await relay.get("/readyz")).status, 503);
    assert.equal((await relay.get("/healthz")).status, 200);
    relay.process.signal("SIGTERM");
    assert.deepEqual(await within(relay.process.waitForExit(), "the process ends"), { code: 1, signal: null });
    gate.open();
    await start(t, { spoolDir });
    await until(async () => (await workspace.text()) === "hi", "the next run stores it");
  });

  test("B.52 B.53 D1 with the API away a stop keeps to its window and leaves the rest in the spool", async (t) => {
    const spoolDir = spoolFolder();
    const relay = await start(t, { api: gate.url, spoolDir, roomConfig: NEVER, vars: { RELAY_DRAIN_MS: "1500" } });
    const workspace = await relay.workspace();
    (await joined(workspace)).send(HI);
    await until(async () => (await relay.metric("unsaved_age_seconds")) > 0, "the update has arrived");
    gate.stall();
    t.after(() => gate.open());
    assert.deepEqual(await relay.process.stop(), { code: 0, signal: null });
    assert.equal(relay.logged("unsaved_at_exit")[0].in_spool, true);
    gate.open();
    await start(t, { spoolDir });
    await until(async () => (await workspace.text()) === "hi", "the next run stores it");
  });
});
