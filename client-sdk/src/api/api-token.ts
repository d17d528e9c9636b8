// The API token of one agent: asked for when there is none, kept until the API calls it bad. It never
// appears in an error (A3).
import { answerWithin } from "./deadline.ts";
import type { AgentEnvironment } from "./deadline.ts";
import { TOKEN_LIMIT_MS } from "./limits.ts";

/** Gives an API token (not a scope token). Throw a `TokenRefusedError` when there will be none. */
export type ApiTokenProvider = () => Promise<string> | string;

/** What a header can carry. Not echoed when it is something else: `fetch` would. */
const TOKEN = /^[\x21-\x7e]+$/;

export class ApiToken {
  readonly #provider: ApiTokenProvider;
  readonly #environment: AgentEnvironment;
  #kept: string | null = null;
  #fetching: Promise<string> | null = null;

  constructor(provider: ApiTokenProvider, environment: AgentEnvironment) {
    this.#provider = provider;
    this.#environment = environment;
  }

  /** The token to use. Rejects with the provider's error, or when it takes too long. */
  async current(): Promise<string> {
    if (this.#kept !== null) return this.#kept;
    // Calls that come together ask once.
    this.#fetching ??= this.#fetch().finally(() => (this.#fetching = null));
    return this.#fetching;
  }

  /** This token was refused: the next call asks for another, unless somebody has done so already. */
  renew(used: string): void {
    if (this.#kept === used) this.#kept = null;
  }

  async #fetch(): Promise<string> {
    const token = await answerWithin(this.#environment, Promise.resolve().then(this.#provider), TOKEN_LIMIT_MS, "The token provider");
    if (typeof token !== "string" || !TOKEN.test(token)) throw new TypeError("The token provider did not answer a token; answer a string without spaces.");
    return (this.#kept = token);
  }
}
