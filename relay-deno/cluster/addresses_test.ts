import assert from "node:assert/strict";
import { createLog } from "../log.ts";
import { createLookup, parsePeers } from "./addresses.ts";

Deno.test("peers are a list of addresses, or a name that has all of them", async () => {
  assert.deepEqual(parsePeers('["http://10.0.0.1:8788/","https://b.example"]'), {
    kind: "list",
    addresses: ["http://10.0.0.1:8788", "https://b.example"],
  });
  assert.deepEqual(parsePeers("dns:relay.internal:8788"), {
    kind: "dns",
    name: "relay.internal",
    port: 8788,
  });
  const bad = [
    "",
    "x",
    "{}",
    "[]",
    "[1]",
    '["10.0.0.1:8788"]',
    '["ws://a:1"]',
    '["http://a:1/x"]',
    '["http://u@a:1"]',
  ];
  for (const text of [...bad, '["http://a:1?x"]', "dns:a", "dns::1", "dns:a:0", "dns:a:65536", "dns:a:b:1"]) {
    assert.throws(() => parsePeers(text), /must be a JSON array of addresses/, text);
  }
  const list = createLookup(parsePeers('["http://a:1"]'), createLog("deno", () => {}));
  assert.deepEqual(await list(), ["http://a:1"]);
});

Deno.test("a name is looked up now and then; a lookup that fails leaves what was found, and is logged once", async () => {
  const lines: string[] = [];
  const answers = [["10.0.0.1", "fd00::1"], undefined, undefined, ["10.0.0.2"]];
  let lookups = 0;
  const resolve = (name: string) => {
    assert.equal(name, "relay");
    const answer = answers[lookups];
    lookups += 1;
    return answer ? Promise.resolve(answer) : Promise.reject(new Error("no such name"));
  };
  const lookup = createLookup(
    { kind: "dns", name: "relay", port: 1 },
    createLog("deno", (line) => lines.push(line)),
    resolve,
  );
  const real = Date.now;
  let now = real();
  Date.now = () => now;
  try {
    for (const expected of [1, 1, 2, 3, 4]) {
      const found = await lookup();
      assert.equal(lookups, expected);
      assert.deepEqual(
        found,
        expected < 4 ? ["http://10.0.0.1:1", "http://[fd00::1]:1"] : ["http://10.0.0.2:1"],
      );
      now += lookups === 1 && expected === 1 ? 3_000 : 6_000;
    }
  } finally {
    Date.now = real;
  }
  assert.equal(lines.filter((line) => line.includes("peers_unresolved")).length, 1);
});
