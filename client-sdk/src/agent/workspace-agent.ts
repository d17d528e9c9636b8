// What an agent does with a workspace: reads and writes at the rhythm of its tool calls, and one stream
// that tells it of changes, shared with every other agent of this process. No WebSocket, no Yjs.
import { browserEnvironment } from "../browser.ts";
import { Api, jsonOf } from "../api/api.ts";
import type { Answer, ApiOptions } from "../api/api.ts";
import { leaveFeed } from "../feed/change-feed.ts";
import { changesOf, filterOf } from "../feed/change-filter.ts";
import type { ChangeFilter } from "../feed/change-filter.ts";
import { ChangeReader } from "../feed/change-reader.ts";
import type { ReaderOwner } from "../feed/change-reader.ts";
import type { AgentEnvironment } from "../api/deadline.ts";
import { listNodes } from "../api/list-nodes.ts";
import type { ListOptions } from "../api/list-nodes.ts";
import * as operations from "../api/operations.ts";
import { encodePath } from "../api/operations.ts";
import { AgentClosedError, ProblemError, UnreachableError } from "../api/problem.ts";
import type { Change, DocumentEdit, DocumentRead, EditAnswer, FeedItem, Node, Op, OpsAnswer, Precondition, Workspace, WriteAnswer } from "../api/types.ts";

export interface AgentOptions extends ApiOptions {
  readonly environment?: AgentEnvironment;
}

export interface Cancel {
  readonly signal?: AbortSignal;
}

export interface MutationOptions extends Cancel {
  /** By default a new one for each call. Give your own to repeat a call that may have happened. */
  readonly idempotencyKey?: string;
}

export interface EditOptions extends MutationOptions {
  /** The name of the shared type to edit. */
  readonly root: string;
  /** Only if nothing is stored past this: the `clock` of a read, or a state vector in base64url. Else `stale_base`. */
  readonly base?: number | string;
  /** Only if the document still has this epoch. */
  readonly epoch?: number;
}

export interface ChangesOptions extends ChangeFilter, Cancel {
  /** The clock of the last change that you know. Without it, the changes from the first `next` on. */
  readonly since?: number;
}

export interface WaitOptions extends Cancel {
  /** The clock that you know the node at. Without it, the next change from now on. */
  readonly after?: number;
}

export class WorkspaceAgent {
  readonly #api: Api;
  readonly #owner: ReaderOwner;

  constructor({ environment, ...options }: AgentOptions) {
    this.#api = new Api(options, environment ?? browserEnvironment());
    this.#owner = { api: this.#api, readers: new Set(), closed: null };
  }

  /** The clock of the newest change. */
  async head({ signal }: Cancel = {}): Promise<number> {
    return jsonOf<Workspace>(await this.#api.call(operations.readWorkspace, {}, { signal })).head;
  }

  /** A node with its value. Of a path where nothing is, the error is `node_not_found`. */
  async read<Value = unknown>(path: string, { signal }: Cancel = {}): Promise<Node<Value>> {
    return jsonOf(await this.#api.call(operations.readNode, { path }, { signal }));
  }

  /** Every node below `prefix`, in the order of the paths, without values. Pages are read as they are needed. */
  list(options: ListOptions = {}): AsyncGenerator<Node, void, undefined> {
    return listNodes(this.#api, options);
  }

  /** Writes a record whole. 412 is a `PreconditionFailedError` with what the node is now. */
  async write(path: string, value: unknown, options: MutationOptions & Precondition = {}): Promise<WriteAnswer> {
    return jsonOf(await this.#api.call(operations.putNode, { path, headers: this.#conditions(options), body: jsonText(value) }, options));
  }

  /** Changes a record by a JSON Merge Patch (RFC 7396): a member that is null is removed. */
  async patch(path: string, patch: unknown, options: MutationOptions & Precondition = {}): Promise<WriteAnswer> {
    return jsonOf(await this.#api.call(operations.patchNode, { path, headers: this.#conditions(options), body: jsonText(patch) }, options));
  }

  /** Deletes a node and everything below it, as one change. */
  async delete(path: string, options: MutationOptions & Precondition = {}): Promise<WriteAnswer> {
    return jsonOf(await this.#api.call(operations.deleteNode, { path, headers: this.#conditions(options) }, options));
  }

  /** Up to 50 writes, all or none. A problem with one of them has its `extra.index`. */
  async ops(ops: readonly Op[], options: MutationOptions = {}): Promise<OpsAnswer> {
    return jsonOf(await this.#api.call(operations.applyOps, { headers: { "Idempotency-Key": this.#key(options) }, body: jsonText({ ops }) }, options));
  }

  /** The text of a document, or of one of its roots. */
  async readText(path: string, { root, signal }: Cancel & { readonly root?: string } = {}): Promise<DocumentRead<string>> {
    const answer = await this.#api.call(operations.readDocument, { path, query: { root }, headers: { Accept: "text/plain" } }, { signal });
    return { content: answer.text, ...versionOf(answer) };
  }

  /** A document as JSON: all roots by their names, or the value of one. */
  async readJson<Value = unknown>(path: string, { root, signal }: Cancel & { readonly root?: string } = {}): Promise<DocumentRead<Value>> {
    const answer = await this.#api.call(operations.readDocument, { path, query: { root }, headers: { Accept: "application/json" } }, { signal });
    const version = versionOf(answer);
    return { content: JSON.parse(answer.text) as Value, ...version };
  }

  /** Edits one root of a document, all or none: what people type meanwhile stays, and open editors show it. */
  async edit(path: string, edits: readonly DocumentEdit[], { root, base, epoch, ...options }: EditOptions): Promise<EditAnswer> {
    const headers = { "Idempotency-Key": this.#key(options) };
    return jsonOf(await this.#api.call(operations.editDocument, { path, query: { epoch }, headers, body: jsonText({ root, edits, base }) }, options));
  }

  /**
   * The changes of the workspace, in order, each once, for as long as you iterate: through restarts of
   * the server and lost connections. A `reset` stands for changes that nobody can tell any more.
   * Rejects when the workspace is deleted, or the agent may not read it any more.
   */
  changes({ since, signal, ...filter }: ChangesOptions = {}): AsyncIterableIterator<FeedItem, undefined> {
    return new ChangeReader(this.#owner, { since, signal, wanted: filterOf(filter) });
  }

  /** The next change of this node, which may be a delete of something above it. */
  async waitFor(path: string, { after, signal }: WaitOptions = {}): Promise<Change> {
    // Throws for what is no path: nothing would ever happen there.
    encodePath(path);
    const reader = new ChangeReader(this.#owner, { since: after, signal, wanted: changesOf(path) });
    try {
      const { value } = await reader.next();
      if (value === undefined) throw new AgentClosedError();
      if (value.kind !== "reset") return value;
      const { head, floor } = value;
      const detail = "Changes were lost on the way to this one: read the node, then wait with `after: head`.";
      throw new ProblemError({ code: "cursor_gone", status: 410, detail, extra: { head, floor } });
    } finally {
      reader.close();
    }
  }

  /** Ends the iterators. The stream ends with the last agent of the workspace, else half a minute after the last iterator. */
  close(): void {
    this.#owner.closed = new AgentClosedError();
    for (const reader of [...this.#owner.readers]) reader.close();
    leaveFeed(this.#api);
  }

  #conditions({ ifMatch, ifNoneMatch, ...options }: MutationOptions & Precondition) {
    return {
      "If-Match": typeof ifMatch === "number" ? `"${ifMatch}"` : ifMatch,
      "If-None-Match": ifNoneMatch,
      "Idempotency-Key": this.#key(options),
    };
  }

  #key({ idempotencyKey }: MutationOptions): string {
    if (idempotencyKey !== undefined && !IDEMPOTENCY_KEY.test(idempotencyKey)) throw new TypeError("`idempotencyKey` is not 1 to 128 visible ASCII characters.");
    return idempotencyKey ?? this.#api.environment.uuid();
  }
}

const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,128}$/;

function jsonText(value: unknown): string {
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) throw new TypeError("The value is not JSON; give null, a number, a string, a list or an object.");
  return text;
}

function versionOf({ headers, status }: Answer): { clock: number; epoch: number } {
  const clock = /^(?:W\/)?"(\d+)"$/.exec(headers.get("etag") ?? "")?.[1];
  const epoch = headers.get("yrelay-epoch");
  if (clock === undefined || epoch === null) throw new UnreachableError("The answer has no clock and epoch of a document; is `api` the API's address?", status);
  return { clock: Number(clock), epoch: Number(epoch) };
}
