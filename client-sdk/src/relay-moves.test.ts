// A document that moves between relays, there and back, against real WebSocket servers.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as Y from "yjs";
import { MiniRelay } from "../test/mini-relay.ts";
import { isSynced, person } from "../test/sync-person.ts";
import { pass, until } from "../test/waiting.ts";
import { relay } from "../test/walker-client.ts";

describe("moving between relays", { timeout: 60_000 }, () => {
  test("N05 there and back, five times: content once, no edit lost, everything saved", async () => {
    const [cf, deno] = [await relay("cf"), await relay("deno")];
    const ann = person([cf, deno], { times: { probeMs: 3_000 } });
    await until(isSynced(ann, "cf"), "on cf");
    for (let round = 0; round < 5; round += 1) {
      ann.write(`<c${round}>`);
      await cf.stop();
      await until(isSynced(ann, "deno"), "on deno");
      ann.write(`<d${round}>`);
      await until(() => deno.text() === ann.text(), "deno has all");
      await cf.start();
      await until(isSynced(ann, "cf"), "back on cf");
      await until(() => cf.text() === ann.text(), "cf has all");
    }
    assert.equal(ann.text(), [0, 1, 2, 3, 4].map((round) => `<c${round}><d${round}>`).join(""));
    await ann.provider.flush();
    assert.equal(ann.provider.status.save, "saved");
    assert.equal(ann.telemetry.filter((event) => event.name === "relay_advance" && event.trigger === "recovered").length, 5);
  });

  test("edits typed while a probe syncs and takes over reach the relay that is used then", async () => {
    const [cf, deno] = [await relay("cf"), await relay("deno")];
    await cf.stop();
    const ann = person([cf, deno], { times: { probeMs: 3_000 }, autoSave: false });
    await until(isSynced(ann, "deno"), "on deno");
    await cf.start();
    let typed = 0;
    // One letter for each turn of the event loop, before, during and after the move.
    while (!(isSynced(ann, "cf")() && cf.text().length > 5) && typed < 20_000) {
      ann.write(String(typed % 10));
      typed += 1;
      await pass(0);
    }
    await until(() => cf.text() === ann.text(), "cf has every letter");
    assert.equal(ann.text().length, typed);
  });

  test("what others write on the old relay while a probe is at it goes to the new one, and nothing is said back", async () => {
    const [cf, deno] = [await relay("cf"), await relay("deno")];
    await cf.stop();
    const ann = person([cf, deno], { times: { probeMs: 3_000 } });
    const ben = person([deno]);
    await until(() => isSynced(ann, "deno")() && isSynced(ben)(), "both on deno");
    // A relay that asks first, as a stock server does, and takes its time to answer.
    const got: Uint8Array[] = [];
    let visit: MiniRelay["visits"][number] | undefined;
    cf.greet = (it) => {
      visit = it;
      it.socket.on("message", (data: Buffer, isBinary: boolean) => isBinary && got.push(new Uint8Array(data)));
      it.socket.send(Uint8Array.of(0, 0, 1, 0));
      return true;
    };
    await cf.start();
    await until(() => got.some(([type, kind]) => type === 0 && kind === 1), "the probe answers");
    ben.write("ben");
    await until(() => ann.text() === "ben", "ann hears of it from deno");
    await until(() => got.some(([type, kind]) => type === 0 && kind === 2), "and tells cf");
    const theirs = new Y.Doc();
    theirs.getText("t").insert(0, "theirs");
    const update = Y.encodeStateAsUpdate(theirs);
    visit!.socket.send(Uint8Array.of(0, 1, update.length, ...update));
    await until(isSynced(ann, "cf"), "ann is on cf");
    await pass(50);
    assert.equal(ben.provider.status.label, "deno");
    assert.equal(deno.text(), "ben", "relays are not bridged by a client");
    assert.deepEqual(ann.closes, []);
  });
});
