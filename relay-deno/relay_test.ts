import assert from "node:assert/strict";
import { PUBLIC_KEY } from "./_test_support.ts";
import { readConfig } from "./config.ts";
import { createLog } from "./log.ts";
import { startRelay } from "./relay.ts";

Deno.test("with port 0 it picks a free one and says which; two relays get two", async () => {
  const variables: Record<string, string> = {
    RELAY_API_URL: "http://127.0.0.1:1",
    RELAY_API_TOKEN: "secret.token.value",
    RELAY_TOKEN_PUBLIC_KEY: PUBLIC_KEY.toBase64({ alphabet: "base64url", omitPadding: true }),
    RELAY_PORT: "0",
  };
  const start = () =>
    startRelay(readConfig((name) => variables[name]), createLog("deno", () => {}), assert.fail);
  const relays = [await start(), await start()];
  try {
    assert.equal(new Set([0, ...relays.map(({ port }) => port)]).size, 3);
    for (const { port } of relays) {
      const answer = await fetch(`http://127.0.0.1:${port}/healthz`, { signal: AbortSignal.timeout(5000) });
      await answer.body?.cancel();
      assert.equal(answer.status, 200);
    }
  } finally {
    for (const relay of relays) await relay.stop();
  }
});
