import assert from "node:assert/strict";
import { test } from "node:test";
import { STOP_TEXT, classifyClose } from "./close-codes.ts";

test("every close code of the relay's table has its class", () => {
  const expected: Record<number, string> = {
    1000: "clean",
    1009: "frame_too_large",
    1012: "restart",
    1013: "abnormal",
    4400: "protocol_violation",
    4401: "expired",
    4403: "forbidden",
    4404: "deleted",
    4409: "epoch_changed",
    4413: "document_too_large",
    4429: "limited",
  };
  for (const [code, name] of Object.entries(expected)) {
    const found = classifyClose(Number(code));
    assert.equal(found.kind === "stop" ? found.reason : found.kind, name, code);
  }
});

test("what platforms report of a broken connection is abnormal, an unknown code of the stop band stops", () => {
  for (const code of [0, 1001, 1005, 1006, 1008, 1011, 1015, 3000, 4399, 4500]) assert.equal(classifyClose(code).kind, "abnormal", String(code));
  for (const code of [4402, 4410, 4499]) assert.deepEqual(classifyClose(code), { kind: "stop", reason: "refused" });
});

test("every reason to stop says a cause and a cure", () => {
  for (const [reason, text] of Object.entries(STOP_TEXT)) assert.match(text, /^[A-Z][^.]+[.;].+\.$/, reason);
});
