// One IndexedDB database of an account in a workspace, that may be missing, hang, fill up or die at any
// time. Whatever happens, callers go on without it: `run` never rejects, and the loss is told once.
import { wrap } from "idb";
import type { DBSchema, IDBPDatabase, IDBPTransaction, StoreNames } from "idb";
import { answerWithin } from "./api/deadline.ts";
import type { PageEnvironment } from "./browser.ts";
import type { Write } from "./ops/merge.ts";

/** `durable`: what is written survives the page. `memory`: it does not. */
export type StorageState = "durable" | "memory";

/** Why there is only memory: no database, none in time, its connection died, it is full, or another tab deleted or replaced it. */
export type StorageLoss = "closed" | "full" | "replaced" | "timeout" | "unavailable";

export interface Schema extends DBSchema {
  /** Writes on their way, in the order in which they were made. */
  outbox: { key: number; value: { readonly key: string; readonly surface: string; readonly write: Write } };
  /** Updates of documents; read together they are the document. */
  updates: { key: number; value: { readonly path: string; readonly update: Uint8Array }; indexes: { path: string } };
  documents: { key: string; value: DocumentRecord };
}

/** What is known of a stored document. */
export interface DocumentRecord {
  readonly path: string;
  readonly epoch?: number;
  /** Edits went to a relay that has not said that they are saved. */
  readonly hasUnsaved: boolean;
}

export type Transaction = IDBPTransaction<Schema, StoreNames<Schema>[], "readwrite">;

/** Raise it with the schema, and say in `upgrade` how one becomes the other. */
const VERSION = 1;
/** Some browsers never answer an `open`; a person waits no longer than this (B04). */
const OPEN_LIMIT_MS = 3_000;
/** What an error of the platform means, by its name. */
const LOSSES: Readonly<Record<string, StorageLoss>> = { InvalidStateError: "closed", QuotaExceededError: "full", TimeoutError: "timeout" };
const STORES: StoreNames<Schema>[] = ["outbox", "updates", "documents"];

export class Database {
  readonly #environment: Pick<PageEnvironment, "clearTimeout" | "indexedDB" | "setTimeout">;
  readonly #name: string;
  readonly #onLoss: (reason: StorageLoss) => void;
  #opening: Promise<IDBPDatabase<Schema>> | null = null;
  #hasReopened = false;
  #isClosed = false;
  loss: StorageLoss | null = null;

  constructor(environment: Pick<PageEnvironment, "clearTimeout" | "indexedDB" | "setTimeout">, name: string, onLoss: (reason: StorageLoss) => void) {
    this.#environment = environment;
    this.#name = name;
    this.#onLoss = onLoss;
  }

  get state(): StorageState {
    return this.loss === null ? "durable" : "memory";
  }

  /**
   * Runs one transaction; `undefined` when there is only memory. `relieve` may make room when the
   * database is full, once; then the transaction is tried again.
   */
  async run<T>(work: (transaction: Transaction) => Promise<T>, relieve?: (transaction: Transaction) => Promise<void>): Promise<T | undefined> {
    let relief = relieve;
    while (this.loss === null && !this.#isClosed) {
      try {
        return await this.#transact(work);
      } catch (error) {
        const loss = LOSSES[(error as Error | null)?.name ?? ""] ?? "unavailable";
        if (loss === "full" && relief !== undefined) {
          await this.#transact(relief).catch(() => {});
          relief = undefined;
        } else if (loss === "closed" && !this.#hasReopened) {
          // The platform closed the connection under us, as iOS does: one more is opened.
          this.#hasReopened = true;
          this.#opening = null;
        } else {
          this.#lose(loss);
        }
      }
    }
    return undefined;
  }

  /** Ends the connection. Transactions under way still end. */
  close(): void {
    this.#isClosed = true;
    this.#opening?.then((database) => database.close()).catch(() => {});
  }

  async #transact<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    const database = await (this.#opening ??= this.#open());
    const transaction = database.transaction(STORES, "readwrite");
    // It fails together with `work`, which is where the error is taken from.
    transaction.done.catch(() => {});
    const result = await work(transaction);
    await transaction.done;
    return result;
  }

  #open(): Promise<IDBPDatabase<Schema>> {
    return answerWithin(this.#environment, this.#request(), OPEN_LIMIT_MS, "IndexedDB");
  }

  async #request(): Promise<IDBPDatabase<Schema>> {
    const factory = this.#environment.indexedDB();
    if (factory === null) throw new Error("There is no IndexedDB.");
    const request = factory.open(this.#name, VERSION);
    request.onupgradeneeded = () => upgrade(request.result);
    const database = (await wrap(request)) as unknown as IDBPDatabase<Schema>;
    // Too late: somebody else may need it closed.
    if (this.loss !== null || this.#isClosed) database.close();
    database.addEventListener("versionchange", () => {
      database.close();
      this.#lose("replaced");
    });
    database.addEventListener("close", () => (this.#opening = null));
    return database;
  }

  #lose(reason: StorageLoss): void {
    if (this.loss !== null || this.#isClosed) return;
    this.loss = reason;
    this.#opening?.then((database) => database.close()).catch(() => {});
    this.#onLoss(reason);
  }
}

function upgrade(database: IDBDatabase): void {
  database.createObjectStore("outbox", { autoIncrement: true });
  database.createObjectStore("updates", { autoIncrement: true }).createIndex("path", "path");
  database.createObjectStore("documents", { keyPath: "path" });
}

