// An issuer of API tokens with keys of its own, and the server that publishes them (JWKS).
import { generateKeyPairSync, sign } from "node:crypto";
import { createServer } from "node:http";

/** How each algorithm makes keys and signatures. */
const ALGORITHMS = {
  EdDSA: { make: () => generateKeyPairSync("ed25519"), sign: (data, key) => sign(null, data, key) },
  ES256: { make: () => generateKeyPairSync("ec", { namedCurve: "P-256" }), sign: (data, key) => sign("sha256", data, { key, dsaEncoding: "ieee-p1363" }) },
  RS256: { make: (bits) => generateKeyPairSync("rsa", { modulusLength: bits ?? 2048 }), sign: (data, key) => sign("sha256", data, key) },
};

/** A key with a name. `jwk` is what the issuer publishes. */
export function makeKey(alg, kid, { bits, ...members } = {}) {
  const { publicKey, privateKey } = ALGORITHMS[alg].make(bits);
  const jwk = { ...publicKey.export({ format: "jwk" }), ...(kid === undefined ? {} : { kid }), alg, use: "sig", ...members };
  return { alg, kid, publicKey, privateKey, jwk };
}

export const part = (value) => Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");

/** Signs claims as the issuer does; `header` changes the header, `signature` replaces the signature. */
export function issue(key, claims, { header = {}, signature } = {}) {
  const exp = Math.floor(Date.now() / 1000) + 600;
  const body = `${part({ alg: key.alg, typ: "JWT", kid: key.kid, ...header })}.${part({ aud: "yrelay", sub: "ann", kind: "human", exp, workspaces: {}, ...claims })}`;
  return `${body}.${part(signature ?? "")}${signature === undefined ? ALGORITHMS[key.alg].sign(Buffer.from(body), key.privateKey).toString("base64url") : ""}`;
}

/** Publishes keys. `keys` and `answer` may be changed at any time; `hits` counts the requests. */
export async function startIssuer(keys = []) {
  const open = new Set();
  const issuer = { keys, hits: 0, answer: (response) => response.end(JSON.stringify({ keys: issuer.keys.map(({ jwk }) => jwk) })) };
  issuer.publish = issuer.answer;
  const server = createServer((request, response) => {
    issuer.hits += 1;
    issuer.answer(response, request);
  });
  server.on("connection", (socket) => open.add(socket.once("close", () => open.delete(socket))));
  await new Promise((settle) => server.listen(0, "127.0.0.1", settle));
  issuer.url = `http://127.0.0.1:${server.address().port}/keys`;
  issuer.stop = () => {
    open.forEach((socket) => socket.destroy());
    return new Promise((settle) => server.close(settle));
  };
  return issuer;
}
