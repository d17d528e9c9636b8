// The browser of these tests: a Chromium that is installed already, one process for a file of tests.
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";
import process from "node:process";
import { chromium } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/** How long any step with the browser may take, in ms. */
const STEP_LIMIT = 40_000;

/** The path of a Chromium: that of CHROMIUM_BIN, else the first on PATH; `null` when there is none. */
export function findChromium() {
  const named = process.env.CHROMIUM_BIN;
  if (named) return isProgram(named) ? named : null;
  const folders = (process.env.PATH ?? "").split(delimiter).filter(Boolean);
  return folders.flatMap((folder) => NAMES.map((name) => join(folder, name))).find(isProgram) ?? null;
}

/** Why the tests of a file are left out, or `false`. Said aloud, since a skipped test is not a passed one. */
export function missingChromium() {
  if (findChromium() !== null) return false;
  const reason = process.env.CHROMIUM_BIN ? `CHROMIUM_BIN is ${process.env.CHROMIUM_BIN}, which is no program` : "no chromium or google-chrome on PATH; install one or set CHROMIUM_BIN";
  console.error(`tests/browser: SKIPPED: ${reason}`);
  return reason;
}

/** Starts it, with further arguments. */
export async function launch({ args = [], limit = STEP_LIMIT } = {}) {
  const browser = await chromium.launch({
    executablePath: findChromium(),
    timeout: limit,
    // People have it, and a page that comes back out of it has missed what happened.
    ignoreDefaultArgs: ["--disable-back-forward-cache"],
    // In a container there is neither a sandbox for root nor a large /dev/shm.
    args: [...(process.getuid?.() === 0 ? ["--no-sandbox"] : []), "--disable-dev-shm-usage", ...args],
  });
  return { browser, limit };
}

function isProgram(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
