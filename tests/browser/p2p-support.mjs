// Chromium with pages of the SDK, for p2p.test.mjs and back-forward-cache.test.mjs: it counts what goes over WebSockets.
import { accessSync, constants } from "node:fs";
import { createServer } from "node:http";
import { once } from "node:events";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { chromium } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/** Loopback has to do for WebRTC: no other network is used, and names of mDNS resolve in no container. */
const FLAGS = ["--disable-dev-shm-usage", "--allow-loopback-in-peer-connection", "--disable-features=WebRtcHideLocalIpsWithMdns"];
const PAGE = fileURLToPath(new URL("p2p-page.ts", import.meta.url));

/** How long a step of the browser may take, in ms. */
const STEP_LIMIT = 60_000;

/** Why the tests are left out, or `false`. */
export function missingChromium() {
  return findChromium() === undefined && "no chromium or google-chrome on PATH; install one or set CHROMIUM_BIN";
}

/** That of CHROMIUM_BIN, else the first on PATH. */
function findChromium() {
  const folders = (process.env.PATH ?? "").split(delimiter).filter(Boolean);
  const paths = process.env.CHROMIUM_BIN ? [process.env.CHROMIUM_BIN] : folders.flatMap((folder) => NAMES.map((name) => join(folder, name)));
  return paths.find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

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
  // A container's root has no sandbox.
  const args = process.getuid?.() === 0 ? [...FLAGS, "--no-sandbox"] : FLAGS;
  // People have the back/forward cache; playwright turns it off.
  return chromium.launch({ executablePath: findChromium(), timeout: STEP_LIMIT, args, ignoreDefaultArgs: ["--disable-back-forward-cache"] });
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
