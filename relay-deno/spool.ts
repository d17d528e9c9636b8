/**
 * The spool: updates that were accepted and are not saved yet, on a disk of the relay's own (D6).
 *
 * It owns one SQLite file, which no second process may open. Rooms gather for a moment; what they have
 * is then written as one transaction that survives a crash of the process and of the machine. It must
 * not decide what is saved: rooms say so, and for rows of earlier runs {@link SpoolDrain} does.
 *
 * @module
 */

import { DatabaseSync, type StatementSync } from "node:sqlite";
import { SPOOL_BATCH, SPOOL_PAGE, SPOOL_RETRY } from "./limits.ts";
import { type Log, messageOf } from "./log.ts";

/** A room with something to keep. */
export interface SpoolSource {
  /** Calls {@link Spool.keep} with it. */
  spool(): void;
}

/** An update to keep. */
export interface KeptUpdate {
  /** Which room of this run. */
  readonly room: number;
  readonly workspace: string;
  readonly document: string;
  readonly epoch: number | undefined;
  readonly author: string;
  /** Grows within a document of a room. */
  readonly number: number;
  readonly update: Uint8Array;
}

/** Rows that one request can save: of one author, document and epoch, in the order of their arrival. */
export interface SpoolGroup {
  readonly run: string;
  readonly room: number;
  readonly workspace: string;
  readonly document: string;
  readonly epoch: number | undefined;
  readonly author: string;
}

/** Rows of a group. */
export interface SpoolRows {
  readonly first: number;
  readonly last: number;
  readonly updates: Uint8Array[];
}

/** Updates to forget. */
interface Release {
  readonly room: number;
  readonly workspace: string;
  readonly document: string;
  readonly through: number;
}

type Step = { keep: KeptUpdate; release?: undefined } | { keep?: undefined; release: Release };

/** An open spool. */
export class Spool {
  /** Names this run of the process in its rows. */
  readonly run: string;
  /** Whether the last write went well. */
  healthy = true;
  /** Told when it works again: rooms that ended meanwhile have rows now. */
  onRecovered: () => void = () => {};
  readonly #database: DatabaseSync;
  readonly #insert: StatementSync;
  readonly #release: StatementSync;
  readonly #log: Log;
  readonly #sources = new Set<SpoolSource>();
  #steps: Step[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;
  /** Rooms of this run that ended without saving everything. */
  readonly #abandoned = new Set<number>();

  /** Opens the spool in a folder. Throws with a sentence for the operator. */
  constructor(folder: string, log: Log, run: string = crypto.randomUUID()) {
    this.run = run;
    this.#log = log;
    this.#database = openDatabase(folder);
    this.#insert = this.#database.prepare(
      "INSERT INTO updates (run, room, workspace, document, epoch, author, number, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    );
    this.#release = this.#database.prepare(
      "DELETE FROM updates WHERE run = ? AND room = ? AND workspace = ? AND document = ? AND number <= ?",
    );
  }

  /** Asks a room for what it has, a moment later. */
  gather(source: SpoolSource): void {
    this.#sources.add(source);
    this.#wake();
  }

  /** Keeps an update until it is released. It is on the disk a moment later. */
  keep(update: KeptUpdate): void {
    this.#add({ keep: update });
  }

  /** Forgets the updates of a room's document up to a number. */
  release(room: number, workspace: string, document: string, through: number): void {
    // What is not written yet need not be written at all; an earlier release is part of this one.
    this.#steps = this.#steps.filter((step) => {
      const { keep, release } = step;
      const of = keep ?? release;
      const isSame = of.room === room && of.workspace === workspace && of.document === document;
      return !isSame || (keep !== undefined && keep.number > through);
    });
    this.#add({ release: { room, workspace, document, through } });
  }

  /** A room ended without saving everything: its rows are now like those of an earlier run. */
  abandon(room: number): void {
    this.#abandoned.add(room);
    this.flush();
  }

  /** Writes what has gathered. What cannot be written stays and is tried again. */
  flush(): boolean {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const source of [...this.#sources]) {
      this.#sources.delete(source);
      source.spool();
    }
    // What rooms gave is written now, not a moment later.
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#steps.length === 0) return true;
    const isWritten = this.#transaction(() => this.#steps.forEach((step) => this.#write(step)));
    if (isWritten) this.#steps = [];
    else this.#timer = setTimeout(() => this.flush(), SPOOL_RETRY);
    return isWritten;
  }

  /** Groups with rows of earlier runs, the oldest first. */
  groups(): SpoolGroup[] {
    const rows = this.#database.prepare(
      `SELECT run, room, workspace, document, epoch, author FROM updates
       WHERE run <> ? OR room IN (SELECT value FROM json_each(?))
       GROUP BY run, room, workspace, document, epoch, author ORDER BY MIN(id) LIMIT ?`,
    ).all(this.run, JSON.stringify([...this.#abandoned]), SPOOL_PAGE);
    return rows.map((row) => ({
      run: String(row["run"]),
      room: Number(row["room"]),
      workspace: String(row["workspace"]),
      document: String(row["document"]),
      epoch: row["epoch"] === null ? undefined : Number(row["epoch"]),
      author: String(row["author"]),
    }));
  }

  /** The oldest rows of a group, as many as fit into so many bytes, and at least one. */
  rows(group: SpoolGroup, maxBytes: number): SpoolRows | undefined {
    const rows = this.#database.prepare(
      `SELECT id, data FROM updates
       WHERE ${OF_GROUP} ORDER BY id`,
    ).iterate(...keyOf(group));
    const updates: Uint8Array[] = [];
    let [first, last, bytes] = [0, 0, 0];
    for (const row of rows) {
      const update = row["data"] as Uint8Array;
      if (updates.length > 0 && bytes + update.length > maxBytes) break;
      if (updates.length === 0) first = Number(row["id"]);
      last = Number(row["id"]);
      bytes += update.length;
      updates.push(update);
    }
    return updates.length > 0 ? { first, last, updates } : undefined;
  }

  /** Deletes rows of a group that are saved. `false` when that cannot be written now. */
  saved(group: SpoolGroup, { first, last }: SpoolRows): boolean {
    return this.#transaction(() => this.#delete(group, first, last));
  }

  /**
   * Puts rows of a group aside that the API refused for good. They are kept for a person to look at.
   * `false` when that cannot be written now.
   */
  refused(group: SpoolGroup, { first, last }: SpoolRows, cause: string): boolean {
    return this.#transaction(() => {
      this.#database.prepare(
        `INSERT INTO refused (run, workspace, document, epoch, author, data, at, cause)
         SELECT run, workspace, document, epoch, author, data, ?, ? FROM updates
         WHERE id BETWEEN ? AND ? AND ${OF_GROUP} ORDER BY id`,
      ).run(Date.now(), cause, first, last, ...keyOf(group));
      this.#delete(group, first, last);
    });
  }

  /** Rows that wait, and rows that were refused. */
  counts(): { kept: number; refused: number } {
    const count = (table: string) =>
      Number(this.#database.prepare(`SELECT COUNT(*) AS n FROM ${table}`).get()?.["n"]);
    return { kept: count("updates"), refused: count("refused") };
  }

  /** Writes what has gathered and closes the file. */
  close(): void {
    this.flush();
    clearTimeout(this.#timer);
    this.#isClosed = true;
    this.#database.close();
  }

  #add(step: Step): void {
    // At the end of the process rooms still hear of what was saved.
    if (this.#isClosed) return;
    this.#steps.push(step);
    this.#wake();
  }

  #wake(): void {
    if (!this.#isClosed) this.#timer ??= setTimeout(() => this.flush(), SPOOL_BATCH);
  }

  #write(step: Step): void {
    if (step.keep) {
      const { room, workspace, document, epoch, author, number, update } = step.keep;
      this.#insert.run(this.run, room, workspace, document, epoch ?? null, author, number, update);
    } else {
      const { room, workspace, document, through } = step.release;
      this.#release.run(this.run, room, workspace, document, through);
    }
  }

  #delete(group: SpoolGroup, first: number, last: number): void {
    this.#database.prepare(
      `DELETE FROM updates WHERE id BETWEEN ? AND ? AND ${OF_GROUP}`,
    ).run(first, last, ...keyOf(group));
  }

  /** Whether all of it is on the disk; a spool that fails is told once, until it works again. */
  #transaction(work: () => void): boolean {
    try {
      this.#database.exec("BEGIN IMMEDIATE");
      try {
        work();
        // A release of what was never written reaches no disk, and so cannot tell that there is space.
        if (!this.healthy) this.#database.exec(TOUCH);
        this.#database.exec("COMMIT");
      } catch (error) {
        // A full disk ends the transaction by itself.
        if (this.#database.isTransaction) this.#database.exec("ROLLBACK");
        throw error;
      }
    } catch (error) {
      if (this.healthy) this.#log.error("spool_failed", { cause: messageOf(error) });
      this.healthy = false;
      return false;
    }
    if (!this.healthy) {
      this.healthy = true;
      this.#log.info("spool_recovered");
      this.onRecovered();
    }
    return true;
  }
}

/** The condition that {@link keyOf} has the values of. */
const OF_GROUP = "run = ? AND room = ? AND workspace = ? AND document = ? AND epoch IS ? AND author = ?";

function keyOf(group: SpoolGroup): [string, number, string, string, number | null, string] {
  return [group.run, group.room, group.workspace, group.document, group.epoch ?? null, group.author];
}

function openDatabase(folder: string): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    Deno.mkdirSync(folder, { recursive: true, mode: 0o700 });
    database = new DatabaseSync(`${folder}/spool.sqlite`);
    // The lock is taken by the first access and held until the end. It is the operating system's,
    // so a process that was killed leaves none behind.
    database.exec(`
      PRAGMA busy_timeout = 0;
      PRAGMA locking_mode = EXCLUSIVE;
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = FULL;
      BEGIN EXCLUSIVE;
      ${SCHEMA}
      COMMIT;
    `);
    const mode = database.prepare("PRAGMA journal_mode").get()?.["journal_mode"];
    const synchronous = database.prepare("PRAGMA synchronous").get()?.["synchronous"];
    if (mode !== "wal" || synchronous !== FULL) {
      throw new Error(`no write-ahead log there (${mode}, ${synchronous})`);
    }
    return database;
  } catch (error) {
    database?.close();
    const cause = messageOf(error);
    if (/locked|busy/i.test(cause)) {
      throw new Error("another process has the spool open; give each relay a RELAY_SPOOL_DIR of its own");
    }
    throw new Error(
      `the spool cannot be opened: ${cause}; RELAY_SPOOL_DIR must be a folder that may be written`,
    );
  }
}

/** Writes a page of the file, whatever is in it. */
const TOUCH = "PRAGMA user_version = 1";

/** SQLite's number of `synchronous = FULL`: a commit waits for the disk. */
const FULL = 2;

/** Ids are never used again, so that a range of them names the same rows for ever. */
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS updates (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run TEXT NOT NULL, room INTEGER NOT NULL,
    workspace TEXT NOT NULL, document TEXT NOT NULL, epoch INTEGER, author TEXT NOT NULL,
    number INTEGER NOT NULL, data BLOB NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS updates_of_a_document ON updates (workspace, document, run);
  CREATE TABLE IF NOT EXISTS refused (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL, workspace TEXT NOT NULL, document TEXT NOT NULL, epoch INTEGER, author TEXT NOT NULL,
    data BLOB NOT NULL, at INTEGER NOT NULL, cause TEXT NOT NULL
  ) STRICT;
`;
