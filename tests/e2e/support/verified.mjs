// Is a database whole after what a test did to it? `cargo xtask verify`'s own program says so.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { ROOT } from "../../../tools/wrangler-config.mjs";

/** The first run compiles. In ms. */
const RUN_LIMIT = 240_000;

/** Fails with the verifier's own words unless the database below a data folder is whole. The stack may run. */
export async function verified(dataDir) {
  const args = ["run", "--quiet", "--locked", "--package", "verify", "--", "--data", dataDir];
  const { code, shown } = await new Promise((settle) => {
    execFile("cargo", args, { cwd: ROOT, timeout: RUN_LIMIT }, (error, stdout, stderr) => settle({ code: error ? error.code : 0, shown: `${stdout}${stderr}` }));
  });
  assert.equal(code, 0, `the database is not whole:\n${shown}`);
}

/** How often which close code ended a connection, for a test's diagnosis; 0 is a dead link. */
export function reconnects(closes) {
  const counts = {};
  for (const code of closes) counts[code] = (counts[code] ?? 0) + 1;
  return `reconnects by close code ${JSON.stringify(counts)}`;
}
