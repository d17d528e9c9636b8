import assert from "node:assert/strict";
import { request } from "node:http";
import { test } from "node:test";
import { startDemo } from "./demo-host.mjs";

const stack = { api: "http://127.0.0.1:1", relays: [{ label: "cf", url: "ws://127.0.0.1:1/ws" }, { label: "deno", url: "ws://127.0.0.1:2/ws" }], workspace: "demo", secret: "s".repeat(32) };

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
    assert.match(page.headers["content-security-policy"], /connect-src 'self' http:\/\/127\.0\.0\.1:1 ws:\/\/127\.0\.0\.1:1 ws:\/\/127\.0\.0\.1:2;/);
    const files = [...page.text.matchAll(/(?:href|src)="([\w.]+)"/g)].map((match) => match[1]);
    assert.deepEqual(files, ["main.css", "main.js"]);
    for (const file of files) {
      assert.equal((await ask(demo.origin, `/${file}`)).status, 200, file);
    }
    // The packages are in the file: a bare import would not load in a browser.
    assert.doesNotMatch((await ask(demo.origin, "/main.js")).text, /^import /m);
  }));

test("the page gets a token of a person and one of an agent, once the stack is up", () =>
  withDemo(async (demo) => {
    assert.equal((await ask(demo.origin, "/session.json?person=heron-417")).status, 503);
    demo.open(stack);
    const session = JSON.parse((await ask(demo.origin, "/session.json?person=heron-417")).text);
    assert.deepEqual([claims(session.human).kind, claims(session.agent).kind], ["human", "agent"]);
    assert.deepEqual(claims(session.agent).workspaces, { demo: "editor" });
    assert.equal(claims(session.human).sub, "heron-417");
    assert.deepEqual(session.relays, stack.relays);
    for (const query of ["", "?person=relay:cf", "?person=dev", "?person=heron-41777"]) assert.equal((await ask(demo.origin, `/session.json${query}`)).status, 400, query);
    assert.equal((await ask(demo.origin, "/session.json?person=heron-417&workspace=other")).status, 403);
  }));

test("u05 a page of another name gets no token, whatever its name resolves to", () =>
  withDemo(async (demo) => {
    demo.open(stack);
    const port = new URL(demo.origin).port;
    for (const host of [`evil.example:${port}`, `localhost:${port}`, "127.0.0.1"]) {
      const refused = await ask(demo.origin, "/session.json?person=heron-417", { host });
      assert.deepEqual([refused.status, refused.text.includes("eyJ")], [403, false], host);
    }
    assert.equal((await ask(demo.origin, "/session.json", { method: "POST" })).status, 405);
    for (const path of ["/../package.json", "//", "/_headers", "/main.ts"]) assert.equal((await ask(demo.origin, path)).status, 404, path);
    assert.equal((await ask(demo.origin, "/session.json?person=heron-417")).headers["access-control-allow-origin"], undefined);
  }));

test("a port that is taken is replaced by a free one", () =>
  withDemo(async (first) => {
    const second = await startDemo({ host: "127.0.0.1", port: Number(new URL(first.origin).port) });
    assert.notEqual(second.origin, first.origin);
    second.close();
  }));
