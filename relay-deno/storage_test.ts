import assert from "node:assert/strict";
import { ApiClient } from "./api_client.ts";
import { createLog } from "./log.ts";
import { Metrics } from "./metrics.ts";
import { Storage } from "./storage.ts";

type Handler = (request: Request) => Response | Promise<Response>;

/** Runs a test against an API on a port of its own; `lines` is the log. */
async function withApi(
  answer: Handler,
  test: (
    parts: { api: ApiClient; storage: Storage; metrics: Metrics; lines: string[]; url: string },
  ) => Promise<void>,
  maxCalls = 8,
): Promise<void> {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, answer);
  const lines: string[] = [];
  const log = createLog("deno", (line) => lines.push(line));
  const url = `http://127.0.0.1:${server.addr.port}`;
  const api = new ApiClient({ url, token: "service-token", log, maxCalls });
  const metrics = new Metrics();
  try {
    await test({ api, storage: new Storage(api, metrics, log), metrics, lines, url });
  } finally {
    await server.shutdown();
  }
}

function problem(status: number, code: string): Response {
  return Response.json({ code, status }, { status, headers: { "content-type": "application/problem+json" } });
}

const APPEND = {
  workspace: "w",
  document: "notes/a b",
  update: new Uint8Array([1, 2, 3]),
  epoch: 4,
  author: "relay:deno é",
  after: 7,
  key: "run-1",
};

Deno.test("a document is read with its clock and epoch, and the token goes along", async () => {
  const seen: string[] = [];
  const answer = (request: Request) => {
    seen.push(
      `${new URL(request.url).pathname}${new URL(request.url).search} ${
        request.headers.get("authorization")
      }`,
    );
    return new Response(new Uint8Array([0, 0]), { headers: { etag: '"12"', "yrelay-epoch": "3" } });
  };
  await withApi(answer, async ({ storage }) => {
    const stored = await storage.read("w", "notes/a b");
    assert.deepEqual(stored, { clock: 12, epoch: 3, update: new Uint8Array([0, 0]) });
    await storage.read("w", "d", 12);
  });
  assert.deepEqual(seen, [
    "/api/workspaces/w/docs/notes/a%20b Bearer service-token",
    "/api/workspaces/w/docs/d?since=12 Bearer service-token",
  ]);
});

Deno.test("R07 only the API's own word means that there is no document or no workspace", async () => {
  const rows: [Response, unknown][] = [
    [problem(404, "node_not_found"), { clock: 0, epoch: undefined, update: new Uint8Array(0) }],
    [problem(404, "workspace_not_found"), "deleted"],
    [problem(410, "workspace_deleted"), "deleted"],
    [problem(503, "storage_unavailable"), "unavailable"],
    [problem(401, "unauthorized"), "unavailable"],
    [new Response("not found", { status: 404 }), "unavailable"],
    [new Response("gone", { status: 410 }), "unavailable"],
    // 200 of something in between has neither a clock nor an epoch.
    [new Response("<html>", { status: 200 }), "unavailable"],
  ];
  for (const [answer, expected] of rows) {
    await withApi(() => answer.clone(), async ({ storage }) => {
      assert.deepEqual(await storage.read("w", "d"), expected);
    });
    await answer.body?.cancel();
  }
});

Deno.test("an append says who wrote it, under which key, epoch and clock", async () => {
  let seen: Record<string, unknown> = {};
  const answer = async (request: Request) => {
    seen = {
      path: new URL(request.url).pathname + new URL(request.url).search,
      key: request.headers.get("idempotency-key"),
      author: request.headers.get("yrelay-author"),
      type: request.headers.get("content-type"),
      body: [...new Uint8Array(await request.arrayBuffer())],
    };
    return Response.json({ clock: 9, epoch: 4, missed: false }, { status: 201 });
  };
  await withApi(answer, async ({ storage, metrics }) => {
    assert.deepEqual(await storage.append(APPEND), { clock: 9, epoch: 4, missed: false });
    assert.equal(metrics.flushErrors, 0);
  });
  assert.deepEqual(seen, {
    path: "/api/workspaces/w/docs/notes/a%20b/updates?since=7&epoch=4",
    key: "run-1",
    author: "relay%3Adeno%20%C3%A9",
    type: "application/octet-stream",
    body: [1, 2, 3],
  });
});

Deno.test("an append that fails says whether trying again helps, and is counted", async () => {
  const rows: [Response, string][] = [
    [problem(409, "epoch_changed"), "epoch_changed"],
    [problem(409, "wrong_node_kind"), "unavailable"],
    [problem(413, "document_too_large"), "too_large"],
    [problem(410, "workspace_deleted"), "deleted"],
    [problem(503, "storage_unavailable"), "unavailable"],
    [new Response("ok", { status: 200 }), "unavailable"],
  ];
  for (const [answer, expected] of rows) {
    await withApi(() => answer.clone(), async ({ storage, metrics }) => {
      assert.equal(await storage.append(APPEND), expected);
      assert.deepEqual([metrics.flushErrors, metrics.apiErrors.get("persist")], [1, 1]);
    });
    await answer.body?.cancel();
  }
});

Deno.test("D4 a workspace that the API cannot tell about is unknown", async () => {
  const rows: [Response, string][] = [
    [Response.json({ id: "w" }), "there"],
    [problem(404, "workspace_not_found"), "missing"],
    [problem(410, "workspace_deleted"), "deleted"],
    [problem(403, "forbidden"), "unknown"],
    [new Response("bad gateway", { status: 502 }), "unknown"],
  ];
  for (const [answer, expected] of rows) {
    await withApi(() => answer.clone(), async ({ storage }) => {
      assert.equal(await storage.workspace("w"), expected);
    });
    await answer.body?.cancel();
  }
});

Deno.test("an API that is away gives no answer, and the log does not quote the query", async () => {
  let gone = "";
  await withApi(() => new Response(), ({ url }) => {
    gone = url;
    return Promise.resolve();
  });
  const lines: string[] = [];
  const log = createLog("deno", (line) => lines.push(line));
  const storage = new Storage(new ApiClient({ url: gone, token: "service-token", log }), new Metrics(), log);
  assert.equal(await storage.read("w", "d", 123), "unavailable");
  assert.equal(await storage.read("w", "d", 123), "unavailable");
  assert.equal(lines.length, 1, "an outage is one line");
  assert.ok(!lines.join().includes("since=123") && !lines.join().includes("service-token"), lines.join());
});

Deno.test("a redirect is not followed: the token is for one address", async () => {
  let calls = 0;
  const answer = () => {
    calls += 1;
    return new Response(null, { status: 302, headers: { location: "/elsewhere" } });
  };
  await withApi(answer, async ({ storage }) => {
    assert.equal(await storage.workspace("w"), "unknown");
  });
  assert.equal(calls, 1);
});

Deno.test("no more calls run at once than the limit, and one that waits too long is given up", async () => {
  let running = 0;
  let most = 0;
  const gates: (() => void)[] = [];
  const answer = async () => {
    running += 1;
    most = Math.max(most, running);
    await new Promise<void>((settle) => gates.push(settle));
    running -= 1;
    return new Response();
  };
  await withApi(answer, async ({ api }) => {
    const call = (deadline: number) => api.call({ method: "GET", path: "/x", deadline });
    const calls = Array.from({ length: 5 }, () => call(20_000));
    const late = call(30);
    assert.equal(await late, undefined);
    let answered = 0;
    for (const each of calls) each.then(() => answered += 1);
    while (answered < calls.length) {
      gates.shift()?.();
      await new Promise((settle) => setTimeout(settle, 1));
    }
    const statuses = (await Promise.all(calls)).map((each) => each?.status);
    assert.deepEqual(statuses, [200, 200, 200, 200, 200]);
  }, 2);
  assert.equal(most, 2);
});

Deno.test("presence is said for a person, and only the API's own 204 means that it was", async () => {
  const seen: string[] = [];
  const answers = [
    () => new Response(null, { status: 204 }),
    () => new Response(null, { status: 204 }),
    // A Worker that does not know of people on sockets took it for a session of the relay itself.
    () => Response.json({ presence: [] }),
    () => problem(403, "forbidden"),
    () => problem(429, "rate_limited"),
    () => problem(503, "storage_unavailable"),
  ];
  const answer = async (request: Request) => {
    const { pathname, search } = new URL(request.url);
    seen.push(
      `${request.method} ${pathname}${search} ${request.headers.get("yrelay-author")} ${await request
        .text()}`,
    );
    return (answers.shift() ?? (() => problem(500, "internal")))();
  };
  const who = { workspace: "w", sub: "ann é", session: "deno" };
  await withApi(answer, async ({ storage, metrics }) => {
    assert.deepEqual([await storage.present(who, 300), await storage.absent(who)], ["said", "said"]);
    const said = [];
    for (let call = 0; call < 5; call += 1) said.push(await storage.present(who, 300));
    assert.deepEqual(said, ["refused", "refused", "unknown", "unknown", "unknown"]);
    assert.equal(metrics.apiErrors.get("presence"), 5);
  });
  assert.deepEqual(seen.slice(0, 2), [
    'PUT /api/workspaces/w/presence ann%20%C3%A9 {"session":"deno","ttl":300}',
    "DELETE /api/workspaces/w/presence?session=deno ann%20%C3%A9 ",
  ]);
});
