// A connection whose network dies without a word: no FIN, no RST, and writes that go nowhere.
import assert from "node:assert/strict";
import { test } from "node:test";
import { FrameClient } from "../support/frame-client.mjs";
import { STEP_1, awarenessEntries, awarenessFrame, isStep1 } from "../support/frames.mjs";
import { stockClient } from "../support/stock-client.mjs";
import { startGate } from "../support/tcp-gate.mjs";
import { scopeClaims, signScopeToken } from "../support/tokens.mjs";
import { sleep, until } from "../support/waiting.mjs";

/** How long a ghost may be shown, in ms (CASES A01): stock clients give it 30 s and look every 3 s. */
const GHOST_MS = 45_000;
/** When the late joiner comes, in ms after the silence. */
const LATE_MS = 20_000;

/** The entry of a client in a frame, if it is there. */
const entryOf = (frame, client) => awarenessEntries(frame)?.find(([id]) => id === client);

/** A gate before the relay of a workspace, and the workspace as it is behind the gate. */
async function gated(t, workspace) {
  const gate = await startGate(workspace.relay.url.replace(/^ws/, "http"));
  t.after(() => gate.stop());
  return { gate, url: `${gate.url.replace(/^http/, "ws")}${new URL(workspace.relay.url).pathname}` };
}

/** A raw client that has joined and announced itself. */
async function announced(workspace, { base = workspace.relay.url, token, sub, entries = [] }) {
  const scope = token ?? (await workspace.scope({ sub }));
  const client = workspace.relay.opened(await FrameClient.open(`${base}/${workspace.id}/d?token=${scope}`));
  client.send(STEP_1);
  await client.next(isStep1);
  if (entries.length > 0) client.send(awarenessFrame(entries));
  return client;
}

export function silenceTests(relay) {
  test("A01 nobody shows a person whose network died for longer than 45 s, nor does who joins later", { timeout: 180_000 }, async (t) => {
    const workspace = await relay().workspace();
    const { gate, url } = await gated(t, workspace);
    const a = await stockClient(workspace, { sub: "ann" });
    const b = await stockClient(workspace, { sub: "bob", url });
    t.after(() => [a, b].forEach((client) => client.destroy()));
    const shows = (client) => client.awareness.getStates().has(b.doc.clientID);
    b.awareness.setLocalStateField("cursor", 4);
    await until(() => a.awareness.getStates().get(b.doc.clientID)?.cursor === 4, "B's cursor at A");
    gate.silence();
    const died = Date.now();
    await sleep(LATE_MS);
    const late = await stockClient(workspace, { sub: "cat" });
    t.after(() => late.destroy());
    const cameTo = Date.now();
    await until(() => shows(late), "the late one is told of B, whom the relay takes for alive", 5_000);
    await until(() => !shows(a), "A no longer shows B", died + GHOST_MS - Date.now());
    await until(() => !shows(late), "the late one no longer shows B", cameTo + GHOST_MS - Date.now());
    t.diagnostic(`the late one forgot it ${Date.now() - died} ms after the silence, ${Date.now() - cameTo} ms after it came`);
    assert.deepEqual([a.connects, late.connects], [1, 1], "the others stayed connected");
  });

  test("A01 who comes back from a dead network with the same client id is seen at once", async (t) => {
    const workspace = await relay().workspace();
    const { gate, url } = await gated(t, workspace);
    const a = await announced(workspace, { sub: "ann" });
    await announced(workspace, { sub: "bob", base: url, entries: [[201, 1, { cursor: 1 }]] });
    await a.next((frame) => entryOf(frame, 201));
    gate.silence();
    // Another person cannot take the place; the same one can, with a newer state.
    const eve = await announced(workspace, { sub: "eve", entries: [[201, 5, { cursor: 666 }]] });
    await eve.settled();
    const again = await announced(workspace, { sub: "bob", entries: [[201, 2, { cursor: 2 }]] });
    const [, clock, state] = entryOf(await a.next((frame) => entryOf(frame, 201), "the state of who came back"), 201);
    assert.deepEqual([clock, state], [2, { cursor: 2 }]);
    // The place is that of the new connection: its end is the end of the state, and the ghost's is not.
    await again.close();
    assert.equal(entryOf(await a.next((frame) => entryOf(frame, 201)), 201)[2], null);
  });

  test("A01 U01 a dead connection is removed with its token at the latest", { timeout: 60_000 }, async (t) => {
    const workspace = await relay().workspace();
    const { gate, url } = await gated(t, workspace);
    const exp = Math.floor(Date.now() / 1000) + 5;
    const token = signScopeToken(relay().stack.secrets.SCOPE_SIGNING_KEY, scopeClaims(workspace.id, { sub: "bob", exp }));
    const a = await announced(workspace, { sub: "ann" });
    await announced(workspace, { base: url, token, entries: [[201, 1, { cursor: 1 }]] });
    await a.next((frame) => entryOf(frame, 201));
    gate.silence();
    assert.equal((await workspace.inspect()).clients, 2);
    await until(() => Date.now() > exp * 1000 + 50, "the token ends");
    a.send(awarenessFrame([[101, 1, {}]]));
    assert.equal(entryOf(await a.next((frame) => entryOf(frame, 201), "the ghost's removal"), 201)[2], null);
    assert.equal((await workspace.inspect()).clients, 1);
  });
}
