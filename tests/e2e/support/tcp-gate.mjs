// A TCP gate in front of a server: `shut` makes the server unreachable, `open` reachable again, `stall`
// takes connections and answers nothing; `silence` and `mute` are the network that dies without a word,
// `shape` a slow one, and `cut` one that breaks in the middle of whatever is on its way.
import { connect, createServer } from "node:net";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { reset } from "./reset.mjs";

/** A throttled line gives what it may in this many portions a second. */
const PORTIONS = 20;

/** One connection through a gate: both sockets, and what happens to the bytes between them. */
class Line {
  isSilent = false;
  /** The direction whose next chunk breaks it: "up", "down" or undefined. */
  cutting;

  constructor(near, far, shape) {
    Object.assign(this, { near, far, shape });
    for (const [from, to, way] of [[near, far, "up"], [far, near, "down"]]) {
      from.on("error", () => {}).on("close", () => this.isSilent || to.destroy());
      // A connection that ends in the middle is what this is for.
      void this.#pump(from, to, way).catch(() => {});
    }
  }

  async #pump(from, to, way) {
    for await (const chunk of from) {
      const { delayMs, bytesPerSecond } = this.shape();
      if (delayMs > 0) await sleep(delayMs);
      if (this.cutting === way && chunk.length > 1) return this.#cut(to, chunk.subarray(0, chunk.length >> 1));
      const portion = bytesPerSecond === Infinity ? chunk.length : Math.max(1, Math.floor(bytesPerSecond / PORTIONS));
      for (let at = 0; at < chunk.length; at += portion) {
        if (portion < chunk.length) await sleep(1000 / PORTIONS);
        if (this.isSilent) break;
        if (!to.write(chunk.subarray(at, at + portion))) await drained(to);
      }
    }
    if (!this.isSilent) to.end();
  }

  /** Half of a chunk arrives, then both ends hear of the break. */
  async #cut(to, half) {
    await new Promise((settle) => to.write(half, settle));
    this.reset();
  }

  reset() {
    reset(this.near);
    reset(this.far);
  }
}

/** Settles when more may be written, or nothing ever again. */
function drained(socket) {
  return new Promise((settle) => {
    if (socket.destroyed) return settle();
    const done = () => {
      socket.off("drain", done).off("close", done);
      settle();
    };
    socket.on("drain", done).on("close", done);
  });
}

/** Starts a gate before the server at `url`; its own `url` stays the same, and `count` is of open connections to the server. */
export async function startGate(url) {
  const { hostname, port } = new URL(url);
  const sockets = new Set();
  const lines = new Set();
  let shape = { delayMs: 0, bytesPerSecond: Infinity };
  let way = "open";
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).on("close", () => sockets.delete(socket));
    if (way === "shut") return reset(socket);
    if (way === "stall" || way === "silence") return socket.resume();
    const far = connect(Number(port), hostname);
    const line = new Line(socket, far, () => shape);
    lines.add(line);
    far.on("close", () => lines.delete(line));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const turn = (to) => {
    way = to;
    for (const line of lines) line.reset();
    for (const socket of sockets) reset(socket);
  };
  /** What is open stays open, at both ends, and everything that is sent is lost. */
  const mute = () => lines.forEach((line) => (line.isSilent = true));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    count: () => lines.size,
    open: () => turn("open"),
    shut: () => turn("shut"),
    stall: () => turn("stall"),
    mute,
    /** The same, and who connects anew is not answered. */
    silence: () => {
      way = "silence";
      mute();
    },
    /** Each chunk is late by `delayMs`, and each direction of a connection has `bytesPerSecond`. */
    shape: ({ delayMs = 0, bytesPerSecond = Infinity } = {}) => (shape = { delayMs, bytesPerSecond }),
    /** Every connection breaks in the middle of the next chunk that goes `up` to the server, or `down`. Answers how many there are. */
    cut: (direction) => {
      for (const line of lines) line.cutting = direction;
      return lines.size;
    },
    stop: async () => {
      turn("shut");
      server.close();
      await once(server, "close");
    },
  };
}
