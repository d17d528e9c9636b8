// Edits over REST while people have the document open, on both relays: their text and caret stay, and
// a replaced document never gets anything of the old one (W11, A.29, A.30).
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import * as Y from "yjs";
import { FrameClient } from "./support/frame-client.mjs";
import { STEP_1, isStep1, textUpdate, updateFrame } from "./support/frames.mjs";
import { startBoth } from "./support/relays.mjs";
import { stockClient } from "./support/stock-client.mjs";
import { sleep, until } from "./support/waiting.mjs";

/** The runtime drops a room after 10 s without an event, measured in hibernation.test.mjs. */
const IDLE_MS = 14_000;
/** A relay saves what it was sent after at most two seconds (D1); by now it has tried. */
const FLUSHED_MS = 4_000;

describe("edits of open documents", { timeout: 180_000 }, () => {
  let cf;
  let deno;
  before(async () => {
    ({ cf, deno } = await startBoth());
  });
  after(async () => {
    await deno?.stop();
    await cf?.stop();
  });

  const edit = (workspace, edits, query = "") => workspace.rest("POST", `/docs/d/edits${query}`, { body: { root: "t", edits } });

  test("an edit over REST reaches open editors on both relays and keeps what they type", async (t) => {
    const here = await cf.workspace();
    const there = deno.sharing(here);
    const one = await stockClient(here, { sub: "one" });
    const two = await stockClient(there, { sub: "two" });
    const [a, b] = [one, two].map(({ doc }) => doc.getText("t"));
    const undo = new Y.UndoManager(b, { captureTimeout: 0 });
    a.insert(0, "The old sentence. ");
    await until(async () => (await here.text()) === "The old sentence. " && b.toString() === a.toString(), "the first text is everywhere");
    b.insert(b.length, "Typed by two.");
    const caret = Y.createRelativePositionFromTypeIndex(b, b.length);
    const started = Date.now();
    const answer = await edit(here, [{ op: "replace", quote: "old", with: "new" }]);
    assert.equal(answer.status, 200, answer.text);
    await until(() => b.toString().includes("new sentence"), "the edit is on the Deno relay");
    const denoMs = Date.now() - started;
    await until(() => a.toString().includes("new sentence"), "the edit is in the Durable Object's editor");
    t.diagnostic(`on both relays after ${Date.now() - started} ms, on the Deno relay after ${denoMs} ms`);
    await until(() => a.toString() === "The new sentence. Typed by two." && b.toString() === a.toString(), "everybody has both");
    assert.equal(Y.createAbsolutePositionFromRelativePosition(caret, two.doc).index, b.length);
    undo.undo();
    assert.equal(b.toString(), "The new sentence. ", "undo takes back what its person typed");
    await until(async () => (await here.text()) === "The new sentence. ", "the database has it");
    assert.deepEqual([one.closes, two.closes], [[], []]);
  });

  test("A.29 A.30 W11 a replaced document closes editors with 4409 on both relays, and nothing of the old one returns", async () => {
    const here = await cf.workspace();
    const there = deno.sharing(here);
    const one = await stockClient(here, { sub: "one" });
    const two = await stockClient(there, { sub: "two" });
    one.doc.getText("t").insert(0, "generated, first");
    await until(async () => two.doc.getText("t").length > 0 && (await here.text()) === "generated, first", "the first content is saved");
    const { epoch } = (await edit(here, [{ op: "append", text: "." }])).json;
    await until(() => [one, two].every(({ doc }) => doc.getText("t").toString() === "generated, first."), "everybody has it");

    const replaced = await here.rest("PUT", "/docs/d?root=t", { body: new TextEncoder().encode("generated, second"), headers: { "content-type": "text/plain" } });
    assert.equal(replaced.status, 200, replaced.text);
    assert.ok(replaced.json.epoch > epoch);
    await until(() => one.closes.includes(4409), "the Durable Object closes with 4409");
    await until(() => two.closes.includes(4409), "the Deno relay closes with 4409");

    // Both go on typing into their old copies, and come back with the epoch that they have.
    one.doc.getText("t").insert(0, "late ");
    two.doc.getText("t").insert(0, "late too ");
    for (const [workspace, client] of [[here, one], [there, two]]) {
      const url = `${workspace.url("d")}?epoch=${epoch}&token=${await workspace.scope({})}`;
      const stale = await staleClient(url, client.doc);
      assert.equal(stale, 4409, workspace.relay.label);
    }
    assert.equal((await here.rest("POST", `/docs/d/updates?epoch=${epoch}`, { body: Y.encodeStateAsUpdate(one.doc), headers: { "content-type": "application/octet-stream" } })).status, 409);
    assert.equal((await edit(here, [{ op: "append", text: "x" }], `?epoch=${epoch}`)).json.code, "epoch_changed");

    // Who loads it anew has the new content alone, and goes on from there.
    const fresh = await Promise.all([stockClient(here, { sub: "fresh" }), stockClient(there, { sub: "fresh" })]);
    for (const { doc } of fresh) assert.equal(doc.getText("t").toString(), "generated, second");
    fresh[0].doc.getText("t").insert(0, "> ");
    await until(async () => (await here.text()) === "> generated, second" && fresh[1].doc.getText("t").toString() === "> generated, second", "new edits are saved");
  });

  test("A.29 A.30 W11 a document replaced while its room sleeps: the old epoch is closed with 4409 on both relays, and nothing of it is merged", async () => {
    const here = await cf.workspace();
    const workspaces = [here, deno.sharing(here)];
    const { epoch } = (await edit(here, [{ op: "append", text: "generated, first" }])).json;
    const clients = [];
    for (const workspace of workspaces) {
      const client = workspace.relay.opened(await FrameClient.open(`${workspace.url("d")}?epoch=${epoch}&token=${await workspace.scope()}`));
      client.send(STEP_1);
      await client.next(isStep1);
      clients.push(client);
    }
    const { instance } = await here.inspect();
    await sleep(IDLE_MS);
    const replaced = await here.rest("PUT", "/docs/d?root=t", { body: new TextEncoder().encode("generated, second"), headers: { "content-type": "text/plain" } });
    assert.equal(replaced.status, 200, replaced.text);
    // Whoever has not heard of it yet types on.
    for (const [n, client] of clients.entries()) client.send(updateFrame(textUpdate(7 + n, 3)));
    for (const client of clients) assert.equal((await client.closing()).code, 4409);
    assert.notEqual((await here.inspect()).instance, instance, "the room had slept");
    await sleep(FLUSHED_MS);
    assert.equal(await here.text(), "generated, second");
    const { changes } = (await here.rest("GET", "/changes?since=0")).json;
    assert.deepEqual(changes.map(({ kind }) => kind), ["update", "replace"]);
    const fresh = await Promise.all(workspaces.map((workspace) => stockClient(workspace, { sub: "fresh" })));
    for (const { doc } of fresh) assert.equal(doc.getText("t").toString(), "generated, second");
  });
});

/** Connects as a client that states its epoch, sends its whole state, and tells the close code. */
async function staleClient(url, doc) {
  const client = await FrameClient.open(url);
  const vector = Y.encodeStateVector(doc);
  client.socket.send(Uint8Array.from([0, 0, vector.length, ...vector]));
  await until(() => client.closed !== undefined, "the relay closes who has the old epoch");
  return client.closed.code;
}
