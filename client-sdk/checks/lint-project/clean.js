import { WorkspaceClient } from "yrelay-client";
import * as Y from "yjs";

export const client = new WorkspaceClient({ api: "https://api.example.com", workspace: "team-1", token: () => "" });
export const { doc } = client.openDoc("notes/intro");
client.changes(async () => client.node("jobs/42"), { prefix: "jobs" });
await client.applyOp({ op: "put", path: "jobs/42", value: doc instanceof Y.Doc });
