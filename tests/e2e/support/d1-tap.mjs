// Stands in front of the built Worker (option `entry` of startStack) and watches its D1 binding:
// what D1 itself counts, and faults on request. `tap()` of http.mjs speaks to it.
import Worker from "./index.js";

export * from "./index.js";

/** Sums of D1's own `meta`, of every batch since the last look. */
let counts = zero();
/** The fault to play on batches that append to the log: `before`, `after` or `stall`, and how often. */
let fault = { kind: "none", times: 0 };
const tapped = new WeakSet();

function zero() {
  return { batches: 0, appends: 0, rowsRead: 0, rowsWritten: 0 };
}

function watch(database) {
  if (tapped.has(database)) return;
  tapped.add(database);
  const batch = database.batch.bind(database);
  database.batch = async (statements) => {
    const isAppend = statements.some(({ statement }) => statement?.trimStart().startsWith("INSERT INTO change_log"));
    counts.batches += 1;
    counts.appends += isAppend ? 1 : 0;
    const kind = isAppend && fault.times > 0 ? fault.kind : "none";
    if (kind !== "none") fault.times -= 1;
    if (kind === "stall") return new Promise(() => {});
    if (kind === "before") throw new Error("D1_ERROR: Network connection lost.");
    const results = await batch(statements);
    for (const { meta } of results) {
      counts.rowsRead += meta.rows_read;
      counts.rowsWritten += meta.rows_written;
    }
    if (kind === "after") throw new Error("D1_ERROR: Network connection lost.");
    return results;
  };
}

async function answer(request, path, database) {
  if (path === "counts") {
    const seen = counts;
    counts = zero();
    return Response.json(seen);
  }
  const asked = await request.json();
  if (path === "fault") {
    fault = asked;
    return Response.json({});
  }
  const { results } = await database.prepare(asked.sql).bind(...asked.values).all();
  return Response.json(results);
}

export default class extends Worker {
  async fetch(request) {
    watch(this.env.DB);
    const { pathname } = new URL(request.url);
    if (pathname.startsWith("/__tap/")) return answer(request, pathname.slice("/__tap/".length), this.env.DB);
    return super.fetch(request);
  }
}
