// Entries of a list that do one thing each, on real sockets: what a walker may meet.
import { generateKeyPairSync, sign } from "node:crypto";
import { createServer as createHttpServer } from "node:http";
import type { AddressInfo, Server } from "node:net";
import { createServer } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import type { Relay } from "../src/relay-list.ts";
import { cleanups, relay } from "./walker-client.ts";

/** How a connection that opened is ended: with a close code, or by cutting it, which a client calls 1006. */
export type End = number | "cut";

/** A relay whose connections end one after the other as told, once the client has spoken. Later ones stay. */
export async function endingEntry(label: string, ends: readonly End[]): Promise<Relay> {
  const started = await relay(label);
  started.greet = ({ socket }, visit) => {
    const end = ends[visit - 1];
    if (end !== undefined) socket.once("message", () => (end === "cut" ? socket.terminate() : socket.close(end)));
  };
  return started.entry;
}

/** Answers each handshake with an HTTP status. */
export async function refusingEntry(label: string, status: number): Promise<Relay> {
  const server = createHttpServer();
  server.on("upgrade", (_, socket) => socket.end(`HTTP/1.1 ${status} No\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`));
  return listen(server, label, "ws");
}

/** Ends each handshake without an answer. */
export function cuttingEntry(label: string): Promise<Relay> {
  return listen(createServer((socket) => void socket.on("error", () => {}).once("data", () => socket.destroy())), label, "ws");
}

/** A server without TLS behind a wss: address. */
export function plainEntry(label: string): Promise<Relay> {
  return listen(createServer((socket) => void socket.on("error", () => {}).once("data", () => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"))), label, "wss");
}

/** TLS with a certificate that nobody vouches for. */
export function selfSignedEntry(label: string): Promise<Relay> {
  const server = createTlsServer(selfSigned(), (socket) => void socket.on("error", () => {}));
  return listen(server.on("tlsClientError", () => {}), label, "wss");
}

/** A host name that no resolver knows, and none is asked about: a label of it is over 63 characters. */
export function unknownHostEntry(label: string): Relay {
  return { label, url: `wss://${"x".repeat(64)}.invalid/ws` };
}

async function listen(server: Server, label: string, scheme: string): Promise<Relay> {
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  cleanups.push(() => new Promise((settle) => server.close(settle)));
  return { label, url: `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}/ws` };
}

/** A certificate for 127.0.0.1 that is its own issuer, as X.509 in DER, and its key. */
function selfSigned(): { key: string; cert: string } {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const algorithm = der(0x30, der(0x06, Buffer.from("2b6570", "hex")));
  const name = der(0x30, der(0x31, der(0x30, der(0x06, Buffer.from("550403", "hex")), der(0x0c, Buffer.from("127.0.0.1")))));
  const time = (at: number) => der(0x17, Buffer.from(`${new Date(at).toISOString().replaceAll(/\D/g, "").slice(2, 14)}Z`));
  const day = 86_400_000;
  const validity = der(0x30, time(Date.now() - day), time(Date.now() + day));
  const version = der(0xa0, der(0x02, Buffer.from([2])));
  const body = der(0x30, version, der(0x02, Buffer.from([1])), algorithm, name, validity, name, publicKey.export({ type: "spki", format: "der" }));
  const bits = der(0x03, Buffer.from([0]), sign(null, body, privateKey));
  const certificate = der(0x30, body, algorithm, bits).toString("base64");
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
    cert: `-----BEGIN CERTIFICATE-----\n${certificate}\n-----END CERTIFICATE-----\n`,
  };
}

/** A value with its tag and length before it. */
function der(tag: number, ...parts: Buffer[]): Buffer {
  const value = Buffer.concat(parts);
  const length = value.length < 128 ? [value.length] : [0x82, value.length >> 8, value.length & 255];
  return Buffer.concat([Buffer.from([tag, ...length]), value]);
}
