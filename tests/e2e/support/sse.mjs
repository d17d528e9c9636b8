// A reader of the change stream that keeps every event and resumes where it was cut.
import { PATIENCE, until } from "./waiting.mjs";

/** Splits a stream of bytes into events `{event, id, data}`; comments come as `{comment}`. */
export async function* readEvents(body) {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true });
    for (;;) {
      const end = rest.indexOf("\n\n");
      if (end < 0) break;
      const event = {};
      for (const line of rest.slice(0, end).split("\n")) {
        const colon = line.indexOf(":");
        event[colon === 0 ? "comment" : line.slice(0, colon)] = line.slice(colon + 1).trimStart();
      }
      rest = rest.slice(end + 2);
      yield event;
    }
  }
}

/** Follows `changes/stream`; `clocks` are those of the change events, in the order of arrival. */
export class StreamReader {
  events = [];
  clocks = [];
  /** How often the stream had to be opened again. */
  reconnects = -1;
  #abort = new AbortController();

  constructor(url, headers) {
    this.url = url;
    this.headers = headers;
    this.done = this.#run();
  }

  async #run() {
    let last;
    while (!this.#abort.signal.aborted) {
      this.reconnects += 1;
      try {
        const headers = { ...this.headers, ...(last === undefined ? {} : { "last-event-id": last }) };
        const answer = await fetch(this.url, { headers, signal: this.#abort.signal });
        if (!answer.ok) {
          this.refused = answer.status;
          await answer.body?.cancel();
          if (answer.status !== 503) return;
        } else {
          for await (const event of readEvents(answer.body)) {
            this.events.push(event);
            if (event.id !== undefined) last = event.id;
            if (event.event === "change") this.clocks.push(JSON.parse(event.data).clock);
          }
        }
      } catch (error) {
        if (!this.#abort.signal.aborted) this.lastError = error;
      }
      if (!this.#abort.signal.aborted) await new Promise((settle) => setTimeout(settle, 200));
    }
  }

  /** Waits until a change of this clock has come. */
  async reaches(clock, ms = PATIENCE) {
    return until(() => this.clocks.at(-1) >= clock, `the stream reaches clock ${clock} (it is at ${this.clocks.at(-1)})`, ms);
  }

  /** Waits for an event that fits. */
  async event(fits, what, ms = PATIENCE) {
    return until(() => this.events.find(fits), what, ms);
  }

  async stop() {
    this.#abort.abort();
    await this.done;
  }
}
