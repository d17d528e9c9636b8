import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { fastEnvironment } from "../../test/environment.ts";
import { FeedServer, changeEvent, headEvent, openEvents, problem } from "../../test/feed-server.ts";
import type { Stream } from "../../test/feed-server.ts";
import { pass, until } from "../../test/waiting.ts";
import { LINGER_MS, MAX_RECENT, PAGE_LIMIT, SILENCE_MS, STABLE_MS } from "../api/limits.ts";
import { AgentClosedError, ProblemError, WorkspaceAgent } from "../agent/index.ts";
import type { AgentOptions, Change, ChangesOptions, FeedItem } from "../agent/index.ts";

/** How much faster the test's clock is. */
const FASTER = 25;
const real = (ms: number) => ms / FASTER;

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function server(): Promise<FeedServer> {
  const it = await FeedServer.start();
  cleanups.push(() => it.stop());
  return it;
}

/** `random` 0 makes delays as short as they get. */
function agentOf({ url }: FeedServer, { random = 0, ...options }: Partial<AgentOptions> & { random?: number } = {}): WorkspaceAgent {
  const agent = new WorkspaceAgent({ api: url, workspace: "w", getToken: () => "t", environment: { ...fastEnvironment(), random: () => random }, ...options });
  cleanups.push(() => agent.close());
  return agent;
}

/** Follows in the background; `clocks` are those of the changes, `resets` the heads of resets. */
function follow(agent: WorkspaceAgent, options: ChangesOptions = {}) {
  const it = { clocks: [] as number[], items: [] as FeedItem[], resets: [] as number[], error: undefined as unknown, ended: false };
  const done = (async () => {
    for await (const item of agent.changes(options)) {
      it.items.push(item);
      if (item.kind === "reset") it.resets.push(item.head);
      else it.clocks.push(item.clock);
    }
  })().catch((error: unknown) => (it.error = error)).finally(() => (it.ended = true));
  return Object.assign(it, { done, reaches: (clock: number) => until(() => (it.clocks.at(-1) ?? 0) >= clock, `clock ${clock}; so far ${it.clocks.at(-1)}`) });
}

const upTo = (to: number, from = 1) => Array.from({ length: to - from + 1 }, (_, index) => index + from);
const isOpen = (it: FeedServer) => until(() => it.openStreams === 1, "an open stream");
/** The query of each stream, in their order. */
const queries = (it: FeedServer) => it.streams.map(({ request }) => `${request.query}`);

test("C.22 S11 twenty iterators of three agents share one stream, and each sees everything once", async () => {
  const it = await server();
  it.commitMany(3);
  const agents = [agentOf(it), agentOf(it), agentOf(it)];
  const readers = upTo(20).map((n) => follow(agents[n % 3]!, { since: 0 }));
  await isOpen(it);
  it.commitMany(50);
  for (const reader of readers) {
    await reader.reaches(53);
    assert.deepEqual(reader.clocks, upTo(53));
  }
  assert.equal(it.streams.length, 1);
  // Each iterator asks once by itself, which also shows that its agent may read the workspace.
  assert.ok(it.count("GET", "/changes") <= 40, `${it.count("GET", "/changes")} pages`);
});

test("C.20 without `since` an iterator begins now, and a caller's own write before it is not news", async () => {
  const it = await server();
  it.commitMany(4);
  const reader = follow(agentOf(it));
  await isOpen(it);
  await until(() => it.count("GET", "/w") === 1, "the head is read");
  await pass(20);
  it.commit();
  await reader.reaches(5);
  assert.deepEqual(reader.clocks, [5]);
});

test("S02 F3 a stream that breaks off resumes after the last clock, through half an event and duplicates", async () => {
  const it = await server();
  it.commitMany(2);
  const third: Change = { clock: 3, kind: "put", path: "a", actor: "ann", at: 1 };
  it.greet = ({ response }, number) => {
    if (number > 2) return false;
    openEvents(response);
    if (number === 1) response.write(`${headEvent(2)}${changeEvent(third)}${changeEvent(third)}event: change\nid: 4\ndata: {"clock":4,"kind":"put"`);
    setTimeout(() => (number === 1 ? response.destroy() : response.end()), 30);
    return true;
  };
  const reader = follow(agentOf(it), { since: 2 });
  await reader.reaches(3);
  it.log.push(third);
  it.commit("b");
  await reader.reaches(4);
  assert.deepEqual([reader.clocks, queries(it)], [[3, 4], ["", "since=3", "since=3"]]);
});

test("a chunk may end anywhere, also inside a character, and lines may end with CR LF", async () => {
  const it = await server();
  it.greet = ({ response }) => {
    openEvents(response);
    const changes = upTo(3).map((clock): Change => ({ clock, kind: "put", path: `notes/😀${clock}`, actor: "é", at: 1 }));
    const bytes = Buffer.from((headEvent(0) + changes.map(changeEvent).join(": x\n\n")).replaceAll("\n", "\r\n"));
    void (async () => {
      for (const byte of bytes) {
        response.write(Buffer.from([byte]));
        await new Promise((settle) => setImmediate(settle));
      }
    })();
    return true;
  };
  const reader = follow(agentOf(it), { since: 0 });
  await reader.reaches(3);
  assert.deepEqual(reader.items.map((item) => item.kind !== "reset" && item.path), ["notes/😀1", "notes/😀2", "notes/😀3"]);
});

test("C.20 a gap is read from the log, by one reader for all", async () => {
  const it = await server();
  it.commitMany(2);
  const agent = agentOf(it);
  const readers = [follow(agent, { since: 2 }), follow(agent, { since: 2 }), follow(agent, { since: 2 })];
  await until(() => it.count("GET", "/changes") === 3, "each has asked once");
  await isOpen(it);
  await pass(50);
  // 3 to 6 are committed, and only 6 is told.
  for (const clock of upTo(5, 3)) it.log.push({ clock, kind: "put", path: "quiet", actor: "ben", at: 1 });
  it.commit("told");
  for (const reader of readers) {
    await reader.reaches(6);
    assert.deepEqual(reader.clocks, upTo(6, 3));
  }
  assert.deepEqual([it.count("GET", "/changes"), it.streams.length], [4, 1]);
});

test("S01 a cursor that cannot be resumed gives a reset once, and the iterator goes on", async () => {
  const it = await server();
  it.floor = 10;
  it.commitMany(5);
  const agent = agentOf(it);
  const [old, ahead] = [follow(agent, { since: 3 }), follow(agent, { since: 1_000_015 })];
  await until(() => old.resets.length + ahead.resets.length === 2, "both are told");
  it.commit();
  for (const reader of [old, ahead]) {
    await reader.reaches(16);
    assert.deepEqual([reader.resets, reader.clocks, reader.items[0]], [[15], [16], { kind: "reset", head: 15, floor: 10 }]);
  }
  assert.equal(it.streams.length, 1);
});

test("S01 a reset on the stream reaches every iterator, the slow ones too, and nothing of before comes after it", async () => {
  const it = await server();
  it.commitMany(20);
  const agent = agentOf(it);
  const reader = follow(agent, { since: 20 });
  const slow = agent.changes({ since: 15 });
  assert.equal(((await slow.next()).value as Change).clock, 16);
  await isOpen(it);
  await pass(50);
  // The database was restored to an earlier state, and somebody wrote since.
  it.log.length = 0;
  it.floor = 5;
  it.commitMany(7);
  it.endStreams();
  await until(() => reader.resets.length === 1, "a reset");
  it.commit();
  await reader.reaches(13);
  assert.deepEqual([reader.resets, reader.clocks], [[12], [13]]);
  assert.deepEqual((await slow.next()).value, { kind: "reset", head: 12, floor: 5 });
  assert.equal(((await slow.next()).value as Change).clock, 13);
});

test("an iterator that is slow reads pages, and what is kept does not grow with it", async () => {
  const it = await server();
  const agent = agentOf(it);
  const slow = agent.changes({ since: 0 });
  const first = slow.next();
  await isOpen(it);
  it.commit();
  await first;
  const fast = follow(agent, { since: 1 });
  const total = MAX_RECENT * 2 + 500;
  it.commitMany(total - 1);
  await fast.reaches(total);
  const clocks = [];
  for await (const item of slow) {
    if (item.kind !== "reset") clocks.push(item.clock);
    if (clocks.length === total - 1) break;
  }
  assert.deepEqual(clocks, upTo(total, 2));
  const pages = it.requests.filter(({ path, query }) => path.endsWith("/changes") && query.get("limit") === String(PAGE_LIMIT));
  assert.ok(pages.length >= 3, "it read what was not kept");
});

test("a stream that ends at once is not opened in a loop, whatever it said", async () => {
  const sayings = ["", 'event: bye\ndata: {"retry":1}\n\n', 'event: change\nid: 1\ndata: {"clock":1,"kind":"put","path":"a","actor":"x","at":1}\n\n', "event: change\ndata: nonsense\n\n"];
  for (const saying of sayings) {
    const it = await server();
    it.log.push({ clock: 1, kind: "put", path: "a", actor: "x", at: 1 });
    it.greet = ({ response }) => {
      openEvents(response);
      response.end(headEvent(0) + saying);
      return true;
    };
    const delays: number[] = [];
    const environment = fastEnvironment();
    const agent = agentOf(it, {
      environment: {
        ...environment,
        random: () => 1,
        setTimeout: (run, ms) => {
          if (ms !== SILENCE_MS && ms !== 30_000 && ms !== 10_000) delays.push(ms);
          return environment.setTimeout(run, ms);
        },
      },
    });
    follow(agent, { since: 0 });
    await until(() => it.streams.length === 5, "five streams");
    assert.deepEqual(delays.slice(0, 4), [2_000, 4_000, 8_000, 16_000], JSON.stringify(saying));
    agent.close();
  }
});

test("F4 after `bye` it comes back at once, after the last clock", async () => {
  const it = await server();
  const reader = follow(agentOf(it, { random: 0.5 }), { since: 0 });
  await isOpen(it);
  it.commit();
  await reader.reaches(1);
  await pass(real(STABLE_MS) + 50);
  // In one chunk, and the next stream does not open: what stands before the end is not left lying.
  it.greet = (_, number) => number === 2;
  const change: Change = { clock: 2, kind: "put", path: "a", actor: "x", at: 1 };
  it.log.push(change);
  it.tell(`${changeEvent(change)}retry: 2000\nevent: bye\ndata: {"retry":2000}\n\n`);
  await until(() => it.streams.length === 2, "another stream");
  await reader.reaches(2);
  assert.equal(it.streams.length, 2);
  it.commit();
  await reader.reaches(3);
  assert.deepEqual([reader.clocks, queries(it)], [upTo(3), ["", "since=2", "since=2"]]);
});

test("D1b a stream that is open and dead is left after two missed comments; comments keep one alive", async () => {
  const it = await server();
  const reader = follow(agentOf(it), { since: 0 });
  await isOpen(it);
  for (let n = 0; n < 6; n += 1) {
    await pass(real(SILENCE_MS) / 3);
    it.tell(": still here\n\n");
  }
  assert.equal(it.streams.length, 1);
  await until(() => it.streams.length === 2, "another stream");
  it.commit();
  await reader.reaches(1);
});

test("a request for a stream that nobody answers is left too", async () => {
  const it = await server();
  it.greet = (_, number) => number === 1;
  const reader = follow(agentOf(it), { since: 0 });
  await until(() => it.streams.length === 2, "another stream");
  it.commit();
  await reader.reaches(1);
});

/** Refuses streams as the list says, then serves them. */
function refuse(it: FeedServer, ...replies: ReturnType<typeof problem>[]): void {
  it.greet = ({ response }: Stream, number) => {
    const reply = replies[number - 1];
    if (reply === undefined) return false;
    response.writeHead(reply.status, reply.headers).end(reply.status === 204 ? undefined : JSON.stringify(reply.body));
    return true;
  };
}

test("S08 429 and 5xx are waited for, with Retry-After", async () => {
  const it = await server();
  refuse(it, problem(429, "rate_limited", {}, { "retry-after": "20" }), problem(503, "storage_unavailable"), problem(500, "internal"), { status: 502, body: "bad gateway" });
  const delays: number[] = [];
  const environment = fastEnvironment();
  const agent = agentOf(it, {
    environment: {
      ...environment,
      random: () => 0.5,
      setTimeout: (run, ms) => {
        if (ms !== SILENCE_MS && ms !== 30_000 && ms !== 10_000) delays.push(ms);
        return environment.setTimeout(run, ms);
      },
    },
  });
  const reader = follow(agent, { since: 0 });
  await until(() => it.streams.length === 5, "it comes back");
  it.commit();
  await reader.reaches(1);
  assert.deepEqual(delays, [21_000, 2_000, 4_000, 8_000]);
});

test("S08 403, 404, 204 and a second 401 end the iterators with the reason, and there is no other request", async () => {
  const refusals = [
    [problem(403, "forbidden"), "forbidden", 1],
    [problem(404, "workspace_not_found"), "workspace_not_found", 1],
    [problem(410, "workspace_deleted"), "workspace_deleted", 1],
    [{ status: 204 }, "unreachable", 1],
    [problem(401, "unauthorized"), "unauthorized", 2],
  ] as const;
  for (const [reply, code, streams] of refusals) {
    const it = await server();
    refuse(it, reply, reply, reply);
    const reader = follow(agentOf(it), { since: 0 });
    await reader.done;
    assert.equal((reader.error as { code?: string }).code, code);
    await pass(real(2_000));
    assert.equal(it.streams.length, streams);
  }
});

test("U01 the stream's token is renewed once when it is refused", async () => {
  const it = await server();
  let given = 0;
  refuse(it, problem(401, "token_expired"));
  it.script = ({ headers }) => (headers.authorization === "Bearer t0" ? problem(401, "token_expired") : undefined);
  const reader = follow(agentOf(it, { getToken: () => `t${(given += 1)}` }), { since: 0 });
  await until(() => it.openStreams === 1, "a stream");
  it.commit();
  await reader.reaches(1);
  assert.deepEqual([it.streams.map(({ request }) => request.headers.authorization), given], [["Bearer t1", "Bearer t2"], 2]);
});

test("U02 a token that is refused for the stream ends its own iterators, and the stream goes on with another's", async () => {
  const it = await server();
  const both = () => it.count("GET", "/changes") === 2;
  it.greet = ({ request, response }) => {
    if (request.headers.authorization !== "Bearer bad") return false;
    void until(both, "both have begun").then(() => response.writeHead(403, { "content-type": "application/problem+json" }).end('{"code":"forbidden","detail":"no"}'));
    return true;
  };
  const bad = follow(agentOf(it, { getToken: () => "bad" }), { since: 0 });
  await until(() => it.streams.length === 1, "a stream");
  const good = follow(agentOf(it, { getToken: () => "good" }), { since: 0 });
  await bad.done;
  await isOpen(it);
  it.commit();
  await good.reaches(1);
  assert.deepEqual([(bad.error as ProblemError).code, good.error, it.streams.map(({ request }) => request.headers.authorization)], ["forbidden", undefined, ["Bearer bad", "Bearer good"]]);
});

test("U07 an agent whose token is refused takes nobody along, and does not read over the shared stream", async () => {
  const it = await server();
  it.script = ({ headers }) => (headers.authorization === "Bearer bad" ? problem(403, "forbidden") : undefined);
  it.greet = ({ request, response }) => {
    if (request.headers.authorization !== "Bearer bad") return false;
    response.writeHead(403, { "content-type": "application/problem+json" }).end('{"code":"forbidden","detail":"no"}');
    return true;
  };
  const bad = follow(agentOf(it, { getToken: () => "bad" }), { since: 0 });
  const good = follow(agentOf(it, { getToken: () => "good" }), { since: 0 });
  await bad.done;
  assert.ok(bad.error instanceof ProblemError);
  it.commit();
  await good.reaches(1);
  const late = follow(agentOf(it, { getToken: () => "bad" }));
  await late.done;
  assert.deepEqual([(late.error as ProblemError).code, late.items, bad.items], ["forbidden", [], []]);
});

test("F7 a deleted workspace ends the iterators after its last change, and a new one is refused", async () => {
  const it = await server();
  const agent = agentOf(it);
  const reader = follow(agent, { since: 0, prefix: "other" });
  await isOpen(it);
  await pass(30);
  it.commit("", "delete_workspace");
  it.tell('event: deleted\ndata: {"head":1}\n\n');
  it.script = () => problem(410, "workspace_deleted");
  await reader.done;
  assert.deepEqual([(reader.error as ProblemError).code, reader.items.map(({ kind }) => kind)], ["workspace_deleted", ["delete_workspace"]]);
  await pass(real(2_000));
  assert.equal(it.streams.length, 1);
  const again = agent.changes({ since: 0 });
  await assert.rejects(again.next(), { code: "workspace_deleted" });
  assert.deepEqual(await again.next(), { value: undefined, done: true }, "an error is said once");
});

test("C.18 an API that is away while pages are read is waited for", async () => {
  const it = await server();
  it.commitMany(3);
  let away = 8;
  it.script = () => ((away -= 1) >= 0 ? problem(503, "storage_unavailable") : undefined);
  const reader = follow(agentOf(it), { since: 0 });
  await reader.reaches(3);
  assert.deepEqual(reader.clocks, [1, 2, 3]);
});

test("C.22 fifty waits after one another are one stream, which closes some time after the last", async () => {
  const it = await server();
  const agent = agentOf(it);
  for (let clock = 1; clock <= 50; clock += 1) {
    const wait = agent.waitFor("jobs/1", { after: clock - 1 });
    if (clock === 1) await isOpen(it);
    it.commit("jobs/1");
    assert.equal((await wait).clock, clock);
  }
  assert.deepEqual([it.streams.length, it.openStreams], [1, 1]);
  assert.ok(it.count("GET", "/changes") <= 50);
  await until(() => it.openStreams === 0, "it closes");
  await pass(real(LINGER_MS) + 50);
  assert.equal(it.streams.length, 1);
  const wait = agent.waitFor("jobs/1", { after: 50 });
  await until(() => it.streams.length === 2, "and opens again");
  it.commit("jobs/1");
  await wait;
});

test("waitFor passes over other paths, tells of a delete from above, and of changes that were lost", async () => {
  const it = await server();
  it.commitMany(2);
  const agent = agentOf(it);
  const wait = agent.waitFor("jobs/1", { after: 2 });
  for (const path of ["jobs/2", "jobs/1/log", "jobs"]) it.commit(path);
  it.commit("jobs", "delete");
  assert.deepEqual([(await wait).clock, (await wait).kind], [6, "delete"]);
  it.floor = 5;
  await assert.rejects(agent.waitFor("jobs/1", { after: 1 }), (error) => error instanceof ProblemError && error.code === "cursor_gone" && error.extra["head"] === 6);
  await assert.rejects(agent.waitFor("jobs/1", { after: 1.5 }), TypeError);
});

test("a signal, `return` and `close` end an iterator that waits", async () => {
  const it = await server();
  const agent = agentOf(it);
  const reason = new Error("enough");
  const abort = new AbortController();
  const aborted = agent.waitFor("a", { signal: abort.signal });
  const returned = agent.changes();
  const pending = returned.next();
  const closed = [agent.waitFor("a"), agent.changes().next()] as const;
  await isOpen(it);
  abort.abort(reason);
  await assert.rejects(aborted, reason);
  await returned.return?.();
  assert.deepEqual([await pending, await returned.next()], [{ value: undefined, done: true }, { value: undefined, done: true }]);
  agent.close();
  await assert.rejects(closed[0], AgentClosedError);
  assert.deepEqual(await closed[1], { value: undefined, done: true });
  await until(() => it.openStreams === 0, "the stream is closed at once");
  await assert.rejects(agent.waitFor("a"), AgentClosedError);
  await assert.rejects(agentOf(it).waitFor("a", { signal: AbortSignal.abort(reason) }), reason);
  assert.equal(it.streams.length, 1);
});

test("an agent that closes leaves the stream to the others; an iterator that nobody reads opens none", async () => {
  const it = await server();
  const [first, second] = [agentOf(it), agentOf(it)];
  first.changes();
  const gone = follow(first, { since: 0 });
  await isOpen(it);
  const stays = follow(second, { since: 0 });
  await until(() => it.count("GET", "/changes") === 2, "both have begun");
  first.close();
  await gone.done;
  it.commit();
  await stays.reaches(1);
  assert.equal(it.streams.length, 1);
  second.close();
  await until(() => it.openStreams === 0, "it closes with the last");
  await pass(real(LINGER_MS));
  second.changes();
  assert.equal(it.streams.length, 1);
});

test("calls of `next` that come together are answered in turn", async () => {
  const it = await server();
  it.commitMany(3);
  const changes = agentOf(it).changes({ since: 0 });
  const found = await Promise.all([changes.next(), changes.next(), changes.next()]);
  assert.deepEqual(found.map(({ value }) => (value as Change).clock), [1, 2, 3]);
  await changes.return?.();
});
