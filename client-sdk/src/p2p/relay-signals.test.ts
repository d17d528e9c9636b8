// Signals over a real socket to a small relay in this process.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fastEnvironment } from "../../test/environment.ts";
import { MiniRelay } from "../../test/mini-relay.ts";
import { until } from "../../test/waiting.ts";
import { RelaySignals } from "./relay-signals.ts";

let relay: MiniRelay;
before(async () => void (relay = await MiniRelay.start()));
after(() => relay.stop());

function peer(heard: unknown[]) {
  const it = { joins: 0 };
  const options = { environment: fastEnvironment(), workspace: "w", relays: [relay.entry], pin: null };
  const signals = new RelaySignals(options, { joined: () => (it.joins += 1), heard: (data) => heard.push(data) });
  signals.open();
  return Object.assign(it, { signals });
}

test("C.73 signals go on the workspace channel as text alone, and come back after the relay was away", async () => {
  const heard: unknown[] = [];
  const [ann, bob] = [peer([]), peer(heard)];
  await until(() => ann.joins === 1 && bob.joins === 1, "both have joined");
  assert.equal(ann.signals.send("one"), true);
  await until(() => heard.includes("one"), "it is heard");
  await relay.stop();
  await until(() => !ann.signals.send("lost"), "it is known that there is no relay");
  await relay.start();
  await until(() => ann.joins === 2 && bob.joins === 2, "both have joined again");
  ann.signals.send("two");
  await until(() => heard.includes("two"), "it is heard");
  assert.deepEqual([...new Set(relay.visits.map(({ url }) => url.split("?")[0]))], ["/ws/w"]);
  assert.deepEqual(relay.visits.flatMap(({ binary }) => binary), []);
  ann.signals.destroy();
  bob.signals.destroy();
  await until(() => relay.clients.length === 0, "both are gone");
});
