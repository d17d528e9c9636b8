// Two meshes and a road for their signals that a test makes bad.
import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { FakeNetwork } from "../../test/fake-rtc.ts";
import { FakeClock, settled } from "../testing.ts";
import { Mesh } from "./mesh.ts";
import type { Way } from "./mesh.ts";
import type { Signal } from "./seal.ts";
import { P2P_TIMES } from "./types.ts";

let clock: FakeClock;
let network: FakeNetwork;
let meshes: Map<string, Mesh>;
let said: { signal: Signal; way: Way }[];
let sought: number;
/** How often a signal arrives: 0 is lost. */
let copies: (signal: Signal, way: Way) => number;
beforeEach(() => {
  clock = new FakeClock();
  network = new FakeNetwork();
  meshes = new Map();
  said = [];
  sought = 0;
  copies = () => 1;
});

function mesh(id: string, { hasRelay = true } = {}): Mesh {
  let made = 0;
  const run = meshes.has(id) ? "again" : "first";
  const environment = { now: () => clock.now, setTimeout: clock.setTimeout, clearTimeout: clock.clearTimeout, random: () => 1, uuid: () => `${id} ${run} ${(made += 1)}` };
  const made1 = new Mesh({
    environment: environment as unknown as ConstructorParameters<typeof Mesh>[0]["environment"],
    id,
    hasRelay,
    connect: network.connect,
    send(signal, way) {
      said.push({ signal, way });
      for (let count = copies(signal, way); count > 0; count -= 1) setTimeout(() => {
        for (const [name, other] of meshes) if (name !== id && (signal.to === null || signal.to === name)) void other.handle(structuredClone(signal), way);
      }, 0);
    },
    seek: () => (sought += 1),
  });
  meshes.set(id, made1);
  return made1;
}

const isLinked = (a: Mesh, b: Mesh) => a.link("b") !== null && b.link("a") !== null;
const kinds = () => said.map(({ signal: { kind, from }, way }) => `${from} ${kind} ${way}`);

describe("mesh", () => {
  test("C.73 over the relay: whoever comes later says so, and one offer and one answer are enough", async () => {
    const [a, b] = [mesh("a"), mesh("b")];
    a.want(["b"]);
    b.want(["a"]);
    a.greet();
    b.greet();
    await settled();
    assert.ok(isLinked(a, b));
    assert.equal(network.connections.length, 2);
    assert.equal(new Set(said.filter(({ signal }) => signal.kind !== "hello").map(({ signal }) => signal.attempt)).size, 1);
    assert.deepEqual([sought, said.every(({ way }) => way === "relay")], [0, true]);
  });

  test("C.69 who is not heard on the relay is sought over HTTP after a moment", async () => {
    copies = (_, way) => (way === "http" ? 1 : 0);
    const [a, b] = [mesh("a"), mesh("b")];
    a.want(["b"]);
    b.want(["a"]);
    a.greet();
    await clock.advance(P2P_TIMES.relayMs - 1);
    assert.deepEqual([isLinked(a, b), sought], [false, 0]);
    await clock.advance(1);
    assert.ok(isLinked(a, b) && sought > 0);
  });

  test("P04 both begin at once, signals come twice: one connection per pair", async () => {
    copies = () => 2;
    const [a, b] = [mesh("a", { hasRelay: false }), mesh("b", { hasRelay: false })];
    a.want(["b"]);
    b.want(["a"]);
    await clock.advance(P2P_TIMES.graceMs);
    assert.ok(isLinked(a, b));
    assert.equal(network.open, 2);
    assert.ok(kinds().every((kind) => kind !== "b offer http"));
  });

  test("P04 the answer is lost: the attempt ends in time, and a later one connects", async () => {
    const until = clock.now + P2P_TIMES.attemptMs / 2;
    copies = ({ kind }) => (kind === "answer" && clock.now < until ? 0 : 1);
    const [a, b] = [mesh("a"), mesh("b")];
    a.want(["b"]);
    b.want(["a"]);
    a.greet();
    b.greet();
    await settled();
    assert.ok(!isLinked(a, b));
    await clock.advance(2 * (P2P_TIMES.attemptMs + P2P_TIMES.retryMs));
    assert.ok(isLinked(a, b));
    assert.equal(network.connections.filter(({ connectionState }) => connectionState !== "connected" && connectionState !== "closed").length, 0, "nothing is left over");
  });

  test("a page that was reloaded has the same id and another run: the old connection goes", async () => {
    const [a, b] = [mesh("a"), mesh("b")];
    a.want(["b"]);
    b.want(["a"]);
    b.greet();
    await settled();
    assert.ok(isLinked(a, b));
    const again = mesh("b");
    again.want(["a"]);
    again.greet();
    await settled();
    assert.ok(isLinked(a, again) && a.isSteady("b"));
    assert.equal(network.open, 2);
  });

  test("attempts that fail become rare, and end with the wish", async () => {
    network.isBlocked = true;
    const [a, b] = [mesh("a"), mesh("b")];
    a.want(["b"]);
    b.want(["a"]);
    b.greet();
    await clock.advance(3_600_000);
    const offers = said.filter(({ signal }) => signal.kind === "offer").length;
    assert.ok(offers >= 8 && offers <= 40, `${offers} offers in an hour`);
    a.want([]);
    b.want([]);
    await clock.advance(60_000);
    const before = said.length;
    await clock.advance(3_600_000);
    assert.equal(said.length, before);
    a.close();
    b.close();
    assert.equal(network.open, 0);
  });

  test("A4 who is on no list any more is let go; a connection that was cut has to last", async () => {
    const [a, b] = [mesh("a"), mesh("b")];
    a.want(["b"]);
    b.want(["a"]);
    b.greet();
    await settled();
    network.cut();
    await clock.advance(P2P_TIMES.retryMs);
    assert.ok(isLinked(a, b));
    assert.equal(a.isSteady("b"), false);
    await clock.advance(P2P_TIMES.steadyMs);
    assert.equal(a.isSteady("b"), true);
    await clock.advance(P2P_TIMES.unlistedMs);
    a.want([]);
    await settled();
    assert.deepEqual([network.open, a.link("b"), b.link("a")], [0, null, null]);
  });
});
