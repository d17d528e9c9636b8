// C.65: writes of a page are merged before they are sent.
import { testRule } from "../../test/rule-tester.ts";
import { coalescedApplyOp } from "./coalesced-apply-op.ts";

const bad = (code: string, errors: readonly string[]) => ({ code, errors });

testRule("coalesced-apply-op", coalescedApplyOp, {
  script: {
    good: [
      "client.applyOp(write); this.client.applyOp(write); useWorkspace().applyOp(write);",
      "import { WorkspaceClient } from 'yrelay-client'; const client = new WorkspaceClient(options); await client.applyOp(write);",
      "import { client } from './client.js'; client.applyOp(write);",
      "function save({ client }) { return client.applyOp(write); }",
      "const applyOp = (write) => client.applyOp(write); applyOp(write);",
      "function applyOp(write) { return client.applyOp(write, { surface: 'a' }); } applyOp(write);",
      "function Page({ applyOp }) { applyOp(write); }",
      { code: "import { applyOp } from './writes.js'; applyOp(write);", options: [{ modules: ["./writes.js"] }] },
      "async function leave() { await client.flush(); }",
      "function type() { client.applyOp(write); } async function leave() { await client.flush(); }",
      "client.applyOp(write); other.flush();",
      "await client.flush(); client.applyOp(write);",
      "import { WorkspaceAgent } from 'yrelay-client/agent'; new WorkspaceAgent(options);",
    ],
    bad: [
      bad("applyOp(write);", ["other"]),
      bad("window.applyOp(write); function applyOp(write) { return send(write); } applyOp(write);", ["other"]),
      bad("import { applyOp } from './writes.js'; applyOp(write);", ["other"]),
      bad("import { applyOp as write } from './writes.js'; const applyOp = write; applyOp(change);", ["other"]),
      bad("import * as writes from './writes.js'; writes.applyOp(write);", ["other"]),
      bad("import { Queue } from 'other-sync'; new Queue().applyOp(write); const queue = new Queue(); queue.applyOp(write);", ["other", "other"]),
      bad("await client.applyOp(write); await client.flush();", ["flush"]),
      bad("async () => { client.applyOp(write); await client.flush(AbortSignal.timeout(9)); }", ["flush"]),
      bad("client.applyOp(write).then(() => client.flush());", ["flush"]),
      bad("import { WorkspaceClient } from 'yrelay-client'; import { WorkspaceAgent } from 'yrelay-client/agent'; new WorkspaceAgent(options);", ["agent"]),
      bad("import * as agents from 'yrelay-client/agent'; import { useState } from 'react'; new agents.WorkspaceAgent(options);", ["agent"]),
    ],
  },
  types: {
    good: ["(client as Client).applyOp(write); client!.applyOp!(write);", "import { WorkspaceClient } from 'yrelay-client'; import type { WorkspaceAgent } from 'yrelay-client/agent'; let agent: WorkspaceAgent;", "import type { Coalesced } from './coalescer.js'; function send(entry: Coalesced<Entry>): Coalesced<Entry> { return entry as Entry; }"],
    bad: [bad("send(entry as Coalesced<Entry>); send(entry as unknown as Coalesced<Entry>); take('a' as Due);", ["cast", "cast", "cast"]), bad("client!.applyOp(write); (client!).flush();", ["flush"]), bad("import { Queue } from 'other-sync'; const queue = new Queue() as any; queue.applyOp(write);", ["other"])],
  },
});
