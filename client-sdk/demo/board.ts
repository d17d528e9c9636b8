// The board: three columns of cards. Cards stay the same elements while they live, so that the focus
// and what a screen reader is at stay where they are when others change something.
import { announce, byId, make, makeButton } from "./dom.ts";
import { STATES } from "./jobs.ts";
import type { Job, JobState, Jobs } from "./jobs.ts";
import { colourOf, nameOf } from "./people.ts";

const TITLES: Record<JobState, string> = { open: "Open", claimed: "Claimed", done: "Done" };

interface Column {
  readonly list: HTMLOListElement;
  readonly count: HTMLSpanElement;
  readonly empty: HTMLParagraphElement;
}

export class BoardView {
  readonly #jobs: Jobs;
  readonly #person: string;
  readonly #columns: ReadonlyMap<JobState, Column>;
  readonly #cards = new Map<string, Card>();

  constructor(jobs: Jobs, person: string) {
    this.#jobs = jobs;
    this.#person = person;
    this.#columns = new Map(STATES.map((state) => [state, makeColumn(state)]));
    const title = byId<HTMLInputElement>("new-job-title");
    byId<HTMLFormElement>("new-job").addEventListener("submit", (event) => {
      event.preventDefault();
      const text = title.value.trim();
      if (text === "") return;
      jobs.add(text, Date.now());
      title.value = "";
      announce(`Added ${text}`);
    });
  }

  show(): void {
    const jobs = this.#jobs.list;
    const wanted = new Set(jobs.map(({ path }) => path));
    for (const [path, card] of this.#cards) if (!wanted.has(path)) this.#drop(path, card);
    for (const [state, column] of this.#columns) {
      const own = jobs.filter((job) => job.state === state);
      own.forEach((job, place) => this.#place(job, column.list, place));
      column.count.textContent = String(own.length);
      column.empty.hidden = own.length > 0;
      column.empty.textContent = this.#jobs.isLoaded ? "Nothing here" : "Not read yet";
    }
  }

  #drop(path: string, card: Card): void {
    this.#cards.delete(path);
    const hadFocus = card.element.contains(document.activeElement);
    const next = card.element.nextElementSibling ?? card.element.previousElementSibling;
    card.element.remove();
    if (hadFocus) (next?.querySelector<HTMLElement>("button:not([hidden])") ?? byId("new-job-title")).focus();
  }

  #place(job: Job, list: HTMLOListElement, place: number): void {
    let card = this.#cards.get(job.path);
    if (card === undefined) {
      card = new Card((step) => this.#step(job.path, step), () => this.#remove(job.path));
      this.#cards.set(job.path, card);
    }
    const { element } = card;
    if (list.children[place] !== element) {
      const focused = element.contains(document.activeElement) ? (document.activeElement as HTMLElement) : null;
      list.insertBefore(element, list.children[place] ?? null);
      card.show(job);
      // An element that is moved loses the focus.
      if (focused !== null) (focused.hidden ? card.firstButton : focused).focus();
    } else card.show(job);
  }

  #step(path: string, step: -1 | 1): void {
    const job = this.#jobs.list.find((one) => one.path === path);
    const state = job && STATES[STATES.indexOf(job.state) + step];
    if (job === undefined || state === undefined) return;
    this.#jobs.move(job, state, this.#person);
    announce(`${job.title}: ${TITLES[state]}`);
  }

  #remove(path: string): void {
    const job = this.#jobs.list.find((one) => one.path === path);
    if (job === undefined) return;
    this.#jobs.remove(job);
    announce(`Deleted ${job.title}`);
  }
}

/** A card. Left and right move it while anything in it has the focus. */
class Card {
  readonly element: HTMLLIElement;
  readonly #title = make("p", "card-title");
  readonly #by = make("p", "card-by");
  readonly #back: HTMLButtonElement;
  readonly #on: HTMLButtonElement;
  readonly #remove: HTMLButtonElement;

  constructor(step: (by: -1 | 1) => void, remove: () => void) {
    this.#back = makeButton("icon-button", "←", () => step(-1));
    this.#on = makeButton("icon-button", "→", () => step(1));
    this.#remove = makeButton("icon-button quiet", "✕", remove);
    this.element = make("li", "card", this.#title, make("div", "card-foot", this.#by, make("div", "card-acts", this.#back, this.#on, this.#remove)));
    this.element.addEventListener("keydown", ({ key, altKey, ctrlKey, metaKey }) => {
      if (altKey || ctrlKey || metaKey) return;
      if (key === "ArrowLeft") step(-1);
      if (key === "ArrowRight") step(1);
    });
  }

  get firstButton(): HTMLButtonElement {
    return this.#on.hidden ? this.#back : this.#on;
  }

  show({ title, state, by }: Job): void {
    const at = STATES.indexOf(state);
    this.element.dataset["state"] = state;
    this.#title.textContent = title;
    this.#by.textContent = by === null ? "" : nameOf(by);
    this.#by.style.setProperty("--person", by === null ? "transparent" : colourOf(by));
    this.#label(this.#back, title, STATES[at - 1]);
    this.#label(this.#on, title, STATES[at + 1]);
    this.#remove.setAttribute("aria-label", `Delete ${title}`);
  }

  #label(button: HTMLButtonElement, title: string, to: JobState | undefined): void {
    button.hidden = to === undefined;
    if (to === undefined) return;
    button.title = `Move to ${TITLES[to]}`;
    button.setAttribute("aria-label", `Move ${title} to ${TITLES[to]}`);
  }
}

function makeColumn(state: JobState): Column {
  const heading = make("h3", "column-title", TITLES[state]);
  heading.id = `column-${state}`;
  const count = make("span", "count");
  const list = make("ol", "cards");
  list.setAttribute("aria-labelledby", heading.id);
  const empty = make("p", "empty");
  const column = make("div", "column", make("div", "column-head", heading, count), empty, list);
  column.dataset["state"] = state;
  byId("columns").append(column);
  return { list, count, empty };
}
