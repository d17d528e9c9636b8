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

type Task = { readonly kind: "append"; readonly path: string; readonly update: Uint8Array } | { readonly kind: "drop"; readonly path: string } | { readonly kind: "note"; readonly record: DocumentRecord };

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
    this.#do({ kind: "append", path, update });
  }

  note(record: DocumentRecord): void {
    this.#do({ kind: "note", record });
  }

  drop(path: string): void {
    this.#do({ kind: "drop", path });
  }

  isStored(path: string): boolean {
    return this.#database.state === "durable" && !this.#open.has(path);
  }

  #do(task: Task): void {
    if (this.#database.state === "memory") return;
    if (task.kind === "append") this.#open.add(task.path);
    this.#tasks.push(task);
    this.#working ??= Promise.resolve().then(() => this.#work()).finally(() => (this.#working = null));
  }

  /** What came together goes in one transaction. */
  async #work(): Promise<void> {
    while (this.#tasks.length > 0) {
      const tasks = this.#tasks;
      this.#tasks = [];
      const paths = new Set(tasks.flatMap((task) => (task.kind === "append" ? [task.path] : [])));
      await this.#database.run(
        async (transaction) => {
          for (const task of tasks) await perform(transaction, task);
        },
        (transaction) => this.#compactAll(transaction),
      );
      for (const path of paths) await this.#count(path, tasks);
      for (const path of paths) if (!this.#tasks.some((task) => task.kind === "append" && task.path === path)) this.#open.delete(path);
      this.#onStored();
    }
  }

  async #count(path: string, tasks: readonly Task[]): Promise<void> {
    const rows = (this.#rows.get(path) ?? 0) + tasks.filter((task) => task.kind === "append" && task.path === path).length;
    this.#rows.set(path, rows < MAX_ROWS ? rows : 1);
    if (rows >= MAX_ROWS) await this.#database.run((transaction) => compact(transaction, path));
  }

  /** Makes room: many small rows take more of it than few. */
  async #compactAll(transaction: Transaction): Promise<void> {
    const rows = await transaction.objectStore("updates").getAll();
    for (const path of new Set(rows.map((row) => row.path))) await compact(transaction, path);
  }
}

async function perform(transaction: Transaction, task: Task): Promise<void> {
  switch (task.kind) {
    case "append":
      await transaction.objectStore("updates").add({ path: task.path, update: task.update });
      return;
    case "note":
      await transaction.objectStore("documents").put(task.record);
      return;
    case "drop": {
      const keys = await transaction.objectStore("updates").index("path").getAllKeys(task.path);
      for (const key of keys) await transaction.objectStore("updates").delete(key);
      await transaction.objectStore("documents").delete(task.path);
    }
  }
}

/** All rows of a document as one. */
async function compact(transaction: Transaction, path: string): Promise<void> {
  const store = transaction.objectStore("updates");
  const [keys, rows] = [await store.index("path").getAllKeys(path), await store.index("path").getAll(path)];
  if (rows.length < 2) return;
  for (const key of keys) await store.delete(key);
  await store.add({ path, update: mergeUpdates(rows.map(({ update }) => update)) });
}
