import assert from "node:assert/strict";
import {
  emptyApi,
  hex,
  HI,
  rawRequest,
  scopeToken,
  STEP_1,
  TestClient,
  type TestOptions,
  type TestRelay,
  until,
  withRelay,
} from "../_test_support.ts";
import { rank } from "./rendezvous.ts";

const SECRET = "a secret that all replicas have, for tests";
const WORKSPACES = Array.from({ length: 8 }, (_, n) => `w${n}`);

/** Two replicas that know each other, or soon will; options are the second's, but for the API. */
async function withTwo(
  test: (a: TestRelay, b: TestRelay) => Promise<void>,
  options: TestOptions = {},
): Promise<void> {
  const addresses: string[] = [];
  const cluster = { peers: { kind: "list" as const, addresses }, secret: SECRET };
  const { api } = options;
  await withRelay({ cluster, ...(api ? { api } : {}) }, async (a) => {
    addresses.push(a.url);
    await withRelay({ cluster, ...options }, async (b) => {
      addresses.push(b.url);
      await test(a, b);
    });
  });
}

const both = (a: TestRelay, b: TestRelay) =>
  until(() => a.cluster?.count === 2 && b.cluster?.count === 2, "two members");

/** The workspaces of which a relay has the room. */
const rooms = ({ host }: TestRelay, workspaces = WORKSPACES) =>
  workspaces.filter((workspace) => (host.find(workspace)?.clients ?? 0) > 0);

async function synced(relay: TestRelay, workspace: string): Promise<TestClient> {
  const client = await relay.connect(workspace);
  client.send(STEP_1);
  await until(() => client.frames.length >= 2, "both steps");
  return client;
}

Deno.test("A.6 A.7 A.52 each workspace has one room, wherever people connect; a passed-on session is byte for byte a direct one", async () => {
  await withTwo(async (a, b) => {
    await both(a, b);
    for (const workspace of WORKSPACES) {
      const [one, other] = [await synced(a, workspace), await synced(b, workspace)];
      assert.deepEqual(one.frames, other.frames);
      one.send(HI);
      await until(() => other.frames.length === 3, "the update");
      assert.equal(other.frames[2], "00020c010165000401017402686900");
      other.send('{"type":"ping"}');
      await until(() => other.frames.length === 4, "a text frame");
      assert.equal(other.frames[3], '{"type":"pong"}');
    }
    const [ofA, ofB] = [rooms(a), rooms(b)];
    assert.deepEqual([...ofA, ...ofB].sort(), WORKSPACES);
    assert.ok(ofA.length > 0 && ofB.length > 0, `${ofA} and ${ofB}`);
    assert.deepEqual([a.cluster?.proxies.count, b.cluster?.proxies.count], [ofB.length, ofA.length]);
    for (const workspace of WORKSPACES) {
      assert.equal((a.host.find(workspace) ?? b.host.find(workspace))?.clients, 2);
    }
  });
});

Deno.test("A.7 what comes with another secret, or none, is no replica's", async () => {
  await withTwo(async (a, b) => {
    await both(a, b);
    const token = await scopeToken("w0");
    const upgrade = (header: string) =>
      rawRequest(a.port, [
        `GET /ws/w0/d?token=${token} HTTP/1.1`,
        ...["Host: relay", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"],
        ...["Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", header],
      ]);
    for (
      const header of [
        "yrelay-peer: 1.abc",
        "yrelay-peer: ",
        `yrelay-peer: ${Math.floor(Date.now() / 1000)}.AAAA`,
      ]
    ) {
      assert.match(await upgrade(header), /^HTTP\/1\.1 401 /, header);
    }
    for (const [method, path] of [["GET", "/cluster"], ["POST", "/cluster/admission"]] as const) {
      const answer = await fetch(a.url + path, { method });
      assert.deepEqual([answer.status, (await answer.json()).code], [401, "unauthorized"], path);
    }
  });
  await withRelay({}, async ({ url }) => {
    const answer = await fetch(`${url}/cluster`);
    assert.deepEqual(
      [answer.status, (await answer.json()).code],
      [404, "not_found"],
      "without peers there is none",
    );
  });
});

Deno.test("A.7 whatever characters a client sends, the owner sees the same target, and counts on", async () => {
  await withTwo(async (a, b) => {
    await both(a, b);
    for (const path of ["d'e", "d\\e", "d`e", "d|e", "d{e}", "d^e", 'd"e', "d<e>", "d%41", "dä"]) {
      for (const workspace of WORKSPACES) {
        const token = await scopeToken(workspace);
        for (
          const lines of [
            [`GET /ws/${workspace}/${path}?x='&y=\`|\\&token=${token} HTTP/1.1`, "Sec-WebSocket-Protocol: "],
            [`GET /ws/${workspace}/${path}?y={} HTTP/1.1`, `Sec-WebSocket-Protocol: yrelay, ${token}`],
          ]
        ) {
          const answer = await rawRequest(a.port, [
            ...lines,
            ...["Host: relay", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"],
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
          ]);
          assert.match(answer, /^HTTP\/1\.1 101 /, `${lines}: ${answer}`);
        }
        assert.equal(a.cluster?.count, 2, path);
      }
    }
    assert.equal(a.metrics.unhandledErrors, 0);
  });
});

Deno.test("A.7 a close code of the owner, and a frame over the limit, are told as by the owner itself", async () => {
  await withTwo(async (a, b) => {
    await both(a, b);
    for (const relay of [a, b]) {
      for (const workspace of WORKSPACES) {
        const [bad, large] = [await synced(relay, workspace), await synced(relay, workspace)];
        bad.send(hex("ff"));
        large.send(new Uint8Array(4097));
        await until(() => bad.closed !== undefined && large.closed !== undefined, "both are closed");
        assert.deepEqual(bad.closed, { code: 4400, reason: "malformed frame: it ends too early" });
        assert.deepEqual(large.closed, {
          code: 1009,
          reason: "a frame may have 4096 bytes; send larger updates by REST",
        });
      }
    }
    await until(() => a.cluster?.proxies.count === 0 && b.cluster?.proxies.count === 0, "nothing is left");
  });
});

Deno.test("A.18 what the owner refuses is refused with its words", async () => {
  // The second replica takes nobody: it has a bound of no connection that does not answer its close.
  const host = { limits: { parting: 0 } };
  await withTwo(async (a, b) => {
    await both(a, b);
    const answers = await Promise.all(WORKSPACES.map(async (workspace) =>
      rawRequest(a.port, [
        `GET /ws/${workspace}/d?token=${await scopeToken(workspace)} HTTP/1.1`,
        ...["Host: relay", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"],
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
      ])
    ));
    const refused = answers.filter((answer) => /^HTTP\/1\.1 429 /.test(answer));
    assert.ok(
      refused.length > 0 && refused.length < answers.length,
      `${refused.length} of ${answers.length}`,
    );
    for (const answer of refused) assert.match(answer, /do not answer their close/);
    assert.equal(a.cluster?.count, 2, "it refused, and is there");
    await until(() => a.host.connections === 0, "the others are gone");
  }, { host });
});

Deno.test("A.52 D4 while the API does not answer, replicas keep each other and people are passed on", async () => {
  let lookups = 0;
  const end = Promise.withResolvers<void>();
  const api = async (request: Request) => {
    if (!/\/workspaces\/[\w-]+$/.test(new URL(request.url).pathname)) return emptyApi(request);
    lookups += 1;
    await end.promise;
    return emptyApi(request);
  };
  await withTwo(async (a, b) => {
    await both(a, b);
    const clients = await Promise.all(WORKSPACES.map((workspace) => a.connect(workspace)))
      .finally(end.resolve);
    assert.deepEqual([a.cluster?.count, b.cluster?.count], [2, 2]);
    const [ofA, ofB] = [rooms(a), rooms(b)];
    assert.deepEqual([...ofA, ...ofB].sort(), WORKSPACES);
    assert.ok(ofB.length > 0, "some are passed on");
    assert.equal(lookups, clients.length, "the owner does not ask again");
  }, { api });
});

Deno.test("A.18 an owner without a place left refuses, and stays the owner: nobody is sent to and fro", async () => {
  await withTwo(async (a, b) => {
    await both(a, b);
    const connects = await Promise.allSettled(WORKSPACES.map((workspace) => a.connect(workspace)));
    const refused = WORKSPACES.filter((_, n) => connects[n]?.status === "rejected");
    assert.deepEqual([a.cluster?.count, rooms(b)], [2, []]);
    assert.ok(refused.length > 0 && refused.length < WORKSPACES.length, `${refused}`);
    assert.deepEqual(rooms(a), WORKSPACES.filter((workspace) => !refused.includes(workspace)));
  }, { host: { limits: { rooms: 0 } } });
});

Deno.test("A.8 when a replica joins, the rooms that are its own move to it, and when it leaves they come back", async () => {
  const addresses: string[] = [];
  const cluster = { peers: { kind: "list" as const, addresses }, secret: SECRET };
  await withRelay({ cluster }, async (a) => {
    addresses.push(a.url);
    const clients = await Promise.all(WORKSPACES.map((workspace) => synced(a, workspace)));
    for (const client of clients) client.send(HI);
    await withRelay({ cluster }, async (b) => {
      addresses.push(b.url);
      await until(() => clients.some(({ closed }) => closed?.code === 1012), "some are told to come again");
      await until(() => a.metrics.handovers === clients.filter(({ closed }) => closed).length, "all of them");
      const moved = WORKSPACES.filter((_, n) => clients[n]?.closed !== undefined);
      assert.ok(moved.length < WORKSPACES.length, "and only what is the newcomer's");
      for (const workspace of moved) assert.equal(a.host.find(workspace)?.hasUnsaved ?? false, false);
      const again = await Promise.all(moved.map((workspace) => synced(a, workspace)));
      assert.deepEqual(rooms(b), moved);
      b.host.isLeaving = true;
      await until(() => a.cluster?.count === 1, "it leaves");
      assert.ok(again.every(({ closed }) => closed === undefined), "and serves whom it has until it stops");
      const late = await synced(a, moved[0] ?? "");
      assert.equal(a.host.find(moved[0] ?? "")?.clients, 1);
      await late.close();
      b.host.restart();
      await until(() => again.every(({ closed }) => closed?.code === 1012), "its stop sends them away");
    });
  });
});

Deno.test("A.52 who was passed on to a second choice, as the owner could not be seen, is called back when it can", async () => {
  const many = Array.from({ length: 60 }, (_, n) => `many-${n}`);
  // The first does not know the third, which the second does.
  const [some, all]: [string[], string[]] = [[], []];
  const options = (addresses: string[]) => ({
    cluster: { peers: { kind: "list" as const, addresses }, secret: SECRET },
    handoverAgain: 300,
  });
  await withRelay(options(some), async (a) => {
    await withRelay(options(all), async (b) => {
      await withRelay(options(all), async (c) => {
        some.push(b.url);
        all.push(a.url, b.url, c.url);
        await until(() => a.cluster?.count === 2, "the first has two members");
        await until(() => b.cluster?.count === 3 && c.cluster?.count === 3, "the others have three");
        // Nobody looks for rooms any more: only the first will hear of something new.
        await new Promise((settle) => setTimeout(settle, 600));
        const clients = await Promise.all(many.map((workspace) => synced(a, workspace)));
        const atSecond = rooms(b, many);
        assert.deepEqual([b.metrics.handovers, rooms(c, many).length], [0, 0]);
        some.push(c.url);
        await until(() => rooms(b, many).length < atSecond.length, "some are called back");
        await until(() => a.metrics.handovers > 0, "and what the first has moves too");
        const gone = () => many.filter((_, n) => clients[n]?.closed !== undefined);
        await Promise.all(gone().map((workspace) => synced(a, workspace)));
        // The third knows everybody: who comes to it is where the workspace belongs.
        await Promise.all(many.map((workspace) => synced(c, workspace)));
        const places = [a, b, c].map((relay) => rooms(relay, many));
        assert.deepEqual(places.flat().sort(), many.toSorted(), "each workspace has one room");
        assert.equal(b.metrics.handovers, 0, "the second did nothing");
        assert.equal(rooms(c, many).length, gone().length);
      });
    });
  });
});

Deno.test("A.4 A.75 a replica that hangs counts no more, and who was passed on to it is sent away", async () => {
  let hangs = false;
  const never = new Promise<never>(() => {});
  const addresses: string[] = [];
  const cluster = { peers: { kind: "list" as const, addresses }, secret: SECRET };
  await withRelay({ cluster }, async (a) => {
    await withRelay({ cluster }, async (b) => {
      // In front of the second: it stops answering, and keeps its connections.
      const server = Deno.serve(
        { hostname: "127.0.0.1", port: 0, onListen: () => {} },
        (request) => hangs ? never : b.handler.handle(request),
      );
      addresses.push(a.url, `http://127.0.0.1:${server.addr.port}`);
      await both(a, b);
      const clients = await Promise.all(WORKSPACES.map((workspace) => synced(a, workspace)));
      const away = WORKSPACES.filter((workspace) => !rooms(a).includes(workspace));
      assert.ok(away.length > 0);
      hangs = true;
      await until(
        () => away.every((workspace) => clients[WORKSPACES.indexOf(workspace)]?.closed?.code === 1012),
        "they are told to come again",
      );
      await Promise.all(away.map((workspace) => synced(a, workspace)));
      assert.equal(rooms(a).length, WORKSPACES.length);
      hangs = false;
      b.host.restart();
      void server.shutdown();
    });
  });
});

Deno.test("A.8 replicas that see different members for long send people away once or twice, and not for ever", async () => {
  // The second knows the third, which the first does not: what it passes on to the second stays there.
  const [some, all]: [string[], string[]] = [[], []];
  // Streams that end by themselves: of so many that are cut the API's server would miss one, and never stop.
  const api = (request: Request) =>
    request.url.includes("/changes/stream")
      ? new Response('event: head\nid: 0\ndata: {"head":0}\n\n')
      : emptyApi(request);
  const options = (addresses: string[]) => ({
    api,
    cluster: { peers: { kind: "list" as const, addresses }, secret: SECRET },
    handoverAgain: 2_500,
  });
  await withRelay(options(some), async (a) => {
    await withRelay(options(all), async (b) => {
      await withRelay(options([]), async (c) => {
        some.push(b.url);
        await until(() => a.cluster?.count === 2, "the first has two members");
        const [ofA, ofB, ofC] = [a, b, c].map(({ cluster }) => cluster?.answer().instance ?? "");
        const isContested = (workspace: string) =>
          rank(workspace, [ofA ?? "", ofB ?? ""])[0] === ofB &&
          rank(workspace, [ofB ?? "", ofC ?? ""])[0] === ofC;
        // More than move in one go.
        const many = Array.from({ length: 2_000 }, (_, n) => `many-${n}`);
        const contested = many.filter(isContested).slice(0, 60);
        assert.equal(contested.length, 60);
        let isOver = false;
        const stay = async (workspace: string): Promise<void> => {
          const client = await synced(a, workspace);
          void until(() => isOver || client.closed !== undefined, "", Infinity)
            .then(async () => isOver || await stay(workspace));
        };
        await Promise.all(contested.map(stay));
        assert.deepEqual(rooms(b, contested), contested);
        all.push(c.url);
        await until(
          () => b.metrics.handovers >= 2 * contested.length - 10,
          "all are sent away, and again later",
        );
        await new Promise((settle) => setTimeout(settle, 3_000));
        isOver = true;
        assert.ok(b.metrics.handovers <= 2 * contested.length, `${b.metrics.handovers} rooms were moved`);
      });
    });
  });
});
