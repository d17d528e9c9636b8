// The text of an event stream, as the HTML standard splits it into events. Pure.
import { MAX_EVENT_LENGTH } from "../api/limits.ts";

export interface ServerEvent {
  /** `message` for an event without a name. */
  readonly name: string;
  readonly data: string;
}

/** Takes text as it comes and gives the events that are whole; comments and ids are none of its events. */
export class EventParser {
  #rest = "";
  #name = "";
  #data: string[] = [];
  #length = 0;

  /** Throws when an event is longer than any of the API's. */
  push(text: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    // A CR at the very end may be the first half of a CR LF; it stays with the last, unfinished line.
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      const event = line === "" ? this.#dispatch() : this.#field(line);
      if (event !== undefined) events.push(event);
    }
    if (this.#rest.length + this.#length > MAX_EVENT_LENGTH) throw new Error("an event of the stream is too long");
    return events;
  }

  #field(line: string): undefined {
    const [, field, value] = /^([^:]*)(?:: ?(.*))?$/su.exec(line) ?? [];
    if (field === "") return;
    this.#length += line.length;
    if (field === "event") this.#name = value ?? "";
    else if (field === "data") this.#data.push(value ?? "");
  }

  #dispatch(): ServerEvent | undefined {
    const event = this.#data.length > 0 ? { name: this.#name || "message", data: this.#data.join("\n") } : undefined;
    this.#name = "";
    this.#data = [];
    this.#length = 0;
    return event;
  }
}
