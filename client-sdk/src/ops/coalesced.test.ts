// C.65: the compiler lets no write be sent that has not waited in the coalescer. What it must refuse is
// marked; where it does not, `tsc` fails.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Coalescer } from "./coalescer.ts";
import type { Coalesced, Due } from "./coalescer.ts";
import type { Write } from "./merge.ts";
import { Outbox } from "./outbox.ts";
import type { OutboxEntry } from "./outbox.ts";
import type { Sender } from "./sender.ts";

const WRITE: Write = { op: "put", path: "a", value: 1 };
const ENTRY: OutboxEntry = { key: "K", surface: "nodes/a", write: WRITE };

/** Never called: it is there to be compiled. */
export function refusedByTheCompiler(send: Sender, outbox: Outbox): void {
  // @ts-expect-error A write as it was asked for.
  void send(WRITE, { keepalive: false });
  // @ts-expect-error An entry that waits.
  void send(ENTRY, { keepalive: false });
  // @ts-expect-error The oldest entry of a surface, due or not.
  void send(outbox.waiting("nodes/a")[0], { keepalive: false });
  // @ts-expect-error A surface that nobody called due.
  outbox.take("nodes/a");
  // @ts-expect-error A mark of one's own.
  const marked: Coalesced<OutboxEntry> = { ...ENTRY, coalesced: true };
  // @ts-expect-error The same for a surface.
  const due: Due = "nodes/a";
  void [marked, due];
}

test("C.65 a write gets to the sender by the coalescer's word, after its pause", () => {
  const coalescer = new Coalescer();
  const outbox = new Outbox(() => "K");
  const sent: OutboxEntry[] = [];
  const send = (entry: Coalesced<OutboxEntry>) => sent.push(entry);
  const run = (now: number) => {
    for (const due of coalescer.poll(now)) {
      const entry = outbox.take(due);
      if (entry !== undefined) send(entry);
    }
  };
  outbox.add(ENTRY.surface, WRITE);
  coalescer.handleAdd(ENTRY.surface, 0);
  run(0);
  assert.deepEqual(sent, []);
  outbox.add(ENTRY.surface, { ...WRITE, value: 2 });
  coalescer.handleAdd(ENTRY.surface, 100);
  run(1_100);
  assert.deepEqual(sent, [{ ...ENTRY, write: { ...WRITE, value: 2 } }]);
});
