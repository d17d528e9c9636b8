// A TCP gate in front of a server: `shut` makes the server unreachable, `open` reachable again,
// `stall` takes connections and answers nothing, and `silence` is the network that dies without a word.
import { connect, createServer } from "node:net";
import { once } from "node:events";
import { reset } from "./reset.mjs";

/** Starts a gate before the server at `url`; its own `url` stays the same, and `count` is of open connections to the server. */
export async function startGate(url) {
  const { hostname, port } = new URL(url);
  const sockets = new Set();
  const fars = new Set();
  let way = "open";
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).on("close", () => sockets.delete(socket));
    if (way === "shut") return reset(socket);
    if (way === "stall" || way === "silence") return socket.resume();
    const far = connect(Number(port), hostname);
    fars.add(far);
    // Neither end learns of the other's in a silent network.
    const end = (other) => way === "silence" || other.destroy();
    far.on("error", () => end(socket)).on("close", () => (fars.delete(far), end(socket)));
    socket.on("close", () => end(far));
    socket.pipe(far).pipe(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const turn = (to) => {
    way = to;
    for (const socket of [...sockets, ...fars]) reset(socket);
  };
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    count: () => fars.size,
    open: () => turn("open"),
    shut: () => turn("shut"),
    stall: () => turn("stall"),
    /** What is open stays open, at both ends, and everything that is sent is lost. */
    silence: () => {
      way = "silence";
      for (const socket of [...sockets, ...fars]) socket.unpipe().resume();
    },
    stop: async () => {
      turn("shut");
      server.close();
      await once(server, "close");
    },
  };
}
