// Serves the demo page of `cargo xtask dev` on a loopback port of its own. The page gets tokens of
// the demo workspace from here, so it is answered under exactly one name: a foreign page that makes
// its own host name point at this machine gets nothing.
import { createServer } from "node:http";
import { bundleDemo } from "./demo-bundle.mjs";
import { mintToken } from "./token.mjs";

/** How long the page's API tokens are valid, in seconds: an hour. It fetches new ones by itself. */
const TOKEN_TTL = 3600;
/** What a page may call its person: a word and a number, never the name of an agent or a relay. */
const PERSON = /^[a-z]{1,16}-\d{1,4}$/;

const TYPES = { html: "text/html; charset=utf-8", css: "text/css; charset=utf-8", js: "text/javascript; charset=utf-8" };

/**
 * Starts the page's server; `port` is taken if it is free, else another one. The page works once
 * `open` was called with the stack that it uses; `close` ends the server. A stack may have `workspaces`
 * besides its own, which the page is asked for by `?workspace=`: a name to what differs there.
 */
export async function startDemo({ host, port }) {
  const files = bundleDemo();
  let stack;
  const server = createServer((request, response) => {
    if (request.headers.host !== authority) return answer(response, 403, "text/plain", "ask for it by its own address");
    if (request.method !== "GET") return answer(response, 405, "text/plain", "GET only");
    const asked = `http://${authority}${request.url}`;
    if (!URL.canParse(asked)) return answer(response, 400, "text/plain", "this is no address");
    const { pathname, searchParams } = new URL(asked);
    if (pathname === "/session.json") return answerSession(response, stack, searchParams);
    const name = pathname === "/" ? "index.html" : pathname.slice(1);
    const type = TYPES[name.split(".").at(-1)];
    if (type === undefined || !files.has(name)) return answer(response, 404, "text/plain", "not here");
    return answer(response, 200, type, files.get(name), name.endsWith(".html") ? policy(stack) : {});
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

/** Tokens of one workspace, for a person of a name of its own and for an agent. */
function answerSession(response, stack, query) {
  if (!stack) return answer(response, 503, "text/plain", "the stack is starting");
  const person = query.get("person") ?? "";
  const workspace = query.get("workspace") ?? stack.workspace;
  if (!PERSON.test(person)) return answer(response, 400, "text/plain", "say ?person=, such as heron-417");
  const own = workspace === stack.workspace ? stack : stack.workspaces?.get(workspace);
  if (own === undefined) return answer(response, 403, "text/plain", "tokens are for the demo's workspace only");
  return answer(response, 200, "application/json", JSON.stringify(session({ ...stack, ...own }, workspace, person)));
}

function session({ api, relays, secret }, workspace, person) {
  const mint = (sub, kind, role) => mintToken({ secret, sub, kind, workspaces: { [workspace]: role }, ttl: TOKEN_TTL });
  return { api, relays, workspace, human: mint(person, "human", "editor"), agent: mint("demo-agent", "agent", "editor") };
}

/** The page may talk to this server and to the stack, and to nobody else. The editor writes styles of its own. */
function policy(stack) {
  const served = stack ? [stack, ...(stack.workspaces?.values() ?? [])] : [];
  const others = [...new Set(served.flatMap(({ api, relays }) => [api, ...relays.map(({ url }) => new URL(url).origin)]))].join(" ");
  const rules = ["default-src 'self'", `connect-src 'self' ${others}`, "style-src 'self' 'unsafe-inline'", "img-src 'self' data:", "frame-ancestors 'none'"];
  return { "content-security-policy": rules.join("; ") };
}

function answer(response, status, type, body, headers = {}) {
  const fixed = { "content-type": type, "cache-control": "no-cache", "referrer-policy": "no-referrer", "x-content-type-options": "nosniff" };
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
