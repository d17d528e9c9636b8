// Chromium with pages of the SDK, for p2p.test.mjs: it counts what goes over WebSockets.
import { createServer } from "node:http";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { chromium } from "playwright-core";

/** Where Debian puts it. */
const CHROMIUM = process.env.CHROMIUM_PATH ?? "/usr/bin/chromium";
/** Loopback has to do for WebRTC: no other network is used, and names of mDNS resolve in no container. */
const FLAGS = ["--no-sandbox", "--allow-loopback-in-peer-connection", "--disable-features=WebRtcHideLocalIpsWithMdns"];
const PAGE = fileURLToPath(new URL("p2p-page.ts", import.meta.url));

/** Serves the page, at an origin that the API has to allow. */
export async function startPages() {
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

export async function startBrowser() {
  return chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
}

/** A person's browser: a context of its own. `frames` counts what its sockets carried. */
export async function openPage(browser, origin, options) {
  const context = await browser.newContext();
  const tab = await context.newPage();
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
