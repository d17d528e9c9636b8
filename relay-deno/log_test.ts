import assert from "node:assert/strict";
import { createLog, scrub } from "./log.ts";

function lines(): { log: ReturnType<typeof createLog>; read: () => Record<string, unknown>[] } {
  const written: string[] = [];
  return {
    log: createLog("deno-1", (line) => written.push(line)),
    read: () => written.map((line) => JSON.parse(line)),
  };
}

Deno.test("C.78 every line has the relay's label and cannot be made to lie about it", () => {
  const { log, read } = lines();
  log.info("listening", { port: 8788 });
  log.error("spool_failed", { relay: "other", event: "other", cause: "disk full" });
  const [first, second] = read();
  assert.deepEqual([first?.event, first?.port, first?.relay, first?.level], [
    "listening",
    8788,
    "deno-1",
    "info",
  ]);
  assert.deepEqual([second?.event, second?.relay, second?.cause], ["spool_failed", "deno-1", "disk full"]);
});

Deno.test("A3 tokens and query strings do not reach the log", () => {
  const token = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhbm4ifQ.c2ln-_x";
  for (
    const text of [
      `error sending request for url (http://127.0.0.1/ws/a?token=${token}&epoch=3)`,
      `refused: Authorization: Bearer ${token}`,
      `protocols: yrelay, ${token}`,
      "Bearer opaque-secret",
    ]
  ) {
    const scrubbed = scrub(text);
    assert.ok(
      !scrubbed.includes("eyJ") && !scrubbed.includes("secret") && !scrubbed.includes("epoch"),
      scrubbed,
    );
  }
  assert.equal(scrub("disk full: /data/spool.sqlite"), "disk full: /data/spool.sqlite");
});

Deno.test("a long text is cut and an undefined field is left out", () => {
  const { log, read } = lines();
  log.warn("x", { cause: "a".repeat(10_000), status: undefined });
  const [line] = read();
  assert.ok(String(line?.cause).length <= 400);
  assert.ok(!("status" in (line ?? {})));
});
