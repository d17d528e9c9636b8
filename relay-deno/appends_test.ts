import assert from "node:assert/strict";
import { ApiClient } from "./api_client.ts";
import { Appends } from "./appends.ts";
import { MAX_BATCH, MAX_BATCH_BYTES } from "./limits.ts";
import { createLog } from "./log.ts";

type Sent = { path: string; headers: Record<string, string>; body: string };

/** Runs a test against an API that notes the path of each request, and the requests of each batch. */
async function withApi(
  answer: (path: string, batch: Sent[] | undefined) => Response,
  test: (appends: Appends, seen: string[]) => Promise<void>,
): Promise<void> {
  const seen: string[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const { pathname } = new URL(request.url);
    const batch = pathname === "/api/batch" ? (await request.json()).requests as Sent[] : undefined;
    seen.push(batch ? `batch of ${batch.length}` : pathname);
    return answer(pathname, batch);
  });
  const url = `http://127.0.0.1:${server.addr.port}`;
  const api = new ApiClient({ url, token: "service", log: createLog("deno", () => {}) });
  try {
    await test(new Appends(api), seen);
  } finally {
    await server.shutdown();
  }
}

function append(path: string, body = new Uint8Array([1, 2])) {
  return { method: "POST", path, headers: { "idempotency-key": path }, body, deadline: 5_000 } as const;
}

const ok = (path: string) => Response.json({ path }, { status: 201 });

Deno.test("what is asked for at once is one request, and each gets its own answer", async () => {
  let sent: Sent[] = [];
  const answer = (_: string, batch: Sent[] = []) => {
    sent = batch;
    const answers = batch.map(({ path }, index) => ({
      status: index === 1 ? 409 : 201,
      body: index === 1 ? { code: "epoch_changed" } : { path },
    }));
    return Response.json({ answers });
  };
  await withApi(answer, async (appends, seen) => {
    const answers = await Promise.all(["/a", "/b", "/c"].map((path) => appends.send(append(path))));
    assert.deepEqual(seen, ["batch of 3"]);
    const shown = answers.map((one) => [one?.status, one?.code, new TextDecoder().decode(one?.body)]);
    assert.deepEqual(shown, [
      [201, "", '{"path":"/a"}'],
      [409, "epoch_changed", '{"code":"epoch_changed"}'],
      [201, "", '{"path":"/c"}'],
    ]);
    assert.deepEqual(sent[1], { path: "/b", headers: { "idempotency-key": "/b" }, body: "AQI=" });
  });
});

Deno.test("one alone goes as it is, and so does what is asked for later", async () => {
  await withApi(ok, async (appends, seen) => {
    await appends.send(append("/a"));
    await appends.send(append("/b"));
    assert.deepEqual(seen, ["/a", "/b"]);
  });
});

Deno.test("an API that has no batches gets each alone", async () => {
  const answer = (path: string, batch?: Sent[]) =>
    batch ? Response.json({ code: "not_found" }, { status: 404 }) : ok(path);
  await withApi(answer, async (appends, seen) => {
    const answers = await Promise.all(["/a", "/b"].map((path) => appends.send(append(path))));
    assert.deepEqual(answers.map((one) => one?.status), [201, 201]);
    assert.deepEqual(seen.toSorted(), ["/a", "/b", "batch of 2"]);
  });
});

Deno.test("what fails as a whole failed for each, and is not asked for again here", async () => {
  const rows: [Response, number | undefined][] = [
    [new Response("down", { status: 503 }), 503],
    [new Response("who", { status: 401 }), 401],
    [new Response("<html>", { status: 200 }), 200],
    [Response.json({ answers: [] }), 0],
  ];
  for (const [failure, status] of rows) {
    await withApi(() => failure.clone(), async (appends, seen) => {
      const answers = await Promise.all(["/a", "/b"].map((path) => appends.send(append(path))));
      assert.deepEqual(answers.map((one) => one?.status), [status, status]);
      assert.deepEqual(seen, ["batch of 2"]);
    });
    await failure.body?.cancel();
  }
});

Deno.test("a request holds no more than the API takes, and a large update goes alone", async () => {
  const answer = (path: string, batch?: Sent[]) =>
    batch ? Response.json({ answers: batch.map(() => ({ status: 201, body: {} })) }) : ok(path);
  await withApi(answer, async (appends, seen) => {
    const large = append("/large", new Uint8Array(MAX_BATCH_BYTES));
    const small = Array.from({ length: MAX_BATCH + 1 }, (_, n) => append(`/${n}`));
    const answers = await Promise.all([large, ...small].map((one) => appends.send(one)));
    assert.deepEqual([...new Set(answers.map((one) => one?.status))], [201]);
    assert.deepEqual(seen.toSorted(), [`/${MAX_BATCH}`, "/large", `batch of ${MAX_BATCH}`].toSorted());
  });
});
