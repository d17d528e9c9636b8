/**
 * The text of an event stream, as the HTML standard splits it into events.
 *
 * @module
 */

import { MAX_EVENT_LENGTH } from "./limits.ts";

/** One event. */
export interface ServerEvent {
  /** Its name; `message` without one. */
  readonly name: string;
  readonly data: string;
  /** The id that came with it, or undefined. */
  readonly id: string | undefined;
}

/** Takes text as it comes and gives whole events. Throws when an event is longer than any of ours. */
export class EventParser {
  #rest = "";
  #name = "";
  #data: string[] = [];
  #length = 0;
  #id: string | undefined;

  /** The events that end in this piece of text. */
  push(text: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    this.#rest += text;
    for (;;) {
      const end = this.#rest.search(/\r\n|\n|\r/);
      // A lone CR at the very end may be the first half of a CR LF.
      if (end < 0 || (end === this.#rest.length - 1 && this.#rest.endsWith("\r"))) break;
      const line = this.#rest.slice(0, end);
      this.#rest = this.#rest.slice(this.#rest.startsWith("\r\n", end) ? end + 2 : end + 1);
      const event = line === "" ? this.#dispatch() : this.#field(line);
      if (event) events.push(event);
    }
    if (this.#rest.length + this.#length > MAX_EVENT_LENGTH) {
      throw new Error("an event of the stream is too long");
    }
    return events;
  }

  #field(line: string): undefined {
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line.startsWith(" ", colon + 1) ? colon + 2 : colon + 1);
    this.#length += line.length;
    if (field === "event") this.#name = value;
    else if (field === "data") this.#data.push(value);
    else if (field === "id" && !value.includes("\0")) this.#id = value;
  }

  #dispatch(): ServerEvent | undefined {
    const event = this.#data.length > 0
      ? { name: this.#name || "message", data: this.#data.join("\n"), id: this.#id }
      : undefined;
    this.#name = "";
    this.#data = [];
    this.#id = undefined;
    this.#length = 0;
    return event;
  }
}
