// What several components look at is there once: one request, one open document. An entry lives while
// somebody listens to it. Knows nothing of React.

/** Something that a component shows. */
export interface Entry<View> {
  /** The same object until something changes. */
  readonly view: View;
  start(changed: () => void): void;
  stop(): void;
}

interface Held<One> {
  readonly entry: One;
  readonly listeners: Set<() => void>;
}

export class SharedEntries<Owner extends object, One extends Entry<unknown>> {
  readonly #make: (owner: Owner, key: string) => One;
  readonly #held = new WeakMap<Owner, Map<string, Held<One>>>();

  constructor(make: (owner: Owner, key: string) => One) {
    this.#make = make;
  }

  /** The entry, if somebody listens to it. Looking does nothing, so a render may do so. */
  peek(owner: Owner, key: string): One | undefined {
    return this.#held.get(owner)?.get(key)?.entry;
  }

  /** Listens to an entry, which begins with its first listener; answers how to end that. */
  listen(owner: Owner, key: string, listener: () => void): () => void {
    const entries = this.#held.get(owner) ?? new Map<string, Held<One>>();
    this.#held.set(owner, entries);
    const held = entries.get(key) ?? this.#begin(entries, { owner, key });
    // One of its own: React may give the same function twice.
    const own = () => listener();
    held.listeners.add(own);
    return () => {
      held.listeners.delete(own);
      // React leaves and comes back in one task (StrictMode, a moved component): only who is gone then is gone.
      queueMicrotask(() => this.#endIfUnused(entries, key, held));
    };
  }

  #begin(entries: Map<string, Held<One>>, { owner, key }: { readonly owner: Owner; readonly key: string }): Held<One> {
    const held: Held<One> = { entry: this.#make(owner, key), listeners: new Set() };
    entries.set(key, held);
    held.entry.start(() => {
      for (const listener of [...held.listeners]) listener();
    });
    return held;
  }

  #endIfUnused(entries: Map<string, Held<One>>, key: string, held: Held<One>): void {
    if (held.listeners.size > 0 || entries.get(key) !== held) return;
    entries.delete(key);
    held.entry.stop();
  }
}
