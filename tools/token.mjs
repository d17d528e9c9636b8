// API tokens of a local stack: the one place that signs them. `cargo xtask token` runs this file.
import { createHmac } from "node:crypto";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { readSecrets } from "./secrets.mjs";

const KINDS = ["human", "agent", "service"];
const ROLES = ["owner", "editor", "viewer"];

/**
 * Signs an API token (HS256). `workspaces` maps workspace ids to roles; `ttl` is in seconds; `now`
 * is in seconds since 1970 and given by tests that need an expired token.
 */
export function mintToken({ secret, sub, kind, workspaces, ttl = 600, now = Math.floor(Date.now() / 1000) }) {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const claims = { sub, kind, aud: "yrelay", iat: now, exp: now + ttl, workspaces };
  const body = `${part({ alg: "HS256", typ: "JWT" })}.${part(claims)}`;
  return `${body}.${createHmac("sha256", secret).update(body).digest("base64url")}`;
}

function main() {
  const option = { type: "string" };
  const { values } = parseArgs({
    options: { data: option, workspace: option, sub: option, kind: option, role: option, ttl: option },
  });
  for (const name of ["data", "workspace", "sub", "kind", "role"]) {
    if (!values[name]) throw new Error(`--${name} is missing`);
  }
  const oneOf = (name, allowed) => {
    if (!allowed.includes(values[name])) throw new Error(`--${name} is one of ${allowed.join(", ")}`);
  };
  oneOf("kind", KINDS);
  oneOf("role", ROLES);
  const ttl = Number(values.ttl ?? 600);
  if (!Number.isSafeInteger(ttl) || ttl < 1) throw new Error("--ttl is a number of seconds, at least 1");
  const secrets = readSecrets(values.data);
  if (!secrets) throw new Error(`${join(values.data, "secrets.json")} is not there: start \`cargo xtask dev --data ${values.data}\` once`);
  const workspaces = { [values.workspace]: values.role };
  console.log(mintToken({ secret: secrets.API_JWT_SECRET, sub: values.sub, kind: values.kind, workspaces, ttl }));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    main();
  } catch (error) {
    console.error(`token: ${error.message}`);
    process.exitCode = 2;
  }
}
