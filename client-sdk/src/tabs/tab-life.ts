// Tells when another tab is gone, also when it died without a word: each tab holds a lock of its own,
// and who waits for that lock gets it then.
import { unlessAborted } from "../api/deadline.ts";
import type { PageEnvironment } from "../browser.ts";

export class TabLife {
  readonly #environment: PageEnvironment;
  readonly #name: string;
  readonly #ending = new AbortController();
  readonly #watched = new Set<string>();

  constructor(environment: PageEnvironment, name: string) {
    this.#environment = environment;
    this.#name = name;
  }

  /** This tab lives until `close`. */
  live(tab: string): void {
    const untilClose = () => unlessAborted(new Promise<void>(() => {}), this.#ending.signal);
    this.#environment.locks()?.request(`${this.#name}/tab/${tab}`, {}, untilClose).catch(() => {});
  }

  /** Calls back once when that tab is gone. */
  watch(tab: string, gone: () => void): void {
    if (this.#watched.has(tab)) return;
    this.#watched.add(tab);
    const { signal } = this.#ending;
    this.#environment
      .locks()
      ?.request(`${this.#name}/tab/${tab}`, { signal }, async () => {
        this.#watched.delete(tab);
        if (!signal.aborted) gone();
      })
      .catch(() => {});
  }

  close(): void {
    this.#ending.abort();
  }
}
