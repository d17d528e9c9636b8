// Chromium with pages of the SDK, for p2p.test.mjs and back-forward-cache.test.mjs: it counts what goes over WebSockets.
import { once } from "node:events";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { startCf } from "../e2e/support/relays.mjs";
import { launch } from "./support/chromium.mjs";

/** Loopback has to do for WebRTC: no other network is used, and names of mDNS resolve in no container. */
const FLAGS = ["--allow-loopback-in-peer-connection", "--disable-features=WebRtcHideLocalIpsWithMdns"];
const PAGE = fileURLToPath(new URL("p2p-page.ts", import.meta.url));

/** How long a step of the browser may take, in ms. */
const STEP_LIMIT = 60_000;

/** Serves the page, at an origin that the API has to allow. */
async function startPages() {
  const bundle = await build({ entryPoints: [PAGE], bundle: true, format: "esm", write: false, target: "es2022" });
  const script = bundle.outputFiles[0].text;
  const server = createServer((request, response) => {
    const isScript = request.url === "/page.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? script : '<!doctype html><meta charset="utf-8"><script type="module" src="/page.js"></script>');
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    origin: `http://127.0.0.1:${server.address().port}`,
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** The pages, a browser for them and the Worker: `{ pages, browser, relay, stop() }`. */
export async function startPeers() {
  const it = {};
  it.stop = async () => {
    await it.browser?.close();
    it.pages?.stop();
    await it.relay?.stop();
  };
  try {
    it.pages = await startPages();
    it.browser = (await launch({ args: FLAGS, limit: STEP_LIMIT })).browser;
    it.relay = await startCf({ vars: { ALLOWED_ORIGINS: it.pages.origin } });
    return it;
  } catch (error) {
    await it.stop();
    throw error;
  }
}

/** A person's browser: a context of its own, or that of another page. `frames` counts what its sockets carried. */
export async function openPage(browser, origin, options, beside) {
  const context = beside?.tab.context() ?? (await browser.newContext());
  const tab = await context.newPage();
  tab.setDefaultTimeout(STEP_LIMIT);
  const frames = { sockets: 0, binary: 0, text: 0 };
  const count = ({ payload }) => (frames[typeof payload === "string" ? "text" : "binary"] += 1);
  tab.on("websocket", (socket) => {
    frames.sockets += 1;
    socket.on("framesent", count).on("framereceived", count);
  });
  await tab.goto(origin);
  await tab.waitForFunction(() => "page" in globalThis);
  await tab.evaluate((given) => globalThis.page.start(given), options);
  const call = (method, ...values) => tab.evaluate(([name, given]) => globalThis.page[name](...given), [method, values]);
  return { call, frames, tab, close: () => context.close() };
}
