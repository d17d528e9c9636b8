// The channel between the tabs of one browser: who speaks, to whom, and in which version.
import type { BroadcastChannelLike, PageEnvironment } from "../browser.ts";
import { errorOf } from "../api/problem.ts";
import type { Problem } from "../api/problem.ts";
import { Emitter } from "../emitter.ts";
import { TABS_VERSION } from "./types.ts";
import type { PlainError, TabMessage, TabSpeech } from "./types.ts";

export type ChannelEvents = { message: TabMessage };

export class TabChannel extends Emitter<ChannelEvents> {
  /** This tab. */
  readonly tab: string;
  #channel: BroadcastChannelLike | null;

  constructor(environment: Pick<PageEnvironment, "openChannel" | "uuid">, name: string) {
    super();
    this.tab = environment.uuid();
    this.#channel = environment.openChannel(name);
    if (this.#channel !== null) this.#channel.onmessage = ({ data }) => this.#hear(data);
  }

  /** Without it this tab is alone. */
  get isThere(): boolean {
    return this.#channel !== null;
  }

  say(speech: TabSpeech, to?: string): void {
    const message: TabMessage = { ...speech, version: TABS_VERSION, from: this.tab, to };
    this.#channel?.postMessage(message);
  }

  close(): void {
    this.#channel?.close();
    this.#channel = null;
  }

  #hear(data: unknown): void {
    const message = data as TabMessage | null;
    if (message?.version !== TABS_VERSION || (message.to !== undefined && message.to !== this.tab)) return;
    this.emit("message", message);
  }
}

/** An error as another tab can read it. */
export function plainError(error: unknown): PlainError {
  const { name, message, code, status, detail, extra } = error as PlainError;
  return { name: String(name), message: String(message), code, status, detail, extra };
}

export function revivedError(plain: PlainError): Error {
  const { name, message, code } = plain;
  if (name === "ProblemError" || name === "PreconditionFailedError") return errorOf(plain as unknown as Problem);
  return Object.assign(new Error(message), { name, ...(code === undefined ? {} : { code }) });
}
