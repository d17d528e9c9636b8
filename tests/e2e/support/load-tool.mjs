// Runs `cargo xtask load`'s own program against a relay of a test.
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ROOT } from "../../../tools/wrangler-config.mjs";

/** How long a short run may take, in ms: the first one compiles, and everybody gets two minutes to converge. */
export const RUN_LIMIT = 170_000;

/**
 * Answers its exit code, its report and what it printed. `url` is the relay's address, or of something in front
 * of it; `signal` ends it before its time.
 */
export function load(relay, url, args, { limit = RUN_LIMIT, signal } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "yrelay-load-"));
  const [ready, report] = ["ready.json", "report.json"].map((name) => join(folder, name));
  writeFileSync(ready, JSON.stringify({ api: relay.api, relays: [{ label: relay.label, url }] }));
  writeFileSync(join(folder, "secrets.json"), JSON.stringify(relay.stack.secrets), { mode: 0o600 });
  const options = ["--ready-file", ready, "--data", folder, "--relay", relay.label, "--json", report, ...args];
  return new Promise((settle) => {
    execFile("cargo", ["run", "--quiet", "--locked", "--package", "load", "--", ...options], { cwd: ROOT, timeout: limit, signal }, (error, stdout, stderr) => {
      const json = error && error.code !== 1 ? undefined : JSON.parse(readFileSync(report, "utf8"));
      rmSync(folder, { recursive: true });
      settle({ code: error ? error.code : 0, json, shown: `${stdout}${stderr}` });
    });
  });
}
