// A small relay in this process: a real WebSocket server on the loopback address that speaks the sync,
// awareness, receipts and pings of PROTOCOL.md, closes as a test tells it, and counts what it got.
import type { AddressInfo } from "node:net";
import * as decoding from "lib0/decoding";
import * as encoding from "lib0/encoding";
import { WebSocketServer } from "ws";
import type { WebSocket } from "ws";
import { readSyncMessage, writeSyncStep1, writeUpdate } from "y-protocols/sync";
import * as Y from "yjs";

export interface Visit {
  readonly socket: WebSocket;
  readonly url: string;
  readonly protocols: string;
  readonly texts: Record<string, unknown>[];
  readonly binary: Uint8Array[];
}

export class MiniRelay {
  readonly label: string;
  readonly visits: Visit[] = [];
  /** Content by address; kept when the relay stops, as a database would. */
  readonly docs = new Map<string, Y.Doc>();
  /** The last awareness frame of each connection. */
  readonly #awareness = new Map<WebSocket, Uint8Array>();
  epoch = 0;
  clock = 0;
  /** Takes a visit over: true means that the relay does nothing with it. */
  greet: (visit: Visit, number: number) => boolean | void = () => {};
  /** The answer to a flush; by default a receipt. */
  answerFlush: (id: unknown) => object | null = (id) => ({ type: "receipt", id, clock: (this.clock += 1), epoch: this.epoch });
  /** A dead link: what comes is ignored, and nothing is said. */
  mute = false;
  readOnly = false;
  #server: WebSocketServer | null = null;
  #port = 0;

  constructor(label: string) {
    this.label = label;
  }

  static async start(label = "cf"): Promise<MiniRelay> {
    const relay = new MiniRelay(label);
    await relay.start();
    return relay;
  }

  /** On the port that it had before, if it had one. */
  async start(): Promise<void> {
    const server = new WebSocketServer({
      host: "127.0.0.1",
      port: this.#port,
      handleProtocols: (offered) => (offered.has("yrelay") ? "yrelay" : false),
    });
    this.#server = server;
    await new Promise((settle, reject) => server.once("listening", settle).once("error", reject));
    this.#port = (server.address() as AddressInfo).port;
    server.on("connection", (socket, request) => {
      const visit = { socket, url: request.url ?? "", protocols: request.headers["sec-websocket-protocol"] ?? "", texts: [], binary: [] };
      this.visits.push(visit);
      socket.on("error", () => {});
      if (this.greet(visit, this.visits.length) !== true) this.#serve(visit);
    });
  }

  /** As a process that is killed: sockets break off, the port refuses. */
  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    for (const socket of server?.clients ?? []) socket.terminate();
    await new Promise<void>((settle) => (server ? server.close(() => settle()) : settle()));
  }

  get entry(): { label: string; url: string } {
    return { label: this.label, url: `ws://127.0.0.1:${this.#port}/ws` };
  }

  get clients(): WebSocket[] {
    return [...(this.#server?.clients ?? [])];
  }

  closeAll(code: number): void {
    for (const socket of this.clients) socket.close(code);
  }

  text(address = "/ws/w/d"): string {
    return this.docs.get(address)?.getText("t").toString() ?? "";
  }

  #serve(visit: Visit): void {
    const address = visit.url.split("?")[0]!;
    const doc = this.docs.get(address) ?? new Y.Doc();
    this.docs.set(address, doc);
    const { socket } = visit;
    const forward = (update: Uint8Array, origin: unknown) => {
      if (origin !== socket) this.#sync(socket, (encoder) => writeUpdate(encoder, update));
    };
    doc.on("update", forward);
    socket.on("close", () => {
      doc.off("update", forward);
      this.#awareness.delete(socket);
    });
    socket.on("message", (data, isBinary) => {
      if (this.mute) return;
      const bytes = new Uint8Array(data as Buffer);
      if (isBinary) this.#binary(visit, doc, bytes);
      else this.#text(visit, JSON.parse(new TextDecoder().decode(bytes)));
    });
  }

  #binary(visit: Visit, doc: Y.Doc, bytes: Uint8Array): void {
    visit.binary.push(bytes);
    const { socket } = visit;
    const decoder = decoding.createDecoder(bytes);
    const type = decoding.readVarUint(decoder);
    if (type === 3) for (const [other, states] of this.#awareness) if (other !== socket) socket.send(states);
    if (type === 1) {
      this.#awareness.set(socket, bytes);
      for (const other of this.clients) if (other !== socket) other.send(bytes);
      return;
    }
    if (type !== 0) return;
    if (this.readOnly && bytes[1] !== 0) return void socket.send(Uint8Array.of(2, 0, 2, 110, 111));
    const answer = encoding.createEncoder();
    encoding.writeVarUint(answer, 0);
    const kind = readSyncMessage(decoder, answer, doc, socket);
    if (kind !== 0) return;
    socket.send(encoding.toUint8Array(answer));
    this.#sync(socket, (encoder) => writeSyncStep1(encoder, doc));
  }

  #text(visit: Visit, message: Record<string, unknown>): void {
    if (message["type"] === "ping") return void visit.socket.send('{"type":"pong"}');
    visit.texts.push(message);
    if (message["type"] === "publish") for (const other of this.visits) if (subscribes(other, message["topic"])) other.socket.send(JSON.stringify({ ...message, sender: "somebody" }));
    if (message["type"] !== "flush") return;
    const answer = this.answerFlush(message["id"]);
    if (answer !== null) visit.socket.send(JSON.stringify(answer));
  }

  #sync(socket: WebSocket, write: (encoder: encoding.Encoder) => void): void {
    const encoder = encoding.createEncoder();
    encoding.writeVarUint(encoder, 0);
    write(encoder);
    socket.send(encoding.toUint8Array(encoder));
  }
}

function subscribes({ texts }: Visit, topic: unknown): boolean {
  return texts.some(({ type, topics }) => type === "subscribe" && (topics as unknown[]).includes(topic));
}
