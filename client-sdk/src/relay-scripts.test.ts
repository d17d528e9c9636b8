// What a first relay may do to a client, on real sockets, and where the client ends (S1), with and
// without a pin (S2): for each script the exact entry and the exact events.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { connect } from "node:tls";
import { fastEnvironment } from "../test/environment.ts";
import type { TestEnvironment } from "../test/environment.ts";
import { cuttingEntry, endingEntry, plainEntry, refusingEntry, selfSignedEntry, unknownHostEntry } from "../test/scripted-entries.ts";
import type { End } from "../test/scripted-entries.ts";
import { pass, until } from "../test/waiting.ts";
import { client, deadEntry, hangingEntry, isSynced, relay } from "../test/walker-client.ts";
import type { Client } from "../test/walker-client.ts";
import type { Relay } from "./relay-list.ts";

/** Tries of a pinned client after which it would have gone on long ago. */
const TRIES = 4;
/** A time after which a late event would have come. */
const LATE_MS = 100;

interface Script {
  readonly name: string;
  readonly entry: (label: string) => Promise<Relay> | Relay;
  /** Why the client goes on to the second entry; without it, it stays at the first. */
  readonly trigger?: string;
  /** The closes of open connections; 1006 is a cut. */
  readonly closes: readonly number[];
  /** It works in the end, so a pinned client is synced with it. */
  readonly recovers: boolean;
}

const failing = (name: string, entry: Script["entry"], trigger: string): Script => ({ name, entry, trigger, closes: [], recovers: false });
const ending = (ends: readonly End[], trigger?: string): Script => ({
  name: ends.join("-").replaceAll("cut", "1006"),
  entry: (label) => endingEntry(label, ends),
  closes: ends.map((end) => (end === "cut" ? 1006 : end)),
  recovers: true,
  ...(trigger === undefined ? {} : { trigger }),
});

const SCRIPTS: readonly Script[] = [
  failing("a port that refuses", deadEntry, "error_before_open"),
  failing("403", (label) => refusingEntry(label, 403), "error_before_open"),
  failing("a handshake that is cut", cuttingEntry, "error_before_open"),
  failing("a handshake that hangs", hangingEntry, "open_timeout"),
  failing("a host that does not exist", unknownHostEntry, "error_before_open"),
  failing("no TLS behind wss:", plainEntry, "error_before_open"),
  failing("a certificate that nobody vouches for", selfSignedEntry, "error_before_open"),
  ending(["cut"]),
  ending(["cut", 1000, "cut"]),
  ending(["cut", "cut"], "abnormal_closes"),
  ending([1012]),
  // Synced in between: such a relay restarts as often as it likes.
  ending([1012, 1012, 1012]),
  ending([1013]),
  ending([1013, 1013], "abnormal_closes"),
  ending(["cut", 1012, 1013], "abnormal_closes"),
];

/** Counts the sockets that a client opens. */
function counting(options: Parameters<typeof fastEnvironment>[0]): TestEnvironment & { tries: number } {
  const environment = Object.assign(fastEnvironment(options), { tries: 0 });
  const { WebSocket } = environment;
  class Counted extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols);
      environment.tries += 1;
    }
  }
  return Object.assign(environment, { WebSocket: Counted });
}

/** A client that speaks once it is synced, which the scripted relays wait for. */
function speaking(relays: readonly Relay[], environment: TestEnvironment): Client {
  const receiver = { handleFrame: () => {}, handleText: () => {}, handleAdopt: () => {}, handleEnd: () => {} };
  return client(relays, {
    environment,
    attach: (channel) => {
      queueMicrotask(() => {
        channel.synced();
        channel.send(Uint8Array.of(9));
      });
      return receiver;
    },
  });
}

const labels = ({ statuses }: Client) => statuses.map(({ label }) => label).filter((label, n, all) => label !== all[n - 1]);

/** Ends where the script says; `search` has no pin that holds. */
async function walks(script: Script, search: string): Promise<void> {
  const deno = await relay("deno");
  const environment = counting({ search });
  const warning = search === "" ? [] : [`${search} is ignored: no relay has this label; there are cf, deno`];
  const it = speaking([await script.entry("cf"), deno.entry], environment);
  const goes = script.trigger !== undefined;
  await until(() => isSynced(goes ? "deno" : "cf", it)() && it.closes.length === script.closes.length, "synced where the script ends");
  await pass(LATE_MS);
  const events = it.telemetry.map(({ at, ...event }) => event);
  assert.deepEqual(events, goes ? [{ name: "relay_advance", fromLabel: "cf", toLabel: "deno", trigger: script.trigger }] : []);
  assert.deepEqual([labels(it), it.closes], [goes ? ["cf", "deno"] : ["cf"], script.closes]);
  assert.deepEqual([environment.tries, deno.visits.length], [script.closes.length + (script.recovers ? 1 : 2), goes ? 1 : 0]);
  assert.deepEqual(environment.warnings, warning);
}

describe("N06 what a first relay may do", { timeout: 60_000 }, () => {
  for (const [number, script] of SCRIPTS.entries()) {
    const outcome = script.trigger === undefined ? "stays" : `goes on once, ${script.trigger}`;
    test(`N06 S1 ${script.name}: ${outcome}`, () => walks(script, ""));

    test(`N06 S2 C.49 ${script.name}, ?relay= of no relay: one warning, then the same`, async () => {
      await walks(script, `?relay=nope-${number}`);
    });

    test(`N06 S2 C.47 C.48 ${script.name}, pinned: no advance, no cycle event`, async () => {
      const deno = await relay("deno");
      const environment = counting({ search: "?relay=cf" });
      const it = speaking([await script.entry("cf"), deno.entry], environment);
      if (script.recovers) await until(() => isSynced("cf", it)() && it.closes.length === script.closes.length, "synced with the pinned one in the end");
      else await until(() => environment.tries >= TRIES, `${TRIES} tries`);
      await pass(LATE_MS);
      assert.deepEqual([it.telemetry, deno.visits.length, labels(it), it.closes], [[], 0, ["cf"], script.closes]);
    });
  }
});

test("N06 the certificate of these tests is good but for its issuer", async () => {
  const { port, hostname } = new URL((await selfSignedEntry("cf")).url);
  const code = await new Promise((settle, reject) => {
    const socket = connect({ port: Number(port), host: hostname, timeout: 10_000 }, () => reject(new Error("it was trusted")));
    socket.on("error", (error: NodeJS.ErrnoException) => settle(error.code)).on("timeout", () => reject(new Error("no handshake")));
  });
  assert.equal(code, "DEPTH_ZERO_SELF_SIGNED_CERT");
});
