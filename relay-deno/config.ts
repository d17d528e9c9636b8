/**
 * The configuration: variables that begin with `RELAY_`, read once, here and nowhere else.
 *
 * All problems are reported together, so that an operator corrects them in one go. No value is ever
 * quoted: one of them is a secret and others may have one in the wrong place.
 *
 * @module
 */

import { parsePeers } from "./cluster/addresses.ts";
import type { ClusterConfig } from "./cluster/cluster.ts";
import { MAX_FRAME_BYTES } from "./limits.ts";

/** What an operator decides. */
export interface Config {
  /** The Worker's address, without a slash at its end. */
  readonly apiUrl: string;
  /** A service token with a role on every workspace that this relay serves. */
  readonly apiToken: string;
  /** The Worker's Ed25519 public key for scope tokens. */
  readonly publicKey: Uint8Array<ArrayBuffer>;
  /** Origins of pages that may connect, with commas. The core reads them. */
  readonly origins: string;
  /** The relay's name in lists, changes, log lines and metrics. */
  readonly label: string;
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** The folder of the spool; without one, what is not saved is lost with the process. */
  readonly spoolDir: string | undefined;
  /** How long the relay goes on after a signal, not ready, until proxies send nobody any more, in ms. */
  readonly prestopMs: number;
  /** How long a stop may take after that, in ms. */
  readonly drainMs: number;
  readonly maxFrameBytes: number;
  /** Members of the core's room configuration; tests shorten its delays. */
  readonly room: Readonly<Record<string, unknown>>;
  readonly metrics: boolean;
  /** The other replicas; without them this relay is alone. */
  readonly cluster: ClusterConfig | undefined;
  /** The development route, and an end with the standard input; only on a loopback address (A6). */
  readonly dev: boolean;
}

/** The configuration cannot be used. `problems` has a sentence for each variable that is wrong. */
export class ConfigError extends Error {
  constructor(readonly problems: readonly string[]) {
    super(`the configuration has ${problems.length} problem(s):\n  ${problems.join("\n  ")}`);
    this.name = "ConfigError";
  }
}

/** Reads the configuration, or throws one {@link ConfigError} about everything that is wrong. */
export function readConfig(read: (name: string) => string | undefined): Config {
  const problems: string[] = [];
  const take = <T>(name: string, parse: (text: string) => T, absent?: T): T => {
    const text = read(name)?.trim() ?? "";
    try {
      if (text !== "") return parse(text);
      if (absent === undefined) throw new Error("is missing");
      return absent;
    } catch (error) {
      problems.push(`${name} ${(error as Error).message}`);
      return absent as T;
    }
  };
  const host = take("RELAY_HOST", parseHost, "127.0.0.1");
  const peers = take("RELAY_PEERS", parsePeers, null);
  const secret = take("RELAY_CLUSTER_SECRET", parseSecret, peers === null ? "" : undefined);
  const config: Config = {
    apiUrl: take("RELAY_API_URL", parseApiUrl),
    apiToken: take("RELAY_API_TOKEN", parseToken),
    publicKey: take("RELAY_TOKEN_PUBLIC_KEY", parsePublicKey),
    origins: take("RELAY_ALLOWED_ORIGINS", (text) => text, ""),
    label: take("RELAY_LABEL", parseLabel, "deno"),
    host,
    port: take("RELAY_PORT", wholeNumber(0, 65_535), 8788),
    spoolDir: read("RELAY_SPOOL_DIR")?.trim() || undefined,
    prestopMs: take("RELAY_PRESTOP_MS", wholeNumber(0, 600_000), 0),
    drainMs: take("RELAY_DRAIN_MS", wholeNumber(1_000, 600_000), 4_500),
    maxFrameBytes: take("RELAY_MAX_FRAME_BYTES", wholeNumber(1_024, MAX_FRAME_BYTES), MAX_FRAME_BYTES),
    room: take("RELAY_ROOM_CONFIG", parseObject, {}),
    metrics: take("RELAY_METRICS", onOrOff, true),
    cluster: peers === null ? undefined : { peers, secret },
    dev: take("RELAY_DEV_MODE", (text) => zeroOrOne(text) && onLoopback(host), false),
  };
  const window = take("RELAY_TERMINATION_MS", wholeNumber(1_000, 3_600_000), Infinity);
  if (config.prestopMs + config.drainMs >= window) {
    problems.push(
      `RELAY_TERMINATION_MS must be more than RELAY_PRESTOP_MS and RELAY_DRAIN_MS together, which are ${
        config.prestopMs + config.drainMs
      } ms: the supervisor would kill the relay in the middle of its stop`,
    );
  }
  if (problems.length > 0) throw new ConfigError(problems);
  return config;
}

function parseApiUrl(text: string): string {
  const url = URL.parse(text);
  if (!url || !["http:", "https:"].includes(url.protocol)) {
    throw new Error("must be the Worker's address, such as https://api.example.com");
  }
  if (url.username || url.password || url.search || url.hash) {
    throw new Error("must have neither credentials nor a query; the token goes into RELAY_API_TOKEN");
  }
  return url.href.replace(/\/+$/, "");
}

function parseToken(text: string): string {
  if (!/^[\x21-\x7e]+$/.test(text)) throw new Error("must be one line of visible ASCII characters");
  return text;
}

function parseSecret(text: string): string {
  if (text.length < MIN_SECRET) {
    throw new Error(`must have at least ${MIN_SECRET} characters, the same on every replica`);
  }
  return text;
}

function parsePublicKey(text: string): Uint8Array<ArrayBuffer> {
  const bytes = decodeBase64url(text);
  if (bytes?.length !== 32) throw new Error("must be the 32 bytes of an Ed25519 public key in base64url");
  return bytes;
}

function parseLabel(text: string): string {
  if (!/^[A-Za-z0-9_-]{1,32}$/.test(text)) {
    throw new Error("must be 1 to 32 of the characters A-Z a-z 0-9 _ -");
  }
  return text;
}

function parseHost(text: string): string {
  if (/[\s/]/.test(text)) throw new Error("must be an address or a name, without a port or a path");
  return text;
}

function parseObject(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new Error('must be a JSON object, such as {"flushAfter":200}');
  }
  return value as Record<string, unknown>;
}

function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : NaN;
    if (!(value >= min && value <= max)) throw new Error(`must be a whole number from ${min} to ${max}`);
    return value;
  };
}

function onOrOff(text: string): boolean {
  if (text !== "on" && text !== "off") throw new Error("must be on or off");
  return text === "on";
}

/** As the Worker's DEV_MODE. */
function zeroOrOne(text: string): boolean {
  if (text !== "0" && text !== "1") throw new Error("must be 0 or 1");
  return text === "1";
}

function onLoopback(host: string): boolean {
  if (host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host)) return true;
  throw new Error("is for a loopback RELAY_HOST only");
}

function decodeBase64url(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^[A-Za-z0-9_-]+={0,2}$/.test(text)) return undefined;
  try {
    const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    return Uint8Array.from(binary, (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}

/** Characters of a secret that nobody guesses, also when it is hexadecimal. */
const MIN_SECRET = 32;
