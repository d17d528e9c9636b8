// The Ed25519 key of scope tokens: a Worker has its seed, a relay elsewhere the public half.
//   node tools/scope-key.mjs < seed     prints the public key (RELAY_TOKEN_PUBLIC_KEY)
import { createPrivateKey, createPublicKey } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The fixed head of an Ed25519 private key in PKCS #8 (RFC 8410); the seed follows. */
const PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex");
const SEED_BYTES = 32;

/** The public key of a seed; both are 32 bytes in base64url without padding. */
export function publicScopeKey(seed) {
  const bytes = Buffer.from(seed, "base64url");
  if (bytes.length !== SEED_BYTES) throw new Error("the seed is not 32 bytes in base64url");
  const key = createPrivateKey({ key: Buffer.concat([PKCS8, bytes]), format: "der", type: "pkcs8" });
  return createPublicKey(key).export({ format: "jwk" }).x;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    console.log(publicScopeKey(readFileSync(0, "utf8").trim()));
  } catch (error) {
    console.error(`scope-key: ${error.message}`);
    process.exitCode = 2;
  }
}
