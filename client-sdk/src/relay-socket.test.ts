// The walker's wiring against real sockets: a WebSocket server in this process that speaks the codes.
import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { fastEnvironment } from "../test/environment.ts";
import { MiniRelay } from "../test/mini-relay.ts";
import { pass, until } from "../test/waiting.ts";
import { cleanups, client, deadEntry, hangingEntry, isSynced, relay } from "../test/walker-client.ts";
import type { Client } from "../test/walker-client.ts";
import { TokenRefusedError } from "./token-source.ts";

describe("N06 walker over real sockets", { timeout: 60_000 }, () => {
  test("N06 C.42 a refused port, then a relay that works", async () => {
    const cf = await relay("deno");
    const it = client([await deadEntry("cf"), cf.entry]);
    await until(isSynced("deno", it), "synced with deno");
    assert.deepEqual(it.advances(), ["cf deno error_before_open"]);
    assert.deepEqual(it.statuses.map(({ kind, label }) => `${kind} ${label}`), ["connecting cf", "connecting deno", "connected deno", "synced deno"]);
  });

  test("N06 C.42 a handshake that hangs is a failure after the open timeout", async () => {
    const deno = await relay("deno");
    const hanging = await hangingEntry("cf");
    const it = client([hanging, deno.entry]);
    await until(() => hanging.open() === 1, "a handshake that hangs");
    await until(isSynced("deno", it), "synced with deno");
    await until(() => hanging.open() === 0, "the handshake is given up");
    assert.deepEqual(it.advances(), ["cf deno open_timeout"]);
  });

  test("N06 C.44 every entry fails: one cycle event for each cycle", async () => {
    const it = client([await deadEntry("a"), await deadEntry("b")]);
    await until(() => it.telemetry.filter(({ name }) => name === "relay_cycle_all_failed").length === 2, "two cycles");
    assert.deepEqual(it.advances().map((advance) => advance.slice(0, 3)), ["a b", "b a", "a b", "b a"]);
  });

  test("A.54 a relay that says it restarts is draining until it is back; one that is not there any more is looked for", async () => {
    const cf = await relay("cf");
    let gate: Promise<void> = Promise.resolve();
    // None of its tokens lasts, so that each try waits for one.
    const getToken = () => gate.then(() => ({ token: "t", expiresAt: 0 }));
    const it = client([cf.entry], { getToken });
    await until(isSynced("cf", it), "synced");
    cf.closeAll(1012);
    await until(() => cf.visits.length === 2 && isSynced("cf", it)(), "back");
    let open = () => {};
    gate = new Promise((settle) => (open = settle));
    cf.closeAll(1012);
    await until(() => it.statuses.at(-1)?.kind === "draining", "it drains again");
    await cf.stop();
    open();
    await until(() => it.statuses.at(-1)?.kind === "connecting", "the try failed");
    const round = ["connected", "synced", "draining"];
    assert.deepEqual(it.statuses.map(({ kind }) => kind), ["connecting", ...round, ...round, "connecting"]);
  });

  test("N06 C.43 1006 twice advances, 1006-1000-1006 does not, 1012 stays", async () => {
    const [cf, deno] = [await relay("cf"), await relay("deno")];
    const script: (number | "reset")[] = ["reset", 1000, 1012, "reset"];
    cf.greet = ({ socket }, number) => {
      const next = script[number - 1];
      if (next === "reset") socket.on("message", () => socket.terminate());
      else if (next !== undefined) socket.on("message", () => socket.close(next));
    };
    // Something to react to, so that the client is synced when the relay acts.
    const it: Client = client([cf.entry, deno.entry], { attach: (channel) => {
      queueMicrotask(() => {
        channel.synced();
        channel.send(Uint8Array.of(9));
      });
      return { handleFrame: () => {}, handleText: () => {}, handleAdopt: () => {}, handleEnd: () => {} };
    } });
    await until(() => it.closes.length === 4, "four closes");
    assert.deepEqual(it.closes.map((code) => (code === 1000 || code === 1012 ? code : "broken")), ["broken", 1000, 1012, "broken"]);
    await until(isSynced("cf", it), "back on cf");
    assert.deepEqual(it.advances(), [], "a strike, a reset of the count, a restart, a strike");
    cf.clients[0]?.terminate();
    await until(isSynced("deno", it), "on deno");
    assert.deepEqual(it.advances(), ["cf deno abnormal_closes"]);
  });

  test("C.40 two connections of one page have positions of their own", async () => {
    const [cf, deno] = [await relay("cf"), await relay("deno")];
    cf.greet = ({ socket }, number) => void (number > 1 && socket.once("message", () => socket.terminate()));
    const environment = fastEnvironment();
    const stays = client([cf.entry, deno.entry], { environment });
    await until(isSynced("cf", stays), "one is on cf");
    const goes = client([cf.entry, deno.entry], { environment });
    const speak = () => goes.channels.at(-1)?.send(Uint8Array.of(9));
    await until(() => (speak(), isSynced("deno", goes)()), "the other goes to deno");
    assert.deepEqual([stays.advances(), goes.advances(), stays.socket.status], [[], ["cf deno abnormal_closes"], { kind: "synced", label: "cf" }]);
  });

  test("N06 every code of the stop band stops, says why, and does not come back by itself", async () => {
    const reasons: Record<number, string> = { 1009: "frame_too_large", 4400: "protocol_violation", 4403: "forbidden", 4404: "deleted", 4409: "epoch_changed", 4413: "document_too_large", 4450: "refused" };
    for (const [code, reason] of Object.entries(reasons)) {
      const cf = await relay("cf");
      cf.greet = ({ socket }) => void socket.close(Number(code));
      const it = client([cf.entry, await deadEntry("deno")], { sync: false });
      await until(() => it.socket.status.kind === "stopped", `stopped by ${code}`);
      assert.deepEqual(it.socket.status, { kind: "stopped", label: "cf", reason });
      it.environment.change("online");
      it.socket.connect();
      await pass(50);
      assert.equal(cf.visits.length, 1, code);
      it.socket.restart();
      await until(() => cf.visits.length === 2, "a restart connects");
    }
  });

  test("N06 4429 and 1013 come back to the same relay", async () => {
    const cf = await relay("cf");
    cf.greet = ({ socket }, number) => void (number <= 2 && socket.close(number === 1 ? 4429 : 1013));
    const it = client([cf.entry, await deadEntry("deno")]);
    await until(() => cf.visits.length === 3 && isSynced("cf", it)(), "synced at the third try");
    assert.deepEqual(it.advances(), []);
  });
});

describe("S2 pin over real sockets", { timeout: 60_000 }, () => {
  test("C.47 C.48 ?relay= pins through failures, without an event", async () => {
    const cf = await relay("cf");
    const dead = await deadEntry("deno");
    const it = client([cf.entry, dead], { environment: fastEnvironment({ search: "?x=1&relay=deno" }) });
    let tries = 0;
    class Counted extends WebSocket {
      constructor(url: string, protocols: string[]) {
        super(url, protocols);
        tries += 1;
      }
    }
    (it.environment as unknown as { WebSocket: unknown }).WebSocket = Counted;
    await until(() => tries >= 4, "four tries");
    assert.deepEqual([cf.visits.length, it.telemetry], [0, []]);
    assert.equal(it.socket.status.label, "deno");
  });

  test("C.47 C.50 the pin outlives the address within the tab; ?relay= ends it", async () => {
    const kept = new Map<string, string>();
    const storage = { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value), removeItem: (key: string) => void kept.delete(key) };
    const relays = [(await relay("cf")).entry, (await relay("deno")).entry];
    const labelFor = (search: string) => client(relays, { environment: fastEnvironment({ search, storage }) }).socket.status.label;
    assert.deepEqual(["", "?relay=deno", "", "?relay=", "", "?relay=deno"].map(labelFor), ["cf", "deno", "deno", "cf", "cf", "deno"]);
    const newTab = client(relays, { environment: fastEnvironment({ storage: { ...storage, getItem: () => null } }) });
    assert.equal(newTab.socket.status.label, "cf", "the pin is not that of another tab");
  });

  test("C.49 an unknown label warns once and is ignored; one that the code names is an error", async () => {
    const cf = await relay("cf");
    const environment = fastEnvironment({ search: "?relay=nope" });
    for (let count = 0; count < 2; count += 1) await until(isSynced("cf", client([cf.entry], { environment })), "synced with cf");
    assert.deepEqual(environment.warnings, ["?relay=nope is ignored: no relay has this label; there are cf"]);
    assert.throws(() => client([cf.entry], { pin: "nope" }), /No relay has the label "nope"/);
  });
});

describe("U01 tokens over real sockets", { timeout: 60_000 }, () => {
  // The clock of these tests runs faster.
  const muchLater = () => Date.now() + 1_000 * 3_600_000;

  test("U05 the token goes as a sub-protocol, not in the address", async () => {
    const cf = await relay("cf");
    const it = client([cf.entry], { getToken: async () => ({ token: "aaa.bbb.ccc", expiresAt: muchLater() }) });
    await until(isSynced("cf", it), "synced");
    assert.deepEqual([cf.visits[0]?.protocols.replaceAll(" ", ""), cf.visits[0]?.url], ["yrelay,aaa.bbb.ccc", "/ws/w/d"]);
  });

  test("4401 fetches a fresh token and tries once more; a fresh one that is refused stops", async () => {
    const cf = await relay("cf");
    let fetched = 0;
    const getToken = async () => ({ token: `t${(fetched += 1)}`, expiresAt: muchLater() });
    cf.greet = ({ socket, protocols }) => void (protocols.endsWith("t1") && socket.close(4401));
    const it = client([cf.entry], { getToken, sync: false });
    await until(() => cf.visits.length === 2, "a second try");
    assert.deepEqual(cf.visits.map(({ protocols }) => protocols.slice(-2)), ["t1", "t2"]);
    cf.closeAll(4401);
    await until(() => it.socket.status.kind === "stopped", "stopped");
    assert.deepEqual(it.socket.status, { kind: "stopped", label: "cf", reason: "token_rejected" });
    assert.deepEqual(it.telemetry, []);
  });

  test("A.69 a cut after the token's end may stand for 4401, and is no strike; one before it is", async () => {
    const [cf, deno] = [await relay("cf"), await relay("deno")];
    const environment = fastEnvironment();
    const ends: number[] = [];
    const getToken = async () => ({ token: `t${ends.length}`, expiresAt: ends[ends.push(environment.now() + (ends.length < 3 ? 15_000 : 3_600_000)) - 1]! });
    const it = client([cf.entry, deno.entry], { getToken, environment });
    for (let visits = 1; visits <= 3; visits += 1) {
      await until(() => cf.visits.length === visits && isSynced("cf", it)(), "synced");
      await until(() => environment.now() > ends.at(-1)!, "the token's end");
      cf.clients[0]!.terminate();
    }
    await until(() => cf.visits.length === 4 && isSynced("cf", it)(), "synced with a fourth token");
    assert.deepEqual([it.closes, it.advances(), ends.length], [[1006, 1006, 1006], [], 4], "a fresh token each time");
    cf.clients[0]!.terminate();
    await until(() => cf.visits.length === 5 && isSynced("cf", it)(), "the first strike");
    cf.clients[0]!.terminate();
    await until(isSynced("deno", it), "the second");
    assert.deepEqual(it.advances(), ["cf deno abnormal_closes"]);
  });

  test("a good token serves several connects, one that is about to end is replaced before the next", async () => {
    const cf = await relay("cf");
    const lifetimes = [3_600_000, 30_000, 3_600_000];
    let fetched = 0;
    const environment = fastEnvironment();
    const getToken = async () => ({ token: `t${(fetched += 1)}`, expiresAt: environment.now() + (lifetimes[fetched - 1] ?? 0) });
    const it = client([cf.entry], { getToken, environment });
    for (const visits of [1, 2]) {
      await until(() => cf.visits.length === visits && isSynced("cf", it)(), "synced");
      cf.closeAll(1000);
    }
    await until(() => cf.visits.length === 3, "a third connect");
    assert.equal(fetched, 1);
    cf.closeAll(4401);
    await until(() => cf.visits.length === 4 && isSynced("cf", it)(), "a connect with the second token");
    cf.closeAll(1012);
    await until(() => cf.visits.length === 5, "a connect with the third token");
    assert.deepEqual(cf.visits.map(({ protocols }) => protocols.slice(-2)), ["t1", "t1", "t1", "t2", "t3"]);
  });

  test("while the API is down a token that still works is used, so failover does not wait for it", async () => {
    const deno = await relay("deno");
    let fetched = 0;
    const getToken = () => ((fetched += 1) === 1 ? Promise.resolve({ token: "t1", expiresAt: muchLater() }) : new Promise<never>(() => {}));
    const it = client([await deadEntry("cf"), deno.entry], { getToken });
    await until(isSynced("deno", it), "synced with deno");
    assert.equal(fetched, 2);
    assert.match(deno.visits[0]!.protocols, /t1$/);
  });

  test("after 4401 the old token is not used again, even if there is no other", async () => {
    const cf = await relay("cf");
    let asked = 0;
    const getToken = async () => {
      asked += 1;
      if (asked === 2 || asked === 3) throw new Error("the API is down");
      return { token: `t${asked}`, expiresAt: muchLater() };
    };
    const it = client([cf.entry], { getToken });
    await until(isSynced("cf", it), "synced");
    cf.closeAll(4401);
    await until(() => cf.visits.length === 2 && isSynced("cf", it)(), "synced again");
    assert.deepEqual([cf.visits[1]!.protocols.slice(-2), asked], ["t4", 4]);
  });

  test("a provider that fails is asked again, and blames no relay; one that refuses stops", async () => {
    const cf = await relay("cf");
    let asked = 0;
    const getToken = async () => {
      asked += 1;
      if (asked < 4) throw new Error("the API is down");
      throw new TokenRefusedError();
    };
    const it = client([cf.entry, await deadEntry("deno")], { getToken });
    await until(() => it.socket.status.kind === "stopped", "stopped");
    assert.deepEqual([asked, it.socket.status, it.telemetry.length, cf.visits.length], [4, { kind: "stopped", label: "cf", reason: "token_refused" }, 0, 0]);
  });
});

describe("B01 dead links", { timeout: 60_000 }, () => {
  test("two missed beats: a new socket, without waiting for the old one, and one strike", async () => {
    const cf = await relay("cf");
    const it = client([cf.entry, await deadEntry("deno")]);
    await until(isSynced("cf", it), "synced");
    await pass(1_000);
    assert.equal(cf.visits.length, 1, "a relay that answers pings is alive");
    cf.mute = true;
    await until(() => cf.visits.length === 2, "a second socket");
    cf.mute = false;
    assert.deepEqual(it.closes, [0]);
    // The late close of the old one says nothing more.
    cf.visits[0]!.socket.terminate();
    await until(isSynced("cf", it), "synced again");
    assert.deepEqual([it.closes, it.advances()], [[0], []]);
  });

  test("a hidden page sends no pings, and looks at once when it is shown", async () => {
    const cf = await relay("cf");
    const it = client([cf.entry]);
    await until(isSynced("cf", it), "synced");
    it.environment.change("hidden");
    cf.mute = true;
    await pass(1_500);
    assert.deepEqual([cf.visits.length, it.closes], [1, []]);
    it.environment.change("visible");
    await until(() => it.closes.length === 1, "the dead link is found");
    cf.mute = false;
    await until(isSynced("cf", it), "synced again");
  });

  test("a relay that opens and never answers is left, too", async () => {
    const [cf, deno] = [await relay("cf"), await relay("deno")];
    const it: Client = client([cf.entry, deno.entry], { times: { syncTimeoutMs: 4_000 }, attach: (channel) => {
      if (channel.label === "deno") queueMicrotask(() => channel.synced());
      return { handleFrame: () => {}, handleText: () => {}, handleAdopt: () => {}, handleEnd: () => {} };
    } });
    await until(isSynced("deno", it), "synced with deno");
    assert.deepEqual([it.closes, cf.visits.length], [[0, 0], 2]);
  });

  test("offline: nothing is tried, nothing is counted; online: soon", async () => {
    const cf = await relay("cf");
    const it = client([cf.entry, await deadEntry("deno")]);
    await until(isSynced("cf", it), "synced");
    for (let losses = 0; losses < 3; losses += 1) {
      const visits = cf.visits.length;
      it.environment.change("offline");
      cf.clients[0]?.terminate();
      await until(() => it.socket.status.kind === "connecting", "the loss is noticed");
      await pass(300);
      assert.equal(cf.visits.length, visits);
      it.environment.change("online");
      await until(isSynced("cf", it), "synced again");
    }
    assert.deepEqual(it.telemetry, []);
  });
});

test("a failure that comes before the browser's word that it is offline blames no relay", { timeout: 30_000 }, async () => {
  const environment = fastEnvironment();
  let asked = 0;
  environment.isOnline = () => (asked += 1) === 1;
  const it = client([await deadEntry("cf"), await deadEntry("deno")], { environment });
  await until(() => asked === 2, "a failure");
  await pass(200);
  assert.deepEqual([it.telemetry, it.socket.status], [[], { kind: "connecting", label: "cf" }]);
});

describe("S1 probe over real sockets", { timeout: 60_000 }, () => {
  test("a fallback goes back when the earlier relay works again, and only then", async () => {
    const [cf, deno] = [new MiniRelay("cf"), await relay("deno")];
    await cf.start();
    await cf.stop();
    cleanups.push(() => cf.stop());
    const it = client([cf.entry, deno.entry], { times: { probeMs: 4_000 } });
    await until(isSynced("deno", it), "synced with deno");
    await pass(400);
    assert.equal(isSynced("deno", it)(), true, "probes that fail change nothing");
    await cf.start();
    await until(isSynced("cf", it), "back on cf");
    assert.deepEqual(it.advances(), ["cf deno error_before_open", "deno cf recovered"]);
    await until(() => deno.clients.length === 0, "the fallback's socket is closed");
    assert.equal(cf.clients.length, 1);
  });

  test("an earlier relay that opens but does not sync is not gone back to", async () => {
    const [cf, deno] = [await relay("cf"), await relay("deno")];
    let isReady = false;
    cf.greet = ({ socket }) => void (isReady || socket.terminate());
    const it = client([cf.entry, deno.entry], { sync: false, times: { probeMs: 2_000 }, attach: (channel) => {
      if (channel.label === "deno") queueMicrotask(() => channel.synced());
      return { handleFrame: () => {}, handleText: () => {}, handleAdopt: () => {}, handleEnd: () => {} };
    } });
    await until(isSynced("deno", it), "synced with deno");
    isReady = true;
    const before = cf.visits.length;
    await until(() => cf.visits.length > before, "a probe that opens");
    await pass(200);
    assert.equal(isSynced("deno", it)(), true);
  });
});

test("A.68 an end to everything: no socket and no timer outlives destroy", { timeout: 30_000 }, async () => {
  const cf = await relay("cf");
  const it = client([await deadEntry("a"), cf.entry]);
  await until(isSynced("cf", it), "synced");
  it.socket.destroy();
  await until(() => cf.clients.length === 0, "the socket is closed");
  const visits = cf.visits.length;
  await pass(200);
  assert.deepEqual([cf.visits.length, it.socket.status.kind], [visits, "idle"]);
});

after(() => assert.deepEqual(cleanups, []));
