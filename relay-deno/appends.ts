/**
 * Appends that are asked for in one go share a request: a room flushes all its documents at once,
 * and a request costs the relay a hundred times what a relayed frame does.
 *
 * @module
 */

import { type Answer, type ApiClient, type Call, jsonOf } from "./api_client.ts";
import { MAX_BATCH, MAX_BATCH_BYTES, STORAGE_DEADLINE } from "./limits.ts";

/** An append that waits for its company. */
interface Waiting {
  readonly call: Call & { readonly body: Uint8Array };
  readonly settle: (answer: Answer | undefined) => void;
}

/** The way of appends to the API. */
export class Appends {
  readonly #api: ApiClient;
  #waiting: Waiting[] = [];

  constructor(api: ApiClient) {
    this.#api = api;
  }

  /** Makes the call, with the others of this moment. The answer is its own; `undefined` when there is none. */
  send(call: Waiting["call"]): Promise<Answer | undefined> {
    return new Promise((settle) => {
      this.#waiting.push({ call, settle });
      // What one event of a room asks for is all there by then.
      if (this.#waiting.length === 1) queueMicrotask(() => this.#sendAll());
    });
  }

  #sendAll(): void {
    const groups = inGroups(this.#waiting);
    this.#waiting = [];
    for (const group of groups) void this.#sendGroup(group);
  }

  async #sendGroup(group: readonly Waiting[]): Promise<void> {
    const answers = group.length > 1 ? await this.#together(group.map(({ call }) => call)) : undefined;
    for (const [index, { call, settle }] of group.entries()) {
      if (answers) settle(answers[index]);
      else void this.#api.call(call).then(settle);
    }
  }

  /** An answer for each, or nothing when the envelope is refused: then each has to go alone. */
  async #together(calls: readonly Waiting["call"][]): Promise<(Answer | undefined)[] | undefined> {
    const requests = calls.map(({ path, headers, body }) => ({ path, headers, body: body.toBase64() }));
    const answer = await this.#api.call({
      method: "POST",
      path: "/api/batch",
      headers: { "content-type": "application/json" },
      body: new TextEncoder().encode(JSON.stringify({ requests })),
      deadline: STORAGE_DEADLINE,
    });
    if (answer && REFUSED.has(answer.status)) return undefined;
    const answers = answer?.status === 200 ? jsonOf(answer.body)?.["answers"] : undefined;
    // What failed as a whole failed for each.
    if (!answer || !Array.isArray(answers)) return calls.map(() => answer);
    return calls.map((_, index) => answerOf(answers[index], answer));
  }
}

/** One of several answers as if it had come alone. */
function answerOf(one: unknown, { headers }: Answer): Answer {
  const { status, body } = Object(one) as Record<string, unknown>;
  const code = (Object(body) as Record<string, unknown>)["code"];
  return {
    status: typeof status === "number" ? status : 0,
    headers,
    body: new TextEncoder().encode(JSON.stringify(body ?? null)),
    code: typeof code === "string" ? code : "",
  };
}

/** Divides what waits into requests, in its order. An update that is large goes alone. */
function inGroups(waiting: readonly Waiting[]): Waiting[][] {
  const groups: Waiting[][] = [];
  let bytes = 0;
  for (const one of waiting) {
    const last = groups.at(-1);
    bytes += one.call.body.length;
    if (last && last.length < MAX_BATCH && bytes <= MAX_BATCH_BYTES) {
      last.push(one);
    } else {
      groups.push([one]);
      bytes = one.call.body.length;
    }
  }
  return groups;
}

/** The API has no batches, being older than this relay, or takes no such one. */
const REFUSED = new Set([400, 404, 405, 413]);
