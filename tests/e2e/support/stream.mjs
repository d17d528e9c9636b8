// A reader of the change stream that sees what is on the wire: chunks, comments, raw text. A
// browser's EventSource would hide exactly that, and reconnect by itself.
import assert from "node:assert/strict";
import { request } from "node:http";
import WebSocket from "ws";
import { reset } from "./reset.mjs";

/** How long a reader waits for something that has to come, in ms. */
const WAIT_LIMIT = 20_000;

export class Reader {
  #events = [];
  #waiting = [];
  #rest = "";

  constructor(socket, response, outgoing) {
    /** Everything received. */
    this.raw = "";
    /** Times at which comments came, in ms. */
    this.comments = [];
    this.status = response.statusCode;
    this.headers = response.headers;
    this.openedAt = performance.now();
    this.socket = socket;
    this.outgoing = outgoing;
    this.hasEnded = false;
    /** Settles when the server ends the response or the connection is gone. */
    this.ended = new Promise((settle) => {
      const end = () => {
        this.hasEnded = true;
        settle();
        this.#wake();
      };
      response.on("end", end).on("error", end).on("close", end);
    });
    const decoder = new TextDecoder("utf-8", { fatal: true });
    response.on("data", (chunk) => this.#take(decoder.decode(chunk, { stream: true })));
  }

  /** The next event; an error when none comes in time. */
  async next(limit = WAIT_LIMIT) {
    const deadline = performance.now() + limit;
    while (this.#events.length === 0) {
      const left = deadline - performance.now();
      if (this.hasEnded || left <= 0) throw new Error(this.hasEnded ? "the stream ended" : `no event within ${limit} ms; so far: ${this.raw}`);
      await new Promise((settle) => {
        const timer = setTimeout(settle, left);
        this.#waiting.push(() => {
          clearTimeout(timer);
          settle();
        });
      });
    }
    return this.#events.shift();
  }

  /** The next `count` events named `change`; others in between are skipped. */
  async changes(count, limit) {
    const found = [];
    while (found.length < count) {
      const event = await this.next(limit);
      if (event.event === "change") found.push(event);
    }
    return found;
  }

  /** The next event with this name. */
  async find(name, limit) {
    for (;;) {
      const event = await this.next(limit);
      if (event.event === name) return event;
    }
  }

  /** Events that have come and were not asked for. */
  get pending() {
    return this.#events;
  }

  /** Leaves, politely. */
  close() {
    this.outgoing.destroy();
  }

  /** Leaves with a TCP reset. */
  reset() {
    reset(this.socket);
  }

  /** Stops reading and says nothing: what a laptop that sleeps does. */
  fallSilent() {
    this.socket.pause();
  }

  #take(text) {
    this.raw += text;
    this.#rest += text;
    const blocks = this.#rest.split("\n\n");
    this.#rest = blocks.pop();
    for (const block of blocks) this.#block(block);
    this.#wake();
  }

  #block(block) {
    const event = {};
    for (const line of block.split(/\r\n|\n|\r/)) {
      const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line);
      if (name === "") this.comments.push(performance.now() - this.openedAt);
      // A browser joins several data lines; ours are always one.
      else if (name in event) assert.fail(`field ${name} twice in ${JSON.stringify(block)}`);
      else event[name] = value;
    }
    if ("data" in event) this.#events.push({ event: event.event, id: event.id, data: JSON.parse(event.data) });
    else assert.ok(!("event" in event), `an event without data: ${JSON.stringify(block)}`);
  }

  #wake() {
    for (const wake of this.#waiting.splice(0)) wake();
  }
}

/** A person's socket in a room, which makes the room live. */
export async function openSocket(api, workspace, document) {
  const person = api.actor("person", "human", { [workspace]: "editor" });
  const { json } = await person.post(`/api/workspaces/${workspace}/tokens`, { purpose: "relay" });
  const socket = new WebSocket(`${api.stack.relays[0].url}/${workspace}/${document}?token=${json.token}`);
  await new Promise((settle, reject) => socket.once("open", settle).once("error", reject));
  return socket;
}

/**
 * Opens a stream. `query` is a query string without `?`; `lastEventId` a header. Anything but 200
 * is an error, unless `status` asks for it: see `Api.get` for those.
 */
export function openStream(api, workspace, { query = "", lastEventId, token = api.token } = {}) {
  return new Promise((settle, reject) => {
    const { hostname, port } = new URL(api.stack.url);
    const headers = { accept: "text/event-stream" };
    if (token) headers.authorization = `Bearer ${token}`;
    if (lastEventId !== undefined) headers["last-event-id"] = lastEventId;
    const path = `/api/workspaces/${workspace}/changes/stream${query && `?${query}`}`;
    // A connection of its own: the tests cut it.
    const outgoing = request({ hostname, port, path, headers, agent: false });
    const limit = setTimeout(() => outgoing.destroy(new Error("no response in time")), WAIT_LIMIT);
    outgoing.on("error", reject);
    outgoing.on("response", (response) => {
      clearTimeout(limit);
      api.seen.set(`GET ${path.split("?")[0]} ${response.statusCode}`, { method: "GET", path, status: response.statusCode });
      if (response.statusCode !== 200) {
        response.resume();
        return reject(new Error(`GET ${path}: ${response.statusCode}`));
      }
      settle(new Reader(outgoing.socket, response, outgoing));
    });
    outgoing.end();
  });
}
