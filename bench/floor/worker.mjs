// The floor: the least a Durable Object can do for each measured job, with the same
// platform calls and none of the logic. It knows no protocol, checks nothing and
// must never be used for anything but comparing.
//
//   /ws/<room>/<document>   forward every frame to the other sockets of the document
//   /join/<memory|stored>   answer any binary frame with the stored bytes
//   /batch                  the two-statement D1 batch of one record mutation, alone
//   /instance/<room>        which construction of the object answers

import { DurableObject } from "cloudflare:workers";

/** One room: raw fan-out, or raw replay when a blob was stored. */
export class Floor extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    this.instance = crypto.randomUUID();
    this.blob = undefined;
  }

  async fetch(request) {
    const url = new URL(request.url);
    if (request.method === "PUT") return this.store(await request.arrayBuffer());
    if (url.pathname.startsWith("/instance/")) return new Response(this.instance);
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server, [url.pathname]);
    return new Response(null, { status: 101, webSocket: client });
  }

  webSocketMessage(socket, message) {
    const [tag] = this.ctx.getTags(socket);
    if (tag === "/join/memory") return socket.send(this.blob ??= this.load());
    if (tag === "/join/stored") return socket.send(this.load());
    for (const peer of this.ctx.getWebSockets(tag)) {
      if (peer !== socket) peer.send(message);
    }
  }

  webSocketClose() {}

  webSocketError() {}

  /** Stores a ready frame in pieces below the row limit. */
  store(body) {
    const { sql } = this.ctx.storage;
    sql.exec("CREATE TABLE IF NOT EXISTS piece (n INTEGER PRIMARY KEY, bytes BLOB)");
    sql.exec("DELETE FROM piece");
    for (let at = 0; at < body.byteLength; at += PIECE) {
      sql.exec("INSERT INTO piece (bytes) VALUES (?)", body.slice(at, at + PIECE));
    }
    this.blob = undefined;
    return new Response(null, { status: 204 });
  }

  load() {
    const rows = [...this.ctx.storage.sql.exec("SELECT bytes FROM piece ORDER BY n")];
    const whole = new Uint8Array(rows.reduce((sum, row) => sum + row.bytes.byteLength, 0));
    let at = 0;
    for (const row of rows) {
      whole.set(new Uint8Array(row.bytes), at);
      at += row.bytes.byteLength;
    }
    return whole;
  }
}

const PIECE = 1_000_000;

const TABLES = [
  `CREATE TABLE IF NOT EXISTS node (workspace TEXT, path TEXT, value TEXT, clock INTEGER,
     PRIMARY KEY (workspace, path)) WITHOUT ROWID`,
  `CREATE TABLE IF NOT EXISTS log (workspace TEXT, clock INTEGER, path TEXT, at INTEGER,
     PRIMARY KEY (workspace, clock)) WITHOUT ROWID`,
];

const NEXT = "(SELECT COALESCE(MAX(clock), 0) + 1 FROM log WHERE workspace = ?1)";

async function batch(db, body) {
  const [change] = await db.batch([
    db.prepare(`INSERT INTO log VALUES (?1, ${NEXT}, ?2, ?3) RETURNING clock`)
      .bind("bench", body.path, Date.now()),
    db.prepare(`INSERT INTO node VALUES (?1, ?2, ?3, (SELECT MAX(clock) FROM log WHERE workspace = ?1))
        ON CONFLICT DO UPDATE SET value = excluded.value, clock = excluded.clock`)
      .bind("bench", body.path, JSON.stringify(body.value)),
  ]);
  return Response.json(change.results[0]);
}

export default {
  async fetch(request, env) {
    const [, kind, name] = new URL(request.url).pathname.split("/");
    if (kind === "batch") return batch(env.DB, await request.json());
    if (kind === "tables") {
      await env.DB.batch(TABLES.map((sql) => env.DB.prepare(sql)));
      return new Response(null, { status: 204 });
    }
    if (kind === "healthz") return new Response("ok");
    return env.ROOM.getByName(kind === "join" ? "join" : name).fetch(request);
  },
};
