// The nodes below a path, page by page as they are needed: for agents and for pages.
import { jsonOf } from "./api.ts";
import type { Api } from "./api.ts";
import * as operations from "./operations.ts";
import type { Node, NodeList } from "./types.ts";

export interface ListOptions {
  readonly signal?: AbortSignal;
  readonly prefix?: string;
  /** Only paths after this one. */
  readonly after?: string;
  readonly pageSize?: number;
}

/** Every node below `prefix`, in the order of the paths, without values. */
export async function* listNodes(api: Api, { prefix, after, pageSize, signal }: ListOptions): AsyncGenerator<Node, void, undefined> {
  let from: string | null = after ?? "";
  while (from !== null) {
    const query = { prefix, after: from === "" ? undefined : from, limit: pageSize };
    const page: NodeList = jsonOf(await api.call(operations.listNodes, { query }, { signal }));
    yield* page.nodes;
    from = page.next;
  }
}
