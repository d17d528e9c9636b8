// Ports for servers that another process opens than the one that picks them.
import { randomInt } from "node:crypto";
import { createServer } from "node:net";

// Below the ports that a system gives to outgoing connections (Linux from 32768, macOS and Windows from
// 49152): one of those may be gone before its server is up, or while its server is down for a moment.
const LOWEST = 20_000;
const COUNT = 12_000;
/** How often a start tries another port. The first one is nearly always good. */
const ATTEMPTS = 5;

/** A port where nothing listens, of those that no outgoing connection gets. */
export async function freePort(host = "127.0.0.1") {
  for (;;) {
    const port = LOWEST + randomInt(COUNT);
    if (await isFree(host, port)) return port;
  }
}

/** Whether a server could listen there now. Any error but "in use" is thrown: it is no matter of the port. */
export function isFree(host, port) {
  return new Promise((settle, reject) => {
    const probe = createServer();
    probe.once("error", (error) => (error.code === "EADDRINUSE" ? settle(false) : reject(error)));
    probe.listen(port, host, () => probe.close(() => settle(true)));
  });
}

/** Runs `start(port)` with a free port, and with another one when somebody else was faster, as `isTaken(error)` tells. */
export async function withFreePort(host, start, isTaken) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await start(await freePort(host));
    } catch (error) {
      if (attempt === ATTEMPTS || !isTaken(error)) throw error;
    }
  }
}
