import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";
import { freePort, isFree, withFreePort } from "./ports.mjs";

const HOST = "127.0.0.1";
const IN_USE = Object.assign(new Error("somebody was faster"), { code: "EADDRINUSE" });
const isTaken = (error) => error === IN_USE;

test("a free port is one where a server can listen, and of those that no outgoing connection gets", async (t) => {
  const port = await freePort(HOST);
  assert.ok(port >= 20_000 && port < 32_000, `${port}`);
  const server = createServer().listen(port, HOST);
  t.after(() => server.close());
  await once(server, "listening");
  assert.equal(await isFree(HOST, port), false);
});

test("an error that is no matter of the port is told", async () => {
  await assert.rejects(isFree("192.0.2.1", 20_000), /EADDRNOTAVAIL/);
});

test("a start that lost its port tries others, for any other reason it fails at once, and in the end too", async () => {
  const tried = [];
  const failing = (times, error) => async (port) => {
    tried.push(port);
    if (tried.length <= times) throw error;
    return port;
  };
  assert.equal(await withFreePort(HOST, failing(2, IN_USE), isTaken), tried[2]);
  tried.length = 0;
  await assert.rejects(withFreePort(HOST, failing(1, new Error("another")), isTaken), /another/);
  assert.equal(tried.length, 1);
  tried.length = 0;
  await assert.rejects(withFreePort(HOST, failing(99, IN_USE), isTaken), /faster/);
  assert.equal(tried.length, 5);
});
