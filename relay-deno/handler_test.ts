import assert from "node:assert/strict";
import { emptyApi, problem, rawRequest, scopeToken, until, withRelay } from "./_test_support.ts";

const HANDSHAKE = [
  "Host: relay",
  "Connection: Upgrade",
  "Upgrade: websocket",
  "Sec-WebSocket-Version: 13",
  "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
];

Deno.test("health, readiness and metrics", async () => {
  let cause: string | undefined;
  await withRelay({ handler: { unready: () => cause } }, async ({ handler }) => {
    const get = (path: string, method = "GET") =>
      handler.handle(new Request(`http://relay${path}`, { method }));
    assert.deepEqual([(await get("/healthz")).status, (await get("/readyz")).status], [200, 200]);
    cause = "The relay is stopping.";
    const unready = await get("/readyz");
    assert.deepEqual([(await get("/healthz")).status, unready.status], [200, 503]);
    assert.equal(unready.headers.get("retry-after"), "2");
    assert.equal((await unready.json()).detail, cause);
    assert.equal(await (await get("/metrics")).text(), "metrics");
    const head = await get("/healthz", "HEAD");
    assert.deepEqual([head.status, await head.text()], [200, ""]);
    const post = await get("/metrics", "POST");
    assert.deepEqual([post.status, post.headers.get("allow")], [405, "GET, HEAD"]);
    const upgrade = await get("/ws/w");
    assert.deepEqual([upgrade.status, (await upgrade.json()).code], [426, "upgrade_required"]);
  });
});

Deno.test("what is not there is a problem of 404, the switched-off included", async () => {
  await withRelay({ handler: { metricsText: undefined } }, async ({ handler }) => {
    for (const path of ["/", "/metrics", "/api/workspaces/w", "/wsx", "/__dev/rooms/w", "/healthz/x"]) {
      const answer = await handler.handle(new Request(`http://relay${path}`));
      assert.deepEqual(
        [answer.status, answer.headers.get("content-type")],
        [404, "application/problem+json"],
        path,
      );
      assert.equal((await answer.json()).code, "not_found", path);
    }
  });
});

Deno.test("N02 a handshake that is none is answered, and the relay goes on", async () => {
  await withRelay({}, async ({ port, handler, metrics }) => {
    const target = `GET /ws/w/d?token=${await scopeToken("w")} HTTP/1.1`;
    const without = (name: string, ...more: string[]) => [
      target,
      ...HANDSHAKE.filter((line) => !line.startsWith(name)),
      ...more,
    ];
    const rows: [string[], string][] = [
      [without("Upgrade"), "426"],
      [without("Upgrade", "Upgrade: h2c"), "426"],
      [without("Sec-WebSocket-Version"), "426"],
      [without("Sec-WebSocket-Version", "Sec-WebSocket-Version: 8"), "426"],
      [without("Sec-WebSocket-Key"), "400"],
      [without("Connection"), "400"],
      [[target.replace("GET", "POST"), ...HANDSHAKE], "405"],
      [["GET /ws/../x HTTP/1.1", ...HANDSHAKE], "4"],
      [[`GET /ws/w?${"x".repeat(20_000)} HTTP/1.1`, ...HANDSHAKE], "4"],
      [["GET /ws/w HTTP/1.1", ...HANDSHAKE], "401"],
      [["\0\x01\x02"], ""],
      [[target, ...HANDSHAKE], "101"],
    ];
    for (const [head, status] of rows) {
      const answer = await rawRequest(port, head);
      assert.ok(
        answer.startsWith(`HTTP/1.1 ${status}`) || status === "",
        `${head.join(" | ").slice(0, 90)}: ${answer.slice(0, 60)}`,
      );
      if (head.some((line) => line.endsWith(": 8"))) assert.match(answer, /sec-websocket-version: 13/i);
    }
    assert.equal((await handler.handle(new Request("http://relay/healthz"))).status, 200);
    assert.equal(metrics.unhandledErrors, 0);
  });
});

Deno.test("U05 the marker is echoed however the list is written", async () => {
  await withRelay({}, async ({ port }) => {
    const token = await scopeToken("w");
    for (const list of [`yrelay, ${token}`, `yrelay,${token}`, `yrelay ,  ${token}`]) {
      const answer = await rawRequest(port, [
        "GET /ws/w/d HTTP/1.1",
        ...HANDSHAKE,
        `Sec-WebSocket-Protocol: ${list}`,
      ]);
      assert.match(answer, /^HTTP\/1\.1 101 /);
      assert.deepEqual(answer.match(/sec-websocket-protocol: .*/gi), ["sec-websocket-protocol: yrelay"]);
    }
  });
});

Deno.test("A3 an origin that is not listed is refused before anything is looked up", async () => {
  const seen: string[] = [];
  const api = (request: Request) => {
    seen.push(request.url);
    return emptyApi(request);
  };
  await withRelay({ api }, async ({ port, metrics }) => {
    const head = [`GET /ws/w/d?token=${await scopeToken("w")} HTTP/1.1`, ...HANDSHAKE];
    assert.match(await rawRequest(port, [...head, "Origin: https://evil.example"]), /^HTTP\/1\.1 403 /);
    assert.deepEqual([seen, metrics.rejected.get("origin_not_allowed")], [[], 1]);
    assert.match(await rawRequest(port, [...head, "Origin: https://app.example"]), /^HTTP\/1\.1 101 /);
  });
});

Deno.test("a workspace that is not there is refused; one that nobody can tell about is let in (D4)", async () => {
  const states: Record<string, Response> = {
    missing: problem(404, "workspace_not_found"),
    gone: problem(410, "workspace_deleted"),
    away: problem(503, "storage_unavailable"),
  };
  const api = (request: Request) =>
    states[new URL(request.url).pathname.split("/").at(-1) ?? ""]?.clone() ?? emptyApi(request);
  await withRelay({ api }, async ({ port }) => {
    for (const [workspace, status] of [["missing", 404], ["gone", 410], ["away", 101]] as const) {
      const target = `GET /ws/${workspace}/d?token=${await scopeToken(workspace)} HTTP/1.1`;
      assert.match(
        await rawRequest(port, [target, ...HANDSHAKE]),
        new RegExp(`^HTTP/1.1 ${status} `),
        workspace,
      );
    }
  });
  for (const answer of Object.values(states)) await answer.body?.cancel();
});

Deno.test("a storm of connections asks about their workspace once, and not again while it is live", async () => {
  let lookups = 0;
  let release = () => {};
  const held = new Promise<void>((settle) => release = settle);
  const api = async (request: Request) => {
    if (new URL(request.url).pathname === "/api/workspaces/w") {
      lookups += 1;
      await held;
    }
    return emptyApi(request);
  };
  await withRelay({ api }, async ({ connect, host }) => {
    const storm = Array.from({ length: 20 }, () => connect("w"));
    await until(() => lookups === 1, "the lookup");
    release();
    await Promise.all(storm);
    await until(() => host.connections === 20, "all are in");
    const before = lookups;
    await connect("w");
    assert.equal(lookups, before);
  });
});

Deno.test("a relay that is full refuses at the upgrade with 503", async () => {
  await withRelay({ host: { limits: { sockets: 2, rooms: 1 } } }, async ({ port, connect }) => {
    await connect("w");
    const refused = async (workspace: string) => {
      const head = [`GET /ws/${workspace}/d?token=${await scopeToken(workspace)} HTTP/1.1`, ...HANDSHAKE];
      const answer = await rawRequest(port, head);
      assert.match(answer, /^HTTP\/1\.1 503 [^]*retry-after: 2/i);
      return answer;
    };
    await refused("another");
    await connect("w");
    await refused("w");
  });
});

Deno.test("a workspace whose clients do not answer their close waits, and others do not", async () => {
  await withRelay({ host: { limits: { parting: 3 } } }, async ({ port, parting }) => {
    const silent: Deno.TcpConn[] = [];
    const head = async (
      workspace: string,
    ) => [`GET /ws/${workspace}/d?token=${await scopeToken(workspace)} HTTP/1.1`, ...HANDSHAKE];
    for (let count = 1; count <= 3; count += 1) {
      const connection = await Deno.connect({ hostname: "127.0.0.1", port });
      silent.push(connection);
      // A sync message that ends too early: closed with 4400.
      const frame = [0x82, 0x81, 0, 0, 0, 0, 0];
      await connection.write(new TextEncoder().encode(`${(await head("w")).join("\r\n")}\r\n\r\n`));
      await connection.read(new Uint8Array(4096));
      await connection.write(Uint8Array.from(frame));
      await until(() => parting.count === count, "it is told to close");
    }
    assert.match(await rawRequest(port, await head("w")), /^HTTP\/1\.1 429 [^]*do not answer/);
    assert.match(await rawRequest(port, await head("x")), /^HTTP\/1\.1 101 /);
    for (const connection of silent) connection.close();
    await until(() => parting.count === 0, "they are gone");
    assert.match(await rawRequest(port, await head("w")), /^HTTP\/1\.1 101 /);
  });
});
