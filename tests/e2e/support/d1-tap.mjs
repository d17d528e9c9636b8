// Stands in front of the built Worker (option `entry` of startStack) and counts what D1 itself counts,
// for the tests of cost and of streams that are gone; it also sets the isolate's clock ahead and
// counts the sockets of a room. `tap()` of http.mjs speaks to it. Faults are the work of
// faulty-worker.mjs.
import Worker, { Room as BuiltRoom } from "./index.js";

export * from "./index.js";

/** How far the Worker's clock is ahead, in ms. Its timers run as always. */
let ahead = 0;
const realNow = Date.now.bind(Date);
Date.now = () => realNow() + ahead;

/** The built room, which also tells how many sockets it has: bridges of streams are no clients. */
export class Room extends BuiltRoom {
  constructor(state, env) {
    super(state, env);
    this.tappedState = state;
  }

  fetch(request) {
    if (new URL(request.url).pathname !== "/__tap/sockets") return super.fetch(request);
    return Response.json(this.tappedState.getWebSockets().length);
  }
}

/** Sums of D1's own `meta`, of every batch since the last look; and what was asked for. */
let counts = zero();
const tapped = new WeakSet();

function zero() {
  return { statements: 0, batches: 0, rowsRead: 0, rowsWritten: 0 };
}

function watch(database) {
  if (tapped.has(database)) return;
  tapped.add(database);
  const prepare = database.prepare.bind(database);
  database.prepare = (sql) => {
    counts.statements += 1;
    return prepare(sql);
  };
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

async function answer(request, path, { DB: database, ROOM: rooms }) {
  if (path === "counts") {
    const seen = counts;
    counts = zero();
    return Response.json(seen);
  }
  const asked = await request.json();
  if (path === "sockets") return rooms.getByName(asked.workspace).fetch("https://room/__tap/sockets");
  if (path === "advance") return Response.json((ahead += asked.ms));
  const { results } = await database.prepare(asked.sql).bind(...asked.values).all();
  return Response.json(results);
}

export default class extends Worker {
  async fetch(request) {
    watch(this.env.DB);
    const { pathname } = new URL(request.url);
    if (pathname.startsWith("/__tap/")) return answer(request, pathname.slice("/__tap/".length), this.env);
    return super.fetch(request);
  }
}
