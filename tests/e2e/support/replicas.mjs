// Replicas of the Deno relay that know each other, each a process with a port and a spool of its own.
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../../tools/ports.mjs";
import { readMetrics } from "./metrics.mjs";
import { Relay, startAnother, startCf } from "./relays.mjs";
import { until } from "./waiting.mjs";

/** Places for replicas of one relay, of which none runs yet: `start(place)` starts one, `spoolDir(place)` is its folder. */
export async function replicasOf(cf, folder, places) {
  const different = new Set();
  while (different.size < places) different.add(await freePort());
  const ports = [...different];
  const cluster = { peers: ports.map((port) => `http://127.0.0.1:${port}`), secret: randomBytes(32).toString("base64url") };
  const spoolDir = (place) => join(folder, `replica-${place}`);
  const start = (place, vars = {}) => startAnother(cf, { port: ports[place], spoolDir: spoolDir(place), cluster, vars, onLog: () => {} });
  return { start, spoolDir };
}

/** Waits until these replicas, and no others, count for each of them. */
export async function agreed(replicas) {
  const members = async ({ process }) => (await readMetrics(process.http)).gauge("members");
  await until(async () => (await Promise.all(replicas.map(members))).every((count) => count === replicas.length), `${replicas.length} members`);
}

/** Which of the replicas have the room of a workspace, with how many people: `[[replica, clients]]`. */
export async function holders(replicas, workspace) {
  const seen = await Promise.all(replicas.map(async (replica) => [replica, (await replica.inspect(workspace.id)).clients]));
  return seen.filter(([, clients]) => clients > 0);
}

/** Connections that the replicas pass on to each other. */
export async function proxied(replicas) {
  const counts = await Promise.all(replicas.map(async ({ process }) => (await readMetrics(process.http)).gauge("proxied_connections")));
  return counts.reduce((sum, count) => sum + count, 0);
}

/** Two replicas for the suite that runs against every relay: people come to the first, and about half are passed on. */
export const REPLICAS = { label: "replicas", start: startTwo };

async function startTwo() {
  const folder = mkdtempSync(join(tmpdir(), "yrelay-replicas-"));
  const cf = await startCf();
  const kit = await replicasOf(cf, folder, 2);
  const replicas = [await kit.start(0), await kit.start(1)];
  await agreed(replicas);
  const inspect = async (id) => {
    const [owner] = (await holders(replicas, { id }))[0] ?? [replicas[0]];
    return owner.inspect(id);
  };
  const stop = async () => {
    await Promise.all(replicas.map((replica) => replica.stop()));
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  return new Relay({ label: REPLICAS.label, stack: cf.stack, url: replicas[0].url, inspect, process: { stop } });
}
