// Documents on this device (L0): their updates as they come, and all of them as one when there are many.
// It is a copy: what it loses is read from the server again, except edits that no server has yet.
import type { Database, DocumentRecord, Transaction } from "./database.ts";
import { mergeUpdates } from "./yjs.ts";

export interface StoredDocument extends DocumentRecord {
  /** The whole document as one update. */
  readonly update: Uint8Array;
}

/** Where the SDK keeps documents. Give one of your own to keep them elsewhere. */
export interface DocumentStore {
  /** `null` when there is none, or it cannot be read. */
  load(path: string): Promise<StoredDocument | null>;
  append(path: string, update: Uint8Array): void;
  /** Says more of a document: its epoch, or whether a relay holds edits of it that are not saved. */
  note(record: DocumentRecord): void;
  /** Forgets a document: it is deleted, or another one now. */
  drop(path: string): void;
  /** Whether all of it survives the page. */
  isStored(path: string): boolean;
}

interface Task {
  readonly work: (transaction: Transaction) => Promise<unknown>;
  /** The document that it adds a row to. */
  readonly grows?: string;
}

/** Rows of a document before they become one: reading this many takes some ms, and each keystroke is one at most. */
const MAX_ROWS = 200;

export class IndexedDbStore implements DocumentStore {
  readonly #database: Database;
  readonly #onStored: () => void;
  readonly #rows = new Map<string, number>();
  /** Paths whose updates are on their way to the database. */
  readonly #open = new Set<string>();
  #tasks: Task[] = [];
  #working: Promise<void> | null = null;

  constructor(database: Database, onStored: () => void = () => {}) {
    this.#database = database;
    this.#onStored = onStored;
  }

  async load(path: string): Promise<StoredDocument | null> {
    await this.#working;
    const found = await this.#database.run(async (transaction) => {
      const record = await transaction.objectStore("documents").get(path);
      const rows = await transaction.objectStore("updates").index("path").getAll(path);
      return { record, updates: rows.map(({ update }) => update) };
    });
    if (found === undefined || found.updates.length === 0) return null;
    this.#rows.set(path, found.updates.length);
    return { hasUnsaved: false, ...found.record, path, update: mergeUpdates(found.updates) };
  }

  append(path: string, update: Uint8Array): void {
    this.#do({ work: (transaction) => transaction.objectStore("updates").add({ path, update }), grows: path });
  }

  note(record: DocumentRecord): void {
    this.#do({ work: (transaction) => transaction.objectStore("documents").put(record) });
  }

  drop(path: string): void {
    this.#do({
      work: async (transaction) => {
        await removeRows(transaction, path);
        await transaction.objectStore("documents").delete(path);
      },
    });
  }

  isStored(path: string): boolean {
    return this.#database.state === "durable" && !this.#open.has(path);
  }

  #do(task: Task): void {
    if (this.#database.state === "memory") return;
    if (task.grows !== undefined) this.#open.add(task.grows);
    this.#tasks.push(task);
    this.#working ??= Promise.resolve().then(() => this.#work()).finally(() => (this.#working = null));
  }

  /** What came together goes in one transaction. */
  async #work(): Promise<void> {
    while (this.#tasks.length > 0) {
      const tasks = this.#tasks;
      this.#tasks = [];
      const grown = tasks.flatMap(({ grows = [] }) => grows);
      await this.#database.run(
        async (transaction) => {
          for (const { work } of tasks) await work(transaction);
        },
        (transaction) => this.#compactAll(transaction),
      );
      for (const path of grown) await this.#count(path);
      for (const path of grown) if (!this.#tasks.some(({ grows }) => grows === path)) this.#open.delete(path);
      this.#onStored();
    }
  }

  async #count(path: string): Promise<void> {
    const rows = (this.#rows.get(path) ?? 0) + 1;
    this.#rows.set(path, rows < MAX_ROWS ? rows : 1);
    if (rows >= MAX_ROWS) await this.#database.run((transaction) => compact(transaction, path));
  }

  /** Makes room: many small rows take more of it than few. */
  async #compactAll(transaction: Transaction): Promise<void> {
    const rows = await transaction.objectStore("updates").getAll();
    for (const path of new Set(rows.map((row) => row.path))) await compact(transaction, path);
  }
}

async function removeRows(transaction: Transaction, path: string): Promise<void> {
  const store = transaction.objectStore("updates");
  for (const key of await store.index("path").getAllKeys(path)) await store.delete(key);
}

/** All rows of a document as one. */
async function compact(transaction: Transaction, path: string): Promise<void> {
  const store = transaction.objectStore("updates");
  const rows = await store.index("path").getAll(path);
  if (rows.length < 2) return;
  await removeRows(transaction, path);
  await store.add({ path, update: mergeUpdates(rows.map(({ update }) => update)) });
}
