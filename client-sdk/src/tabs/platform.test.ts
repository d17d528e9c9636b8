// The election over the platform's own locks and channels, which the doubles of other tests stand for.
// Both tabs are in this thread: Node 24 aborts when a lock is stolen from another one.
import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "../../test/waiting.ts";
import { browserEnvironment } from "../browser.ts";
import type { BroadcastChannelLike, LockManagerLike, PageEnvironment, Surroundings } from "../browser.ts";
import { TabChannel } from "./channel.ts";
import { Election } from "./leader.ts";

function tabOf(name: string, hidden = false) {
  const listeners = new Set<(change: Surroundings) => void>();
  const environment: PageEnvironment = {
    ...browserEnvironment(),
    isHidden: () => hidden,
    watch: (listener) => (listeners.add(listener), () => listeners.delete(listener)),
    locks: () => navigator.locks as unknown as LockManagerLike,
    openChannel: (at) => new BroadcastChannel(at) as unknown as BroadcastChannelLike,
  };
  const channel = new TabChannel(environment, name);
  const election = new Election(environment, channel, name);
  election.start();
  const show = (isShown: boolean) => {
    hidden = !isShown;
    for (const listener of listeners) listener(isShown ? "visible" : "hidden");
  };
  return { election, show, close: () => (election.close(), channel.close()) };
}

test("C.72 B02 over real locks: one leads, a hidden one makes room, and the lock goes to who is left", { timeout: 60_000 }, async () => {
  const [a, b, c] = [tabOf("yrelay test"), tabOf("yrelay test", true), tabOf("yrelay test", true)];
  const leaders = () => [a, b, c].map(({ election }) => (election.role === "leader" ? 1 : 0)).join("");
  try {
    await until(() => leaders() === "100" && c.election.leader !== null, "the first leads, and the last knows");
    assert.equal(c.election.leader, b.election.leader);
    a.show(false);
    c.show(true);
    await until(() => leaders() === "001", "the one that is looked at leads");
    c.close();
    await until(() => ["100", "010"].includes(leaders()), "one of the others leads");
    a.close();
    await until(() => leaders() === "010", "the last one leads");
  } finally {
    for (const tab of [a, b, c]) tab.close();
  }
});
