// Writes that are not answered yet, in their order on each surface. They are in memory, and behind that
// in the account's database if this tab keeps it, so that a page that dies loses none. An idempotency
// key is made once, with its entry; an entry that may have been sent does not change any more.
import type { Database, Transaction } from "../database.ts";
import type { Coalesced, Due } from "./coalescer.ts";
import { mergeWrites } from "./merge.ts";
import type { Write } from "./merge.ts";

export interface OutboxEntry {
  /** Its idempotency key. */
  readonly key: string;
  readonly surface: string;
  readonly write: Write;
}

interface Slot {
  entry: OutboxEntry;
  /** Where it is stored; `null`: nowhere yet. */
  id: number | null;
  isSealed: boolean;
  isStored: boolean;
  isGone: boolean;
}

export class Outbox {
  readonly #uuid: () => string;
  readonly #onStored: () => void;
  #database: Database | null = null;
  #slots: Slot[] = [];
  #dirty = new Set<Slot>();
  #storing: Promise<void> | null = null;
  #loaded: Promise<void> = Promise.resolve();

  /** In memory, until `attach`. `onStored`: more of it is in the database now, or there is no database any more. */
  constructor(uuid: () => string, onStored: () => void = () => {}) {
    this.#uuid = uuid;
    this.#onStored = onStored;
  }

  /** From now on this tab keeps the account's outbox. Resolves when what an earlier page left is here. */
  attach(database: Database): Promise<void> {
    this.#database = database;
    this.#loaded = this.#load(database);
    for (const slot of this.#slots) this.#store(slot);
    return this.#loaded;
  }

  /** Another tab keeps it. What is here stays in memory, under its keys, and is in the database too. */
  detach(): void {
    this.#database = null;
    for (const slot of this.#slots) Object.assign(slot, { id: null, isStored: false });
    this.#dirty.clear();
  }

  get loaded(): Promise<void> {
    return this.#loaded;
  }

  get size(): number {
    return this.#slots.length;
  }

  surfaces(): ReadonlySet<string> {
    return new Set(this.#slots.map(({ entry }) => entry.surface));
  }

  /** The entries of a surface, the oldest first. */
  waiting(surface: string): readonly OutboxEntry[] {
    return this.#on(surface).map(({ entry }) => entry);
  }

  /** Whether everything on a surface, or everywhere, survives the page. */
  isStored(surface?: string): boolean {
    return (surface === undefined ? this.#slots : this.#on(surface)).every(({ isStored }) => isStored);
  }

  /** Adds a write, into the last entry of its surface if that may still change. Answers the entry's key. */
  add(surface: string, write: Write, key?: string): string {
    if (key !== undefined && this.#find(key) !== undefined) return key;
    const last = this.#on(surface).at(-1);
    // A key that came from another tab is its entry's own.
    const merged = last === undefined || last.isSealed || key !== undefined ? null : mergeWrites(last.entry.write, write);
    if (last !== undefined && merged !== null) {
      last.entry = { ...last.entry, write: merged };
      this.#store(last);
      return last.entry.key;
    }
    const entry: OutboxEntry = { key: key ?? this.#uuid(), surface, write };
    const slot: Slot = { entry, id: null, isSealed: key !== undefined, isStored: false, isGone: false };
    this.#slots.push(slot);
    this.#store(slot);
    return entry.key;
  }

  /** The oldest entry of a surface that is due, to be sent: from now on it stays as it is. */
  take(surface: Due): Coalesced<OutboxEntry> | undefined {
    const [slot] = this.#on(surface);
    if (slot === undefined) return undefined;
    slot.isSealed = true;
    return slot.entry as Coalesced<OutboxEntry>;
  }

  /** It was answered, for better or worse. */
  remove(key: string): void {
    const slot = this.#find(key);
    if (slot === undefined) return;
    this.#slots = this.#slots.filter((other) => other !== slot);
    slot.isGone = true;
    this.#store(slot);
  }

  /** Resolves when the database has what is here now, or is lost. */
  async settled(): Promise<void> {
    await this.#loaded;
    await this.#storing;
  }

  #on(surface: string): readonly Slot[] {
    return this.#slots.filter(({ entry }) => entry.surface === surface);
  }

  #find(key: string): Slot | undefined {
    return this.#slots.find(({ entry }) => entry.key === key);
  }

  async #load(database: Database): Promise<void> {
    const found = await database.run(async (transaction) => {
      const store = transaction.objectStore("outbox");
      return [await store.getAllKeys(), await store.getAll()] as const;
    });
    if (this.#database !== database) return;
    const [ids, entries] = found ?? [[], []];
    const stored = entries.map((entry, index): Slot => {
      // Another tab, which kept it before, has sent it here already.
      const slot = this.#find(entry.key) ?? { entry, id: null, isSealed: true, isStored: true, isGone: false };
      return Object.assign(slot, { id: ids[index]!, isSealed: true, isStored: true });
    });
    // What was added meanwhile came later.
    this.#slots = [...stored, ...this.#slots.filter((slot) => !stored.includes(slot))];
  }

  #store(slot: Slot): void {
    slot.isStored = false;
    if (this.#database === null) return;
    this.#dirty.add(slot);
    this.#storing ??= this.#loaded.then(() => this.#write()).finally(() => (this.#storing = null));
  }

  /** Writes what changed, in transactions of whatever came together. */
  async #write(): Promise<void> {
    while (this.#dirty.size > 0 && this.#database !== null) {
      const database = this.#database;
      const slots = [...this.#dirty];
      this.#dirty.clear();
      const written = slots.map(({ entry }) => entry);
      const ids = await database.run((transaction) => Promise.all(slots.map((slot) => save(transaction, slot))));
      if (this.#database !== database) continue;
      for (const [index, slot] of slots.entries()) {
        if (ids !== undefined) slot.id = ids[index] ?? null;
        slot.isStored = ids !== undefined && slot.entry === written[index];
      }
      this.#onStored();
    }
  }
}

/** Where it is stored now; `null`: nowhere any more. */
async function save(transaction: Transaction, { entry, id, isGone }: Slot): Promise<number | null> {
  const store = transaction.objectStore("outbox");
  if (!isGone) return id === null ? store.add(entry) : store.put(entry, id);
  if (id !== null) await store.delete(id);
  return null;
}
