/**
 * Who is on a socket of this relay, told to the API so that whoever asks who is here sees them too (S3).
 *
 * One row a person and workspace, however many tabs. It is written when somebody comes, removed when the
 * last socket goes, and renewed when it is about to end while a socket is open: never for a heartbeat, a
 * cursor, or one tab more. One call runs at a time, so that loads and saves have the others.
 *
 * @module
 */

import { backoff } from "./backoff.ts";
import { PRESENCE_LINGER, PRESENCE_RENEW, PRESENCE_RETRY, PRESENCE_ROW } from "./limits.ts";
import type { Present, Said } from "./storage.ts";

/** How people are told of. */
export interface PeopleParts {
  /** Names this relay in rows: its label, so that a relay that starts again takes over what it left. */
  readonly session: string;
  /** Says that a person is here, for so many seconds. */
  readonly present: (who: Present, ttl: number) => Promise<Said>;
  readonly absent: (who: Present) => Promise<Said>;
  /** Other delays than those of `limits.ts`, for tests. */
  readonly delays?: Partial<Delays>;
}

/** In ms. */
export interface Delays {
  /** How long a row counts. */
  readonly row: number;
  /** How long before its end it is renewed. */
  readonly renew: number;
  /** How long a person without a socket is still here. */
  readonly linger: number;
  readonly retry: { min: number; max: number };
}

/** A person who is here, or whose row has to go. */
interface Person {
  readonly who: Present;
  /** When the token of each open socket ends. */
  readonly sockets: Set<{ readonly ends: number }>;
  leftAt: number;
  /** When the row ends that the API has, or may have; 0 without one. */
  rowEnds: number;
  /** Whether the last word to the API was answered. */
  isSure: boolean;
  /** The API does not take it: nothing is said until somebody comes again. */
  isRefused: boolean;
  failures: number;
  timer: ReturnType<typeof setTimeout> | undefined;
}

/** What is to be done about a person: something to say, or a look after so many ms. */
type Next = "here" | "gone" | "forget" | "rest" | { readonly after: number };

/** The people of all workspaces. */
export class People {
  readonly #parts: PeopleParts;
  readonly #delays: Delays;
  readonly #people = new Map<string, Person>();
  /** Who is looked at next, in order. */
  readonly #due = new Set<Person>();
  #isTelling = false;
  #isOver = false;

  constructor(parts: PeopleParts) {
    this.#parts = parts;
    const [row, renew, linger] = [PRESENCE_ROW, PRESENCE_RENEW, PRESENCE_LINGER];
    this.#delays = { row, renew, linger, retry: PRESENCE_RETRY, ...parts.delays };
  }

  /** A socket of a person is open, with a token until `ends`. Call what is returned when it is gone. */
  enter(workspace: string, sub: string, ends: number): () => void {
    const person = this.#find(workspace, sub);
    const socket = { ends };
    person.sockets.add(socket);
    person.isRefused = false;
    this.#look(person, 0);
    return () => {
      if (!person.sockets.delete(socket)) return;
      person.leftAt = Date.now();
      this.#look(person, 0);
    };
  }

  /** A workspace is another relay's from now on, and so are the rows of its people. */
  moved(workspace: string): void {
    for (const person of this.#people.values()) {
      if (person.who.workspace !== workspace) continue;
      person.rowEnds = 0;
      // Until somebody comes here again.
      person.isRefused = true;
    }
  }

  /** People who are here, or whose row has to go. */
  get count(): number {
    return this.#people.size;
  }

  /**
   * Says nothing more. Rows end by themselves: at a stop everybody is sent to a relay, this one or the
   * next, and who comes back to none is listed for some minutes.
   */
  stop(): void {
    this.#isOver = true;
    for (const { timer } of this.#people.values()) clearTimeout(timer);
    this.#due.clear();
  }

  #find(workspace: string, sub: string): Person {
    const key = keyOf(workspace, sub);
    let person = this.#people.get(key);
    if (!person) {
      const who = { workspace, sub, session: this.#parts.session };
      const state = { leftAt: 0, rowEnds: 0, isSure: true, isRefused: false, failures: 0, timer: undefined };
      this.#people.set(key, person = { who, sockets: new Set(), ...state });
    }
    return person;
  }

  /** Looks at a person after a while, in place of what was arranged before. */
  #look(person: Person, after: number): void {
    clearTimeout(person.timer);
    if (this.#isOver) return;
    if (after > 0) {
      person.timer = setTimeout(() => this.#look(person, 0), after);
      return;
    }
    this.#due.add(person);
    if (!this.#isTelling) void this.#work();
  }

  async #work(): Promise<void> {
    this.#isTelling = true;
    for (const person of this.#due) {
      this.#due.delete(person);
      const next = this.#next(person, Date.now());
      if (next === "here" || next === "gone") await this.#say(person, next);
      else if (next === "forget") this.#people.delete(keyOf(person.who.workspace, person.who.sub));
      else if (next !== "rest") this.#look(person, next.after);
    }
    this.#isTelling = false;
  }

  #next(person: Person, now: number): Next {
    const { renew, linger } = this.#delays;
    const { sockets, leftAt, rowEnds, isSure, isRefused } = person;
    if (sockets.size === 0) {
      if (rowEnds <= now) return "forget";
      return leftAt + linger <= now ? "gone" : { after: leftAt + linger - now };
    }
    // A socket whose token has ended is closed with the next event of its room, and is nobody until then.
    if (isRefused || [...sockets].every(({ ends }) => ends <= now)) return "rest";
    return isSure && rowEnds - renew > now ? { after: rowEnds - renew - now } : "here";
  }

  async #say(person: Person, what: "here" | "gone"): Promise<void> {
    const { row, retry } = this.#delays;
    const ends = Date.now() + row;
    const { present, absent } = this.#parts;
    const said = await (what === "here" ? present(person.who, row / 1000) : absent(person.who));
    person.isSure = said !== "unknown";
    person.isRefused = said === "refused";
    // Without an answer the row may be there, and has to go some time.
    if (what === "here" && said !== "refused") person.rowEnds = ends;
    if (what === "gone" && said !== "unknown") person.rowEnds = 0;
    person.failures = person.isSure ? 0 : person.failures + 1;
    this.#look(person, person.isSure ? 0 : backoff(person.failures, retry) + 1);
  }
}

function keyOf(workspace: string, sub: string): string {
  return `${workspace}/${sub}`;
}
