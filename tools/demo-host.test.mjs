import assert from "node:assert/strict";
import { request } from "node:http";
import { test } from "node:test";
import { startDemo } from "./demo-host.mjs";

const stack = { api: "http://127.0.0.1:1", relays: [{ label: "cf", url: "ws://127.0.0.1:1/ws" }], workspace: "demo", secret: "s".repeat(32) };

/** Like fetch, with a Host header of one's own. */
function ask(origin, path, { host, method } = {}) {
  return new Promise((settle, reject) => {
    const outgoing = request(`${origin}${path}`, { method, headers: host ? { host } : {} }, async (answer) => {
      const chunks = await answer.toArray();
      settle({ status: answer.statusCode, headers: answer.headers, text: Buffer.concat(chunks).toString() });
    });
    outgoing.on("error", reject);
    outgoing.end();
  });
}

async function withDemo(work) {
  const demo = await startDemo({ host: "127.0.0.1", port: 0 });
  try {
    await work(demo);
  } finally {
    demo.close();
  }
}

const claims = (token) => JSON.parse(Buffer.from(token.split(".")[1], "base64url"));

test("the page is served whole, and may talk to the stack and to nobody else", () =>
  withDemo(async (demo) => {
    demo.open(stack);
    const page = await ask(demo.origin, "/");
    assert.equal(page.status, 200);
    assert.match(page.headers["content-security-policy"], /connect-src 'self' http:\/\/127\.0\.0\.1:1 ws:\/\/127\.0\.0\.1:1;/);
    for (const [, file] of page.text.matchAll(/(?:href|src)="([^"]+)"/g)) {
      assert.equal((await ask(demo.origin, `/${file}`)).status, 200, file);
    }
    // The packages are in the file: a bare import would not load in a browser.
    assert.doesNotMatch((await ask(demo.origin, "/main.js")).text, /^import /m);
  }));

test("the page gets a token of a person and one of an agent, once the stack is up", () =>
  withDemo(async (demo) => {
    assert.equal((await ask(demo.origin, "/session.json")).status, 503);
    demo.open(stack);
    const session = JSON.parse((await ask(demo.origin, "/session.json")).text);
    assert.deepEqual([claims(session.human).kind, claims(session.agent).kind], ["human", "agent"]);
    assert.deepEqual(claims(session.agent).workspaces, { demo: "editor" });
    assert.equal(session.relay, stack.relays[0].url);
  }));

test("u05 a page of another name gets no token, whatever its name resolves to", () =>
  withDemo(async (demo) => {
    demo.open(stack);
    const port = new URL(demo.origin).port;
    for (const host of [`evil.example:${port}`, `localhost:${port}`, "127.0.0.1"]) {
      const refused = await ask(demo.origin, "/session.json", { host });
      assert.deepEqual([refused.status, refused.text.includes("eyJ")], [403, false], host);
    }
    assert.equal((await ask(demo.origin, "/session.json", { method: "POST" })).status, 405);
    assert.equal((await ask(demo.origin, "/../package.json")).status, 404);
    assert.equal((await ask(demo.origin, "/session.json")).headers["access-control-allow-origin"], undefined);
  }));

test("a port that is taken is replaced by a free one", () =>
  withDemo(async (first) => {
    const second = await startDemo({ host: "127.0.0.1", port: Number(new URL(first.origin).port) });
    assert.notEqual(second.origin, first.origin);
    second.close();
  }));
