// Who may open a socket, and what the address may look like (A2, A5, W10).
import assert from "node:assert/strict";
import { request } from "node:http";
import { test } from "node:test";
import { FrameClient, Refused } from "../support/frame-client.mjs";
import { HI, STEP_1, isAwareness, isStep1, isStep2, named, textUpdate, updateFrame } from "../support/frames.mjs";
import { scopeClaims, signScopeToken } from "../support/tokens.mjs";
import { until, within } from "../support/waiting.mjs";

/** The status with which an upgrade is refused, and the stable code of its problem; 101 if it is not. */
async function outcome(url, options) {
  try {
    const client = await FrameClient.open(url, options);
    await client.close();
    return { status: 101, protocol: client.socket.protocol };
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return { status: error.status, code: JSON.parse(error.body).code, body: error.body };
  }
}

/** An upgrade whose path is sent as it stands; `WebSocket` would normalize it. */
function rawUpgrade(url, path) {
  const { hostname, port } = new URL(url);
  const headers = { connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13", "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==" };
  const answer = new Promise((settle, reject) => {
    const sent = request({ hostname, port, path, headers });
    sent.on("upgrade", (response, socket) => settle({ status: response.statusCode, socket }));
    sent.on("response", (response) => {
      response.resume();
      response.on("end", () => settle({ status: response.statusCode }));
    });
    sent.on("error", reject);
    sent.end();
  });
  return within(answer, `an answer to ${path.slice(0, 40)}`);
}

export function upgradeTests(relay) {
  const seed = () => relay().stack.secrets.SCOPE_SIGNING_KEY;

  test("W10 A.48 U01 credentials that do not fit are refused at the upgrade, with the code that says why", async () => {
    const workspace = await relay().workspace();
    const good = await workspace.scope();
    const forge = (changes) => signScopeToken(seed(), scopeClaims(workspace.id, changes));
    const past = Math.floor(Date.now() / 1000) - 60;
    const tokens = [
      ["none", "", 401],
      ["not a token", "abc", 401],
      ["expired", forge({ exp: past }), 401],
      ["another key", signScopeToken(Buffer.alloc(32, 7).toString("base64url"), scopeClaims(workspace.id)), 401],
      ["a changed signature", `${good.slice(0, -4)}AAAA`, 401],
      ["another workspace", forge({ ws: "elsewhere" }), 403],
      ["an agent's scope token", forge({ kind: "agent" }), 403],
      ["an agent's API token", workspace.apiToken({ kind: "agent", sub: "bot" }), 403],
      ["a person's API token", workspace.token, 403],
      ["a stream token", await workspace.scope({ purpose: "stream" }), 403],
      ["a good one", good, 101],
      ["a good one made here", forge(), 101],
    ];
    for (const [what, token, status] of tokens) {
      assert.equal((await outcome(`${workspace.url("d")}?token=${token}`)).status, status, what);
    }
    const expired = await outcome(`${workspace.url("d")}?token=${forge({ exp: past })}`);
    assert.equal(expired.code, "token_expired");
    assert.ok(!expired.body.includes("eyJ"), "no token in an error (A3)");
    const agent = await workspace.rest("POST", "/tokens", { body: { purpose: "relay" }, token: workspace.apiToken({ kind: "agent" }) });
    assert.equal(agent.status, 403);
    assert.equal((await workspace.inspect()).clients, 0);
  });

  test("U05 the sub-protocol brings the token, and only the marker is echoed", async () => {
    const workspace = await relay().workspace();
    const [url, token] = [workspace.url("d"), await workspace.scope()];
    const rows = [
      [url, ["yrelay", token], 101, "yrelay"],
      [`${url}?token=${token}`, ["yrelay"], 101, "yrelay"],
      [`${url}?token=${token}`, [], 101, ""],
      [url, ["yrelay"], 401],
      [url, [token], 401],
      [url, [], 401],
      [`${url}?token=${token}`, ["yrelay", token], 401],
      [`${url}?token=${token}&token=${token}`, [], 401],
    ];
    for (const [address, protocols, status, echoed] of rows) {
      const got = await outcome(address, { protocols });
      const what = protocols.map((text) => (text === token ? "TOKEN" : text)).join(", ");
      assert.deepEqual([got.status, got.protocol], [status, echoed], `protocols "${what}", ${address.includes("token=") ? "with" : "no"} ?token=`);
    }
  });

  test("A3 an Origin that is not on the list is refused, the relay's own is not, and none is needed", async () => {
    const workspace = await relay().workspace();
    const url = `${workspace.url("d")}?token=${await workspace.scope()}`;
    const own = workspace.relay.api;
    for (const [origin, status] of [["https://evil.example", 403], ["null", 403], [`${own}.evil.example`, 403], [own, 101], [undefined, 101]]) {
      assert.equal((await outcome(url, origin ? { origin } : {})).status, status, String(origin));
    }
  });

  test("U07 a token of one workspace opens nothing of another, whether that exists or not", async () => {
    const [mine, theirs] = await Promise.all([relay().workspace(), relay().workspace()]);
    const token = await mine.scope();
    const refusals = [];
    for (const id of [theirs.id, "no-such-workspace"]) {
      refusals.push((await outcome(`${relay().url}/${id}/d?token=${token}`)).body);
      for (const path of [`/api/workspaces/${id}/nodes/a`, `/api/workspaces/${id}/changes`, `/api/workspaces/${id}/changes/stream`, `/api/workspaces/${id}/docs/d`]) {
        const answer = await mine.rest("GET", "", { path });
        assert.equal(answer.status, 403, path);
      }
    }
    assert.equal(JSON.parse(refusals[0]).status, 403);
    assert.equal(refusals[0], refusals[1], "the refusal does not tell whether the workspace exists");
    const missing = signScopeToken(seed(), scopeClaims("no-such-workspace"));
    assert.equal((await outcome(`${relay().url}/no-such-workspace?token=${missing}`)).status, 404);
  });

  test("U01 a token that ends while the socket is open closes it with 4401 at the next frame, which is not relayed", async () => {
    const workspace = await relay().workspace();
    const exp = Math.floor(Date.now() / 1000) + 3;
    const short = signScopeToken(seed(), scopeClaims(workspace.id, { sub: "short", exp }));
    const a = await FrameClient.open(`${workspace.url("d")}?token=${short}`);
    a.send(STEP_1);
    await a.next(isStep1);
    const b = await workspace.connect();
    b.send(STEP_1);
    await b.next(isStep1);
    await until(() => Date.now() > exp * 1000 + 50, "the token ends");
    a.send(HI);
    assert.equal((await a.closing()).code, 4401);
    await b.settled();
    assert.deepEqual(b.frames.filter((frame) => frame === HI), []);
  });

  test("A5 U03 a viewer reads, and none of its edits is relayed or stored, however it is encoded", async () => {
    const workspace = await relay().workspace();
    const editor = await workspace.connect();
    editor.send(STEP_1);
    await editor.next(isStep1);
    editor.send(updateFrame(textUpdate(1, 3)));
    editor.say({ type: "hello", changes: true });
    await editor.settled();
    const viewer = await workspace.connect("d", { role: "viewer" });
    const hi = HI.slice(4);
    // F03, F04, F09, then type and sub-type as varints that are longer than they need be.
    for (const frame of [named("F03").frame, HI, named("F09").frame, `800002${hi}`, `008200${hi}`, `80008200${hi}`, `0000010000 02${hi}`.replace(" ", "")]) {
      viewer.send(frame);
    }
    viewer.say(named("F63").text);
    assert.equal((await viewer.nextText(({ type }) => type === "error")).code, "forbidden");
    viewer.send(STEP_1);
    await viewer.next(isStep2, "F01 is answered");
    await viewer.settled();
    viewer.send(named("F33").frame);
    await viewer.closing();
    await editor.settled();
    assert.deepEqual(editor.frames.filter((frame) => frame.startsWith("00") && !isStep1(frame) && !isStep2(frame)), []);
    assert.deepEqual(editor.texts.filter((text) => text.includes('"hint"')), []);
    assert.equal(await workspace.text(), "xxx");
    assert.ok(editor.frames.some(isAwareness), "a viewer's own presence is shown (F09)");
  });

  test("C.35 a path that names no workspace opens no room", async () => {
    const workspace = await relay().workspace(`team-${Date.now().toString(36)}`);
    const { id } = workspace;
    const token = await workspace.scope();
    const base = new URL(relay().url).pathname;
    const rows = [
      [`/${id}`, [101]],
      [`/${id}?x=1`, [101]],
      [`/${id}/`, [101, 404]],
      ["/", [400, 404]],
      ["", [400, 404]],
      ["/a%2Fb", [400, 404]],
      ["/..%2f..%2fapi", [400, 404]],
      ["/../api", [400, 404]],
      ["/%E2%9C%93", [400, 404]],
      [`/${"a".repeat(300)}`, [400, 404, 414]],
      [`/${id}%00`, [400, 404]],
      [`/${id}/%ff`, [400, 404]],
      [`/${id}//d`, [400, 404]],
      [`/${id}/${"d".repeat(600)}`, [400, 404, 414]],
      // Another workspace and a document in it: the token is not for that.
      ["/a/b", [403]],
    ];
    for (const [path, statuses] of rows) {
      const { status, socket } = await rawUpgrade(relay().url, `${base}${path}${path.includes("?") ? "&" : "?"}token=${token}`);
      assert.ok(statuses.includes(status), `${path.slice(0, 40)}: ${status}`);
      if (status === 101) {
        await until(async () => (await workspace.inspect()).clients === 1, `${path} opens the same room`);
        socket.destroy();
        await until(async () => (await workspace.inspect()).clients === 0, "the room is empty again");
      }
    }
  });

  test("a request that is no upgrade gets 426", async () => {
    const workspace = await relay().workspace();
    const address = `${workspace.url("d").replace("ws:", "http:")}?token=${await workspace.scope()}`;
    const answer = await fetch(address, { signal: AbortSignal.timeout(10_000) });
    await answer.text();
    assert.equal(answer.status, 426);
  });
}
