// A client that is a walker and nothing else, over real sockets, and entries for it: a relay that works, one
// that refuses, one that hangs. What a test starts ends with it.
import { createServer } from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";
import { afterEach } from "node:test";
import type { Relay } from "../src/relay-list.ts";
import { RelaySocket } from "../src/relay-socket.ts";
import type { Channel, RelaySocketOptions, RelayStatus } from "../src/relay-socket.ts";
import type { TelemetryEvent } from "../src/relay-walker.ts";
import { fastEnvironment } from "./environment.ts";
import type { TestEnvironment } from "./environment.ts";
import { MiniRelay } from "./mini-relay.ts";

/** Run after each test, the last one first. */
export const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** A relay that works. */
export async function relay(label = "cf"): Promise<MiniRelay> {
  const started = await MiniRelay.start(label);
  cleanups.push(() => started.stop());
  return started;
}

/** An entry where nothing listens. */
export async function deadEntry(label: string): Promise<Relay> {
  const gone = await MiniRelay.start(label);
  const { entry } = gone;
  await gone.stop();
  return entry;
}

/** An entry that takes connections and never answers a handshake; and how many there are. */
export async function hangingEntry(label: string): Promise<Relay & { open: () => number }> {
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket.on("error", () => {}).on("close", () => sockets.delete(socket)));
    // A socket that nobody reads does not notice its end.
    socket.resume();
  });
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  cleanups.push(() => {
    for (const socket of sockets) socket.destroy();
    return new Promise((settle) => server.close(settle));
  });
  return { label, url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}/ws`, open: () => sockets.size };
}

export interface Client {
  socket: RelaySocket;
  statuses: RelayStatus[];
  telemetry: TelemetryEvent[];
  closes: number[];
  channels: Channel[];
  texts: string[];
  environment: TestEnvironment;
  advances(): string[];
}

/** A client whose connections count as synced once they are open, unless `sync` is false. */
export function client(relays: readonly Relay[], { sync = true, ...options }: Partial<RelaySocketOptions> & { sync?: boolean; environment?: TestEnvironment } = {}): Client {
  const environment = (options.environment as TestEnvironment | undefined) ?? fastEnvironment();
  const it: Omit<Client, "socket"> = { statuses: [], telemetry: [], closes: [], channels: [], texts: [], environment, advances: () => [] };
  const socket = new RelaySocket({
    relays,
    address: () => "/w/d",
    attach: (channel) => {
      it.channels.push(channel);
      if (sync) queueMicrotask(() => channel.synced());
      return { handleFrame: () => {}, handleText: (text) => it.texts.push(text), handleAdopt: () => {}, handleEnd: () => {} };
    },
    onStatus: (status) => it.statuses.push(status),
    onTelemetry: (event) => it.telemetry.push(event),
    onClose: (_, code) => it.closes.push(code),
    ...options,
    environment,
  });
  cleanups.push(() => socket.destroy());
  socket.connect();
  return Object.assign(it, { socket, advances: () => it.telemetry.flatMap((event) => (event.name === "relay_advance" ? [`${event.fromLabel} ${event.toLabel} ${event.trigger}`] : [])) });
}

export const isSynced = (label: string, it: Client) => () => it.socket.status.kind === "synced" && it.socket.status.label === label;
