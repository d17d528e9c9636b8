// One thing that is to happen later: setting it again replaces what was to come.
import type { Environment } from "./browser.ts";

export type TimerEnvironment = Pick<Environment, "clearTimeout" | "setTimeout">;

export class Timer {
  readonly #environment: TimerEnvironment;
  #timer: unknown;

  constructor(environment: TimerEnvironment) {
    this.#environment = environment;
  }

  set(ms: number, run: () => void): void {
    this.clear();
    this.#timer = this.#environment.setTimeout(run, ms);
  }

  clear(): void {
    this.#environment.clearTimeout(this.#timer);
  }
}
