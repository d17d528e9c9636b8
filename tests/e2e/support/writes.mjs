// Every kind of write of the API, and what it leaves behind. What a release does not offer yet, or no
// longer, is not asked of it (`lives.mjs`).
import { textUpdate } from "./frames.mjs";

const BYTES = { "content-type": "application/octet-stream" };
const MERGE = { "content-type": "application/merge-patch+json" };
/** Appends after which a document is compacted into a checkpoint, and one more. */
const MANY = 66;

/** A Yjs update of three letters, by a client that no other life has. */
const three = (life, part) => textUpdate(10_000 * life + part, 3);
const every = (life, of) => Array.from({ length: life }, (_, index) => of(index + 1));

/**
 * The writes of one life, in order. `operation` is the OpenAPI name of the `call`, `[method, below the
 * workspace, options]`; `shows` looks at what is read at the end, and is told how many lives have done this:
 * `[what is there, what has to be]`. A write is repeated under its key in all later lives, unless it takes
 * none (`keyless`).
 */
export function writes(life) {
  return [
    ...records(life),
    ...documents(life),
    {
      operation: "post /api/workspaces",
      call: ["POST", "", { path: "/api/workspaces", body: { id: `made-${life}` } }],
      shows: ({ workspaces }) => [workspaces[`made-${life}`], { status: 410, code: "workspace_deleted" }],
    },
    {
      operation: "delete /api/workspaces/{}",
      call: ["DELETE", "", { path: `/api/workspaces/made-${life}` }],
      shows: ({ workspaces }) => [workspaces[`made-${life}`]?.status, 410],
    },
    ...besides(life),
  ];
}

function records(life) {
  return [
    {
      operation: "put /api/workspaces/{}/nodes/{}",
      call: ["PUT", `/nodes/own/${life}`, { body: { life }, headers: { "if-none-match": "*" } }],
      shows: ({ nodes }) => [nodes[`own/${life}`]?.value, { life }],
    },
    {
      operation: "put /api/workspaces/{}/nodes/{}",
      call: ["PUT", "/nodes/shared", { body: { life } }],
      shows: ({ nodes }) => [nodes.shared?.value.life, life],
    },
    {
      operation: "patch /api/workspaces/{}/nodes/{}",
      call: ["PATCH", "/nodes/shared", { body: { patched: life }, headers: MERGE }],
      shows: ({ nodes }) => [nodes.shared?.value.patched, life],
    },
    {
      operation: "post /api/workspaces/{}/ops",
      call: ["POST", "/ops", {
        body: {
          ops: [
            { op: "put", path: `ops/${life}/kept`, value: life },
            { op: "put", path: `ops/${life}/gone`, value: life },
            { op: "patch", path: "shared", patch: { batch: life } },
            { op: "delete", path: `ops/${life}/gone` },
            { op: "put", path: `moving/${life}/leaf`, value: life },
          ],
        },
      }],
      shows: ({ nodes }) => [[nodes[`ops/${life}/kept`]?.value, nodes[`ops/${life}/gone`], nodes.shared?.value.batch], [life, undefined, life]],
    },
    {
      operation: "post /api/workspaces/{}/nodes/{}/move",
      call: ["POST", `/nodes/moving/${life}/move`, { body: { to: `moved/${life}` } }],
      shows: ({ nodes }) => [[nodes[`moved/${life}/leaf`]?.value, nodes[`moving/${life}/leaf`]], [life, undefined]],
    },
    {
      operation: "post /mcp",
      call: ["POST", "", {
        path: "/mcp",
        headers: { accept: "application/json, text/event-stream" },
        body: { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "write_node", arguments: { workspace: "lives", path: `mcp/${life}`, value: { life } } } },
      }],
      keyless: true,
      shows: ({ nodes }) => [nodes[`mcp/${life}`]?.value, { life }],
    },
  ];
}

function documents(life) {
  const append = (path, part) => ["POST", `/docs/${path}/updates`, { body: three(life, part), headers: BYTES }];
  return [
    // The first may make the document, the second finds it: their answers are kept in different ways.
    ...[1, 2].map((part) => ({
      operation: "post /api/workspaces/{}/docs/{}/updates",
      call: append("appended", part),
      shows: ({ documents }, lives) => [documents.appended?.text, "xxx".repeat(2 * lives)],
    })),
    // More parts than a document may have: what is read of it afterwards is a checkpoint.
    ...Array.from({ length: MANY }, (_, part) => ({
      operation: "post /api/workspaces/{}/docs/{}/updates",
      call: append("many", 100 + part),
      keyless: true,
      shows: ({ documents }, lives) => [documents.many?.text.length, 3 * MANY * lives],
    })),
    {
      operation: "post /api/batch",
      call: ["POST", "", {
        path: "/api/batch",
        body: {
          requests: [{
            path: "/api/workspaces/lives/docs/in-batches/updates",
            headers: { "idempotency-key": `batch-${life}` },
            body: three(life, 3).toString("base64"),
          }],
        },
      }],
      // The key is that of the request in it; the envelope takes none, and may be sent again as it is.
      shows: ({ documents }, lives) => [documents["in-batches"]?.text, "xxx".repeat(lives)],
    },
    {
      operation: "post /api/workspaces/{}/docs/{}/edits",
      call: ["POST", "/docs/edited/edits", { body: { root: "t", edits: [{ op: "append", text: ` life ${life}` }] } }],
      shows: ({ documents }) => [documents.edited?.text.includes(` life ${life}`), true],
    },
    {
      operation: "put /api/workspaces/{}/docs/{}",
      call: ["PUT", "/docs/replaced?root=t", { body: Buffer.from(`content ${life}`), headers: { "content-type": "text/plain" } }],
      shows: ({ documents }) => [documents.replaced?.text, `content ${life}`],
    },
    // The same path each time: a document that was deleted, is made anew, and is deleted once more.
    {
      operation: "post /api/workspaces/{}/docs/{}/updates",
      call: append("doomed/document", 4),
      shows: ({ nodes }) => [nodes["doomed/document"], undefined],
    },
    {
      operation: "delete /api/workspaces/{}/nodes/{}",
      call: ["DELETE", "/nodes/doomed"],
      shows: ({ documents }) => [documents["doomed/document"], undefined],
    },
  ];
}

/** What is no change: it has no clock, and most of it ends by itself. */
function besides(life) {
  const signal = { to: "peer", from: `peer-${life}`, topic: "live", data: { type: "offer", life } };
  const at = Date.now();
  const events = [
    { name: "relay_advance", fromLabel: "cf", toLabel: "deno", trigger: "open_timeout", at, workspace: "lives" },
    { name: "relay_cycle_all_failed", labels: ["cf", "deno"], at },
  ];
  return [
    {
      operation: "put /api/workspaces/{}/presence",
      call: ["PUT", "/presence", { body: { session: `tab-${life}`, ttl: 300, state: { life } } }],
      keyless: true,
      shows: ({ presence }) => [presence.find(({ session }) => session === `tab-${life}`)?.state, { life }],
    },
    {
      operation: "post /api/workspaces/{}/p2p/signal",
      call: ["POST", "/p2p/signal", { body: signal }],
      keyless: true,
      shows: ({ signals }) => [signals.find(({ from }) => from === signal.from)?.data, signal.data],
    },
    {
      operation: "post /api/telemetry",
      call: ["POST", "", { path: "/api/telemetry", body: { events } }],
      keyless: true,
      shows: ({ relays }, lives) => [[relays.cyclesAllFailed, relays.relays.find(({ label }) => label === "cf")?.advancesFrom], [lives, lives]],
    },
  ];
}

/**
 * What has to be refused: preconditions and the end of a workspace are guards in the schema itself
 * (decision 0003), which a later schema must not take away. `[operation, call, status, code]`.
 */
export function refusals(life) {
  const put = "put /api/workspaces/{}/nodes/{}";
  return [
    [put, ["PUT", "/nodes/shared", { body: 0, headers: { "if-match": '"1"' } }], 412, "precondition_failed"],
    [put, ["PUT", "/nodes/shared", { body: 0, headers: { "if-none-match": "*" } }], 412, "precondition_failed"],
    [put, ["PUT", "", { path: `/api/workspaces/made-${life}/nodes/a`, body: 0 }], 410, "workspace_deleted"],
    ["post /api/workspaces", ["POST", "", { path: "/api/workspaces", body: { id: "lives" } }], 409, "exists"],
    ["post /api/workspaces/{}/docs/{}/updates", ["POST", "/docs/appended/updates?epoch=999999", { body: three(life, 5), headers: BYTES }], 409, "epoch_changed"],
  ];
}

/** Words of the people on `live`, who stay through all lives. */
export const words = (life, name) => every(life, (at) => `${name}-${at}`);
