// A TCP gate in front of a server: `shut` makes the server unreachable, `open` reachable again, and
// `stall` takes connections and answers nothing.
import { connect, createServer } from "node:net";
import { once } from "node:events";

/** Starts a gate before the server at `url`; its own `url` stays the same. */
export async function startGate(url) {
  const { hostname, port } = new URL(url);
  const sockets = new Set();
  let way = "open";
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).on("close", () => sockets.delete(socket));
    if (way === "shut") return socket.resetAndDestroy();
    if (way === "stall") return socket.resume();
    const far = connect(Number(port), hostname);
    far.on("error", () => socket.destroy()).on("close", () => socket.destroy());
    socket.on("close", () => far.destroy());
    socket.pipe(far).pipe(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const turn = (to) => {
    way = to;
    for (const socket of sockets) socket.resetAndDestroy();
  };
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    open: () => turn("open"),
    shut: () => turn("shut"),
    stall: () => turn("stall"),
    stop: async () => {
      turn("shut");
      server.close();
      await once(server, "close");
    },
  };
}
