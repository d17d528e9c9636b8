// API tokens of an issuer that publishes its keys (A1): three algorithms, rotation, confusion, outage.
import assert from "node:assert/strict";
import { createHmac, sign } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { startStack } from "../../tools/stack.mjs";
import { Api } from "./support/http.mjs";
import { issue, makeKey, part, startIssuer } from "./support/issuer.mjs";
import { until } from "./support/waiting.mjs";

const SECONDS = Math.floor(Date.now() / 1000);
const RELAYS = "/api/relays";

/** A stack whose API tokens come from an issuer, and its log, which must never hold a token. */
function withIssuer(keys, vars = {}) {
  const state = { logs: "" };
  before(async () => {
    state.issuer = await startIssuer(keys);
    const stack = await startStack({ vars: { API_JWKS_URL: state.issuer.url, ...vars }, onLog: (text) => (state.logs += text) });
    state.api = new Api(stack);
  });
  after(async () => {
    await state.api.finish();
    await state.issuer.stop();
    assert.ok(!/eyJ[\w-]{10,}/.test(state.logs), "a token in the log");
    assert.ok(!state.logs.includes("/keys"), "an address in the log");
  });
  state.shown = async (token, path = RELAYS) => {
    const { status, json, headers } = await state.api.as(token).get(path);
    return status === 200 ? 200 : [status, json.code, headers["retry-after"]].filter((item) => item !== undefined);
  };
  return state;
}

describe("an issuer's tokens", { concurrency: 1, timeout: 120_000 }, () => {
  const keys = Object.fromEntries(["EdDSA", "ES256", "RS256"].map((alg) => [alg, makeKey(alg, `key-${alg}`)]));
  const small = makeKey("RS256", "small", { bits: 1024 });
  const encrypts = makeKey("EdDSA", "encrypts", { use: "enc" });
  const shared = { jwk: { kty: "oct", kid: "shared", k: part("0123456789abcdef0123456789abcdef"), alg: "HS256" } };
  const state = withIssuer([...Object.values(keys), small, encrypts, shared]);

  test("a1 EdDSA, ES256 and RS256 open what their claims say, with one fetch of the keys for all", async () => {
    await state.api.workspace("issued");
    const before = state.issuer.hits;
    for (const [alg, key] of Object.entries(keys)) {
      const path = "/api/workspaces/issued/nodes/a";
      const editor = state.api.as(issue(key, { sub: `ann-${alg}`, workspaces: { issued: "editor" } }));
      assert.ok([200, 201].includes((await editor.put(path, { alg })).status), alg);
      assert.deepEqual((await editor.get(path)).json.value, { alg });
      const viewer = state.api.as(issue(key, { workspaces: { issued: "viewer" } }));
      assert.equal((await viewer.put(path, 1)).json.code, "forbidden");
      assert.equal((await viewer.get("/api/workspaces/other")).json.code, "forbidden");
      assert.equal((await viewer.post("/api/workspaces/issued/tokens", { purpose: "relay" })).status, 201);
      for (const header of [{ kid: undefined }, { typ: "at+jwt" }, { typ: undefined }]) assert.equal(await state.shown(issue(key, {}, { header })), 200, JSON.stringify(header));
    }
    const { json } = await state.api.actor("owner", "human", { issued: "owner" }).get("/api/workspaces/issued/changes");
    assert.deepEqual(json.changes.map(({ actor }) => actor), ["ann-EdDSA", "ann-ES256", "ann-RS256"]);
    assert.equal(state.issuer.hits - before, 1);
    assert.equal(await state.shown(state.api.stack.mint({ sub: "x", kind: "agent", workspaces: {} })), 200, "HS256 goes on");
  });

  test("a1 claims are checked as those of the secret's tokens, after the signature", async () => {
    for (const key of Object.values(keys)) {
      assert.deepEqual(await state.shown(issue(key, { exp: SECONDS - 1 })), [401, "token_expired"]);
      assert.deepEqual(await state.shown(issue(key, { nbf: SECONDS + 3600 })), [401, "unauthorized"]);
      assert.deepEqual(await state.shown(issue(key, { aud: "other" })), [403, "forbidden"]);
      for (const claims of [{ kind: "god" }, { sub: "" }, { workspaces: { a: "god" } }, { exp: undefined }]) {
        assert.deepEqual(await state.shown(issue(key, claims)), [401, "unauthorized"], JSON.stringify(claims));
      }
      assert.deepEqual(await state.shown(issue(key, { exp: SECONDS - 1 }, { signature: "x".repeat(64) })), [401, "unauthorized"], "a forgery does not ask for a fresh token");
    }
  });

  test("a1 no token makes a key mean something else than its type", async () => {
    const { EdDSA, ES256, RS256 } = keys;
    const hmac = (key, secret, header = {}) => {
      const body = `${part({ alg: "HS256", typ: "JWT", kid: key.kid, ...header })}.${part({ aud: "yrelay", sub: "eve", kind: "human", exp: SECONDS + 600, workspaces: {} })}`;
      return `${body}.${createHmac("sha256", secret).update(body).digest("base64url")}`;
    };
    const bad = { "the shared key of the set": hmac({ kid: "shared" }, "0123456789abcdef0123456789abcdef") };
    for (const key of [EdDSA, ES256, RS256]) {
      const secrets = {
        PEM: key.publicKey.export({ type: "spki", format: "pem" }),
        DER: key.publicKey.export({ type: "spki", format: "der" }),
        JWK: JSON.stringify(key.jwk),
        text: key.jwk.x ?? key.jwk.n,
        bytes: Buffer.from(key.jwk.x ?? key.jwk.n, "base64url"),
      };
      for (const [form, secret] of Object.entries(secrets)) bad[`HS256 with the ${form} of ${key.alg}`] = hmac(key, secret);
      for (const alg of ["none", "None", "NONE", ""]) bad[`${alg} for ${key.alg}`] = issue(key, {}, { header: { alg }, signature: "" });
      for (const alg of ["none", "RS512", "PS256", "ES384", "HS256", "eddsa", 1, null]) bad[`a ${key.alg} signature as ${alg}`] = issue(key, {}, { header: { alg } });
      for (const other of [EdDSA, ES256, RS256].filter((one) => one !== key)) {
        bad[`${key.alg} with the name of ${other.alg}`] = issue(key, {}, { header: { kid: other.kid } });
        bad[`${key.alg} as ${other.alg} of its own name`] = issue(key, {}, { header: { alg: other.alg } });
        bad[`${key.alg} as ${other.alg}`] = issue(key, {}, { header: { alg: other.alg, kid: other.kid } });
      }
      const own = makeKey(key.alg, key.kid);
      bad[`another ${key.alg} key of the same name`] = issue(own, {});
      bad[`a ${key.alg} key in the header`] = issue(own, {}, { header: { jwk: own.jwk } });
      bad[`a ${key.alg} key at an address`] = issue(own, {}, { header: { jku: state.issuer.url.replace("/keys", "/evil"), x5u: "https://evil.example/x" } });
      bad[`crit in ${key.alg}`] = issue(key, {}, { header: { crit: ["exp"] } });
      bad[`empty crit in ${key.alg}`] = issue(key, {}, { header: { crit: [] } });
      bad[`a name that is no text in ${key.alg}`] = issue(key, {}, { header: { kid: 1 } });
      bad[`another type in ${key.alg}`] = issue(key, {}, { header: { typ: "JOSE" } });
      const [header, , signature] = issue(key, {}).split(".");
      bad[`changed claims in ${key.alg}`] = `${header}.${part({ aud: "yrelay", sub: "root", kind: "human", exp: SECONDS + 600, workspaces: {} })}.${signature}`;
      for (const length of [0, 1, 63, 64, 65, 256]) bad[`${length} zeros for ${key.alg}`] = issue(key, {}, { signature: "\0".repeat(length) });
    }
    const es256 = issue(ES256, {}).split(".").slice(0, 2).join(".");
    bad["ES256 in DER"] = `${es256}.${sign("sha256", Buffer.from(es256), { key: ES256.privateKey, dsaEncoding: "der" }).toString("base64url")}`;
    bad["an RSA key of 1024 bits"] = issue(small, {});
    bad["a key for encryption"] = issue(encrypts, {});
    bad["our own scope token"] = (await state.api.actor("owner", "human", { issued: "owner" }).post("/api/workspaces/issued/tokens", { purpose: "stream" })).json.token;
    const paths = [];
    const { answer } = state.issuer;
    state.issuer.answer = (response, request) => {
      paths.push(request.url);
      answer(response);
    };
    for (const [what, token] of Object.entries(bad)) assert.deepEqual(await state.shown(token), [401, "unauthorized"], what);
    state.issuer.answer = answer;
    assert.ok(paths.every((path) => path === "/keys"), `${paths}`);
    assert.ok(paths.length <= 1, "unknown names cause one fetch in 30 s, however many there are");
    for (const key of Object.values(keys)) assert.equal(await state.shown(issue(key, {})), 200, "the good ones are good all the same");
  });

  test("w10 an issuer's token is the wrong kind for a relay: 403, not 401", async () => {
    const headers = { connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13", "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==" };
    for (const key of Object.values(keys)) {
      for (const kind of ["agent", "human"]) {
        const token = issue(key, { kind, workspaces: { issued: "owner" } });
        const refused = await state.api.as(undefined).get(`/ws/issued?token=${token}`, { headers });
        assert.deepEqual([refused.status, refused.json.code], [403, "forbidden"], `${key.alg} ${kind}`);
      }
      const forged = await state.api.as(undefined).get(`/ws/issued?token=${issue(makeKey(key.alg, key.kid), {})}`, { headers });
      assert.equal(forged.status, 401);
    }
  });
});

describe("an issuer that changes its keys", { concurrency: 1, timeout: 120_000 }, () => {
  const [old, fresh] = [makeKey("ES256", "old"), makeKey("ES256", "fresh")];
  const state = withIssuer([old]);

  test("a1 a new key is found at its first use, an old one is gone with the set, and inventions cost nothing", async () => {
    const answers = await Promise.all(Array.from({ length: 10 }, () => state.shown(issue(old, {}))));
    assert.deepEqual([...new Set(answers)], [200], "also when ten requests come first");
    const before = state.issuer.hits;
    state.issuer.keys = [fresh];
    assert.equal(await state.shown(issue(old, {})), 200, "what is known is used on");
    assert.equal(state.issuer.hits, before);
    assert.equal(await state.shown(issue(fresh, {})), 200);
    assert.equal(state.issuer.hits, before + 1);
    assert.deepEqual(await state.shown(issue(old, {})), [401, "unauthorized"]);
    const invented = Array.from({ length: 30 }, (_, n) => state.shown(issue(makeKey("ES256", `invented-${n}`), {})));
    assert.deepEqual([...new Set((await Promise.all(invented)).map(String))], ["401,unauthorized"]);
    assert.equal(state.issuer.hits, before + 1, "one fetch for unknown names in 30 s");
  });
});

describe("an issuer that is away", { concurrency: 1, timeout: 120_000 }, () => {
  const [key, fresh] = [makeKey("EdDSA", "a"), makeKey("EdDSA", "b")];
  const state = withIssuer([key]);
  const AWAY = [503, "keys_unavailable", "2"];

  test("a1 without keys an issuer's token gets 503 and never 401; the open routes and the secret's tokens go on", async () => {
    const ways = {
      "an error": (response) => response.writeHead(500).end("{}"),
      "a closed connection": (response) => response.destroy(),
      "a redirect to good keys": (response, request) => (request.url === "/keys" ? response.writeHead(302, { location: "/elsewhere" }).end() : state.issuer.publish(response)),
      "a page": (response) => response.end("<html>"),
      "another document": (response) => response.end('{"issuer":"x"}'),
      "too much": (response) => response.end(`{"keys":[],"x":"${"x".repeat(200_000)}"}`),
      silence: () => {},
      "half an answer": (response) => response.write('{"keys":['),
    };
    for (const [what, answer] of Object.entries(ways)) {
      const before = state.issuer.hits;
      state.issuer.answer = answer;
      // A failed fetch is not repeated for two seconds.
      await until(async () => {
        assert.deepEqual(await state.shown(issue(key, {})), AWAY, what);
        return state.issuer.hits > before;
      }, `a fetch that meets ${what}`);
      // The platform itself may try a closed connection twice.
      const { hits } = state.issuer;
      assert.deepEqual(await state.shown(issue(key, {}, { signature: "x" })), AWAY, "nothing is known of a forgery either");
      assert.equal(state.issuer.hits, hits, what);
    }
    assert.equal(await state.shown(state.api.stack.mint({ sub: "x", kind: "agent", workspaces: {} })), 200);
    assert.equal(await state.shown(issue(key, {}), "/healthz"), 200);
    assert.match(state.logs, /API_JWKS_URL: status 500/);
  });

  test("a1 it is found again, and a new key of one that is away again is 503 while known keys go on", async () => {
    state.issuer.answer = state.issuer.publish;
    await until(async () => (await state.shown(issue(key, {}))) === 200, "the keys");
    state.issuer.answer = (response) => response.writeHead(503).end();
    assert.deepEqual(await state.shown(issue(fresh, {})), AWAY);
    assert.equal(await state.shown(issue(key, {})), 200);
    state.issuer.keys = [key, fresh];
    state.issuer.answer = state.issuer.publish;
    await until(async () => (await state.shown(issue(fresh, {}))) === 200, "the new key");
  });
});

describe("only an issuer, and only that one", { concurrency: 1, timeout: 120_000 }, () => {
  const key = makeKey("RS256", "a");
  const iss = "https://idp.example/";
  const state = withIssuer([key], { API_JWT_SECRET: "", API_TOKEN_ISSUER: iss });

  test("a1 the issuer is compared exactly, and without a secret no HS256 token is taken", async () => {
    assert.equal(await state.shown(issue(key, { iss })), 200);
    for (const other of [undefined, "https://idp.example", `${iss}x`, "", [iss]]) assert.deepEqual(await state.shown(issue(key, { iss: other })), [401, "unauthorized"], String(other));
    for (const secret of ["", "x".repeat(32)]) {
      const body = `${part({ alg: "HS256" })}.${part({ aud: "yrelay", sub: "eve", kind: "human", exp: SECONDS + 600, workspaces: {}, iss })}`;
      const token = `${body}.${createHmac("sha256", secret).update(body).digest("base64url")}`;
      assert.deepEqual(await state.shown(token), [401, "unauthorized"]);
    }
  });
});

describe("an address of keys that cannot be used", { concurrency: 1, timeout: 120_000 }, () => {
  const key = makeKey("EdDSA", "a");
  const state = withIssuer([key], { API_JWKS_URL: "http://idp.example/keys-secret" });

  test("a1 plain http to another machine is never asked: 500, and a line that says why", async () => {
    assert.deepEqual(await state.shown(issue(key, {})), [500, "internal"]);
    assert.equal(await state.shown(state.api.stack.mint({ sub: "x", kind: "agent", workspaces: {} })), 200);
    assert.match(state.logs, /API_JWKS_URL: the address of a key set is https, or http on a loopback host/);
  });
});
