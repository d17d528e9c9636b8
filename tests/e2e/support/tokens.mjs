// Scope tokens that the Worker would not make: expired, or with claims of our choice.
import { createPrivateKey, sign } from "node:crypto";

/** The fixed head of an Ed25519 private key in PKCS #8; the seed follows. */
const PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex");

/** Signs claims with a seed in base64url, as the Worker does. */
export function signScopeToken(seed, claims) {
  const key = createPrivateKey({ key: Buffer.concat([PKCS8, Buffer.from(seed, "base64url")]), format: "der", type: "pkcs8" });
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const body = `${part({ alg: "EdDSA", typ: "JWT" })}.${part(claims)}`;
  return `${body}.${sign(null, Buffer.from(body), key).toString("base64url")}`;
}

/** Claims of a good relay token, to be changed by a test. */
export function scopeClaims(workspace, changes = {}) {
  const exp = Math.floor(Date.now() / 1000) + 600;
  return { aud: "yrelay:relay", ws: workspace, sub: "ann", kind: "human", role: "editor", exp, ...changes };
}
