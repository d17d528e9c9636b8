/**
 * The relay, put together: configuration in, a running server out.
 *
 * @module
 */

import { ApiClient } from "./api_client.ts";
import { Cluster } from "./cluster/cluster.ts";
import { type Config, ConfigError } from "./config.ts";
import { Core, Gate, mergeUpdates } from "./core.ts";
import { drain } from "./drain.ts";
import { Handler, STOPPING } from "./handler.ts";
import { ALONE_AFTER, SPOOL_RETRY } from "./limits.ts";
import { type Log, messageOf } from "./log.ts";
import { LoopDelay, Metrics, renderMetrics } from "./metrics.ts";
import { Parting } from "./parting.ts";
import { People } from "./people.ts";
import { RoomHost } from "./room_host.ts";
import { Spool } from "./spool.ts";
import { SpoolDrain } from "./spool_drain.ts";
import { Storage } from "./storage.ts";
import { Turns } from "./turns.ts";
import { createVerifier, type Verifier } from "./verify.ts";

/** A running relay. */
export interface Relay {
  readonly port: number;
  readonly metrics: Metrics;
  /** Tells proxies that the relay is about to stop, and goes on for as long as they need. */
  leave(): Promise<void>;
  /** Ends it in order, within the configured window. Rejects with all that failed, after all of it was tried. */
  stop(): Promise<void>;
  /** Writes what the spool has gathered, before an exit at once. */
  flushSpool(): void;
}

/**
 * Starts a relay. `onBroken` is told when the process has to end. Throws a {@link ConfigError} for
 * what only the core and the platform can judge.
 */
export async function startRelay(
  config: Config,
  log: Log,
  onBroken: (cause: string) => void,
): Promise<Relay> {
  const { gate, verify, coreConfig } = await judge(config);
  const [metrics, loop] = [new Metrics(), new LoopDelay()];
  const storage = new Storage(
    new ApiClient({ url: config.apiUrl, token: config.apiToken, log }),
    metrics,
    log,
  );
  const [parting, turns] = [new Parting(metrics), new Turns()];
  const people = new People({
    session: config.label,
    present: storage.present.bind(storage),
    absent: storage.absent.bind(storage),
  });
  const spooling = new Spooling(config.spoolDir, storage, metrics, log);
  const host = new RoomHost({
    storage,
    parting,
    turns,
    metrics,
    log,
    people,
    coreConfig,
    maxFrameBytes: config.maxFrameBytes,
    run: spooling.run,
    onBroken,
    onAbandoned: () => void spooling.drain?.run(),
  });
  spooling.open((spool) => host.spool = spool);
  const unready = () => host.isDraining ? STOPPING : spooling.problem;
  const cluster = config.cluster && await Cluster.join({
    config: config.cluster,
    label: config.label,
    host,
    parting,
    turns,
    metrics,
    log,
    maxFrameBytes: config.maxFrameBytes,
    state: () => host.isLeaving || unready() !== undefined ? "leaving" : "in",
  });
  const gauges = () => ({
    ...spooling.counts(),
    spoolFailing: spooling.isFailing,
    connections: host.connections,
    partingConnections: parting.count,
    stuckBytes: parting.stuckBytes,
    queuedBytes: host.queuedBytes + (cluster?.proxies.queuedBytes ?? 0),
    waitingBytes: turns.waiting,
    rooms: host.count,
    unsavedAge: Math.max(0, Date.now() - (host.unsavedSince ?? Date.now())) / 1000,
    loopDelay: loop.takeLongest() / 1000,
    residentBytes: Deno.memoryUsage().rss,
    draining: host.isDraining,
    members: cluster?.count ?? 1,
    proxiedConnections: cluster?.proxies.count ?? 0,
  });
  const handler = new Handler({
    gate,
    verify,
    storage,
    host,
    metrics,
    log,
    unready,
    cluster,
    metricsText: config.metrics ? () => renderMetrics(config.label, metrics, gauges()) : undefined,
    dev: config.dev,
  });
  const serving = { hostname: config.host, port: config.port, onListen: () => {} };
  const server = Deno.serve(serving, (request) => handler.handle(request));
  const leave = async () => {
    host.isLeaving = true;
    if (config.prestopMs > 0) log.info("leaving", { window_ms: config.prestopMs });
    await new Promise((settle) => setTimeout(settle, config.prestopMs));
  };
  const stop = async () => {
    spooling.giveUp();
    loop.stop();
    people.stop();
    cluster?.stop();
    await drain({ host, cluster, parting, server, log, spoolDrain: () => spooling.drain }, config.drainMs);
  };
  return { port: server.addr.port, metrics, leave, stop, flushSpool: () => void host.spool?.flush() };
}

/** Makes what the configuration describes, or throws one error about everything that is wrong. */
async function judge(config: Config): Promise<{ gate: Gate; verify: Verifier; coreConfig: string }> {
  const coreConfig = JSON.stringify({
    ...config.room,
    label: config.label,
    followsFeed: true,
    hibernates: false,
    aloneAfter: ALONE_AFTER,
    spool: config.spoolDir !== undefined,
  });
  const problems: string[] = [];
  const named = async <T>(name: string, make: () => T | Promise<T>): Promise<T> => {
    try {
      return await make();
    } catch (error) {
      problems.push(`${name}: ${messageOf(error)}`);
      return undefined as T;
    }
  };
  const gate = await named("RELAY_ALLOWED_ORIGINS", () => new Gate(config.origins));
  const verify = await named("RELAY_TOKEN_PUBLIC_KEY", () => createVerifier(config.publicKey));
  // Tried here once rather than with the first connection.
  await named("RELAY_ROOM_CONFIG", () => new Core(coreConfig).free());
  if (problems.length > 0) throw new ConfigError(problems);
  return { gate, verify, coreConfig };
}

/**
 * The spool's opening. Another process may still have the file, such as the one that this one
 * replaces; until it is open the relay is not ready and lets nobody in.
 */
class Spooling {
  readonly run = crypto.randomUUID();
  drain: SpoolDrain | undefined;
  #spool: Spool | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #folder: string | undefined;
  readonly #storage: Storage;
  readonly #metrics: Metrics;
  readonly #log: Log;

  constructor(folder: string | undefined, storage: Storage, metrics: Metrics, log: Log) {
    this.#folder = folder;
    this.#storage = storage;
    this.#metrics = metrics;
    this.#log = log;
  }

  /** Opens it, now or as soon as that is possible. */
  open(onOpen: (spool: Spool) => void, isRetry = false): void {
    if (this.#folder === undefined) {
      this.#log.warn("no_spool", {
        cause: "RELAY_SPOOL_DIR is not set: what is unsaved is lost with the process",
      });
      return;
    }
    try {
      const spool = this.#spool = new Spool(this.#folder, this.#log, this.run);
      this.#log.info("spool_open", { ...spool.counts() });
      const send = this.#storage.send.bind(this.#storage);
      this.drain = new SpoolDrain({
        spool,
        send,
        merge: mergeUpdates,
        log: this.#log,
        metrics: this.#metrics,
      });
      spool.onRecovered = () => void this.drain?.run();
      void this.drain.run();
      onOpen(spool);
    } catch (error) {
      if (!isRetry) this.#log.error("spool_unavailable", { cause: messageOf(error) });
      this.#timer = setTimeout(() => this.open(onOpen, true), SPOOL_RETRY);
    }
  }

  /** Does not try to open it any more. */
  giveUp(): void {
    clearTimeout(this.#timer);
  }

  /**
   * Why nobody is let in, or undefined: what an earlier run left is not known yet. A spool whose disk
   * is full keeps nobody out. What it is for is the death of this process in the middle of an outage of
   * the API; without it people still work together and are saved, as with a relay that has none.
   */
  get problem(): string | undefined {
    return this.#folder !== undefined && !this.#spool ? "The spool is not open." : undefined;
  }

  /** Whether there should be a spool and it takes nothing. */
  get isFailing(): boolean {
    return this.#folder !== undefined && !this.#spool?.healthy;
  }

  /** Its rows. */
  counts(): { spoolRows: number; spoolRefusedRows: number } {
    try {
      const { kept, refused } = this.#spool?.counts() ?? { kept: 0, refused: 0 };
      return { spoolRows: kept, spoolRefusedRows: refused };
    } catch {
      // Closed, at the end of a drain, or broken, which `problem` tells.
      return { spoolRows: 0, spoolRefusedRows: 0 };
    }
  }
}
