// The Worker as wrangler runs it, from wrangler.toml: the demo at `/`, the API beside it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { freePort } from "../../tools/ports.mjs";
import { ROOT } from "../../tools/wrangler-config.mjs";
import { PATIENCE, until } from "./support/waiting.mjs";

test("`wrangler dev` serves the demo at / and the API beside it", { timeout: 120_000 }, async (t) => {
  const port = await freePort();
  const state = mkdtempSync(join(tmpdir(), "yrelay-wrangler-"));
  const args = ["dev", "--ip", "127.0.0.1", "--port", String(port), "--persist-to", state, "--show-interactive-dev-session=false"];
  // Of its own group: wrangler does not take all that it started along.
  const wrangler = spawn(process.execPath, [join(ROOT, "node_modules", "wrangler", "bin", "wrangler.js"), ...args], {
    cwd: ROOT,
    env: { ...process.env, CI: "1", WRANGLER_SEND_METRICS: "false" },
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [wrangler.stdout, wrangler.stderr]) stream.on("data", (text) => (output += text));
  t.after(async () => {
    process.kill(-wrangler.pid, "SIGKILL");
    if (wrangler.exitCode === null && wrangler.signalCode === null) await once(wrangler, "exit");
    rmSync(state, { recursive: true, force: true, maxRetries: 5 });
  });
  const get = (path) => fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(PATIENCE), redirect: "manual" }).catch(() => undefined);
  const isUp = async () => {
    assert.equal(wrangler.exitCode, null, output);
    return (await get("/healthz"))?.status === 200;
  };
  await until(isUp, "the Worker answers", 60_000);

  const page = await get("/");
  assert.deepEqual([page.status, page.headers.get("x-content-type-options")], [200, "nosniff"]);
  assert.match(page.headers.get("content-security-policy"), /^default-src 'self'/);
  const html = await page.text();
  assert.equal(html, readFileSync(join(ROOT, "build", "demo", "index.html"), "utf8"));
  for (const [, file] of html.matchAll(/(?:src|href)="([a-z.]+)"/g)) assert.equal((await get(`/${file}`)).status, 200, file);
  assert.equal((await (await get("/api/openapi.json")).json()).openapi.slice(0, 3), "3.1");
  const refused = await get("/api/workspaces/w");
  assert.deepEqual([refused.status, (await refused.json()).code], [401, "unauthorized"]);
  assert.equal((await get("/nothing")).headers.get("content-type"), "application/problem+json", "the Worker is asked for what is no file");
});
