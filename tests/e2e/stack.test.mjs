// The local stack itself: what every other end-to-end test and `cargo xtask dev` stand on.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { startStack } from "../../tools/stack.mjs";

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Waits until none of the processes is left; the test's own time limit ends the wait. */
async function gone(pids) {
  while (pids.some(isAlive)) await sleep(50);
}

async function withFolder(work) {
  const dataDir = mkdtempSync(join(tmpdir(), "yrelay-stack-"));
  try {
    await work(dataDir);
  } finally {
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  }
}

test("the Worker answers, and a stopped stack leaves no process", async () => {
  const stack = await startStack();
  const answer = await fetch(`${stack.url}/healthz`, { signal: AbortSignal.timeout(10_000) });
  await answer.text();
  await stack.stop();
  assert.equal(answer.status, 200);
  assert.deepEqual((await stack.exited).code, 0);
  await gone(Object.values(stack.pids));
});

test("keys and workspace survive a restart and a crash", () =>
  withFolder(async (dataDir) => {
    const first = await startStack({ dataDir, workspace: "demo" });
    await first.kill();
    await gone(Object.values(first.pids));
    const second = await startStack({ dataDir, workspace: "demo" });
    await second.stop();
    assert.deepEqual(second.secrets, first.secrets);
    assert.ok(second.token);
  }));

test("the death of the starting process ends the stack", () =>
  withFolder(async (dataDir) => {
    const program = `
      import { startStack } from ${JSON.stringify(new URL("../../tools/stack.mjs", import.meta.url).href)};
      const stack = await startStack({ dataDir: ${JSON.stringify(dataDir)} });
      console.log(JSON.stringify(stack.pids));
    `;
    const starter = spawn(process.execPath, ["--input-type=module", "--eval", program], { stdio: ["ignore", "pipe", "inherit"] });
    const [line] = await once(starter.stdout, "data");
    const pids = Object.values(JSON.parse(line));
    assert.ok(pids.every(isAlive));
    starter.kill("SIGKILL");
    await gone(pids);
  }));

test("a taken port fails the start", async () => {
  const stack = await startStack();
  const port = Number(new URL(stack.url).port);
  try {
    await assert.rejects(startStack({ port }), /ended before it was ready \(code 1\): worker-host: port \d+ is in use/);
  } finally {
    await stack.stop();
  }
});
