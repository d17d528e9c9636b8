// Typed events, for classes that an application listens to.

export class Emitter<Events extends Record<string, unknown>> {
  readonly #listeners = new Map<keyof Events, Set<(payload: never) => void>>();

  /** Calls back at each event of this type; answers how to end that. */
  on<Type extends keyof Events>(type: Type, listener: (payload: Events[Type]) => void): () => void {
    const listeners = this.#listeners.get(type) ?? new Set();
    this.#listeners.set(type, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  /** A listener that throws does not keep the event from the others; its error is reported as uncaught. */
  protected emit<Type extends keyof Events>(type: Type, payload: Events[Type]): void {
    for (const listener of [...(this.#listeners.get(type) ?? [])] as ((payload: Events[Type]) => void)[]) {
      try {
        listener(payload);
      } catch (error) {
        reportError(error);
      }
    }
  }
}

/** For classes with a status: one that says nothing new is not told. */
export class StatusEmitter<Events extends { readonly status: unknown } & Record<string, unknown>> extends Emitter<Events> {
  #told = "";

  protected tell(status: Events["status"]): void {
    const json = JSON.stringify(status);
    if (json === this.#told) return;
    this.#told = json;
    this.emit("status", status);
  }
}

/** Makes an error of the application's visible as uncaught, without ending what is being done. */
export function reportError(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}
