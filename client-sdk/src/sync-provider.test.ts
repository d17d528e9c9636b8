// The provider against a real WebSocket server: convergence, receipts, moves between relays, refusals.
import assert from "node:assert/strict";
import { afterEach, describe, test } from "node:test";
import { Awareness } from "y-protocols/awareness";
import * as Y from "yjs";
import { fastEnvironment } from "../test/environment.ts";
import type { TestEnvironment } from "../test/environment.ts";
import { MiniRelay } from "../test/mini-relay.ts";
import { pass, until } from "../test/waiting.ts";
import { FlushError } from "./receipts.ts";
import type { RelayTimes } from "./relay-socket.ts";
import type { TelemetryEvent } from "./relay-walker.ts";
import { MAX_FRAME_BYTES } from "./sync-session.ts";
import { SyncProvider } from "./sync-provider.ts";
import type { RecoveryCopy, SyncProviderOptions, SyncStatus } from "./sync-provider.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function relay(label = "cf"): Promise<MiniRelay> {
  const started = await MiniRelay.start(label);
  cleanups.push(() => started.stop());
  return started;
}

interface Person {
  provider: SyncProvider;
  doc: Y.Doc;
  environment: TestEnvironment;
  statuses: SyncStatus[];
  closes: number[];
  telemetry: TelemetryEvent[];
  write(text: string): void;
  text(): string;
}

function person(relays: readonly MiniRelay[], options: Partial<SyncProviderOptions> & { times?: Partial<RelayTimes> } = {}): Person {
  const environment = fastEnvironment();
  const doc = options.doc ?? new Y.Doc();
  const telemetry: TelemetryEvent[] = [];
  const provider = new SyncProvider({
    doc,
    workspace: "w",
    document: "d",
    relays: relays.map(({ entry }) => entry),
    environment,
    onTelemetry: (event) => telemetry.push(event),
    ...options,
  });
  cleanups.push(() => provider.destroy());
  const statuses: SyncStatus[] = [];
  const closes: number[] = [];
  provider.on("status", (status) => statuses.push(status));
  provider.on("close", ({ code }) => closes.push(code));
  const content = doc.getText("t");
  return { provider, doc, environment, statuses, closes, telemetry, write: (text) => content.insert(content.length, text), text: () => content.toString() };
}

const isSynced = (one: Person, label?: string) => () => one.provider.status.connection === "synced" && (label === undefined || one.provider.status.label === label);
const isSaved = (one: Person) => () => one.provider.status.save === "saved";

describe("sync", { timeout: 60_000 }, () => {
  test("two people converge, and what was written before the connection goes along", async () => {
    const cf = await relay();
    const early = new Y.Doc();
    early.getText("t").insert(0, "early ");
    const [ann, ben] = [person([cf], { doc: early }), person([cf])];
    await until(() => isSynced(ann)() && isSynced(ben)(), "both are synced");
    ann.write("ann ");
    ben.write("ben ");
    await until(() => ann.text() === ben.text() && ann.text().length === 14, "they converge");
    assert.equal(cf.text(), ann.text());
    assert.deepEqual(ann.statuses.map(({ connection }) => connection).filter((kind, index, all) => kind !== all[index - 1]), ["connected", "synced"]);
  });

  test("edits made while away are sent by the next sync, each once", async () => {
    const cf = await relay();
    const [ann, ben] = [person([cf]), person([cf])];
    await until(() => isSynced(ann)() && isSynced(ben)(), "both are synced");
    for (let losses = 0; losses < 3; losses += 1) {
      await until(() => isSynced(ann)() && isSynced(ben)(), "both are synced");
      for (const socket of cf.clients) socket.terminate();
      await until(() => !isSynced(ann)() && !isSynced(ben)(), "both notice the loss");
      ann.write(`a${losses}`);
      ben.write(`b${losses}`);
    }
    await until(() => ann.text() === ben.text() && ann.text().length === 12, "they converge");
    for (const word of ["a0", "a1", "a2", "b0", "b1", "b2"]) assert.equal(ann.text().split(word).length, 2, ann.text());
  });

  test("W11 nothing is written before the relay has said what it has", async () => {
    const cf = await relay();
    let visit: MiniRelay["visits"][number] | undefined;
    const frames: string[] = [];
    cf.greet = (it) => {
      visit = it;
      it.socket.on("message", (data: Buffer, isBinary: boolean) => isBinary && frames.push(data.toString("hex").slice(0, 4)));
      return true;
    };
    const ann = person([cf]);
    await until(() => visit !== undefined && frames.length >= 1, "step 1 arrives");
    ann.write("typed too early");
    await pass(100);
    assert.deepEqual(frames.filter((frame) => frame !== "0000" && !frame.startsWith("01")), []);
    visit!.socket.send(Uint8Array.of(0, 1, 2, 0, 0));
    visit!.socket.send(Uint8Array.of(0, 0, 1, 0));
    await until(() => frames.some((frame) => frame === "0001"), "the answer to the relay's step 1");
    assert.equal(ann.provider.status.connection, "synced");
  });

  test("a broken frame is a lost connection, and the next sync heals it", async () => {
    const cf = await relay();
    const ann = person([cf]);
    await until(isSynced(ann), "synced");
    cf.clients[0]!.send(Uint8Array.of(0, 2, 200));
    await until(() => cf.visits.length === 2 && isSynced(ann)(), "synced again");
    assert.deepEqual(ann.closes, [0]);
  });

  test("several messages in a frame all count", async () => {
    const cf = await relay();
    const ann = person([cf]);
    await until(isSynced(ann), "synced");
    const updates: Uint8Array[] = [];
    const other = new Y.Doc();
    other.on("update", (update: Uint8Array) => updates.push(update));
    for (const letter of ["x", "y"]) other.getText("t").insert(0, letter);
    cf.clients[0]!.send(Buffer.concat(updates.map((update) => Buffer.from([0, 2, update.length, ...update]))));
    await until(() => ann.text() === "yx", "both updates are there");
  });

  test("paths are encoded segment by segment", async () => {
    const cf = await relay();
    const ann = person([cf], { workspace: "w1", document: "notes/café x" });
    await until(isSynced(ann), "synced");
    assert.equal(cf.visits[0]?.url, "/ws/w1/notes/caf%C3%A9%20x");
  });

  test("W7 changes come to who asked", async () => {
    const cf = await relay();
    const [ann, ben] = [person([cf], { changes: true }), person([cf])];
    await until(() => isSynced(ann)() && isSynced(ben)(), "both are synced");
    await until(() => cf.visits.some(({ texts }) => texts.some(({ type }) => type === "hello")), "hello");
    assert.equal(cf.visits.flatMap(({ texts }) => texts.filter(({ type }) => type === "hello")).length, 1);
    const changes: unknown[] = [];
    ann.provider.on("change", (change) => changes.push(change));
    for (const socket of cf.clients) socket.send('{"type":"change","clock":4,"kind":"put","path":"a","actor":"x"}');
    await until(() => changes.length === 1, "a change");
    assert.deepEqual(changes, [{ type: "change", clock: 4, kind: "put", path: "a", actor: "x" }]);
  });

  test("an observer that throws costs neither the connection nor the edits", async () => {
    const cf = await relay();
    const [ann, ben] = [person([cf]), person([cf])];
    await until(() => isSynced(ann)() && isSynced(ben)(), "both are synced");
    const uncaught: string[] = [];
    const hear = (error: Error) => void uncaught.push(error.message);
    const others = process.listeners("uncaughtException");
    process.removeAllListeners("uncaughtException");
    process.on("uncaughtException", hear);
    cleanups.push(() => {
      process.off("uncaughtException", hear);
      for (const other of others) process.on("uncaughtException", other);
    });
    ben.doc.getText("t").observe(() => {
      throw new Error("an application's bug");
    });
    ann.write("hello");
    await until(() => uncaught.length > 0, "the error is reported");
    assert.deepEqual([ben.text(), ben.closes, uncaught], ["hello", [], ["an application's bug"]]);
  });
});

describe("W8 receipts", { timeout: 60_000 }, () => {
  test("saved is what a receipt says, and an edit after it is not", async () => {
    const cf = await relay();
    const ann = person([cf]);
    assert.equal(ann.provider.status.save, "pending");
    await until(isSaved(ann), "saved without being asked");
    ann.write("x");
    assert.equal(ann.provider.status.save, "relayed");
    const receipt = await ann.provider.flush();
    assert.deepEqual([receipt.clock, ann.provider.status.save], [cf.clock, "saved"]);
  });

  test("an edit between the question and the receipt is not covered by it", async () => {
    const cf = await relay();
    const ids: unknown[] = [];
    cf.answerFlush = (id) => {
      ids.push(id);
      return null;
    };
    const ann = person([cf], { autoSave: false });
    await until(isSynced(ann), "synced");
    let isDone = false;
    void ann.provider.flush().then(() => (isDone = true));
    await until(() => ids.length === 1, "a question");
    ann.write("late");
    const second = ann.provider.flush();
    const answer = () => cf.clients[0]!.send(JSON.stringify({ type: "receipt", id: ids.at(-1), clock: 7, epoch: 0 }));
    answer();
    await until(() => isDone, "the first flush is answered");
    assert.equal(ann.provider.status.save, "relayed");
    await until(() => ids.length === 2, "a second question");
    answer();
    await second;
    assert.equal(ann.provider.status.save, "saved");
  });

  test("a flush outlives the connection and the relay", async () => {
    const [cf, deno] = [await relay("cf"), await relay("deno")];
    cf.answerFlush = () => null;
    const ann = person([cf, deno], { autoSave: false });
    await until(isSynced(ann), "synced");
    ann.write("keep me");
    const flushed = ann.provider.flush();
    await until(() => cf.visits[0]!.texts.length === 1, "asked of cf");
    await cf.stop();
    await flushed;
    assert.deepEqual([ann.provider.status.label, ann.provider.status.save, deno.text()], ["deno", "saved", "keep me"]);
  });

  test("a failure that passes is asked about again, one that does not is an error with its reason", async () => {
    const cf = await relay();
    let failures = 0;
    cf.answerFlush = (id) => ((failures += 1) <= 2 ? { type: "flush_failed", id, reason: "storage_unavailable" } : { type: "receipt", id, clock: 1, epoch: 0 });
    const ann = person([cf], { autoSave: false });
    await ann.provider.flush();
    assert.equal(failures, 3);
    cf.answerFlush = (id) => ({ type: "flush_failed", id, reason: "document_too_large" });
    await assert.rejects(ann.provider.flush(), (error) => error instanceof FlushError && error.code === "document_too_large");
  });

  test("a flush can be given up, and ends with the provider", async () => {
    const cf = await relay();
    cf.answerFlush = () => null;
    const ann = person([cf], { autoSave: false });
    await until(isSynced(ann), "synced");
    const limit = new AbortController();
    const given = ann.provider.flush(limit.signal);
    limit.abort(new Error("enough"));
    await assert.rejects(given, /enough/);
    const left = ann.provider.flush();
    ann.provider.destroy();
    await assert.rejects(left, (error) => error instanceof FlushError && error.code === "destroyed");
    await assert.rejects(ann.provider.flush(), (error) => error instanceof FlushError && error.code === "destroyed");
  });

  test("asking by itself waits until edits rest: ten edits, one question", async () => {
    const cf = await relay();
    const ann = person([cf]);
    await until(isSaved(ann), "saved");
    const before = cf.visits[0]!.texts.length;
    for (let edits = 0; edits < 10; edits += 1) ann.write("x");
    await until(isSaved(ann), "saved again");
    assert.equal(cf.visits[0]!.texts.length, before + 1);
  });

  test("U03 a read-only user is told so, and no flush waits for ever", async () => {
    const cf = await relay();
    cf.readOnly = true;
    cf.answerFlush = (id) => ({ type: "flush_failed", id, reason: "forbidden" });
    const ann = person([cf]);
    await until(() => ann.provider.status.readOnly, "read-only");
    await until(isSynced(ann), "it still syncs down");
    await assert.rejects(ann.provider.flush(), (error) => error instanceof FlushError && error.code === "forbidden");
    assert.notEqual(ann.provider.status.save, "saved");
  });
});

test("W11 who may only read learns the epoch from the refusal of a receipt", { timeout: 60_000 }, async () => {
  const cf = await relay();
  cf.answerFlush = (id) => ({ type: "flush_failed", id, reason: "forbidden", epoch: 9 });
  const ann = person([cf]);
  await until(() => ann.provider.epoch === 9, "an epoch");
  assert.ok(ann.provider.status.readOnly);
});

describe("refusals", { timeout: 60_000 }, () => {
  test("W11 4409 stops with a recovery copy, and the epoch of receipts is stated at the next connect", async () => {
    const cf = await relay();
    cf.epoch = 9;
    const ann = person([cf]);
    const copies: RecoveryCopy[] = [];
    ann.provider.on("recovery", (copy) => copies.push(copy));
    await until(isSaved(ann), "saved");
    assert.equal(ann.provider.epoch, 9);
    cf.greet = ({ url, socket }) => url.endsWith("?epoch=9") && (socket.close(4409), true);
    cf.closeAll(1012);
    await until(() => ann.closes.length > 0, "a loss");
    ann.write("unsent");
    const flushed = ann.provider.flush().catch((error: FlushError) => error.code);
    await until(() => ann.provider.status.connection === "stopped", "stopped");
    assert.deepEqual([ann.provider.status.reason, await flushed, copies.length], ["epoch_changed", "epoch_changed", 1]);
    assert.deepEqual([copies[0]!.hasUnsaved, copies[0]!.epoch], [true, 9]);
    const recovered = new Y.Doc();
    Y.applyUpdate(recovered, copies[0]!.document);
    assert.equal(recovered.getText("t").toString(), "unsent");
    assert.equal(cf.text(), "", "it was not merged");
  });

  test("W07 an edit larger than a frame is not sent, is kept, and stops once", async () => {
    const cf = await relay();
    const ann = person([cf]);
    await until(isSaved(ann), "saved");
    ann.write("x".repeat(MAX_FRAME_BYTES + 1));
    await until(() => ann.provider.status.connection === "stopped", "stopped");
    assert.deepEqual([ann.provider.status.reason, ann.provider.status.save, ann.text().length], ["frame_too_large", "pending", MAX_FRAME_BYTES + 1]);
    ann.provider.restart();
    await until(() => cf.visits.length === 2 && ann.provider.status.connection === "stopped", "it stops again");
    await pass(100);
    assert.deepEqual([cf.visits.length, cf.text()], [2, ""]);
    assert.ok(cf.visits.flatMap(({ binary }) => binary).every((frame) => frame.length <= MAX_FRAME_BYTES));
  });

  test("W07 1009 and 4413 of the relay stop, so the same bytes are not sent in a loop", async () => {
    for (const [code, reason] of [[1009, "frame_too_large"], [4413, "document_too_large"]] as const) {
      const cf = await relay();
      const ann = person([cf]);
      await until(isSaved(ann), "saved");
      cf.clients[0]!.once("message", () => cf.closeAll(code));
      ann.write("too much");
      await until(() => ann.provider.status.connection === "stopped", "stopped");
      await pass(100);
      assert.deepEqual([ann.provider.status.reason, cf.visits.length, ann.text()], [reason, 1, "too much"]);
    }
  });

  test("a text frame that the relay refuses is told", async () => {
    const cf = await relay();
    const ann = person([cf]);
    const refusals: unknown[] = [];
    ann.provider.on("refusal", (refusal) => refusals.push(refusal));
    await until(isSynced(ann), "synced");
    for (const text of ["not JSON", "[]", '{"type":"error","code":"bad_message","detail":"why"}']) cf.clients[0]!.send(text);
    await until(() => refusals.length === 1, "a refusal");
    assert.deepEqual(refusals, [{ code: "bad_message", detail: "why" }]);
  });
});

describe("awareness", { timeout: 60_000 }, () => {
  const names = (one: Person) => [...one.provider.awareness.getStates().values()].map((state) => state["name"] as unknown).filter(Boolean).sort();

  test("W6 nothing is renewed by a timer, and others do not time out", async () => {
    const cf = await relay();
    const [ann, ben] = [person([cf]), person([cf])];
    await until(() => isSynced(ann)() && isSynced(ben)(), "both are synced");
    ann.provider.awareness.setLocalStateField("name", "ann");
    await until(() => names(ben).includes("ann"), "ben sees ann");
    const count = () => cf.visits.flatMap(({ binary }) => binary.filter((frame) => frame[0] === 1)).length;
    const before = count();
    // What an awareness with a timer of its own does every 15 s.
    ann.provider.awareness.setLocalState(ann.provider.awareness.getLocalState());
    await pass(200);
    assert.equal(count(), before);
    assert.equal((ann.provider.awareness._checkInterval as { _destroyed?: boolean })._destroyed, true);
    ann.provider.awareness.setLocalStateField("name", "anna");
    await until(() => names(ben).includes("anna"), "a change is sent");
  });

  test("A07 who reconnects is seen at once, with a newer clock", async () => {
    const cf = await relay();
    const [ann, ben] = [person([cf]), person([cf])];
    ann.provider.awareness.setLocalStateField("name", "ann");
    await until(() => names(ben).includes("ann"), "ben sees ann");
    const clockOf = () => ben.provider.awareness.meta.get(ann.doc.clientID)?.clock ?? 0;
    const before = clockOf();
    ann.provider.disconnect();
    ann.provider.connect();
    await until(() => clockOf() > before && names(ben).includes("ann"), "ben sees a newer ann");
  });

  test("without a connection nobody else is there; with one they are again, at the same clock", async () => {
    const cf = await relay();
    const [ann, ben] = [person([cf]), person([cf])];
    ben.provider.awareness.setLocalStateField("name", "ben");
    await until(() => names(ann).includes("ben"), "ann sees ben");
    const state = cf.visits.flatMap(({ binary }) => binary).findLast((frame) => frame[0] === 1)!;
    ann.provider.disconnect();
    assert.deepEqual(names(ann), []);
    ann.provider.connect();
    await until(isSynced(ann), "synced again");
    cf.clients.at(-1)!.send(state);
    await until(() => names(ann).includes("ben"), "ann sees ben again");
  });

  test("who moves back to a relay sees who is there, and is seen, at once", async () => {
    const [cf, deno] = [await relay("cf"), await relay("deno")];
    await cf.stop();
    const ann = person([cf, deno], { times: { probeMs: 6_000 } });
    ann.provider.awareness.setLocalStateField("name", "ann");
    await until(isSynced(ann, "deno"), "ann is on deno");
    await cf.start();
    const ben = person([cf]);
    ben.provider.awareness.setLocalStateField("name", "ben");
    await until(() => names(ann).includes("ben") && names(ben).includes("ann"), "they see each other");
    assert.equal(ann.provider.status.label, "cf");
  });

  test("A06 a relay that says that this client is gone is corrected", async () => {
    const cf = await relay();
    const ann = person([cf]);
    ann.provider.awareness.setLocalStateField("name", "ann");
    await until(isSynced(ann), "synced");
    const count = () => cf.visits[0]!.binary.filter((frame) => frame[0] === 1).length;
    const other = new Awareness(new Y.Doc());
    cleanups.push(() => other.destroy());
    const before = count();
    const id = ann.doc.clientID;
    const varint = (value: number): number[] => (value > 127 ? [(value % 128) | 128, ...varint(Math.floor(value / 128))] : [value]);
    const gone = [1, ...varint(id), ...varint(50), 4, ...Buffer.from("null")];
    cf.clients[0]!.send(Uint8Array.of(1, gone.length, ...gone));
    await until(() => count() === before + 1, "it speaks up, once");
    await pass(100);
    assert.equal(count(), before + 1);
    assert.deepEqual(names(ann), ["ann"]);
  });
});

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

test("S9 an awareness of the application's own stays alive after destroy", { timeout: 30_000 }, async () => {
  const cf = await relay();
  const doc = new Y.Doc();
  const awareness = new Awareness(doc);
  cleanups.push(() => awareness.destroy());
  const ann = person([cf], { doc, awareness });
  await until(isSynced(ann), "synced");
  ann.provider.destroy();
  assert.equal(ann.provider.awareness, awareness);
  assert.notEqual(awareness.getLocalState(), null);
  ann.write("after");
  await pass(50);
  assert.equal(cf.text(), "");
});

test("a document that is destroyed takes its provider along", { timeout: 30_000 }, async () => {
  const cf = await relay();
  const ann = person([cf]);
  await until(isSynced(ann), "synced");
  ann.doc.destroy();
  await until(() => cf.clients.length === 0, "the socket is closed");
  await assert.rejects(ann.provider.flush(), (error) => error instanceof FlushError && error.code === "destroyed");
});
