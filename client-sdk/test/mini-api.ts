// A small API in memory, called like `fetch`: records, documents, the log with its stream, presence. It
// counts what it got, and a test can take it away. What the real one does is tested end to end.
import * as Y from "yjs";
import type { Change } from "../src/api/types.ts";

export interface ApiCall {
  readonly method: string;
  /** Below the workspace. */
  readonly path: string;
  readonly sub: string;
  readonly key: string | null;
}

interface StoredDocument {
  readonly doc: Y.Doc;
  readonly epoch: number;
  clock: number;
}

export class MiniApi {
  readonly calls: ApiCall[] = [];
  readonly log: Change[] = [];
  readonly records = new Map<string, unknown>();
  readonly documents = new Map<string, StoredDocument>();
  readonly people = new Map<string, Set<string>>();
  /** `before`: nothing arrives; `after`: it is done, and the answer is lost. */
  fault: "after" | "before" | null = null;
  /** Answers a call in place of the API. */
  script: (call: ApiCall) => Promise<Response> | undefined = () => undefined;
  /** Who may only read: no peer secret for them. */
  readonly viewers = new Set<string>();
  readonly #signals: { id: number; to: string; from: string; sub: string; topic: string; data: unknown }[] = [];
  readonly #answers = new Map<string, object>();
  readonly #streams = new Set<ReadableStreamDefaultController<Uint8Array>>();

  /** A token that names its subject, as the API's do. */
  static token(sub: string): string {
    return `h.${btoa(JSON.stringify({ sub })).replaceAll("=", "")}.s`;
  }

  get streams(): number {
    return this.#streams.size;
  }

  /** Calls by method and the beginning of the path. */
  count(method: string, path: string): number {
    return this.calls.filter((call) => call.method === method && call.path.startsWith(path)).length;
  }

  text(path: string): string {
    return this.documents.get(path)?.doc.getText("t").toString() ?? "";
  }

  /** Somebody else edits a document. */
  edit(path: string, actor: string, change: (doc: Y.Doc) => void): void {
    const stored = this.#document(path);
    const doc = new Y.Doc();
    Y.applyUpdate(doc, Y.encodeStateAsUpdate(stored.doc));
    change(doc);
    Y.applyUpdate(stored.doc, Y.encodeStateAsUpdate(doc));
    stored.clock = this.#commit("update", path, actor);
  }

  /** Somebody else writes a record. */
  put(path: string, actor: string, value: unknown): void {
    this.records.set(path, value);
    this.#commit("put", path, actor);
  }

  /** The document is another one from now on. */
  replace(path: string): void {
    this.documents.set(path, { doc: new Y.Doc(), epoch: this.log.length + 1, clock: this.log.length + 1 });
    this.#commit("replace", path, "generator");
  }

  readonly fetch = async (url: string, { method = "GET", headers, body, signal }: RequestInit): Promise<Response> => {
    const { pathname, searchParams } = new URL(url);
    const path = decodeURIComponent(pathname.split("/").slice(4).join("/"));
    const fields = new Headers(headers);
    const { sub } = JSON.parse(atob(fields.get("authorization")!.split(".")[1]!)) as { sub: string };
    const call = { method, path, sub, key: fields.get("idempotency-key") };
    this.calls.push(call);
    if (this.fault === "before") throw new TypeError("away");
    const scripted = this.script(call);
    if (scripted !== undefined) return scripted;
    const repeated = call.key === null ? undefined : this.#answers.get(`${sub} ${call.key}`);
    const answer = repeated === undefined ? this.#answer(call, searchParams, body, signal) : Response.json(repeated);
    if (call.key !== null && answer.ok) this.#answers.set(`${sub} ${call.key}`, (await answer.clone().json()) as object);
    if (this.fault === "after") throw new TypeError("lost");
    return answer;
  };

  #answer(call: ApiCall, query: URLSearchParams, body: RequestInit["body"], signal: RequestInit["signal"]): Response {
    const { method, path, sub } = call;
    const head = this.log.length;
    const below = path.split("/").slice(1).join("/");
    if (path === "") return Response.json({ id: "w", head, floor: 0 });
    if (path === "changes") return Response.json({ changes: this.log.slice(Number(query.get("since"))), head, floor: 0 });
    if (path === "changes/stream") return this.#stream(query.get("since"), signal);
    if (path === "presence") return this.#presence(method, sub, query.get("session") ?? (JSON.parse(String(body ?? "{}")) as { session: string }).session);
    if (path === "tokens") return Response.json({ token: "scope", expiresAt: Number.MAX_SAFE_INTEGER, ...(this.viewers.has(sub) ? {} : { peerSecret: "secret" }) });
    if (path === "p2p/signal") return this.#signal(method, sub, query, body);
    if (path.startsWith("nodes/")) return this.#record(method, below, sub, body);
    if (path.startsWith("docs/")) return this.#documentCall(method, below, sub, { query, body });
    return problem(404, "not_found");
  }

  #record(method: string, path: string, sub: string, body: RequestInit["body"]): Response {
    if (method === "GET") return this.records.has(path) ? Response.json({ path, kind: "record", clock: 1, value: this.records.get(path) }) : problem(404, "node_not_found");
    if (method === "DELETE") this.records.delete(path);
    else this.records.set(path, JSON.parse(String(body)));
    return Response.json({ clock: this.#commit(method === "DELETE" ? "delete" : "put", path, sub), path });
  }

  #documentCall(method: string, at: string, sub: string, { query, body }: { query: URLSearchParams; body: RequestInit["body"] }): Response {
    if (method === "GET") {
      const stored = this.documents.get(at);
      if (stored === undefined) return problem(404, "node_not_found");
      const vector = query.get("sv");
      const bytes = vector === null ? undefined : new Uint8Array(Buffer.from(vector, "base64url"));
      return new Response(new Uint8Array(Y.encodeStateAsUpdate(stored.doc, bytes)), { headers: { etag: `"${stored.clock}"`, "yrelay-epoch": String(stored.epoch) } });
    }
    const path = at.replace(/\/updates$/, "");
    const epoch = query.get("epoch");
    if (epoch !== null && Number(epoch) !== this.documents.get(path)?.epoch) return problem(409, "epoch_changed");
    const stored = this.#document(path);
    Y.applyUpdate(stored.doc, body as Uint8Array);
    stored.clock = this.#commit("update", path, sub);
    return Response.json({ clock: stored.clock, epoch: stored.epoch });
  }

  #document(path: string): StoredDocument {
    const stored = this.documents.get(path) ?? { doc: new Y.Doc(), epoch: this.log.length + 1, clock: 0 };
    this.documents.set(path, stored);
    return stored;
  }

  #presence(method: string, sub: string, session: string): Response {
    const sessions = this.people.get(sub) ?? new Set();
    if (method === "DELETE") sessions.delete(session);
    if (method === "PUT") sessions.add(session);
    if (sessions.size > 0) this.people.set(sub, sessions);
    else this.people.delete(sub);
    const presence = [...this.people].flatMap(([name, all]) => [...all].map((one) => ({ sub: name, kind: "human", session: one, state: {}, expiresAt: 0, self: one === session })));
    const otherHumans = [...this.people.keys()].filter((name) => name !== sub).length;
    return method === "DELETE" ? new Response(null, { status: 204 }) : Response.json({ presence, otherHumans, complete: true });
  }

  #signal(method: string, sub: string, query: URLSearchParams, body: RequestInit["body"]): Response {
    if (method === "POST") {
      const id = this.#signals.length + 1;
      this.#signals.push({ ...(JSON.parse(String(body)) as { to: string; from: string; topic: string; data: unknown }), id, sub });
      return Response.json({ id, expiresAt: 0 }, { status: 201 });
    }
    const signals = this.#signals.filter(({ id, to }) => to === query.get("peer") && id > Number(query.get("after")));
    return Response.json({ signals: signals.map(({ to: _, ...signal }) => signal) });
  }

  #commit(kind: Change["kind"], path: string, actor: string): number {
    const change: Change = { clock: this.log.length + 1, kind, path, actor, at: 0 };
    this.log.push(change);
    for (const stream of this.#streams) stream.enqueue(encode(change));
    return change.clock;
  }

  #stream(since: string | null, signal: RequestInit["signal"]): Response {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#streams.add(controller);
        signal?.addEventListener("abort", () => this.#streams.delete(controller) && controller.error(new Error("left")));
        if (since === null) controller.enqueue(new TextEncoder().encode(`event: head\nid: ${this.log.length}\ndata: {"head":${this.log.length}}\n\n`));
        else for (const change of this.log.slice(Number(since))) controller.enqueue(encode(change));
      },
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  }
}

function encode(change: Change): Uint8Array {
  return new TextEncoder().encode(`event: change\nid: ${change.clock}\ndata: ${JSON.stringify(change)}\n\n`);
}

export function problem(status: number, code: string): Response {
  return Response.json({ code, status, detail: code }, { status, headers: { "content-type": "application/problem+json" } });
}
