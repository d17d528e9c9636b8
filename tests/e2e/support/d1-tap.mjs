// Stands in front of the built Worker (option `entry` of startStack) and counts what D1 itself counts,
// for the tests of cost and of streams that are gone. `tap()` of http.mjs speaks to it. Faults are
// the work of faulty-worker.mjs.
import Worker from "./index.js";

export * from "./index.js";

/** Sums of D1's own `meta`, of every batch since the last look. */
let counts = zero();
const tapped = new WeakSet();

function zero() {
  return { batches: 0, rowsRead: 0, rowsWritten: 0 };
}

function watch(database) {
  if (tapped.has(database)) return;
  tapped.add(database);
  const batch = database.batch.bind(database);
  database.batch = async (statements) => {
    counts.batches += 1;
    const results = await batch(statements);
    for (const { meta } of results) {
      counts.rowsRead += meta.rows_read;
      counts.rowsWritten += meta.rows_written;
    }
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
