/**
 * A connection that is passed on: the client's socket here, and one to the replica that owns the workspace.
 *
 * Frames go both ways as they are. What a room guards is guarded here as well, since the owner sees only the
 * second leg: the size of a frame, the turns of the event loop, and how much a client may leave unread (W9).
 *
 * @module
 */

import { Backlog } from "../backlog.ts";
import { MAX_QUEUED_BYTES, PEER_DEADLINE } from "../limits.ts";
import type { Metrics } from "../metrics.ts";
import type { Parting } from "../parting.ts";
import { RESTART, TOO_BIG, TOO_FAST, tooBig, TRY_LATER } from "../room.ts";
import type { Turns } from "../turns.ts";
import type { Peer } from "./members.ts";

/** Frames as a socket gives and takes them. */
type Data = string | ArrayBuffer;

/** An open connection to the owner. It keeps what comes until a client is there. */
export class Upstream {
  readonly #early: Data[] = [];
  #receive = (data: Data): void => void this.#early.push(data);
  #end: ((code: number, reason: string) => void) | undefined;
  #ended: { code: number; reason: string } | undefined;

  private constructor(readonly peer: Peer, readonly socket: WebSocket) {
    socket.binaryType = "arraybuffer";
    socket.addEventListener("message", ({ data }) => this.#receive(data));
    socket.addEventListener("error", () => {});
    socket.addEventListener("close", ({ code, reason }) => {
      // It may come twice.
      if (this.#ended) return;
      this.#ended = { code, reason };
      this.#end?.(code, reason);
    });
  }

  /** Connects to a peer; `undefined` when that does not work in time. */
  static async open(
    peer: Peer,
    target: string,
    protocols: string[],
    headers: Record<string, string>,
  ): Promise<Upstream | undefined> {
    const url = peer.address.replace(/^http/, "ws") + target;
    const upstream = new Upstream(peer, new WebSocket(url, { protocols, headers }));
    const isOpen = await new Promise<boolean>((settle) => {
      const timer = setTimeout(() => settle(false), PEER_DEADLINE);
      const answer = (isGood: boolean) => {
        clearTimeout(timer);
        settle(isGood);
      };
      upstream.socket.addEventListener("open", () => answer(true));
      upstream.socket.addEventListener("close", () => answer(false));
    });
    if (!isOpen) upstream.close();
    return isOpen ? upstream : undefined;
  }

  /** Hands over what came and what will come, and its end. */
  join(receive: (data: Data) => void, end: (code: number, reason: string) => void): void {
    this.#receive = receive;
    for (const data of this.#early.splice(0)) receive(data);
    this.#end = end;
    if (this.#ended) end(this.#ended.code, this.#ended.reason);
  }

  /** Ends it: the owner forgets the connection. */
  close(): void {
    try {
      this.socket.close();
    } catch {
      // It never was.
    }
  }
}

/** What all passed-on connections of the process share. */
export interface ProxyParts {
  readonly parting: Parting;
  readonly turns: Turns;
  readonly metrics: Metrics;
  readonly maxFrameBytes: number;
}

/** The connections that are passed on. */
export class Proxies {
  readonly #parts: ProxyParts;
  readonly #all = new Set<Proxied>();

  constructor(parts: ProxyParts) {
    this.#parts = parts;
  }

  /** Passes an open client on. */
  join(workspace: string, client: WebSocket, upstream: Upstream): void {
    const proxied = new Proxied(this.#parts, workspace, client, upstream, () => this.#all.delete(proxied));
    this.#all.add(proxied);
    proxied.start();
  }

  /** How many there are. */
  get count(): number {
    return this.#all.size;
  }

  /** Bytes that their clients have not taken. */
  get queuedBytes(): number {
    let bytes = 0;
    for (const { client } of this.#all) bytes += client.bufferedAmount;
    return bytes;
  }

  /** Sends those away whose workspace and the replica they are passed on to fulfil a condition, to come back. */
  restart(isMeant: (peer: Peer, workspace: string) => boolean = () => true): void {
    for (const proxied of [...this.#all]) {
      if (isMeant(proxied.upstream.peer, proxied.workspace)) proxied.end(RESTART, LOST);
    }
  }
}

/** One connection that is passed on. */
class Proxied {
  #isOver = false;
  #largest = 0;
  readonly #toClient: Backlog;
  readonly #toOwner: Backlog;

  constructor(
    readonly parts: ProxyParts,
    readonly workspace: string,
    readonly client: WebSocket,
    readonly upstream: Upstream,
    readonly onOver: () => void,
  ) {
    this.#toClient = new Backlog(client);
    this.#toOwner = new Backlog(upstream.socket);
  }

  start(): void {
    this.client.addEventListener("message", ({ data }) => this.#receive(data));
    this.client.addEventListener("close", () => this.#leave());
    this.upstream.join((data) => this.#deliver(data), (code, reason) => {
      // What is no word of the owner's, such as 1006, says that it is gone.
      const isWord = code === DONE || (code >= FIRST_WORD && code !== NO_TLS);
      this.end(isWord ? code : RESTART, isWord ? reason : LOST);
    });
  }

  /** Ends both legs; the client is told why. */
  end(code: number, reason: string): void {
    if (this.#isOver) return;
    this.#over();
    this.parts.parting.part(this.client, this.workspace, code, reason);
  }

  #over(): void {
    this.#isOver = true;
    this.upstream.close();
    this.onOver();
  }

  #receive(data: Data): void {
    if (this.#isOver) return;
    const { metrics, turns, maxFrameBytes } = this.parts;
    const [now, length] = [Date.now(), lengthOf(data)];
    metrics.framesIn += 1;
    metrics.bytesIn += length;
    if (length > maxFrameBytes) {
      this.end(TOO_BIG, tooBig(maxFrameBytes));
    } else if (turns.isFree(now)) {
      this.#pass(data);
      turns.done(Date.now());
    } else if (!turns.wait(this.client, length, () => this.#pass(data))) {
      this.end(TRY_LATER, TOO_FAST);
    }
  }

  #pass(data: Data): void {
    const { socket } = this.upstream;
    if (this.#isOver || socket.readyState !== WebSocket.OPEN) return;
    socket.send(data);
    if (this.#toOwner.sent(data, MAX_QUEUED_BYTES) > 0) this.end(TRY_LATER, TOO_FAST);
  }

  #deliver(data: Data): void {
    const { client, parts: { metrics } } = this;
    if (this.#isOver || client.readyState !== WebSocket.OPEN) return;
    client.send(data);
    const length = lengthOf(data);
    metrics.framesOut += 1;
    metrics.bytesOut += length;
    this.#largest = Math.max(this.#largest, length);
    if (this.#toClient.sent(data, MAX_QUEUED_BYTES + this.#largest) > 0) this.end(TRY_LATER, TOO_SLOW);
  }

  /** What the client sent before it left counts. */
  #leave(): void {
    const leave = () => {
      if (!this.#isOver) this.#over();
    };
    const { turns } = this.parts;
    if (!turns.has(this.client) || !turns.wait(this.client, 0, leave)) leave();
  }
}

function lengthOf(data: Data): number {
  return typeof data === "string" ? data.length : data.byteLength;
}

/** Close codes that a relay says: 1000, and from 1009 on; 1015 is the platform's own. */
const DONE = 1000;
const FIRST_WORD = 1009;
const NO_TLS = 1015;

const LOST = "the workspace is on another replica now; connect again";
const TOO_SLOW = "the connection does not keep up; reconnect to catch up";
