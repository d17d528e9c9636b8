// What an agent does, once, as a script for each runtime: `API=… TOKEN=… WORKSPACE=… node agent-smoke.mjs`.
// Its last line of output is what it saw, as JSON.
import process from "node:process";
import { PreconditionFailedError, ProblemError, WorkspaceAgent } from "../../../client-sdk/src/agent/index.ts";

/** Nothing here takes longer on a machine that is not busy. In ms. */
const LIMIT = 60_000;

const { API, TOKEN, WORKSPACE } = process.env;
const agent = new WorkspaceAgent({ api: API, workspace: WORKSPACE, getToken: async () => TOKEN });
const signal = AbortSignal.timeout(LIMIT);
const since = await agent.head();
const { clock } = await agent.write("smoke/a", { n: 1 }, { ifNoneMatch: "*" });
const conflict = await agent.patch("smoke/a", { n: 2 }, { ifMatch: clock + 5 }).catch((error) => error);
const missing = await agent.read("smoke/none").catch((error) => error);
await agent.ops([{ op: "put", path: "smoke/b", value: null }, { op: "delete", path: "smoke/a" }]);
const kinds = [];
for await (const item of agent.changes({ since, prefix: "smoke", signal })) if (kinds.push(`${item.kind} ${item.path}`) === 3) break;
const wait = agent.waitFor("smoke/b", { after: await agent.head(), signal });
await agent.write("smoke/b", "😀");
const listed = [];
for await (const node of agent.list({ prefix: "smoke", pageSize: 1 })) listed.push(node.path);
const seen = {
  conflict: conflict instanceof PreconditionFailedError && conflict.clock === clock && conflict.value,
  missing: missing instanceof ProblemError && missing.code,
  kinds,
  waited: (await wait).kind,
  listed,
  value: (await agent.read("smoke/b")).value,
};
await agent.delete("smoke/b");
agent.close();
console.log(JSON.stringify(seen));
