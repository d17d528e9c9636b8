import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { run } from "./check-relays.ts";
import { MAX_RELAYS, RelayListError, checkRelayList, parseRelayList, pinOf } from "./relay-list.ts";

const CF = { label: "cf", url: "wss://cf.relay.example.com/ws" };
const DENO = { label: "deno", url: "wss://deno.relay.example.com/ws" };
const TOOL = fileURLToPath(new URL("./check-relays.ts", import.meta.url));

function problemsOf(text: string | undefined): readonly string[] {
  try {
    parseRelayList(text);
  } catch (error) {
    assert.ok(error instanceof RelayListError);
    assert.equal(error.code, "invalid_relay_list");
    assert.ok(error.problems.every((problem) => error.message.includes(problem)));
    return error.problems;
  }
  throw new assert.AssertionError({ message: `accepted: ${text}` });
}

test("C.34 S2 a list keeps its order, whatever its labels are", () => {
  assert.deepEqual(parseRelayList(JSON.stringify([DENO, CF])), [DENO, CF]);
  assert.deepEqual(parseRelayList(JSON.stringify([CF, DENO])), [CF, DENO]);
});

test("C.39 S2 a third relay is one more entry, and other members of an entry are left out", () => {
  const third = { label: "third", url: "wss://edge.example.net/realtime/ws" };
  assert.deepEqual(checkRelayList([CF, DENO, { ...third, note: 1 }]), [CF, DENO, third]);
});

test("S2 ws: is for the loopback address only", () => {
  for (const host of ["127.0.0.1:8787", "127.9.9.9", "localhost:1", "a.localhost", "[::1]:9"]) {
    assert.equal(parseRelayList(`[{"label":"a","url":"ws://${host}/ws"}]`).length, 1, host);
  }
  for (const host of ["10.0.0.1", "localhost.example.com", "127.0.0.1.example.com", "[::2]"]) {
    assert.match(problemsOf(`[{"label":"a","url":"ws://${host}/ws"}]`).join(), /entry 0: .*use wss:/, host);
  }
});

test("C.35 C.36 S2 every bad list is refused with its entry and a cure", () => {
  const one = (entry: unknown) => JSON.stringify([CF, entry]);
  const cases: [string | undefined, RegExp][] = [
    [undefined, /not set; set it to/],
    [" ", /not set; set it to/],
    ["[", /not JSON.*; write a JSON array/],
    ["{}", /not an array; write/],
    ["[]", /empty; name at least one/],
    [JSON.stringify(Array(MAX_RELAYS + 1).fill(CF)), /17 entries; keep at most 16/],
    [one(null), /entry 1: its "label" .*give it/],
    [one({ ...DENO, label: "" }), /entry 1: its "label"/],
    [one({ ...DENO, label: "Deno" }), /entry 1: its "label"/],
    [one({ ...DENO, label: "a".repeat(33) }), /entry 1: its "label"/],
    [one({ label: "cf", url: CF.url }), /entry 1: the label "cf" is that of entry 0 too/],
    [one({ label: "x", url: "/ws" }), /entry 1: its "url" is not an absolute URL/],
    [one({ label: "x", url: 7 }), /entry 1: its "url"/],
    [one({ label: "x", url: "https://x.example/ws" }), /begins with https:/],
    [one({ label: "x", url: "wss://ann:secret@x.example/ws" }), /holds credentials; remove/],
    [one({ label: "x", url: "wss://x.example/ws?a=1" }), /query or a fragment; end it/],
    [one({ label: "x", url: "wss://x.example/ws#" }), /query or a fragment; end it/],
    [one({ label: "x", url: "wss://x.example/ws/" }), /does not end in \/ws/],
    [one({ label: "x", url: "wss://x.example/" }), /does not end in \/ws/],
    [one({ label: "x", url: "wss://y.relay.example.com/ws" }), /says "y" and its label "x"; make them equal/],
  ];
  for (const [text, expected] of cases) assert.match(problemsOf(text).join("\n"), expected, String(text));
});

test("C.38 S2 a host <vendor>.relay.<domain> has its vendor as label, so that telemetry names the host", () => {
  for (const relay of [CF, DENO]) assert.equal(new URL(relay.url).hostname.split(".relay.")[0], relay.label);
  assert.equal(checkRelayList([CF, DENO]).length, 2);
  assert.match(problemsOf(JSON.stringify([{ ...CF, label: "deno" }])).join(), /entry 0: its host says "cf" and its label "deno"; make them equal/);
  assert.equal(checkRelayList([{ label: "any", url: "wss://sync.example.com/ws" }]).length, 1, "other hosts have any label");
});

test("all problems are told at once, and none repeats a secret", () => {
  const problems = problemsOf('[{"label":"A","url":"wss://u:hunter2@h/ws"},{"label":"b","url":"ws://h/ws"},{}]');
  assert.deepEqual(problems.map((problem) => problem.slice(0, 7)), ["entry 0", "entry 0", "entry 1", "entry 2", "entry 2"]);
  assert.ok(!problems.join().includes("hunter2"));
});

test("C.36 S2 ?relay= pins by label, and an unknown label is told", () => {
  const relays = [CF, DENO];
  assert.equal(pinOf("?a=1&relay=deno", relays), 1);
  assert.equal(pinOf("relay=cf", relays), 0);
  assert.equal(pinOf("?relay=", relays), null);
  assert.equal(pinOf("", relays), null);
  assert.deepEqual(pinOf("?relay=nope", relays), { unknown: "nope" });
});

test("C.35 yrelay-relays check fails a build with a message", () => {
  const folder = mkdtempSync(join(tmpdir(), "relay-list-"));
  const run = (args: string[], list?: string) =>
    spawnSync(process.execPath, [TOOL, ...args], { env: { ...process.env, PUBLIC_RELAY_URLS: list }, encoding: "utf8", timeout: 20_000 });
  try {
    const good = run(["check"], JSON.stringify([DENO, CF]));
    assert.deepEqual([good.status, good.stdout], [0, "good; relays in this order: deno, cf\n"]);
    const bad = run(["check"], JSON.stringify([CF, CF]));
    assert.equal(bad.status, 1);
    assert.match(bad.stderr, /PUBLIC_RELAY_URLS.*\n {2}entry 1: /);
    writeFileSync(join(folder, "list.json"), "[]");
    assert.equal(run(["check", join(folder, "list.json")]).status, 1);
    assert.match(run(["check", join(folder, "none.json")]).stderr, /cannot be read \(ENOENT\)/);
    assert.match(run([]).stderr, /^usage: /);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("C.37 one list, wherever it is kept: what the page is built with is what wrangler.toml has, or the build fails", () => {
  const folder = mkdtempSync(join(tmpdir(), "relay-list-"));
  const toml = join(folder, "wrangler.toml");
  const list = JSON.stringify([CF, DENO]);
  const write = (line: string) => writeFileSync(toml, `[vars]\nRELAY_LABEL = "cf"\n${line}\n[triggers]\n`);
  const check = (list?: string) => run(["check", toml], { PUBLIC_RELAY_URLS: list });
  try {
    for (const line of [`PUBLIC_RELAY_URLS = '${list}' # in the order of preference`, `PUBLIC_RELAY_URLS=${JSON.stringify(list)}`]) {
      write(line);
      assert.deepEqual(run(["print", toml], {}), { code: 0, text: list });
      assert.deepEqual([check().code, check(list).code, check(run(["print", toml], {}).text).code], [0, 0, 0]);
    }
    const drifts: [unknown, RegExp][] = [
      [[DENO, CF], /entry 0 is "deno", in the file "cf"; build from .*wrangler\.toml/],
      [[CF], /entry 1 is nothing, in the file "deno"/],
      [[CF, DENO, { label: "third", url: "wss://x.example/ws" }], /entry 2 is "third", in the file nothing/],
      [[CF, { ...DENO, url: "wss://deno.relay.example.org/ws" }], /entry 1, "deno", has another url/],
    ];
    for (const [other, expected] of drifts) {
      const { code, text } = check(JSON.stringify(other));
      assert.equal(code, 1);
      assert.match(text, expected);
    }
    assert.equal(check("[]").code, 1, "a bad list is no mirror of a good one");
    for (const line of ["", `PUBLIC_RELAY_URLS = '${list}'\nPUBLIC_RELAY_URLS = '${list}'`]) {
      write(line);
      assert.equal(check().code, 2);
      assert.match(check().text, /has [02] lines PUBLIC_RELAY_URLS = '…'; have one/);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});
