// One suite for every relay (support/relays.mjs), and for replicas of one: what a client sees on the wire.
import { after, before, describe } from "node:test";
import { awarenessTests } from "./conformance/awareness.mjs";
import { frameTests } from "./conformance/frames.mjs";
import { lifecycleTests } from "./conformance/lifecycle.mjs";
import { limitTests } from "./conformance/limits.mjs";
import { silenceTests } from "./conformance/silence.mjs";
import { signalingTests } from "./conformance/signaling.mjs";
import { stockTests } from "./conformance/stock.mjs";
import { upgradeTests } from "./conformance/upgrades.mjs";
import { RELAYS } from "./support/relays.mjs";
import { REPLICAS } from "./support/replicas.mjs";

const ALL = [...RELAYS, REPLICAS];

// Beside each other, and in each several at once: the longest one waits for more than a minute, and
// neither relays nor rooms must mind others.
describe("A.7 C.9 C.75 conformance", { concurrency: ALL.length }, () => {
  for (const { label, start } of ALL) {
    describe(`relay ${label}`, { concurrency: 4 }, () => {
      let running;
      before(async () => {
        running = await start();
      });
      after(() => running?.stop());
      const suites = [stockTests, frameTests, upgradeTests, awarenessTests, signalingTests, limitTests, lifecycleTests, silenceTests];
      for (const suite of suites) suite(() => running);
    });
  }
});
