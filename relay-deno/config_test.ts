import assert from "node:assert/strict";
import { ConfigError, readConfig } from "./config.ts";

const GOOD: Record<string, string> = {
  RELAY_API_URL: "https://api.example.com/",
  RELAY_API_TOKEN: "secret.token.value",
  RELAY_TOKEN_PUBLIC_KEY: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
};

function read(changes: Record<string, string | undefined> = {}) {
  const variables = { ...GOOD, ...changes };
  return readConfig((name) => (variables as Record<string, string | undefined>)[name]);
}

function problems(changes: Record<string, string | undefined>): readonly string[] {
  try {
    read(changes);
  } catch (error) {
    assert.ok(error instanceof ConfigError);
    return error.problems;
  }
  return [];
}

Deno.test("three variables are enough, the rest has defaults", () => {
  const config = read();
  assert.equal(config.apiUrl, "https://api.example.com");
  assert.deepEqual([...config.publicKey.slice(0, 3), config.publicKey.length], [0xd7, 0x5a, 0x98, 32]);
  const { label, host, port, spoolDir, drainMs, maxFrameBytes, metrics, origins, dev } = config;
  assert.deepEqual(
    { label, host, port, spoolDir, drainMs, maxFrameBytes, metrics, origins, dev },
    {
      label: "deno",
      host: "127.0.0.1",
      port: 8788,
      spoolDir: undefined,
      drainMs: 4500,
      maxFrameBytes: 1_048_576,
      metrics: true,
      origins: "",
      dev: false,
    },
  );
});

Deno.test("B.56 the windows of a stop have to fit into what the supervisor waits", () => {
  const windows = { RELAY_PRESTOP_MS: "5000", RELAY_DRAIN_MS: "4000" };
  assert.deepEqual(problems({ ...windows, RELAY_TERMINATION_MS: "10000" }), []);
  assert.deepEqual(problems({ ...windows, RELAY_TERMINATION_MS: "9000" }), [
    "RELAY_TERMINATION_MS must be more than RELAY_PRESTOP_MS and RELAY_DRAIN_MS together, which are 9000 ms: the supervisor would kill the relay in the middle of its stop",
  ]);
  assert.deepEqual(problems(windows), [], "it is not checked when it is not told");
});

Deno.test("all problems are named at once, by variable, and no value is quoted", () => {
  const found = problems({
    RELAY_API_URL: "https://ann:hunter2@api.example.com",
    RELAY_API_TOKEN: "two words",
    RELAY_TOKEN_PUBLIC_KEY: undefined,
    RELAY_PORT: "99999",
    RELAY_ROOM_CONFIG: "[1]",
    RELAY_METRICS: "yes",
  });
  assert.deepEqual(found.map((text) => text.split(" ")[0]), [
    "RELAY_API_URL",
    "RELAY_API_TOKEN",
    "RELAY_TOKEN_PUBLIC_KEY",
    "RELAY_PORT",
    "RELAY_ROOM_CONFIG",
    "RELAY_METRICS",
  ]);
  assert.ok(!/hunter2|two words|99999|yes/.test(found.join("\n")), found.join("\n"));
});

Deno.test("values that cannot be meant are refused", () => {
  const bad: [string, string][] = [
    ["RELAY_API_URL", "api.example.com"],
    ["RELAY_API_URL", "ws://api.example.com"],
    ["RELAY_API_URL", "https://api.example.com/?token=x"],
    ["RELAY_TOKEN_PUBLIC_KEY", "AAAA"],
    ["RELAY_TOKEN_PUBLIC_KEY", "!!!"],
    ["RELAY_LABEL", "a b"],
    ["RELAY_HOST", "127.0.0.1/x"],
    ["RELAY_PORT", "-1"],
    ["RELAY_DRAIN_MS", "10"],
    ["RELAY_MAX_FRAME_BYTES", "1048577"],
    ["RELAY_ROOM_CONFIG", "{"],
  ];
  for (const [name, value] of bad) assert.equal(problems({ [name]: value }).length, 1, `${name}=${value}`);
});

Deno.test("A6 the development route needs a loopback address", () => {
  assert.equal(read({ RELAY_DEV_MODE: "1" }).dev, true);
  assert.equal(problems({ RELAY_DEV_MODE: "1", RELAY_HOST: "0.0.0.0" }).length, 1);
  assert.equal(read({ RELAY_DEV_MODE: "0", RELAY_HOST: "0.0.0.0" }).dev, false);
});

Deno.test("A.3 A.79 a relay is alone unless it has peers, and peers have a secret", () => {
  const [list, secret] = [
    '["http://10.0.0.1:8788","http://10.0.0.2:8788"]',
    "0123456789abcdef0123456789abcdef",
  ];
  assert.equal(read().cluster, undefined);
  assert.equal(read({ RELAY_CLUSTER_SECRET: secret }).cluster, undefined);
  const { cluster } = read({ RELAY_PEERS: list, RELAY_CLUSTER_SECRET: secret });
  assert.deepEqual(cluster, { peers: { kind: "list", addresses: JSON.parse(list) }, secret });
  for (const short of [undefined, "short"]) {
    const [problem, ...others] = problems({ RELAY_PEERS: list, RELAY_CLUSTER_SECRET: short });
    assert.match(problem ?? "", /^RELAY_CLUSTER_SECRET (is missing|must have at least 32 characters)/);
    assert.deepEqual(others, []);
  }
  for (
    const bad of [
      "10.0.0.1:8788",
      "[]",
      '["ws://10.0.0.1:8788"]',
      '["http://a:1/ws"]',
      "dns:relay",
      "dns:relay:0",
    ]
  ) {
    assert.match(
      problems({ RELAY_PEERS: bad, RELAY_CLUSTER_SECRET: secret }).join("\n"),
      /^RELAY_PEERS [^\n]+$/,
      bad,
    );
  }
});
