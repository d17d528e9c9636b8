// A small API in this process: a real HTTP server on the loopback address with a log of changes, its
// stream, and a test's own answers in place of any of its own. It counts what it got.
import { createServer } from "node:http";
import type { IncomingHttpHeaders, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Change } from "../src/api/types.ts";

export interface Request {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface Reply {
  readonly status: number;
  readonly headers?: Record<string, string>;
  readonly body?: unknown;
}

/** One open stream. */
export interface Stream {
  readonly request: Request;
  readonly response: ServerResponse;
}

/** `drop`: the connection breaks off; `hang`: nothing comes; `undefined`: what the server would do. */
export type Script = (request: Request, number: number) => Reply | "drop" | "hang" | undefined;

export class FeedServer {
  readonly requests: Request[] = [];
  readonly streams: Stream[] = [];
  readonly log: Change[] = [];
  floor = 0;
  /** Answers calls other than the stream; `number` counts from 1. */
  script: Script = () => undefined;
  /** Takes a stream over: true means that the server does nothing with it. `number` counts from 1. */
  greet: (stream: Stream, number: number) => boolean | void = () => {};
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<FeedServer> {
    const server = createServer((message, response) => {
      let body = "";
      message.on("data", (chunk) => (body += chunk));
      message.on("end", () => {
        const { pathname, searchParams } = new URL(message.url ?? "", "http://x");
        it.#serve({ method: message.method ?? "", path: pathname, query: searchParams, headers: message.headers, body }, response);
      });
    });
    const it = new FeedServer(server);
    await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
    return it;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get head(): number {
    return this.log.at(-1)?.clock ?? this.floor;
  }

  /** How many calls of this method and end of a path there were. */
  count(method: string, end: string): number {
    return this.requests.filter((request) => request.method === method && request.path.endsWith(end)).length;
  }

  /** Commits a change, and tells it over the open streams. */
  commit(path = "a", kind: Change["kind"] = "put"): Change {
    const change: Change = { clock: this.head + 1, kind, path, actor: "ann", at: 1 };
    this.log.push(change);
    this.tell(changeEvent(change));
    return change;
  }

  commitMany(count: number): void {
    for (let n = 0; n < count; n += 1) this.commit(`n/${n}`);
  }

  /** Writes to every open stream. */
  tell(text: string): void {
    for (const { response } of this.streams) if (!response.writableEnded && !response.destroyed) response.write(text);
  }

  /** Ends every open stream. */
  endStreams(): void {
    for (const { response } of this.streams) response.end();
  }

  get openStreams(): number {
    return this.streams.filter(({ response }) => !response.writableEnded && !response.destroyed).length;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((settle) => this.#server.close(settle));
  }

  #serve(request: Request, response: ServerResponse): void {
    this.requests.push(request);
    const isStream = request.path.endsWith("/changes/stream");
    if (isStream) this.streams.push({ request, response });
    const reply = isStream ? undefined : this.script(request, this.requests.length);
    if (reply === "hang") return;
    if (reply === "drop") return void response.destroy();
    if (reply !== undefined) return send(response, reply);
    if (isStream) return this.#openStream({ request, response });
    if (request.path.endsWith("/changes")) return send(response, this.#page(request));
    send(response, { status: 200, body: { id: "w", head: this.head, floor: this.floor } });
  }

  #page({ query }: Request): Reply {
    const since = Number(query.get("since"));
    if (since < this.floor || since > this.head) return problem(410, "cursor_gone", { head: this.head, floor: this.floor });
    const changes = this.log.filter(({ clock }) => clock > since).slice(0, Number(query.get("limit")));
    return { status: 200, body: { changes, head: this.head, floor: this.floor } };
  }

  #openStream(stream: Stream): void {
    const { request, response } = stream;
    if (this.greet(stream, this.streams.length) === true) return;
    openEvents(response);
    const since = request.query.get("since");
    if (since === null) response.write(headEvent(this.head));
    else if (Number(since) < this.floor || Number(since) > this.head) response.write(`event: reset\nid: ${this.head}\ndata: {"head":${this.head},"floor":${this.floor}}\n\n`);
    else for (const change of this.log.filter(({ clock }) => clock > Number(since))) response.write(changeEvent(change));
  }
}

/** The head of a stream's answer. */
export function openEvents(response: ServerResponse): void {
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
  response.write("retry: 2000\n: ok\n\n");
}

export function changeEvent(change: Change): string {
  return `event: change\nid: ${change.clock}\ndata: ${JSON.stringify(change)}\n\n`;
}

export function headEvent(head: number): string {
  return `event: head\nid: ${head}\ndata: {"head":${head}}\n\n`;
}

export function problem(status: number, code: string, extra: object = {}, headers: Record<string, string> = {}): Reply {
  const body = { type: `urn:yrelay:problem:${code}`, title: code, status, code, detail: `this is ${code}`, ...extra };
  return { status, headers: { "content-type": "application/problem+json", ...headers }, body };
}

export function send(response: ServerResponse, { status, headers, body }: Reply): void {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(text);
}
