// Serves the demo page of `cargo xtask dev` on a loopback port of its own. The page gets tokens of
// the demo workspace from here, so it is answered under exactly one name: a foreign page that makes
// its own host name point at this machine gets nothing.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { buildSync } from "esbuild";
import { mintToken } from "./token.mjs";
import { ROOT } from "./wrangler-config.mjs";

/** How long the page's API tokens are valid, in seconds: an hour. It fetches new ones by itself. */
const TOKEN_TTL = 3600;

/** The folder of the page. */
const PAGE = join(ROOT, "demo");

/**
 * Starts the page's server; `port` is taken if it is free, else another one. The page works once
 * `open` was called with the stack that it uses; `close` ends the server.
 */
export async function startDemo({ host, port }) {
  const script = bundle();
  let stack;
  const server = createServer((request, response) => {
    if (request.headers.host !== authority) return answer(response, 403, "text/plain", "ask for it by its own address");
    if (request.method !== "GET") return answer(response, 405, "text/plain", "GET only");
    switch (request.url.split("?")[0]) {
      case "/":
        return answer(response, 200, "text/html; charset=utf-8", readFileSync(join(PAGE, "index.html")), policy(stack));
      case "/style.css":
        return answer(response, 200, "text/css; charset=utf-8", readFileSync(join(PAGE, "style.css")));
      case "/main.js":
        return answer(response, 200, "text/javascript; charset=utf-8", script);
      case "/favicon.ico":
        return answer(response, 204, "image/x-icon");
      case "/session.json":
        if (!stack) return answer(response, 503, "text/plain", "the stack is starting");
        return answer(response, 200, "application/json", JSON.stringify(session(stack)));
      default:
        return answer(response, 404, "text/plain", "not here");
    }
  });
  await listen(server, host, port).catch((error) => {
    if (error.code !== "EADDRINUSE") throw error;
    return listen(server, host, 0);
  });
  const authority = `${host.includes(":") ? `[${host}]` : host}:${server.address().port}`;
  const open = (opened) => (stack = opened);
  const close = () => server.close(() => {}).closeAllConnections();
  // The server must not keep the host alive when everything else has ended.
  server.unref();
  return { origin: `http://${authority}`, open, close };
}

/** One file out of the page's modules and the packages they use. */
function bundle() {
  const built = buildSync({
    entryPoints: [join(PAGE, "main.js")],
    bundle: true,
    format: "esm",
    target: "es2022",
    minify: true,
    write: false,
    logLevel: "warning",
  });
  return Buffer.from(built.outputFiles[0].contents);
}

function session({ api, relays, workspace, secret }) {
  const mint = (sub, kind, role) => mintToken({ secret, sub, kind, workspaces: { [workspace]: role }, ttl: TOKEN_TTL });
  return { api, relay: relays[0].url, workspace, human: mint("demo-human", "human", "editor"), agent: mint("demo-agent", "agent", "editor") };
}

/** The page may talk to this server and to the stack, and to nobody else. */
function policy(stack) {
  const others = stack ? `${stack.api} ${stack.api.replace(/^http/, "ws")}` : "";
  return { "content-security-policy": `default-src 'self'; connect-src 'self' ${others}; frame-ancestors 'none'` };
}

function answer(response, status, type, body, headers = {}) {
  const fixed = { "content-type": type, "cache-control": "no-store", "referrer-policy": "no-referrer", "x-content-type-options": "nosniff" };
  response.writeHead(status, { ...fixed, ...headers });
  response.end(body);
}

function listen(server, host, port) {
  return new Promise((settle, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      settle();
    });
  });
}
