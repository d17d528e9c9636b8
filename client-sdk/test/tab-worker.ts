// A tab in a thread of its own, with the platform's own locks and channels. It tells its role.
import { parentPort, workerData } from "node:worker_threads";
import { TabChannel } from "../src/tabs/channel.ts";
import { Election } from "../src/tabs/leader.ts";
import { platformTab } from "./platform-tab.ts";

const { name, isHidden } = workerData as { name: string; isHidden: boolean };
const environment = platformTab(() => isHidden);
const election = new Election(environment, new TabChannel(environment, name), name);
election.on("role", (role) => parentPort?.postMessage(role));
election.start();
