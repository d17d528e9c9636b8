// A node as it is stored, read anew at each change of it. Knows nothing of React.
import { ProblemError, UnreachableError } from "../api/problem.ts";
import type { FeedItem, Node } from "../api/types.ts";
import { browserEnvironment, isReturn } from "../browser.ts";
import { changesOf } from "../feed/change-filter.ts";
import type { WorkspaceClient } from "../workspace-client.ts";
import type { Entry } from "./shared-entries.ts";

export interface NodeView<Value = unknown> {
  /** `null` while it is not known, and when there is none. */
  readonly node: Node<Value> | null;
  readonly value: Value | undefined;
  /** Nothing is known yet. */
  readonly isLoading: boolean;
  /** Why the last read failed; `node` is what was known before. That there is no such node is no failure. */
  readonly error: unknown;
}

export const LOADING_NODE: NodeView<never> = { node: null, value: undefined, isLoading: true, error: null };

export class NodeEntry implements Entry<NodeView> {
  view: NodeView = LOADING_NODE;
  readonly #client: WorkspaceClient;
  readonly #path: string;
  readonly #ending = new AbortController();
  readonly #stops: (() => void)[] = [];
  #changed: () => void = () => {};
  #isReading = false;
  /** It changed while it was read. */
  #isStale = false;

  constructor(client: WorkspaceClient, path: string) {
    this.#client = client;
    this.#path = path;
  }

  start(changed: () => void): void {
    this.#changed = changed;
    const isAboutIt = changesOf(this.#path);
    const retry = () => this.#mayPass && this.reload();
    this.#stops.push(
      this.#client.on("change", (item: FeedItem) => (item.kind === "reset" || isAboutIt(item) ? this.reload() : retry())),
      // Any sign that the API may be reached again, or that the user has signed in.
      this.#client.on("status", ({ needsSignIn }) => !needsSignIn && retry()),
      browserEnvironment().watch((change) => isReturn(change) && retry()),
    );
    this.reload();
  }

  stop(): void {
    for (const stop of this.#stops) stop();
    this.#ending.abort();
  }

  reload(): void {
    void this.#read();
  }

  /** Whether it failed for a reason that goes away by itself, or by signing in. */
  get #mayPass(): boolean {
    const { error } = this.view;
    return error instanceof UnreachableError || (error instanceof ProblemError && (error.status === 401 || error.status === 429 || error.status >= 500));
  }

  /** One read at a time; what changes meanwhile is one more. */
  async #read(): Promise<void> {
    this.#isStale = true;
    if (this.#isReading) return;
    this.#isReading = true;
    while (this.#isStale) {
      this.#isStale = false;
      const view = await this.#readOnce();
      if (this.#ending.signal.aborted) return;
      this.view = view;
      this.#changed();
    }
    this.#isReading = false;
  }

  async #readOnce(): Promise<NodeView> {
    try {
      const node = await this.#client.node(this.#path, { signal: this.#ending.signal });
      return { node, value: node.value, isLoading: false, error: null };
    } catch (error) {
      if (error instanceof ProblemError && error.code === "node_not_found") return { node: null, value: undefined, isLoading: false, error: null };
      return { ...this.view, isLoading: false, error };
    }
  }
}
