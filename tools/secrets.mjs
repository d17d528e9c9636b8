// The keys of a local stack: random, made at its first start, kept in its data folder only.
import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** The keys of the stack in `dataDir`, or undefined when it was never started. */
export function readSecrets(dataDir) {
  try {
    return JSON.parse(readFileSync(join(dataDir, "secrets.json"), "utf8"));
  } catch (error) {
    if (error.code === "ENOENT") return undefined;
    throw error;
  }
}

/** The keys of the stack in `dataDir`; makes the folder and the keys when they are not there. */
export function ensureSecrets(dataDir) {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const key = () => randomBytes(32).toString("base64url");
  const made = { API_JWT_SECRET: key(), SCOPE_SIGNING_KEY: key() };
  try {
    // `wx`: of two starts at the same moment only one makes the keys.
    writeFileSync(join(dataDir, "secrets.json"), `${JSON.stringify(made, null, 2)}\n`, { mode: 0o600, flag: "wx" });
    return made;
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
    return readSecrets(dataDir);
  }
}
