// What clients report of their relays, and what an operator sees of it (S1, C.78, C.81, A3).
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { startStack } from "../../tools/stack.mjs";
import { Api, tap } from "./support/http.mjs";
import { until } from "./support/waiting.mjs";

const ENTRY = join(import.meta.dirname, "support", "d1-tap.mjs");
const DAY = 86_400_000;
const SECRET = "wss://cf.relay.example/ws?token=eyJhbGciOiJIUzI1NiJ9.e30.c2VjcmV0";

const advance = (changes = {}) => ({ name: "relay_advance", fromLabel: "cf", toLabel: "deno", trigger: "open_timeout", at: Date.now(), ...changes });
const cycle = (changes = {}) => ({ name: "relay_cycle_all_failed", labels: ["cf", "deno"], at: Date.now(), ...changes });

// One at a time: the roll-up is over everything that was reported.
describe("telemetry", { concurrency: 1, timeout: 120_000 }, () => {
  let api;
  let d1;
  let agent;
  let logs = "";
  before(async () => {
    api = new Api(await startStack({ entry: ENTRY, onLog: (text) => (logs += text) }));
    d1 = tap(api);
    agent = api.actor("bot", "agent", {});
  });
  after(() => api.finish());

  const report = (events, client = agent) => client.post("/api/telemetry", { events });
  const stored = () => d1.sql("SELECT * FROM telemetry ORDER BY received, id, part");
  const sweep = async () => {
    assert.equal((await api.as(undefined).get("/cdn-cgi/local/scheduled")).status, 200);
    api.seen.delete("GET /cdn-cgi/local/scheduled 200");
  };

  test("s1 reports are stored in one batch and rolled up by label, for any valid token", async () => {
    const empty = await agent.get("/api/relays");
    assert.deepEqual([empty.status, empty.json.relays, empty.json.cyclesAllFailed], [200, [], 0]);
    assert.ok(Math.abs(Date.now() - DAY - empty.json.since) < 60_000);
    const at = Date.now() - 1_000;
    await d1.counts();
    const sent = await report([advance({ at, workspace: "demo" }), advance({ at: at - 5, trigger: "recovered", fromLabel: "deno", toLabel: "cf" }), cycle({ at })]);
    assert.deepEqual([sent.status, sent.json], [200, { stored: 3 }]);
    const { batches, rowsWritten } = await d1.counts();
    assert.deepEqual([batches, rowsWritten], [1, 3]);
    await report([advance({ at: at + 1, trigger: "abnormal_closes" }), advance({ toLabel: "third", trigger: "close_before_open", at: 0 })]);
    for (const kind of ["human", "agent", "service"]) {
      const { json } = await api.actor("anyone", kind, { other: "viewer" }).get("/api/relays");
      assert.deepEqual(json.relays, [
        { label: "cf", advancesFrom: 3, advancesTo: 1, lastAdvanceAt: at + 1 },
        { label: "deno", advancesFrom: 1, advancesTo: 2, lastAdvanceAt: at + 1 },
        { label: "third", advancesFrom: 0, advancesTo: 1, lastAdvanceAt: 0 },
      ]);
      assert.equal(json.cyclesAllFailed, 1);
    }
  });

  test("a clock that is ahead does not reach into the future, and reports are counted by when they came", async () => {
    await d1.sql("DELETE FROM telemetry");
    await report([advance({ at: Date.now() + 365 * DAY })]);
    const [row] = await stored();
    assert.equal(row.at, row.received);
    assert.equal((await agent.get("/api/relays")).json.relays[0].lastAdvanceAt, row.received);
    await d1.sql("UPDATE telemetry SET received = received - ?1", DAY + 60_000);
    assert.deepEqual((await agent.get("/api/relays")).json.relays, []);
  });

  test("c.78 c.81 each report is a line that the label finds, and a cycle is an error", async () => {
    await report([advance({ fromLabel: "grep-me", workspace: "demo" }), cycle({ labels: ["grep-me", "deno"] })]);
    await until(() => logs.includes("relay_cycle_all_failed labels=grep-me,deno workspace=-"), "the line of the cycle");
    assert.match(logs, /warn: .*relay_advance from=grep-me to=deno trigger=open_timeout workspace=demo/);
    assert.match(logs, /error: .*relay_cycle_all_failed labels=grep-me/);
  });

  test("r4 a3 every bad report is refused, says which event, stores nothing and repeats nothing", async () => {
    await d1.sql("DELETE FROM telemetry");
    const without = (event, name) => Object.fromEntries(Object.entries(event).filter(([key]) => key !== name));
    const events = [1, null, {}, [], "relay_advance", advance({ name: "other" }), advance({ url: SECRET }), advance({ token: "x" }), cycle({ fromLabel: "cf" }), advance({ labels: ["cf"] }), { ...advance(), [SECRET]: 1 }];
    for (const name of ["name", "fromLabel", "toLabel", "trigger", "at"]) events.push(without(advance(), name), advance({ [name]: SECRET }), advance({ [name]: null }));
    for (const name of ["labels", "at"]) events.push(without(cycle(), name), cycle({ [name]: SECRET }), cycle({ [name]: null }));
    for (const label of ["", "CF", "c_f", "cf ", "é", "x".repeat(33), SECRET]) events.push(advance({ fromLabel: label }), cycle({ labels: ["cf", label] }));
    for (const labels of [[], {}, [1], Array(17).fill("cf")]) events.push(cycle({ labels }));
    for (const at of [-1, 1.5, "1", 2 ** 53, true]) events.push(advance({ at }));
    for (const workspace of ["", "a/b", 1, null, "x".repeat(65)]) events.push(advance({ workspace }), cycle({ workspace }));
    for (const trigger of ["", "Recovered", "probe"]) events.push(advance({ trigger }));
    for (const event of events) {
      const refused = await report([advance(), event]);
      assert.deepEqual([refused.status, refused.json.code, refused.json.index], [400, "bad_request", 1], JSON.stringify(event));
      assert.ok(!refused.text.includes("secret") && !refused.text.includes("example"), refused.text);
    }
    const bodies = [["{", "invalid_json"], ["", "invalid_json"], ["[]", "bad_request"], ["{}", "bad_request"], ['{"events":{}}', "bad_request"], ['{"events":[]}', "bad_request"], [JSON.stringify({ events: [advance()], token: SECRET }), "bad_request"], [JSON.stringify({ events: Array(21).fill(advance()) }), "bad_request"], ["[".repeat(100), "invalid_json"]];
    for (const [body, code] of bodies) {
      const refused = await agent.post("/api/telemetry", body, { "content-type": "application/json" });
      assert.deepEqual([refused.status, refused.json.code], [400, code], body.slice(0, 60));
    }
    const large = await agent.post("/api/telemetry", `${" ".repeat(16 * 1024)}{}`, { "content-type": "application/json" });
    assert.deepEqual([large.status, large.json.code, large.json.limit], [413, "payload_too_large", 16 * 1024]);
    const text = await agent.post("/api/telemetry", JSON.stringify({ events: [advance()] }), { "content-type": "text/plain" });
    assert.deepEqual([text.status, text.json.code], [415, "unsupported_media_type"]);
    assert.deepEqual(await stored(), []);
    const most = Array.from({ length: 20 }, () => cycle({ labels: Array.from({ length: 16 }, (_, n) => `${"x".repeat(30)}${n + 10}`) }));
    assert.deepEqual((await report(most)).json, { stored: 20 }, "the largest report fits the limit of bytes");
  });

  test("a1 reports and roll-up need a valid token; a scope token is none", async () => {
    await d1.sql("DELETE FROM telemetry");
    const owner = await api.workspace("telemetry");
    const scope = (await owner.post("/api/workspaces/telemetry/tokens", { purpose: "stream" })).json.token;
    const expired = api.actor("ann", "human", {}, { ttl: 60, now: Math.floor(Date.now() / 1000) - 600 });
    for (const [client, code] of [[api.as(undefined), "unauthorized"], [api.as("x.y.z"), "unauthorized"], [api.as(scope), "unauthorized"], [expired, "token_expired"]]) {
      for (const answer of [await report([advance()], client), await client.get("/api/relays")]) {
        assert.deepEqual([answer.status, answer.json.code], [401, code]);
      }
    }
    const foreign = await agent.get("/api/relays", { headers: { origin: "https://evil.example" } });
    assert.equal(foreign.json.code, "origin_not_allowed");
    for (const [method, path, allow] of [["GET", "/api/telemetry", "POST"], ["POST", "/api/relays", "GET"]]) {
      const refused = await agent.call(method, path);
      assert.deepEqual([refused.status, refused.headers.allow], [405, allow]);
    }
    assert.deepEqual(await stored(), []);
  });

  test("the hourly sweep removes reports of more than seven days, batch after batch", async () => {
    await d1.sql("DELETE FROM telemetry");
    await report([advance(), cycle()]);
    await d1.sql(
      `INSERT INTO telemetry (received, id, part, name, at, from_label, to_label, trigger)
       WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
       SELECT ?1 - i / 10, 'old', i, 'relay_advance', ?1, 'cf', 'deno', 'recovered' FROM n`,
      Date.now() - 7 * DAY - 60_000,
    );
    await d1.sql("INSERT INTO telemetry (received, id, part, name, at) VALUES (?1, 'young', 0, 'relay_cycle_all_failed', ?1)", Date.now() - 7 * DAY + 60_000);
    await d1.counts();
    await sweep();
    assert.equal((await d1.counts()).batches, 5, "one of the log, three of reports, one of presence and signals");
    assert.deepEqual((await stored()).map(({ id, part }) => (id === "young" ? id : part)), ["young", 0, 1]);
  });

  test("a3 nothing of a token or an address is stored or logged", async () => {
    const rows = JSON.stringify(await stored()) + logs;
    for (const part of ["eyJ", "wss:", "example", "c2VjcmV0"]) assert.ok(!rows.includes(part), part);
  });
});
