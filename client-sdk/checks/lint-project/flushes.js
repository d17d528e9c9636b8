import { client } from "./clean.js";

client.applyOp({ op: "delete", path: "jobs/42" }).then(() => client.flush());
