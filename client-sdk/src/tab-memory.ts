// One text that a tab keeps through reloads.
import type { Environment } from "./browser.ts";

/** Storage may be full or forbidden: then the text lasts as long as the page knows it. */
export class TabMemory {
  readonly #environment: Pick<Environment, "tabStorage">;
  readonly #key: string;

  constructor(environment: Pick<Environment, "tabStorage">, key: string) {
    this.#environment = environment;
    this.#key = key;
  }

  read(): string | null {
    try {
      return this.#environment.tabStorage()?.getItem(this.#key) ?? null;
    } catch {
      return null;
    }
  }

  /** `null`: forgets it. */
  write(text: string | null): void {
    try {
      const storage = this.#environment.tabStorage();
      if (text === null) storage?.removeItem(this.#key);
      else storage?.setItem(this.#key, text);
    } catch {}
  }
}
