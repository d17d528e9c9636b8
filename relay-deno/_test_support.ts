/**
 * For tests: a relay in this process with the real core and real sockets, before an API that the
 * test scripts; and scope tokens for it.
 *
 * @module
 */

import { ApiClient } from "./api_client.ts";
import { Cluster, type ClusterConfig } from "./cluster/cluster.ts";
import { Core, Gate } from "./core.ts";
import { Handler, type HandlerParts } from "./handler.ts";
import { createLog } from "./log.ts";
import { Metrics } from "./metrics.ts";
import { Parting } from "./parting.ts";
import { type HostParts, RoomHost } from "./room_host.ts";
import { Storage } from "./storage.ts";
import { Turns } from "./turns.ts";
import { createVerifier } from "./verify.ts";

/** Sync step 1 of an empty document, and "hi" by client 101. */
export const STEP_1 = hex("00000100");
export const HI = hex("00020c010165000401017402686900");

export function hex(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(text.match(/../g) ?? [], (byte) => parseInt(byte, 16));
}

const pair = (await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"])) as CryptoKeyPair;

/** The public key that tokens of {@link scopeToken} are for. */
export const PUBLIC_KEY = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));

/** A scope token as the Worker makes them. */
export async function scopeToken(workspace: string, changes: Record<string, unknown> = {}): Promise<string> {
  const exp = Math.floor(Date.now() / 1000) + 600;
  const claims = {
    aud: "yrelay:relay",
    ws: workspace,
    sub: "ann",
    kind: "human",
    role: "editor",
    exp,
    ...changes,
  };
  const body = [{ alg: "EdDSA", typ: "JWT" }, claims].map((part) =>
    base64url(new TextEncoder().encode(JSON.stringify(part)))
  );
  const text = body.join(".");
  const signature = await crypto.subtle.sign("Ed25519", pair.privateKey, new TextEncoder().encode(text));
  return `${text}.${base64url(new Uint8Array(signature))}`;
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** A workspace that is there, a document that is not, and a stream that stays open and silent. */
export function emptyApi(request: Request): Response {
  const { pathname } = new URL(request.url);
  if (pathname.endsWith("/changes/stream")) {
    const head = new TextEncoder().encode('event: head\nid: 0\ndata: {"head":0}\n\n');
    return new Response(new ReadableStream({ start: (stream) => stream.enqueue(head) }));
  }
  if (pathname.endsWith("/updates")) {
    return Response.json({ clock: 1, epoch: 1, missed: false }, { status: 201 });
  }
  if (pathname.includes("/docs/")) return problem(404, "node_not_found");
  return Response.json({ id: "w" });
}

export function problem(status: number, code: string): Response {
  return Response.json({ code, status }, { status, headers: { "content-type": "application/problem+json" } });
}

/** A relay in this process. */
export interface TestRelay {
  readonly url: string;
  readonly port: number;
  readonly handler: Handler;
  readonly host: RoomHost;
  readonly metrics: Metrics;
  readonly parting: Parting;
  readonly cluster: Cluster | undefined;
  readonly lines: string[];
  /** Why the core was given up. */
  readonly broken: string[];
  connect(workspace: string, document?: string): Promise<TestClient>;
}

/** What a test changes. */
export interface TestOptions {
  readonly api?: (request: Request) => Response | Promise<Response>;
  readonly makeCore?: (config: string) => Core;
  readonly host?: Partial<HostParts>;
  readonly handler?: Partial<HandlerParts>;
  readonly cluster?: ClusterConfig;
  /** How long after a change of members rooms are looked for again, in ms. */
  readonly handoverAgain?: number;
}

/** Runs a test with a relay. */
export async function withRelay(
  options: TestOptions,
  test: (relay: TestRelay) => Promise<void>,
): Promise<void> {
  const serving = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
  const api = Deno.serve(serving, options.api ?? emptyApi);
  const [lines, broken, clients]: [string[], string[], TestClient[]] = [[], [], []];
  const log = createLog("deno", (line) => lines.push(line));
  const [metrics, run] = [new Metrics(), "run"];
  const parting = new Parting(metrics);
  const url = `http://127.0.0.1:${api.addr.port}`;
  const storage = new Storage(new ApiClient({ url, token: "service", log }), metrics, log);
  const shared = { parting, turns: new Turns(), metrics, log, maxFrameBytes: 4096 };
  const host = new RoomHost({
    ...shared,
    storage,
    coreConfig: JSON.stringify({ followsFeed: true, hibernates: false, flushAfter: 100 }),
    run,
    onBroken: (cause) => broken.push(cause),
    onAbandoned: () => {},
    ...(options.makeCore ? { makeCore: options.makeCore } : {}),
    ...options.host,
  });
  const state = () => host.isLeaving ? "leaving" as const : "in" as const;
  const cluster = options.cluster &&
    await Cluster.join({
      ...shared,
      config: options.cluster,
      label: "deno",
      host,
      state,
      handoverAgain: options.handoverAgain,
    });
  const handler = new Handler({
    gate: new Gate("https://app.example"),
    verify: await createVerifier(PUBLIC_KEY),
    storage,
    host,
    metrics,
    log,
    unready: () => undefined,
    metricsText: () => "metrics",
    cluster,
    dev: false,
    ...options.handler,
  });
  const server = Deno.serve(serving, (request) => handler.handle(request));
  const { port } = server.addr;
  const connect = async (workspace: string, document = "d") => {
    const token = await scopeToken(workspace);
    const client = await TestClient.open(`ws://127.0.0.1:${port}/ws/${workspace}/${document}?token=${token}`);
    clients.push(client);
    return client;
  };
  try {
    await test({
      url: `http://127.0.0.1:${port}`,
      port,
      handler,
      host,
      metrics,
      parting,
      cluster,
      lines,
      broken,
      connect,
    });
  } finally {
    cluster?.stop();
    cluster?.restart();
    host.restart();
    await Promise.all(clients.map((client) => client.close()));
    await parting.gone(2000);
    await until(() => host.count === 0, "no room is left");
    await server.shutdown();
    await api.shutdown();
  }
}

/** A client that keeps what it is sent. */
export class TestClient {
  readonly frames: string[] = [];
  closed: { code: number; reason: string } | undefined;
  readonly #socket: WebSocket;
  readonly #ended: Promise<void>;

  static async open(url: string): Promise<TestClient> {
    const socket = new WebSocket(url);
    const client = new TestClient(socket);
    await new Promise<void>((settle, reject) => {
      socket.addEventListener("open", () => settle());
      socket.addEventListener("close", () => reject(new Error("the upgrade was refused")));
    });
    return client;
  }

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.addEventListener("error", () => {});
    socket.addEventListener("message", ({ data }) => {
      const bytes = typeof data === "string" ? undefined : new Uint8Array(data);
      this.frames.push(bytes ? [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("") : data);
    });
    this.#ended = new Promise((settle) => {
      socket.addEventListener("close", ({ code, reason }) => {
        this.closed ??= { code, reason };
        settle();
      });
    });
  }

  send(data: string | Uint8Array<ArrayBuffer>): void {
    this.#socket.send(data);
  }

  async close(): Promise<void> {
    this.#socket.close();
    await this.#ended;
  }
}

/** Waits until something is so; fails after a while, in ms. */
export async function until(isSo: () => boolean, what: string, patience = 10_000): Promise<void> {
  const end = Date.now() + patience;
  while (!isSo()) {
    if (Date.now() > end) throw new Error(`not within ${patience / 1000} s: ${what}`);
    await new Promise((settle) => setTimeout(settle, 5));
  }
}

/** Sends bytes over TCP and reads the answer: its head, and the body of a problem. */
export async function rawRequest(port: number, head: string[]): Promise<string> {
  const connection = await Deno.connect({ hostname: "127.0.0.1", port });
  const limit = setTimeout(() => connection.close(), 5_000);
  try {
    await connection.write(new TextEncoder().encode(`${head.join("\r\n")}\r\n\r\n`));
    const buffer = new Uint8Array(16_384);
    let text = "";
    while (!text.includes("\r\n\r\n") || (text.includes("problem+json") && !text.trimEnd().endsWith("}"))) {
      const length = await connection.read(buffer);
      if (length === null) break;
      text += new TextDecoder().decode(buffer.subarray(0, length));
    }
    return text;
  } finally {
    clearTimeout(limit);
    connection.close();
  }
}
