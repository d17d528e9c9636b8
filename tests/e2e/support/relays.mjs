// The relays that the conformance suite runs against. A new vendor is a new line in RELAYS: it
// starts the relay with the API it belongs to, and says where both are.
import { startDenoRelay } from "../../../tools/deno-relay.mjs";
import { publicScopeKey } from "../../../tools/scope-key.mjs";
import { startStack } from "../../../tools/stack.mjs";
import { FrameClient } from "./frame-client.mjs";
import { StreamReader } from "./sse.mjs";
import { PATIENCE } from "./waiting.mjs";

/** Label and start of each relay; `start` takes options of the stack and returns a [`Relay`]. */
export const RELAYS = [
  { label: "cf", start: startCf },
  { label: "deno", start: startDeno },
];

/** How long the service token of a test's relay is valid, in seconds. */
const SERVICE_TTL = 24 * 3600;

/** Starts the Durable Object; `start` is `startStack`, if need be that of another release. */
export async function startCf(options = {}, start = startStack) {
  const stack = await start(options);
  const { url } = stack.relays.find((relay) => relay.label === "cf");
  const inspect = async (workspace) => {
    const answer = await fetch(`${stack.url}/__dev/rooms/${workspace}`, { signal: AbortSignal.timeout(PATIENCE) });
    return answer.json();
  };
  return new Relay({ label: "cf", stack, url, inspect });
}

/** Starts a Deno relay beside a Worker. `relay` has options of its process. */
export async function startDeno({ relay, ...options } = {}) {
  const stack = await startStack(options);
  try {
    return await besides(stack, relay);
  } catch (error) {
    await stack.stop();
    throw error;
  }
}

/** Starts the Durable Object and a Deno relay over one database: `{ cf, deno }`. Stop `deno` last. */
export async function startBoth({ relay, ...options } = {}) {
  const cf = await startCf(options);
  try {
    return { cf, deno: await besides(cf.stack, relay) };
  } catch (error) {
    await cf.stop();
    throw error;
  }
}

/** Starts one more Deno relay, over the database of another one. Stop it before that one. */
export async function startAnother(relay, options) {
  const another = await besides(relay.stack, options);
  const { stack } = another;
  another.stack = { ...stack, stop: async () => {} };
  return another;
}

/** A Deno relay that belongs to a stack. Its `stop` ends both. */
async function besides(stack, { label = "deno", vars = {}, ...options } = {}) {
  const process = await startDenoRelay({
    api: stack.url,
    token: stack.mint({ sub: `relay-${label}`, kind: "service", workspaces: { "*": "editor" }, ttl: SERVICE_TTL }),
    publicKey: publicScopeKey(stack.secrets.SCOPE_SIGNING_KEY),
    label,
    vars: { RELAY_ALLOWED_ORIGINS: stack.url, ...vars },
    ...options,
  });
  const inspect = async (workspace) => {
    const answer = await fetch(`${process.url.replace(/^ws/, "http").replace(/\/ws$/, "")}/__dev/rooms/${workspace}`, { signal: AbortSignal.timeout(PATIENCE) });
    return answer.json();
  };
  return new Relay({ label, stack, url: process.url, inspect, process });
}

/** A running relay and the API behind it. */
export class Relay {
  #made = 0;
  /** What a failed test may leave behind: it would keep the test's process alive. */
  #open = new Set();

  /**
   * `inspect(workspace)` tells `{clients, instance}`; `instance` changes when a room is built anew.
   * `process` is that of a relay of its own.
   */
  constructor({ label, stack, url, inspect, process }) {
    Object.assign(this, { label, stack, url, inspect, process, api: stack.url });
  }

  /** The same workspace as on another relay of the same database. */
  sharing(workspace) {
    return new Workspace(this, workspace.id);
  }

  /** Makes a workspace of its own for a test, and its owner's token. */
  async workspace(id = `t${(this.#made += 1)}-${Date.now().toString(36)}`) {
    const workspace = new Workspace(this, id);
    const made = await workspace.rest("POST", "", { path: "/api/workspaces", body: { id } });
    if (made.status !== 201 && made.status !== 409) throw new Error(`workspace ${id}: ${made.status} ${made.text}`);
    return workspace;
  }

  /** Remembers a client or a stream, to end it with the relay. */
  opened(client) {
    this.#open.add(client);
    return client;
  }

  async stop() {
    await Promise.all([...this.#open].map((client) => client.stop()));
    await this.process?.stop();
    await this.stack.stop();
  }
}

/** A workspace of a test: REST and sockets with fresh tokens. */
export class Workspace {
  #scopes = new Map();

  constructor(relay, id) {
    this.relay = relay;
    this.id = id;
    this.token = this.apiToken();
  }

  /** An API token; by default that of the owner. */
  apiToken({ sub = "owner", kind = "human", role = "owner", ttl = 3600 } = {}) {
    return this.relay.stack.mint({ sub, kind, workspaces: { [this.id]: role }, ttl });
  }

  /** Calls the API below this workspace. Returns status, headers, text and parsed JSON. */
  async rest(method, below, { path, body, headers = {}, token = this.token, ms = PATIENCE } = {}) {
    const isJson = body !== undefined && !(body instanceof Uint8Array);
    const answer = await fetch(`${this.relay.api}${path ?? `/api/workspaces/${this.id}${below}`}`, {
      method,
      headers: { authorization: `Bearer ${token}`, ...(isJson ? { "content-type": "application/json" } : {}), ...headers },
      body: isJson ? JSON.stringify(body) : body,
      signal: AbortSignal.timeout(ms),
    });
    const text = await answer.text();
    const isObject = answer.headers.get("content-type")?.includes("json");
    return { status: answer.status, headers: answer.headers, text, json: isObject ? JSON.parse(text) : undefined };
  }

  /** A scope token of the Worker for a person, one for each role. */
  async scope({ role = "editor", sub = role, purpose = "relay" } = {}) {
    const key = `${role} ${sub} ${purpose}`;
    if (!this.#scopes.has(key)) {
      const token = this.apiToken({ sub, role });
      const answer = await this.rest("POST", "/tokens", { body: { purpose }, token });
      if (answer.status !== 201) throw new Error(`scope token: ${answer.status} ${answer.text}`);
      this.#scopes.set(key, answer.json.token);
    }
    return this.#scopes.get(key);
  }

  /** The address of a document's channel, without a token. */
  url(document) {
    return `${this.relay.url}/${this.id}${document ? `/${document}` : ""}`;
  }

  /** Connects to a document. */
  async connect(document = "d", { role, sub, ...options } = {}) {
    const token = await this.scope({ role, sub });
    return this.relay.opened(await FrameClient.open(`${this.url(document)}?token=${token}`, options));
  }

  /** Reads a document as text. */
  async text(document = "d", root = "t") {
    const answer = await this.rest("GET", `/docs/${document}?root=${root}`, { headers: { accept: "text/plain" } });
    return answer.status === 200 ? answer.text : undefined;
  }

  /** Head and floor of the log. */
  async head() {
    return (await this.rest("GET", "")).json.head;
  }

  /** Follows the change stream. */
  stream(since = 0) {
    const url = `${this.relay.api}/api/workspaces/${this.id}/changes/stream?since=${since}`;
    return this.relay.opened(new StreamReader(url, { authorization: `Bearer ${this.token}` }));
  }

  inspect() {
    return this.relay.inspect(this.id);
  }
}
