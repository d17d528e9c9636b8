import assert from "node:assert/strict";
import { until } from "./_test_support.ts";
import { Feed, type FeedListener } from "./feed.ts";
import { createLog } from "./log.ts";
import { Metrics } from "./metrics.ts";

/** What a stream does: a text to send, then whether it stays open. */
type Script = { text: string; open?: boolean } | Response;

/** Follows a server that plays one script for each connection; the last one repeats. */
async function follow(
  scripts: Script[],
  isReached: (told: string[], cursors: string[]) => boolean,
  silence = 20_000,
) {
  const cursors: string[] = [];
  const told: string[] = [];
  let settle = () => {};
  const reached = new Promise<void>((done) => settle = done);
  const check = () => isReached(told, cursors) && settle();
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => {
    const script = scripts[Math.min(cursors.length, scripts.length - 1)] as Script;
    cursors.push(new URL(request.url).searchParams.get("since") ?? "");
    queueMicrotask(check);
    if (script instanceof Response) return script.clone();
    const body = new ReadableStream({
      start(stream) {
        stream.enqueue(new TextEncoder().encode(script.text));
        if (!script.open) stream.close();
      },
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  });
  const note = (text: string) => {
    told.push(text);
    check();
  };
  const listener: FeedListener = {
    change: (json) => note(`change ${JSON.parse(json).clock}`),
    reset: (head) => note(`reset ${head}`),
    deleted: (head) => note(`deleted ${head}`),
  };
  const lines: string[] = [];
  const url = `http://127.0.0.1:${server.addr.port}/`;
  const feed = new Feed(listener, {
    open: (since, signal) => fetch(since === undefined ? url : `${url}?since=${since}`, { signal }),
    log: createLog("deno", (line) => lines.push(line)),
    metrics: new Metrics(),
    silence,
    retry: { min: 1, max: 4 },
  });
  const limit = setTimeout(settle, 20_000);
  await reached;
  clearTimeout(limit);
  const isOver = await Promise.race([
    feed.ended.then(() => true),
    new Promise((done) => setTimeout(done, 50, false)),
  ]);
  feed.stop();
  await feed.ended;
  await server.shutdown();
  return { cursors, told, isOver, lines };
}

const change = (clock: number) => `event: change\nid: ${clock}\ndata: {"clock":${clock}}\n\n`;
const head = (clock: number) => `event: head\nid: ${clock}\ndata: {"head":${clock}}\n\n`;

Deno.test("D3 it starts without a cursor, is told where it starts, and resumes where it was cut", async () => {
  const { cursors, told } = await follow(
    [{ text: head(4) + change(5) }, { text: change(6) + head(6) }, { text: "", open: true }],
    (_, cursors) => cursors.length === 3,
  );
  assert.deepEqual(cursors, ["", "5", "6"]);
  assert.deepEqual(told, ["reset 4", "change 5", "change 6"]);
});

Deno.test("F3 a cursor that cannot be resumed is a reset, and the stream goes on from there", async () => {
  const { cursors, told } = await follow(
    [{ text: head(4) }, { text: `event: reset\nid: 9\ndata: {"head":9,"floor":8}\n\n${change(10)}` }, {
      text: "",
      open: true,
    }],
    (_, cursors) => cursors.length === 3,
  );
  assert.deepEqual(cursors, ["", "4", "10"]);
  assert.deepEqual(told, ["reset 4", "reset 9", "change 10"]);
});

Deno.test("F7 the end of the workspace ends it, in the stream or when it is opened", async () => {
  const ended = await follow(
    [{ text: `${head(4)}event: deleted\ndata: {"head":5}\n\n` }],
    (told) => told.length === 2,
  );
  assert.deepEqual([ended.told, ended.cursors.length, ended.isOver], [["reset 4", "deleted 5"], 1, true]);
  for (const [status, code] of [[410, "workspace_deleted"], [404, "workspace_not_found"]] as const) {
    const refused = await follow(
      [{ text: head(4) }, Response.json({ code }, { status })],
      (told) => told.length === 2,
    );
    assert.deepEqual([refused.told, refused.cursors.length, refused.isOver], [
      ["reset 4", "deleted 4"],
      2,
      true,
    ]);
  }
});

Deno.test("a refusal that is not the workspace's end is tried again", async () => {
  const { told, lines } = await follow(
    [
      Response.json({ code: "storage_unavailable" }, { status: 503 }),
      new Response("not found", { status: 404 }),
      Response.json({ code: "unauthorized" }, { status: 401 }),
      { text: head(1), open: true },
    ],
    (told) => told.length === 1,
  );
  assert.deepEqual(told, ["reset 1"]);
  assert.equal(
    lines.filter((line) => line.includes("feed_interrupted")).length,
    1,
    "one line for one outage",
  );
});

Deno.test("B01 a stream that falls silent is opened again", async () => {
  const { cursors } = await follow([{ text: head(7), open: true }], (_, cursors) => cursors.length === 3, 30);
  assert.deepEqual(cursors.slice(0, 3), ["", "7", "7"]);
});

Deno.test("a polite end is no failure and asks for the rest", async () => {
  const { cursors, lines } = await follow(
    [{ text: `${head(4)}event: bye\ndata: {"retry":2}\n\n`, open: true }, { text: "", open: true }],
    (_, cursors) => cursors.length === 2,
  );
  assert.deepEqual([cursors, lines], [["", "4"], []]);
});

Deno.test("a feed that is stopped ends its stream by itself, also when the request does not hear the signal", async () => {
  let [isOpen, isCancelled] = [false, false];
  const deaf = () => {
    const body = new ReadableStream({
      pull: () => {
        isOpen = true;
        return new Promise<void>(() => {});
      },
      cancel: () => void (isCancelled = true),
    }, { highWaterMark: 0 });
    return Promise.resolve(new Response(body));
  };
  const feed = new Feed({ change: () => {}, reset: () => {}, deleted: () => {} }, {
    open: deaf,
    log: createLog("deno", () => {}),
    metrics: new Metrics(),
  });
  await until(() => isOpen, "it reads");
  feed.stop();
  await feed.ended;
  assert.equal(isCancelled, true);
});
