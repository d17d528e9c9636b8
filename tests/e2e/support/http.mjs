// Calls to the HTTP API for the end-to-end tests. Every call has a time limit, every error body is
// checked against the contract, and every status is remembered, so that a file can end with
// `checkDocumented`: what the tests saw is what the OpenAPI document says.
import assert from "node:assert/strict";
import { Agent, request } from "node:http";

/** How long any call may take, in ms. The Worker itself gives storage 8 s. */
const CALL_LIMIT = 20_000;
/** From this size on a body is sent only when the server asks for it, in bytes. */
const LARGE_BODY = 512 * 1024;
const PROBLEM = "application/problem+json";

/**
 * A client of a stack. `call` sends one request; its address is sent exactly as given, since fetch
 * would normalize hostile ones. `as` makes a client with another token.
 */
export class Api {
  constructor(stack, token = stack.token, seen = new Map(), agent = new Agent({ keepAlive: true, maxSockets: 64 })) {
    Object.assign(this, { stack, token, seen, agent });
  }

  as(token) {
    return new Api(this.stack, token, this.seen, this.agent);
  }

  /** A client of an actor with these roles, such as `{ demo: "editor" }`. */
  actor(sub, kind, workspaces, claims = {}) {
    return this.as(this.stack.mint({ sub, kind, workspaces, ...claims }));
  }

  /** Answers `{ status, headers, bytes, text, json }`. An object as `body` is sent as JSON. */
  async call(method, path, { body, headers = {}, limit = CALL_LIMIT } = {}) {
    const isJson = body !== undefined && typeof body !== "string" && !ArrayBuffer.isView(body);
    const fields = { ...headers };
    if (this.token && !("authorization" in fields)) fields.authorization = `Bearer ${this.token}`;
    if (isJson && !("content-type" in fields)) fields["content-type"] = "application/json";
    const answer = await exchange(this.stack.url, { method, path, headers: fields, agent: this.agent, limit }, isJson ? JSON.stringify(body) : body);
    this.seen.set(`${method} ${path.split("?")[0]} ${answer.status}`, { method, path, status: answer.status, code: answer.json?.code });
    if (answer.status >= 400 && method !== "HEAD") checkProblem(answer, `${method} ${path}`);
    return answer;
  }

  get(path, options) {
    return this.call("GET", path, options);
  }

  put(path, body, headers) {
    return this.call("PUT", path, { body, headers: { "content-type": "application/json", ...headers } });
  }

  patch(path, body, headers) {
    return this.call("PATCH", path, { body, headers: { "content-type": "application/merge-patch+json", ...headers } });
  }

  post(path, body, headers) {
    return this.call("POST", path, { body, headers });
  }

  delete(path, headers) {
    return this.call("DELETE", path, { headers });
  }

  /** Adds a Yjs update to a document. */
  update(workspace, document, bytes, headers) {
    const path = `/api/workspaces/${workspace}/docs/${document}/updates`;
    return this.call("POST", path, { body: bytes, headers: { "content-type": "application/octet-stream", ...headers } });
  }

  /** Creates a workspace of this id; its owner's client is the answer. */
  async workspace(id) {
    const owner = this.actor("owner", "human", { [id]: "owner" });
    const answer = await owner.post("/api/workspaces", { id });
    assert.equal(answer.status, 201, answer.text);
    return owner;
  }

  /** Every change of a workspace after a clock, page by page. */
  async changes(workspace, since = 0, limit = 1000) {
    const changes = [];
    for (;;) {
      const page = await this.get(`/api/workspaces/${workspace}/changes?since=${changes.at(-1)?.clock ?? since}&limit=${limit}`);
      assert.equal(page.status, 200, page.text);
      changes.push(...page.json.changes);
      if (page.json.changes.length < limit) return changes;
    }
  }

  /** Ends a file's tests: what they saw has to be documented, and the stack stops either way. */
  async finish() {
    try {
      await checkDocumented(this);
    } finally {
      this.agent.destroy();
      await this.stack.stop();
    }
  }
}

/** Speaks to d1-tap.mjs in a stack that was started with it. */
export function tap(api) {
  const ask = async (path, body) => {
    const answer = await exchange(api.stack.url, { method: "POST", path: `/__tap/${path}`, headers: {}, agent: api.agent, limit: CALL_LIMIT }, JSON.stringify(body ?? {}));
    assert.equal(answer.status, 200, answer.text);
    return answer.json;
  };
  return {
    /** What D1 counted since the last call. */
    counts: () => ask("counts"),
    /** Runs one statement in the Worker's database. */
    sql: (sql, ...values) => ask("sql", { sql, values }),
    /** Sets the Worker's clock ahead. */
    advance: (ms) => ask("advance", { ms }),
    /** The sockets of a room: people, and bridges of streams. */
    sockets: (workspace) => ask("sockets", { workspace }),
  };
}

/** Fails unless every answer that was seen is in the OpenAPI document that the stack serves. */
async function checkDocumented(api) {
  const { json: document } = await api.get("/api/openapi.json");
  const undocumented = [];
  for (const { method, path, status, code } of api.seen.values()) {
    const template = findTemplate(document, path.split("?")[0]);
    const operation = template && document.paths[template][method.toLowerCase()];
    // What is said about addresses, methods and origins as such stands in the document once; a
    // preflight is no operation.
    const isAboutAddress = document["x-address-problem-codes"].includes(code ?? (status === 405 && "method_not_allowed"));
    if (!operation && (isAboutAddress || ["invalid_path", "invalid_workspace_id"].includes(code))) continue;
    if (method === "OPTIONS" && status === 204) continue;
    if (!operation || !(status in operation.responses)) undocumented.push(`${method} ${template ?? path} ${status} ${code ?? ""}`);
  }
  assert.deepEqual([...new Set(undocumented)], [], "answers that the OpenAPI document does not have");
}

/** The path template that an address belongs to: the one with the most fixed text. */
export function findTemplate(document, path) {
  const matches = Object.keys(document.paths).filter((template) => {
    const pattern = template.split("/").map((part) => (part === "{path}" ? ".+" : part.startsWith("{") ? "[^/]*" : part.replaceAll(".", "\\.")));
    return new RegExp(`^${pattern.join("/")}$`, "s").test(path);
  });
  const fixed = (template) => template.replaceAll(/\{\w+\}/g, "").length;
  return matches.sort((a, b) => fixed(b) - fixed(a))[0];
}

/** RFC 9457, with the members that every problem of ours has. */
function checkProblem(answer, what) {
  assert.equal(answer.headers["content-type"], PROBLEM, `${what}: ${answer.status} ${answer.text.slice(0, 200)}`);
  const { type, title, status, code, detail } = answer.json;
  assert.equal(status, answer.status, what);
  assert.match(code, /^[a-z_]+$/, what);
  assert.equal(type, `urn:yrelay:problem:${code}`, what);
  assert.ok(title.length > 0 && detail.length > 0, what);
  assert.equal(answer.headers["cache-control"], "no-store", what);
}

/** One request, read to its end. */
export function exchange(url, { method, path, headers, agent, limit = CALL_LIMIT }, body) {
  return new Promise((settle, reject) => {
    const { hostname, port } = new URL(url);
    const outgoing = request({ hostname, port, method, path, headers, agent, signal: AbortSignal.timeout(limit) }, (response) => {
      const chunks = [];
      response.on("data", (chunk) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        const bytes = Buffer.concat(chunks);
        const text = bytes.toString();
        const isJson = /json/.test(response.headers["content-type"] ?? "");
        settle({ status: response.statusCode, headers: response.headers, bytes, text, json: isJson && text ? JSON.parse(text) : undefined });
      });
    });
    outgoing.on("error", (error) => reject(new Error(`${method} ${path}: ${error.message}`, { cause: error })));
    if (!(body?.length > LARGE_BODY) || outgoing.hasHeader("transfer-encoding")) return outgoing.end(body);
    // A server that refuses a body by its length answers and closes. Who is still writing then gets
    // a broken pipe in place of the answer, so a large body is sent when it is asked for.
    outgoing.setHeader("content-length", Buffer.byteLength(body));
    outgoing.setHeader("expect", "100-continue");
    outgoing.once("continue", () => outgoing.end(body));
    outgoing.once("response", (response) => {
      if (!outgoing.writableEnded) response.once("end", () => outgoing.destroy());
    });
    outgoing.flushHeaders();
  });
}
