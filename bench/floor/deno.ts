// The floor of the Deno relay: the same platform calls and none of the logic. It knows no protocol,
// checks nothing and must never be used for anything but comparing.

const documents = new Map<string, Set<WebSocket>>();

function receive(peers: Set<WebSocket>, socket: WebSocket) {
  socket.binaryType = "arraybuffer";
  socket.onopen = () => peers.add(socket);
  socket.onclose = () => peers.delete(socket);
  socket.onerror = () => peers.delete(socket);
  socket.onmessage = ({ data }) => {
    for (const peer of peers) {
      if (peer !== socket && peer.readyState === WebSocket.OPEN) peer.send(data);
    }
  };
}

Deno.serve({
  hostname: "127.0.0.1",
  port: 0,
  onListen: ({ port }) => console.log(JSON.stringify({ event: "listening", port })),
}, (request) => {
  const { pathname } = new URL(request.url);
  if (request.headers.get("upgrade") !== "websocket") return new Response("ok");
  const peers = documents.get(pathname) ?? new Set();
  documents.set(pathname, peers);
  const { socket, response } = Deno.upgradeWebSocket(request, { idleTimeout: 30 });
  receive(peers, socket);
  return response;
});
