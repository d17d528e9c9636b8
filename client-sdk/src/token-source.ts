// Scope tokens: one at a time, fetched before it is needed, kept while it is good. A token never
// appears in an error, a log or telemetry (A3).
import { answerWithin } from "./api/deadline.ts";
import type { Environment } from "./browser.ts";

/** A scope token; `expiresAt` in ms, as the token endpoint answers it. */
export interface ScopeToken {
  readonly token: string;
  readonly expiresAt: number;
}

/** Fetches a new scope token. Throw a `TokenRefusedError` when this user gets none. */
export type TokenProvider = () => Promise<ScopeToken>;

/** There is no token for this user, and asking again is pointless: the connection stops. */
export class TokenRefusedError extends Error {
  readonly code = "token_refused";

  constructor(message = "There is no token for this user; sign in again.") {
    super(message);
    this.name = "TokenRefusedError";
  }
}

/** A token that ends within this time is replaced before a connect: it would not live to see the first sync. */
const MARGIN_MS = 60_000;
/** How long a provider may take when there is no other token. */
const PATIENCE_MS = 10_000;
/** How long it may take when the old token still works. The API may be what is down: failover must not wait for it. */
const PATIENCE_WITH_TOKEN_MS = 3_000;

export class TokenSource {
  readonly #provider: TokenProvider;
  readonly #environment: Environment;
  #kept: ScopeToken | null = null;
  /** The kept token is to be replaced if possible. */
  #suspect = false;
  #fetching: Promise<ScopeToken> | null = null;

  constructor(provider: TokenProvider, environment: Environment) {
    this.#provider = provider;
    this.#environment = environment;
  }

  /** A token to connect with. Rejects with the provider's error, or when it takes too long. */
  async token(): Promise<ScopeToken> {
    const now = this.#environment.now();
    const kept = this.#kept;
    if (kept !== null && !this.#suspect && now < kept.expiresAt - MARGIN_MS) return kept;
    const usable = kept !== null && now < kept.expiresAt;
    try {
      return await this.#fetch(usable ? PATIENCE_WITH_TOKEN_MS : PATIENCE_MS);
    } catch (error) {
      if (error instanceof TokenRefusedError || !usable || this.#kept === null) throw error;
      return this.#kept;
    }
  }

  /** The kept token is not to be used again (`required`), or only if there is no other. */
  refresh(required: boolean): void {
    if (required) this.#kept = null;
    this.#suspect = true;
  }

  /** One call of the provider at a time; one that answers late is still used by the next connect. */
  #fetch(limitMs: number): Promise<ScopeToken> {
    this.#fetching ??= Promise.resolve()
      .then(this.#provider)
      .then((token) => {
        if (typeof token?.token !== "string" || !Number.isFinite(token.expiresAt)) {
          throw new TypeError("The token provider did not answer {token, expiresAt}; answer a string and a time in ms.");
        }
        this.#kept = token;
        this.#suspect = false;
        return token;
      })
      .finally(() => (this.#fetching = null));
    return answerWithin(this.#environment, this.#fetching, limitMs, "The token provider");
  }
}
