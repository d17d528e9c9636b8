// The jobs of the board as the page knows them: what is stored, and over it what this person has asked
// for and is not committed yet. Each job is a record below `jobs/`, as the example agent reads them.
import type { FeedItem, Write } from "../src/index.ts";

export const STATES = ["open", "claimed", "done"] as const;
export type JobState = (typeof STATES)[number];

export interface Job {
  readonly path: string;
  readonly title: string;
  readonly state: JobState;
  /** Who claimed it. */
  readonly by: string | null;
}

/** The part of a WorkspaceClient that is used. */
export interface Records {
  applyOp(write: Write): Promise<{ readonly clock: number }>;
  changes(listener: (item: FeedItem) => void, filter: { readonly prefix: string }): () => void;
  list(options: { readonly prefix: string }): AsyncIterable<{ readonly path: string; readonly kind: string }>;
  node(path: string): Promise<{ readonly clock: number; readonly value?: unknown }>;
}

export interface JobsEvents {
  changed(): void;
  /** A write was refused for good, and is taken back. */
  refused(error: unknown): void;
}

const BOARD = "jobs";

export class Jobs {
  readonly #records: Records;
  readonly #events: JobsEvents;
  /** `null`: it was deleted at that clock, so an older answer does not bring it back. */
  readonly #stored = new Map<string, { readonly clock: number; readonly job: Job | null }>();
  readonly #asked = new Map<string, { readonly job: Job | null }>();
  #loading: Promise<void> | null = null;
  /** Something could not be read: the board is read whole when the API is back. */
  #isStale = true;
  #made = 0;

  constructor(records: Records, events: JobsEvents) {
    this.#records = records;
    this.#events = events;
    records.changes((item) => void this.#handle(item), { prefix: BOARD });
  }

  /** The board has been read; what is missing is not there. */
  get isLoaded(): boolean {
    return !this.#isStale;
  }

  /** In the order of their paths, which is that of their making. */
  get list(): readonly Job[] {
    const jobs = new Map([...this.#stored].map(([path, { job }]) => [path, job]));
    for (const [path, { job }] of this.#asked) jobs.set(path, job);
    return [...jobs.values()].filter((job) => job !== null).sort((a, b) => (a.path < b.path ? -1 : 1));
  }

  add(title: string, now: number): void {
    // Base 36 of the time sorts by age; the number keeps two of the same millisecond apart.
    const path = `${BOARD}/${now.toString(36)}-${(this.#made++).toString(36)}${Math.floor(Math.random() * 36 ** 4).toString(36)}`;
    this.#ask({ path, title, state: "open", by: null }, { op: "put", path, value: { title, state: "open" } });
  }

  move(job: Job, state: JobState, person: string): void {
    const by = state === "open" ? null : (job.by ?? person);
    this.#ask({ ...job, state, by }, { op: "patch", path: job.path, patch: { state, by } });
  }

  remove({ path }: Job): void {
    this.#ask(null, { op: "delete", path });
  }

  /** Reads the board if it is not known. Call it whenever the API may be back. */
  load(): Promise<void> {
    if (!this.#isStale) return Promise.resolve();
    this.#loading ??= this.#readAll().catch(() => {}).finally(() => {
      this.#loading = null;
      this.#events.changed();
    });
    return this.#loading;
  }

  #ask(job: Job | null, write: Write): void {
    const asked = { job };
    this.#asked.set(write.path, asked);
    this.#events.changed();
    this.#records.applyOp(write).then(
      ({ clock }) => this.#store(write.path, clock, job),
      (error) => this.#events.refused(error),
    ).finally(() => {
      // Another wish for the same job may have come since.
      if (this.#asked.get(write.path) === asked) this.#asked.delete(write.path);
      this.#events.changed();
    });
  }

  #handle(item: FeedItem): Promise<void> | void {
    if (item.kind === "reset" || item.kind === "move" || item.kind === "delete_workspace") {
      this.#isStale = true;
      return this.load();
    }
    if (item.kind !== "delete") return this.#read(item.path).catch(() => void (this.#isStale = true));
    const isBelow = (path: string) => path === item.path || path.startsWith(`${item.path}/`);
    for (const path of [...this.#stored.keys()].filter(isBelow)) this.#store(path, item.clock, null);
    this.#events.changed();
  }

  async #readAll(): Promise<void> {
    const found = new Set<string>();
    for await (const { path, kind } of this.#records.list({ prefix: BOARD })) if (kind === "record") found.add(path);
    for (const path of this.#stored.keys()) if (!found.has(path)) this.#stored.delete(path);
    await Promise.all([...found].map((path) => this.#read(path)));
    this.#isStale = false;
  }

  async #read(path: string): Promise<void> {
    try {
      const { clock, value } = await this.#records.node(path);
      this.#store(path, clock, jobOf(path, value));
    } catch (error) {
      if ((error as { code?: unknown }).code !== "node_not_found") throw error;
      this.#stored.delete(path);
    }
    this.#events.changed();
  }

  #store(path: string, clock: number, job: Job | null): void {
    if ((this.#stored.get(path)?.clock ?? -1) <= clock) this.#stored.set(path, { clock, job });
  }
}

/** A record as a job; anybody may have written anything there. */
export function jobOf(path: string, value: unknown): Job | null {
  if (typeof value !== "object" || value === null) return null;
  const { title, state, by } = value as Record<string, unknown>;
  if (!STATES.includes(state as JobState)) return null;
  return { path, title: typeof title === "string" ? title : path, state: state as JobState, by: typeof by === "string" ? by : null };
}
