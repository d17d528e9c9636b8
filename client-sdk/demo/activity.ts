// What happens in the workspace, newest first: by people, by agents, and by relays for people who type.
import type { Change, WorkspaceClient } from "../src/index.ts";
import { byId, make } from "./dom.ts";
import { colourOf, kindOf, nameOf } from "./people.ts";
import type { Kind } from "./people.ts";

/** Enough to see what went on; older lines are in the log of the workspace. */
const SHOWN_LINES = 60;
const MARKS: Record<Kind, string> = { agent: "agent", human: "person", relay: "live", service: "service" };

interface Line {
  readonly element: HTMLLIElement;
  readonly actor: string;
  readonly what: string;
  readonly count: HTMLSpanElement;
  readonly time: HTMLTimeElement;
  times: number;
}

export class Activity {
  readonly #list = byId<HTMLOListElement>("activity");
  readonly #kinds = new Map<string, Kind>();
  readonly #note: string;
  readonly #self: () => string | null;
  #newest: Line | null = null;

  constructor(client: WorkspaceClient, { note, self }: { readonly note: string; readonly self: () => string | null }) {
    this.#note = note;
    this.#self = self;
    client.on("presence", ({ presence }) => {
      for (const { sub, kind } of presence) this.#kinds.set(sub, kind);
    });
    client.changes((item) => {
      if (item.kind === "reset") return this.#addGap();
      this.#add(item);
    });
  }

  #add(change: Change): void {
    const what = this.#wordsFor(change);
    const last = this.#newest;
    // Somebody who types is one line.
    if (last !== null && last.actor === change.actor && last.what === what) {
      last.times += 1;
      last.count.textContent = `×${last.times}`;
      return showTime(last.time, change);
    }
    const kind = kindOf(change.actor, this.#kinds);
    const { actor } = change;
    const face = make("span", "face", nameOf(actor).slice(0, 1).toUpperCase());
    face.style.setProperty("--person", colourOf(actor));
    face.setAttribute("aria-hidden", "true");
    const name = make("b", "who", actor === this.#self() ? `${nameOf(actor)} (you)` : nameOf(actor));
    const count = make("span", "times");
    const time = make("time", "when");
    showTime(time, change);
    const element = make("li", "line", face, make("p", "said", name, " ", make("span", "mark", MARKS[kind]), ` ${what} `, count), time);
    element.dataset["kind"] = kind;
    this.#newest = { element, actor, what, count, time, times: 1 };
    this.#show(element);
  }

  #addGap(): void {
    this.#newest = null;
    this.#show(make("li", "line gap", "Some changes were missed while this page was away."));
  }

  #show(element: HTMLLIElement): void {
    byId("activity-empty").hidden = true;
    this.#list.prepend(element);
    while (this.#list.children.length > SHOWN_LINES) this.#list.lastElementChild?.remove();
  }

  #wordsFor({ kind, path }: Change): string {
    const isJob = path.startsWith("jobs/");
    const thing = path === this.#note ? "the note" : isJob ? "a job" : path;
    switch (kind) {
      case "put":
        return isJob ? "added a job" : `wrote ${thing}`;
      case "patch":
        return `changed ${thing}`;
      case "update":
        return `edited ${thing}`;
      case "delete":
        return `deleted ${thing}`;
      case "replace":
        return `replaced ${thing}`;
      default:
        return `${kind} ${thing}`;
    }
  }
}

function showTime(element: HTMLTimeElement, { at, clock }: Change): void {
  const date = new Date(at);
  element.dateTime = date.toISOString();
  element.title = `change ${clock}`;
  element.textContent = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}
