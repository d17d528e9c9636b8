// Who may do what over HTTP (section 7): tokens, roles, workspaces, origins, and what logs never hold.
import assert from "node:assert/strict";
import { createHmac, generateKeyPairSync, sign } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { startStack } from "../../tools/stack.mjs";
import { Api } from "./support/http.mjs";

/** "hi" in the root `t`, by client 101. */
const UPDATE = Buffer.from("010165000401017402686900", "hex");
const ALLOWED = "https://app.example";
const SECONDS = Math.floor(Date.now() / 1000);

/** A token of any header and claims, with a good signature unless told otherwise. */
function forge(secret, header, claims, signature) {
  const part = (value) => Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");
  const body = `${part(header)}.${part(claims)}`;
  return `${body}.${signature ?? createHmac("sha256", secret).update(body).digest("base64url")}`;
}

/** Every route of a workspace: method, address below it, body, and the least role that may. */
function routes() {
  const json = { "content-type": "application/json" };
  return [
    ["GET", "", undefined, {}, "viewer"],
    ["GET", "/nodes", undefined, {}, "viewer"],
    ["GET", "/nodes/r", undefined, {}, "viewer"],
    ["GET", "/docs/d", undefined, {}, "viewer"],
    ["GET", "/changes", undefined, {}, "viewer"],
    ["GET", "/changes/stream?since=abc", undefined, {}, "viewer"],
    ["POST", "/tokens", '{"purpose":"stream"}', json, "viewer"],
    ["PUT", "/nodes/r", "1", json, "editor"],
    ["PATCH", "/nodes/r", "{}", json, "editor"],
    ["POST", "/ops", '{"ops":[{"op":"put","path":"o","value":1}]}', json, "editor"],
    ["POST", "/docs/d/updates", UPDATE, { "content-type": "application/octet-stream" }, "editor"],
    ["DELETE", "/nodes/o", undefined, {}, "editor"],
    ["DELETE", "", undefined, {}, "owner"],
  ];
}

const ROLES = ["viewer", "editor", "owner"];

describe("identity", { concurrency: true, timeout: 120_000 }, () => {
  let api;
  let secret;
  let logs = "";
  before(async () => {
    const stack = await startStack({ vars: { ALLOWED_ORIGINS: `${ALLOWED},http://localhost:3000` }, onLog: (text) => (logs += text) });
    api = new Api(stack);
    secret = stack.secrets.API_JWT_SECRET;
  });
  after(async () => {
    await api.finish();
    // A3, over everything that the tests of this file did: no token, no part that would be one.
    assert.ok(!/eyJ[\w-]{10,}/.test(logs), `a token in the log: ${/.*eyJ[\w-]{10,}.*/.exec(logs)}`);
    for (const key of [secret, api.stack.secrets.SCOPE_SIGNING_KEY]) assert.ok(!logs.includes(key));
  });

  /** Sends every route with a token; answers `[status, code]`s. */
  async function everyRoute(client, workspace, only = () => true) {
    const answers = [];
    for (const [method, address, body, headers, role] of routes().filter(only)) {
      answers.push([method, address, role, await client.call(method, `/api/workspaces/${workspace}${address}`, { body, headers })]);
    }
    return answers;
  }

  test("a.48 no token, an unreadable one, and every way to forge one are 401 on every route", async () => {
    const owner = await api.workspace("a48");
    const claims = { sub: "eve", kind: "human", aud: "yrelay", exp: SECONDS + 600, workspaces: { a48: "owner" } };
    const header = { alg: "HS256", typ: "JWT" };
    const good = forge(secret, header, claims);
    assert.equal((await api.as(good).get("/api/workspaces/a48")).status, 200, "the forger can make a good one");
    const { publicKey, privateKey } = generateKeyPairSync("ed25519");
    const eddsa = `${Buffer.from('{"alg":"EdDSA"}').toString("base64url")}.${good.split(".")[1]}`;
    const scope = (await owner.post("/api/workspaces/a48/tokens", { purpose: "relay" })).json.token;
    const without = (name) => Object.fromEntries(Object.entries(claims).filter(([key]) => key !== name));
    const bad = {
      missing: undefined,
      "not a token": "hello",
      "two parts": good.split(".").slice(0, 2).join("."),
      "bad signature": `${good.slice(0, -4)}AAAA`,
      "other secret": forge("x".repeat(32), header, claims),
      "changed claims": forge(secret, header, { ...claims, sub: "root" }, good.split(".")[2]),
      "no signature": `${good.split(".").slice(0, 2).join(".")}.`,
      none: forge(secret, { alg: "none" }, claims, ""),
      "none, signed": forge(secret, { alg: "none" }, claims),
      None: forge(secret, { alg: "None" }, claims, ""),
      HS512: forge(secret, { alg: "HS512" }, claims),
      "own key": `${eddsa}.${sign(null, Buffer.from(eddsa), privateKey).toString("base64url")}`,
      "own jwk": forge(secret, { ...header, jwk: publicKey.export({ format: "jwk" }) }, claims, "AAAA"),
      crit: forge(secret, { ...header, crit: ["x"] }, claims),
      expired: forge(secret, header, { ...claims, exp: SECONDS - 1 }),
      "not yet": forge(secret, header, { ...claims, nbf: SECONDS + 3600 }),
      "no expiry": forge(secret, header, without("exp")),
      "no subject": forge(secret, header, without("sub")),
      "empty subject": forge(secret, header, { ...claims, sub: "" }),
      "long subject": forge(secret, header, { ...claims, sub: "s".repeat(129) }),
      "control character": forge(secret, header, { ...claims, sub: "a\nb" }),
      "no audience": forge(secret, header, without("aud")),
      "unknown kind": forge(secret, header, { ...claims, kind: "god" }),
      "unknown role": forge(secret, header, { ...claims, workspaces: { a48: "god" } }),
      "claims are a list": forge(secret, header, [claims]),
      "claims are no JSON": forge(secret, header, "{"),
      "too long": forge(secret, header, { ...claims, more: "x".repeat(9000) }),
      "a scope token": scope,
    };
    for (const [what, token] of Object.entries(bad)) {
      for (const [method, address, , answer] of await everyRoute(api.as(token), "a48")) {
        const isScope = what === "a scope token";
        assert.equal(answer.status, 401, `${what}: ${method} ${address} ${answer.text}`);
        assert.equal(answer.json.code, what === "expired" ? "token_expired" : "unauthorized", what);
        assert.match(answer.headers["www-authenticate"], /^Bearer/, what);
        if (token && !isScope) assert.ok(!answer.text.includes(token.slice(-20)), "an error does not repeat the token");
      }
    }
    const otherAudience = api.as(forge(secret, header, { ...claims, aud: "other" }));
    for (const [method, address, , answer] of await everyRoute(otherAudience, "a48")) {
      assert.deepEqual([answer.status, answer.json.code], [403, "forbidden"], `${method} ${address}`);
    }
    assert.equal((await api.as(forge(secret, header, { ...claims, aud: ["x", "yrelay"] })).get("/api/workspaces/a48")).status, 200);
    for (const authorization of [`Basic ${good}`, good, `Bearer ${good} x`, `Bearer ${good}, Bearer ${good}`, "Bearer", "Bearer "]) {
      assert.equal((await api.as(undefined).get("/api/workspaces/a48", { headers: { authorization } })).status, 401, authorization.slice(0, 12));
    }
    assert.equal((await owner.get("/api/workspaces/a48")).json.head, 0, "none of them did anything");
  });

  test("a.72 a5 every route with every role: what is below the role is 403", async () => {
    const owner = await api.workspace("a72");
    await owner.put("/api/workspaces/a72/nodes/r", 1);
    await owner.update("a72", "d", UPDATE);
    for (const [rank, role] of ROLES.entries()) {
      for (const kind of ["human", "agent", "service"]) {
        const client = api.actor(`${role}-${kind}`, kind, { a72: role });
        // The workspace has to last for those who come later.
        const isKept = ([method, address]) => !(role === "owner" && method === "DELETE" && address === "");
        for (const [method, address, , needed, answer] of (await everyRoute(client, "a72", isKept)).map(([m, a, n, r]) => [m, a, n, n, r])) {
          const what = `${role} ${kind}: ${method} ${address} ${answer.text}`;
          if (ROLES.indexOf(needed) > rank) assert.deepEqual([answer.status, answer.json.code], [403, "forbidden"], what);
          else assert.ok(![401, 403, 500].includes(answer.status), what);
        }
      }
    }
    const { head } = (await owner.get("/api/workspaces/a72")).json;
    const viewers = (await owner.changes("a72")).filter(({ actor }) => actor.startsWith("viewer"));
    assert.deepEqual(viewers, [], "a viewer changed nothing");
    assert.ok(head > 10);
    assert.equal((await api.actor("owner-agent", "agent", { a72: "owner" }).delete("/api/workspaces/a72")).status, 200);
  });

  test("who has a role somewhere else, or creates what is not theirs, gets 403", async () => {
    await api.workspace("theirs");
    const mine = api.actor("eve", "human", { mine: "owner" });
    assert.equal((await mine.post("/api/workspaces", { id: "theirs-2" })).json.code, "forbidden");
    assert.equal((await mine.post("/api/workspaces", {})).json.code, "forbidden", "an id of the server's choice needs `*`");
    assert.equal((await api.actor("ed", "human", { mine: "editor" }).post("/api/workspaces", { id: "mine" })).json.code, "forbidden");
    // `*` is every workspace that has no entry of its own.
    const star = api.actor("star", "service", { "*": "owner", theirs: "viewer" });
    assert.equal((await star.get("/api/workspaces/theirs")).status, 200);
    assert.equal((await star.put("/api/workspaces/theirs/nodes/a", 1)).json.code, "forbidden");
    assert.equal((await star.post("/api/workspaces", { id: "starred" })).status, 201);
  });

  test("u07 a foreign workspace answers the same whether it exists, was deleted or never was", async () => {
    const owner = await api.workspace("u07");
    await owner.put("/api/workspaces/u07/nodes/r", 1);
    await owner.update("u07", "d", UPDATE);
    const dead = await api.workspace("u07-dead");
    await dead.delete("/api/workspaces/u07-dead");
    const stranger = api.actor("stranger", "human", { elsewhere: "owner" });
    const shown = async (workspace) => (await everyRoute(stranger, workspace)).map(([method, address, , answer]) => {
      const { date, ...headers } = answer.headers;
      return { method, address, status: answer.status, text: answer.text, headers };
    });
    const existing = await shown("u07");
    assert.ok(existing.every(({ status }) => status === 403));
    assert.deepEqual(await shown("u07-none"), existing);
    assert.deepEqual(await shown("u07-dead"), existing);
    assert.equal((await owner.get("/api/workspaces/u07")).json.head, 2);
    const create = (id) => stranger.post("/api/workspaces", { id });
    assert.deepEqual((await create("u07")).text, (await create("u07-none")).text);
  });

  test("C.3 w10 agents get no relay token, and nobody gets one with more than they have", async () => {
    await api.workspace("w10");
    const tokens = "/api/workspaces/w10/tokens";
    const agent = api.actor("bot", "agent", { w10: "owner" });
    const refused = await agent.post(tokens, { purpose: "relay" });
    assert.deepEqual([refused.status, refused.json.code], [403, "forbidden"]);
    assert.equal((await agent.post(tokens, { purpose: "stream" })).status, 201);
    const secrets = new Set();
    for (const [kind, role] of [["human", "viewer"], ["human", "editor"], ["service", "editor"]]) {
      const soon = SECONDS + 60;
      const client = api.actor("p", kind, { w10: role }, { ttl: 60, now: SECONDS });
      const minted = await client.post(tokens, { purpose: "relay" });
      const claims = JSON.parse(Buffer.from(minted.json.token.split(".")[1], "base64url"));
      assert.deepEqual([claims.aud, claims.ws, claims.sub, claims.kind, claims.role], ["yrelay:relay", "w10", "p", kind, role]);
      assert.ok(claims.exp <= soon, "never longer than the token that asks");
      assert.equal(minted.json.expiresAt, claims.exp * 1000);
      assert.equal(minted.headers["cache-control"], "no-store");
      if (role === "viewer") assert.equal(minted.json.peerSecret, undefined, "a5 a viewer is no peer");
      else secrets.add(minted.json.peerSecret);
    }
    assert.equal(secrets.size, 1, "all that may write have the same");
    assert.match([...secrets][0], /^[\w-]{43}$/);
    const stream = api.actor("p", "human", { w10: "editor" });
    assert.equal((await stream.post(tokens, { purpose: "stream" })).json.peerSecret, undefined);
    for (const body of [{}, { purpose: "admin" }, { purpose: 1 }, { purpose: "relay", ttl: 99 }, []]) {
      assert.equal((await agent.post(tokens, body)).json.code, "bad_request", JSON.stringify(body));
    }
  });

  test("a relay refuses at the upgrade, before there is a room", async () => {
    const owner = await api.workspace("upgrade");
    const tokens = "/api/workspaces/upgrade/tokens";
    const token = async (purpose) => (await owner.post(tokens, { purpose })).json.token;
    const relay = await token("relay");
    const nobody = api.as(undefined);
    const upgrade = (path, headers = {}) => nobody.get(path, { headers: { connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13", "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==", ...headers } });
    const table = [
      ["/ws/upgrade", 401, "unauthorized"],
      ["/ws/upgrade?token=x", 401, "unauthorized"],
      [`/ws/upgrade?token=${await token("stream")}`, 403, "forbidden"],
      [`/ws/upgrade?token=${owner.token}`, 403, "forbidden"],
      [`/ws/upgrade?token=${api.actor("bot", "agent", { upgrade: "owner" }).token}`, 403, "forbidden"],
      [`/ws/other?token=${relay}`, 403, "forbidden"],
      [`/ws/upgrade/d?token=${relay}&epoch=x`, 400, "bad_request"],
      [`/ws/a%2Fb?token=${relay}`, 400, "invalid_workspace_id"],
      [`/ws/upgrade/a//b?token=${relay}`, 400, "invalid_path"],
    ];
    for (const [path, status, code] of table) {
      const refused = await upgrade(path);
      assert.deepEqual([refused.status, refused.json.code], [status, code], path.slice(0, 40));
    }
    const plain = await nobody.get(`/ws/upgrade?token=${relay}`);
    // The runtime keeps the `Upgrade` header, which belongs to the connection, for itself.
    assert.deepEqual([plain.status, plain.json.code], [426, "upgrade_required"]);
    const foreign = await upgrade(`/ws/upgrade?token=${relay}`, { origin: "https://evil.example" });
    assert.deepEqual([foreign.status, foreign.json.code], [403, "origin_not_allowed"]);
  });

  test("a3 origins match exactly, on every route, before anything is looked at", async () => {
    const owner = await api.workspace("origins");
    const base = "/api/workspaces/origins";
    const refused = ["https://evil.example", "https://app.example.evil.example", "http://app.example", "https://app.example:8443", "https://APP.example", "https://app.example/", "null", "http://localhost", "https://sub.app.example"];
    for (const origin of refused) {
      for (const path of [base, `${base}/nodes`, `${base}/changes/stream`, "/healthz", "/api/openapi.json", "/nope"]) {
        const answer = await owner.get(path, { headers: { origin } });
        assert.deepEqual([answer.status, answer.json.code], [403, "origin_not_allowed"], `${origin} ${path}`);
        assert.equal(answer.headers["access-control-allow-origin"], undefined);
      }
      const write = await owner.put(`${base}/nodes/a`, 1, { origin });
      assert.equal(write.json.code, "origin_not_allowed", origin);
      const preflight = await owner.call("OPTIONS", base, { headers: { origin, "access-control-request-method": "GET" } });
      assert.equal(preflight.status, 403, origin);
    }
    for (const origin of [ALLOWED, "http://localhost:3000"]) {
      const answer = await owner.get(base, { headers: { origin } });
      assert.deepEqual([answer.status, answer.headers["access-control-allow-origin"], answer.headers.vary], [200, origin, "Origin"]);
      assert.match(answer.headers["access-control-expose-headers"], /ETag.*Retry-After/);
      assert.equal(answer.headers["access-control-allow-credentials"], undefined);
      // A page must be able to read why it was refused.
      const bad = await owner.get(`${base}/nodes/nope`, { headers: { origin } });
      assert.deepEqual([bad.status, bad.headers["access-control-allow-origin"]], [404, origin]);
    }
    const none = await owner.get(base);
    assert.deepEqual([none.status, none.headers["access-control-allow-origin"]], [200, undefined]);
    assert.equal((await owner.get(base)).json.head, 0);
  });

  test("a preflight names methods and headers without a token", async () => {
    const nobody = api.as(undefined);
    const ask = (path, method) => nobody.call("OPTIONS", path, { headers: { origin: ALLOWED, "access-control-request-method": method, "access-control-request-headers": "authorization,if-match" } });
    const table = [["/api/workspaces", "POST"], ["/api/workspaces/w", "GET, DELETE"], ["/api/workspaces/w/nodes/a", "GET, PUT, PATCH, DELETE"], ["/api/workspaces/w/ops", "POST"], ["/api/workspaces/w/docs/d/updates", "GET, PUT, POST"], ["/api/workspaces/w/docs/d", "GET, PUT"], ["/api/workspaces/w/changes/stream", "GET"], ["/mcp", "POST"]];
    for (const [path, methods] of table) {
      const answer = await ask(path, "PUT");
      assert.deepEqual([answer.status, answer.bytes.length, answer.headers["access-control-allow-methods"], answer.headers["access-control-allow-origin"]], [204, 0, methods, ALLOWED], path);
      for (const name of ["Authorization", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match", "Last-Event-ID", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"]) {
        assert.ok(answer.headers["access-control-allow-headers"].includes(name), name);
      }
      assert.ok(Number(answer.headers["access-control-max-age"]) > 0);
    }
    assert.equal((await ask("/nope", "GET")).json.code, "not_found");
    assert.equal((await nobody.call("OPTIONS", "/api/workspaces")).status, 405, "without an origin it is no preflight");
  });

  test("the open routes need no token and tell nothing", async () => {
    const nobody = api.as(undefined);
    for (const path of ["/healthz", "/readyz"]) {
      const answer = await nobody.get(path);
      assert.deepEqual([answer.status, answer.json], [200, { status: "ok" }], path);
    }
    const { json: document, headers } = await nobody.get("/api/openapi.json");
    assert.equal(headers["content-type"], "application/json");
    assert.match(document.openapi, /^3\.1/);
    assert.equal((await nobody.get("/metrics")).status, 404);
  });
});
