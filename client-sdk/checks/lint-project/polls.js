import { client } from "./clean.js";
import { WorkspaceClient } from "yrelay-client";

const poll = async () => {
  if (client instanceof WorkspaceClient) await client.node("jobs/42");
  setTimeout(poll, 1000);
};
