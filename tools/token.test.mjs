import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { ensureSecrets, readSecrets } from "./secrets.mjs";
import { mintToken } from "./token.mjs";
import { ROOT } from "./wrangler-config.mjs";

function inNewFolder(work) {
  const folder = mkdtempSync(join(tmpdir(), "yrelay-token-"));
  try {
    return work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function claims(token) {
  return JSON.parse(Buffer.from(token.split(".")[1], "base64url"));
}

test("a token carries the claims of the contract and a valid HS256 signature", () => {
  const token = mintToken({ secret: "s", sub: "a", kind: "agent", workspaces: { w: "editor" }, ttl: 60, now: 1000 });
  assert.deepEqual(claims(token), { sub: "a", kind: "agent", aud: "yrelay", iat: 1000, exp: 1060, workspaces: { w: "editor" } });
  const [header, body, signature] = token.split(".");
  assert.deepEqual(JSON.parse(Buffer.from(header, "base64url")), { alg: "HS256", typ: "JWT" });
  assert.equal(signature, createHmac("sha256", "s").update(`${header}.${body}`).digest("base64url"));
});

test("keys are made once, are 32 bytes each and are for their owner only", () => {
  inNewFolder((folder) => {
    const data = join(folder, "data");
    assert.equal(readSecrets(data), undefined);
    const made = ensureSecrets(data);
    assert.deepEqual(ensureSecrets(data), made);
    for (const key of Object.values(made)) assert.equal(Buffer.from(key, "base64url").length, 32);
    assert.notEqual(made.API_JWT_SECRET, made.SCOPE_SIGNING_KEY);
    if (process.platform !== "win32") assert.equal(statSync(join(data, "secrets.json")).mode & 0o777, 0o600);
  });
});

test("the command prints a token for the data folder and refuses what it does not know", () => {
  inNewFolder((folder) => {
    const run = (...args) => spawnSync(process.execPath, [join(ROOT, "tools", "token.mjs"), "--data", folder, ...args], { encoding: "utf8" });
    const good = ["--workspace", "w", "--sub", "s", "--kind", "human", "--role", "owner"];
    assert.match(run(...good).stderr, /cargo xtask dev/);
    ensureSecrets(folder);
    const minted = claims(run(...good, "--ttl", "5").stdout.trim());
    assert.equal(minted.exp - minted.iat, 5);
    assert.deepEqual(minted.workspaces, { w: "owner" });
    assert.match(run(...good, "--role", "root").stderr, /--role is one of/);
    assert.match(run(...good, "--ttl", "0").stderr, /--ttl/);
    assert.equal(run("--workspace", "w").status, 2);
  });
});
