// Who holds a socket, counted over an hour of a workspace that people share with agents: the real clients
// of both over an API in memory and a relay with real sockets, on a clock that the test moves.
import "fake-indexeddb/auto";
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";
import { IDBFactory } from "fake-indexeddb";
import { MiniApi } from "../test/mini-api.ts";
import { MiniRelay } from "../test/mini-relay.ts";
import { WorkspaceAgent } from "./agent/index.ts";
import type { Environment } from "./browser.ts";
import { WorkspaceClient } from "./index.ts";
import { FakeBrowser, FakeClock, fakePage } from "./testing.ts";

const MINUTES = 60;
/** An agent does something so often, in ms: a tool call, and time to think about it. */
const AGENT_STEP_MS = 20_000;
/** A keystroke of somebody who types, seen from far: the clock goes by so much at a time. */
const STEP_MS = 10_000;

/** Sockets of one actor: how many it opened, and for how long it had one. */
interface Sockets {
  opened: number;
  open: number;
  heldMs: number;
}

let clock: FakeClock;
let api: MiniApi;
let relay: MiniRelay;
let sockets: Map<string, Sockets>;
let made = 0;
beforeEach(async () => {
  clock = new FakeClock(quickly);
  api = new MiniApi();
  relay = await MiniRelay.start();
  sockets = new Map();
  made += 1;
});
afterEach(() => relay.stop());

/**
 * An hour has thousands of timers, and `settled` waits for 12 ms after each. What is in memory needs turns of the event loop
 * alone; only sockets take time besides.
 */
async function quickly(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn += 1) await new Promise((settle) => setImmediate(settle));
  if (total("open") > 0) for (let ms = 0; ms < SOCKET_MS; ms += 1) await new Promise((settle) => setTimeout(settle, 1));
}
/** More than what a transaction of a database in memory takes. */
const TURNS = 40;
/** A frame to the relay and back, on one machine. */
const SOCKET_MS = 3;

/** Counts what an actor's WebSockets do, and lets them do it. */
function counted(actor: string): Environment["WebSocket"] {
  const count: Sockets = { opened: 0, open: 0, heldMs: 0 };
  sockets.set(actor, count);
  return class extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols);
      count.opened += 1;
      count.open += 1;
      this.addEventListener("close", () => (count.open -= 1));
    }
  } as unknown as Environment["WebSocket"];
}

function person(sub: string): WorkspaceClient {
  const factory = new IDBFactory();
  const environment = fakePage(clock, { ...new FakeBrowser().tab().members(clock), fetch: api.fetch, indexedDB: () => factory, WebSocket: counted(sub) });
  return new WorkspaceClient({ api: "http://127.0.0.1:1", workspace: `profile${made}`, token: () => MiniApi.token(sub), account: sub, relays: [relay.entry], environment });
}

/** An agent at work: it reads, changes records, edits the document, and follows the changes. */
function agent(sub: string) {
  const page = fakePage(clock, { fetch: api.fetch, WebSocket: counted(sub) });
  const worker = new WorkspaceAgent({ api: "http://127.0.0.1:1", workspace: `profile${made}`, getToken: () => MiniApi.token(sub), environment: page });
  let heard = 0;
  const following = (async () => {
    for await (const change of worker.changes()) heard += change.kind === "reset" ? 0 : 1;
  })();
  const step = async (n: number) => {
    await worker.write(`jobs/${sub}`, { state: "running", step: n });
    await worker.read(`jobs/${sub}`);
    if (n % 10 === 0) api.edit("notes/plan", sub, (doc) => doc.getText("t").insert(0, `${sub} ${n}\n`));
  };
  return { step, heard: () => heard, close: () => Promise.all([worker.close(), following]) };
}

/** An hour. `minute` is called at the beginning of each. */
async function hour(agents: readonly ReturnType<typeof agent>[], minute: (n: number) => void, step: () => void): Promise<void> {
  for (let at = 0; at < MINUTES * 60_000; at += STEP_MS) {
    if (at % 60_000 === 0) minute(at / 60_000);
    const working = at % AGENT_STEP_MS === 0 ? agents.map((one) => one.step(at / AGENT_STEP_MS)) : [];
    step();
    await clock.advance(STEP_MS);
    await Promise.all(working);
    for (const count of sockets.values()) if (count.open > 0) count.heldMs += STEP_MS;
  }
}

const names = (prefix: string, count: number) => Array.from({ length: count }, (_, n) => `${prefix}${n + 1}`);
const total = (key: "heldMs" | "open" | "opened") => [...sockets.values()].reduce((sum, count) => sum + count[key], 0);
const relayTokens = () => api.count("POST", "tokens");

describe("an hour of a workspace", () => {
  test("C.23 3 people and 7 agents: agents hold no socket, nor does who has no document open or is alone", { timeout: 240_000 }, async (t) => {
    const agents = names("agent", 7).map(agent);
    const people = new Map<string, WorkspaceClient>();
    const here = new Map<string, number>();
    const come = (sub: string, path?: string) => {
      const client = person(sub);
      people.set(sub, client);
      return path === undefined ? client.presence.show({ at: "board" }) : void client.openDoc(path);
    };
    const leave = (sub: string) => {
      void people.get(sub)?.close();
      people.delete(sub);
    };
    const soloSockets: number[] = [];
    await hour(
      agents,
      (n) => {
        // Ann writes all the time. Bob comes to the plan for a quarter of an hour. Cem looks at the board.
        if (n === 0) come("ann", "notes/plan");
        if (n === 20) soloSockets.push(total("opened"));
        if (n === 20) come("bob", "notes/plan");
        if (n === 35) leave("bob");
        if (n === 40) come("cem");
        if (n === 50) leave("cem");
        // Somebody looks at each page now and then.
        for (const client of people.values()) void client.presence.refresh();
      },
      () => {
        for (const [sub, client] of people) {
          here.set(sub, (here.get(sub) ?? 0) + STEP_MS);
          if (sub !== "cem") client.openDoc("notes/plan").doc.getText("t").insert(0, ".");
        }
      },
    );
    const presentMs = [...here.values()].reduce((sum, ms) => sum + ms, 0) + agents.length * MINUTES * 60_000;
    const holders = [...sockets].filter(([, { opened }]) => opened > 0).map(([actor]) => actor);
    const share = total("heldMs") / presentMs;
    t.diagnostic(`${holders.length} of ${sockets.size} actors held a socket at all (${holders.join(", ")}); ${(100 * share).toFixed(1)} % of the time that actors were there; ${total("opened")} sockets were opened`);
    assert.deepEqual(soloSockets, [0], "alone with seven agents, Ann has none");
    assert.deepEqual(holders, ["ann", "bob"], "those who wrote together");
    assert.ok(agents.every((one) => one.heard() > 0), "the agents followed");
    assert.ok(sockets.size - holders.length >= 0.8 * sockets.size, "four fifths of the actors never hold one");
    for (const client of people.values()) await client.close();
    await Promise.all(agents.map((one) => one.close()));
  });

  test("C.27 S3 one person and 9 agents: no socket, and no request that a Durable Object would get", { timeout: 240_000 }, async (t) => {
    const agents = names("agent", 9).map(agent);
    const client = person("ann");
    const document = client.openDoc("notes/plan");
    const text = document.doc.getText("t");
    await hour(agents, () => void client.presence.refresh(), () => text.insert(0, "."));
    await document.flush();
    t.diagnostic(`${api.calls.length} calls of the API, ${api.count("POST", "docs/")} of them writes of the document; ${total("opened")} sockets, ${relay.visits.length} visits of the relay, ${relayTokens()} relay tokens`);
    // A room is made by a socket, and the Worker tells a room of a change only while one is there.
    assert.deepEqual([total("opened"), relay.visits.length, relayTokens()], [0, 0, 0]);
    assert.equal(document.status.save, "saved");
    assert.equal(text.toString(), api.text("notes/plan"));
    assert.ok(agents.every((one) => one.heard() > 0), "the agents followed");
    await client.close();
    await Promise.all(agents.map((one) => one.close()));
  });
});
