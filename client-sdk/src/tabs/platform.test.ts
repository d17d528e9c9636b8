// The election over the platform's own locks and channels: tabs are threads. A crash is not tested here:
// Node 24 does not pass on the lock of a thread that is terminated, as browsers do of a tab.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import { platformTab } from "../../test/platform-tab.ts";
import { until } from "../../test/waiting.ts";
import { TabChannel } from "./channel.ts";
import { Election } from "./leader.ts";

function tabOf(name: string, isHidden: () => boolean = () => false) {
  const environment = platformTab(isHidden);
  const channel = new TabChannel(environment, name);
  const election = new Election(environment, channel, name);
  return { election, close: () => (election.close(), channel.close()) };
}

test("B02 a hidden leader's lock is taken over by a tab that is looked at", { timeout: 60_000 }, async () => {
  const name = "yrelay test: hidden";
  const worker = new Worker(new URL("../../test/tab-worker.ts", import.meta.url), { workerData: { name, isHidden: true } });
  const roles: string[] = [];
  worker.on("message", (role) => roles.push(role));
  const tab = tabOf(name);
  try {
    await until(() => roles.length === 1, "the thread leads");
    tab.election.start();
    await until(() => tab.election.role === "leader" && roles.length === 2, "this one leads, and the other does not");
    assert.deepEqual(roles, ["leader", "follower"]);
    tab.close();
    await until(() => roles.length === 3, "the thread leads again");
  } finally {
    tab.close();
    await worker.terminate();
  }
});
