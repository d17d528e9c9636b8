// Entry of the database process: routes a query to the simulator's database object and
// counts the statements on the way, so that "no D1 read" is observed from outside the
// Worker under test. GET /counts answers {total, statements}; `statements` holds the
// database and the first words of the latest ones.

let total = 0;
let statements = [];

export default {
  async fetch(request, env) {
    if (new URL(request.url).pathname === "/counts") return Response.json({ total, statements });
    const database = request.headers.get("x-bench-database") ?? "none";
    const body = await request.text();
    const latest = summaries(database, body);
    total += latest.length;
    statements = [...statements, ...latest].slice(-KEPT);
    const stub = env.DATABASE.get(env.DATABASE.idFromName(database));
    const init = { method: request.method, headers: request.headers, body };
    return stub.fetch(request.url, { ...init, cf: { miniflare: { name: database } } });
  },
};

const KEPT = 200;

function summaries(database, body) {
  const queries = [JSON.parse(body)].flat();
  return queries.map(({ sql }) => `${database}: ${sql.replace(/\s+/g, " ").slice(0, 100)}`);
}
