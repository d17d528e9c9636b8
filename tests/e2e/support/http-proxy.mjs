// An HTTP proxy in front of a stack: it counts requests, can drop an answer on its way back, and stays
// at its address while the stack behind it is another one.
import { createServer, request } from "node:http";

/** Starts a proxy for the server at `target`. */
export async function startProxy(target) {
  const proxy = {
    target,
    /** `METHOD /path` of every request, in order. */
    requests: [],
    /** Asked for each request: true lets it reach the server and its answer not come back. */
    drops: () => false,
    count: (method, end) => proxy.requests.filter((line) => line.startsWith(method) && line.split("?")[0].endsWith(end)).length,
  };
  const server = createServer((incoming, outgoing) => {
    const line = `${incoming.method} ${incoming.url}`;
    proxy.requests.push(line);
    const isDropped = proxy.drops(line);
    const { hostname, port } = new URL(proxy.target);
    const onward = request({ hostname, port, method: incoming.method, path: incoming.url, headers: incoming.headers, agent: false }, (answer) => {
      answer.on("error", () => outgoing.destroy());
      // A killed server ends an answer without an error.
      answer.on("close", () => answer.complete || outgoing.destroy());
      if (isDropped) return answer.resume().on("end", () => outgoing.destroy());
      outgoing.writeHead(answer.statusCode, answer.headers);
      outgoing.flushHeaders();
      answer.pipe(outgoing);
    });
    onward.on("error", () => outgoing.destroy());
    outgoing.on("close", () => onward.destroy());
    incoming.pipe(onward);
  });
  await new Promise((settle) => server.listen(0, "127.0.0.1", settle));
  proxy.url = `http://127.0.0.1:${server.address().port}`;
  proxy.stop = async () => {
    server.closeAllConnections();
    await new Promise((settle) => server.close(settle));
  };
  return proxy;
}
