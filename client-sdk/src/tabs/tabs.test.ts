// B02, C.72: tabs of one browser that crash, freeze, hide and come back. One leads at a time, and what a
// tab asked for is done.
import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { FakeBrowser, FakeClock, fakePage, settled } from "../testing.ts";
import { TabChannel } from "./channel.ts";
import { LeaderCalls } from "./follower.ts";
import { Election } from "./leader.ts";

let clock: FakeClock;
let browser: FakeBrowser;
beforeEach(() => {
  clock = new FakeClock();
  browser = new FakeBrowser();
});

function open(name: string, { isHidden = false, handle = async (method: string): Promise<unknown> => `${name} did ${method}` } = {}) {
  const tab = browser.tab();
  const page = fakePage(clock, { ...tab.members(clock), uuid: nextName(name) });
  if (isHidden) page.change("hidden");
  const channel = new TabChannel(page, "c");
  const election = new Election(page, channel, "lock");
  const served: string[] = [];
  const calls = new LeaderCalls(page, channel, election, (method, payload) => {
    served.push(`${method} ${String(payload)}`);
    return handle(method);
  });
  election.start();
  return { name, tab, page, election, calls, served, close: () => (calls.close(new Error("closed")), election.close(), channel.close()) };
}

/** The first name is the tab's own. */
function nextName(name: string): () => string {
  let made = 0;
  return () => `${name}${(made += 1) === 1 ? "" : made}` as `${string}-${string}-${string}-${string}-${string}`;
}

type Tab = ReturnType<typeof open>;
const leaders = (tabs: readonly Tab[]) => tabs.filter(({ election, tab }) => election.role === "leader" && !tab.isFrozen).map(({ name }) => name);

describe("tabs", () => {
  test("one of four leads, and knows it; the others know which", async () => {
    const tabs = ["a", "b", "c", "d"].map((name) => open(name));
    await clock.advance(5_000);
    assert.deepEqual(leaders(tabs), ["a"]);
    assert.deepEqual(tabs.map(({ election }) => election.leader), ["a", "a", "a", "a"]);
    assert.equal(clock.armed, 0);
  });

  test("C.72 a crash passes the lead on at once, without a timer", async () => {
    const tabs = ["a", "b", "c"].map((name) => open(name));
    await settled();
    tabs[0]!.tab.crash();
    await settled();
    assert.deepEqual(leaders(tabs), ["b"]);
    tabs[1]!.close();
    await settled();
    assert.deepEqual(leaders(tabs), ["c"]);
  });

  test("B02 a hidden leader makes room for a tab that is looked at, and no third one leads between", async () => {
    const [a, b, c] = ["a", "b", "c"].map((name) => open(name, { isHidden: name !== "a" })) as [Tab, Tab, Tab];
    await settled();
    const roles: string[] = [];
    for (const it of [a, b, c]) it.election.on("role", (role) => roles.push(`${it.name} ${role}`));
    a.page.change("hidden");
    await settled();
    assert.deepEqual(leaders([a, b, c]), ["a"]);
    c.page.change("visible");
    await settled();
    assert.deepEqual(roles, ["a follower", "c leader"]);
    assert.deepEqual(leaders([a, b, c]), ["c"]);
    a.page.change("visible");
    await clock.advance(10_000);
    assert.deepEqual(leaders([a, b, c]), ["c"]);
  });

  test("two windows that are both looked at do not fight", async () => {
    const [a, b] = [open("a"), open("b")];
    const roles: string[] = [];
    await settled();
    for (const it of [a, b]) it.election.on("role", (role) => roles.push(`${it.name} ${role}`));
    for (let n = 0; n < 10; n += 1) {
      b.page.change("visible");
      await clock.advance(5_000);
    }
    assert.deepEqual(roles, []);
  });

  test("B02 a frozen leader keeps its lock and loses it within 10 s to a tab that is looked at; thawed, it follows", async () => {
    const [a, b] = [open("a"), open("b", { isHidden: true })];
    await settled();
    a.page.change("hidden");
    a.tab.freeze();
    b.page.change("visible");
    await clock.advance(2_900);
    assert.deepEqual(leaders([a, b]), []);
    await clock.advance(200);
    assert.deepEqual(leaders([a, b]), ["b"]);
    a.tab.thaw();
    await settled();
    assert.deepEqual(leaders([a, b]), ["b"]);
    b.tab.crash();
    await settled();
    assert.deepEqual(leaders([a, b]), ["a"]);
  });

  test("a channel that carries nothing makes each tab its own leader, and they do not take the lock from each other for ever", async () => {
    const mute = { openChannel: () => ({ onmessage: null, postMessage: () => {}, close: () => {} }) };
    const roles: string[] = [];
    const elections = ["a", "b"].map((name) => {
      const page = fakePage(clock, { ...browser.tab().members(clock), ...mute });
      const election = new Election(page, new TabChannel(page, "c"), "lock");
      election.on("role", (role) => roles.push(`${name} ${role}`));
      election.start();
      return election;
    });
    await clock.advance(60_000);
    const { length } = roles;
    await clock.advance(600_000);
    assert.deepEqual(elections.map(({ role }) => role), ["leader", "leader"]);
    assert.equal(roles.length, length);
  });

  test("without locks each tab is its own leader", async () => {
    const tab = browser.tab();
    const page = fakePage(clock, { ...tab.members(clock), locks: () => null });
    const channel = new TabChannel(page, "c");
    const election = new Election(page, channel, "lock");
    election.start();
    assert.equal(election.role, "leader");
  });
});

describe("calls to the leader", () => {
  test("they are done by the leader, also when it asks itself", async () => {
    const [a, b] = [open("a"), open("b")];
    await settled();
    assert.equal(await a.calls.call("x", 1), "a did x");
    assert.equal(await b.calls.call("y", 2), "a did y");
    assert.deepEqual([a.served, b.served], [["x 1", "y 2"], []]);
  });

  test("C.72 what the dead leader did not answer, the next one does, a follower or the caller itself", async () => {
    const [a, b, c] = [open("a", { handle: () => new Promise(() => {}) }), open("b"), open("c")];
    await settled();
    const answers = Promise.all([b.calls.call("save", "b"), c.calls.call("save", "c")]);
    await settled();
    assert.deepEqual(a.served, ["save b", "save c"]);
    a.tab.crash();
    await settled();
    assert.deepEqual(await answers, ["b did save", "b did save"]);
    assert.deepEqual([...b.served].sort(), ["save b", "save c"]);
  });

  test("B02 a leader that does not even hear is frozen: the caller leads within 10 s", async () => {
    const [a, b] = [open("a"), open("b")];
    await settled();
    a.tab.freeze();
    const answer = b.calls.call("save", 1);
    await clock.advance(6_100);
    assert.equal(await answer, "b did save");
    assert.deepEqual(leaders([a, b]), ["b"]);
  });

  test("a slow answer is no frozen leader, and asking again does nothing twice", async () => {
    let finish: (value: unknown) => void = () => {};
    const [a, b] = [open("a", { handle: () => new Promise((settle) => (finish = settle)) }), open("b")];
    await settled();
    const answer = b.calls.call("save", 1);
    await clock.advance(60_000);
    assert.deepEqual(leaders([a, b]), ["a"]);
    finish("done");
    assert.equal(await answer, "done");
    assert.deepEqual(a.served, ["save 1"]);
  });

  test("an error keeps its code on the way", async () => {
    const handle = async () => {
      throw Object.assign(new Error("no"), { code: "forbidden" });
    };
    const [, b] = [open("a", { handle }), open("b")];
    await settled();
    await assert.rejects(b.calls.call("save", 1), { code: "forbidden", message: "no" });
    const waiting = b.calls.call("save", 2);
    b.close();
    await assert.rejects(waiting, /closed/);
  });
});
