/**
 * The entry point: reads the configuration, starts the relay, ends it on a signal.
 *
 * Exit codes: 0 after a stop, 1 when it could not start or was told twice, 2 for a bad
 * configuration, 70 when the core cannot be used any more (start it again).
 *
 * @module
 */

import { ConfigError, readConfig } from "./config.ts";
import { SIGNAL_ECHO } from "./limits.ts";
import { createLog, messageOf } from "./log.ts";
import { startRelay } from "./relay.ts";

const EXIT = { stopped: 0, failed: 1, misconfigured: 2, broken: 70 };

async function main(): Promise<void> {
  let log = createLog("deno");
  try {
    const config = readConfig((name) => Deno.env.get(name));
    log = createLog(config.label);
    let isStopping = false;
    let signalledAt = 0;
    const stop = async (code: number) => {
      isStopping = true;
      if (code === EXIT.stopped) await relay.leave();
      // A window is a promise to whoever runs this, also when something in it hangs.
      setTimeout(() => Deno.exit(code || EXIT.failed), config.drainMs);
      try {
        await relay.stop();
      } catch (error) {
        for (const cause of error instanceof AggregateError ? error.errors : [error]) {
          log.error("stop_failed", { cause: messageOf(cause) });
        }
        Deno.exit(code || EXIT.failed);
      }
      Deno.exit(code);
    };
    const relay = await startRelay(config, log, (cause) => {
      log.error("core_broken", { cause });
      if (!isStopping) void stop(EXIT.broken);
    });
    for (const event of ["error", "unhandledrejection"] as const) {
      globalThis.addEventListener(event, (raised) => {
        // A defect, but no reason to cut everybody off.
        raised.preventDefault();
        relay.metrics.unhandledErrors += 1;
        const cause = messageOf(
          raised instanceof ErrorEvent ? raised.error : (raised as PromiseRejectionEvent).reason,
        );
        log.error("unhandled_error", { cause });
      });
    }
    for (const signal of STOP_SIGNALS) {
      Deno.addSignalListener(signal, () => {
        // One Ctrl-C comes twice when a task runner forwards what the terminal sent to both.
        const isEcho = Date.now() - signalledAt < SIGNAL_ECHO;
        signalledAt = Date.now();
        if (!isStopping) return void stop(EXIT.stopped);
        if (isEcho) return;
        relay.flushSpool();
        Deno.exit(EXIT.failed);
      });
    }
    if (config.dev) void endOfInput().then(() => isStopping || stop(EXIT.stopped));
    log.info("listening", { host: config.host, port: relay.port, pid: Deno.pid });
  } catch (error) {
    for (const problem of error instanceof ConfigError ? error.problems : [messageOf(error)]) {
      log.error("start_failed", { cause: problem });
    }
    Deno.exit(error instanceof ConfigError ? EXIT.misconfigured : EXIT.failed);
  }
}

/** In development the relay ends with whoever started it. */
async function endOfInput(): Promise<void> {
  for await (const _ of Deno.stdin.readable);
}

/** The first is a container's, the second a terminal's and Deno Deploy's. */
const STOP_SIGNALS: Deno.Signal[] = Deno.build.os === "windows"
  ? ["SIGINT", "SIGBREAK"]
  : ["SIGTERM", "SIGINT"];

await main();
