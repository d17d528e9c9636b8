// Whose page this is. What is stored on the device belongs to an account, so it is known before anything
// is read, and no token of another account is used for it.
import type { ApiTokenProvider } from "./api/api-token.ts";
import type { Api } from "./api/api.ts";
import { retryDelay } from "./api/backoff.ts";
import { pause } from "./api/deadline.ts";
import { TokenRefusedError } from "./token-source.ts";

/** The subject that a JWT names, not verified: the API does that. `null` for any other token. */
export function subjectOf(token: string): string | null {
  try {
    const payload = token.split(".")[1]!.replaceAll("-", "+").replaceAll("_", "/");
    const bytes = Uint8Array.from(atob(payload), (char) => char.charCodeAt(0));
    const { sub } = JSON.parse(new TextDecoder().decode(bytes)) as { sub?: unknown };
    return typeof sub === "string" && sub !== "" ? sub : null;
  } catch {
    return null;
  }
}

/** A token for another account is refused: this page's writes are not that account's. */
export function tokensOf(provider: ApiTokenProvider, account: () => string | null): ApiTokenProvider {
  return async () => {
    const token = await provider();
    const [own, subject] = [account(), subjectOf(token)];
    if (own !== null && subject !== null && subject !== own) {
      throw new TokenRefusedError("The token is for another account than this page's; close this client and make another.");
    }
    return token;
  };
}

/** The account that the first token names, whenever there is one. Rejects with a `TokenRefusedError`, or the signal's reason. */
export async function firstAccount(api: Api, signal: AbortSignal): Promise<string | null> {
  for (let failures = 0; ; failures += 1) {
    try {
      return subjectOf(await api.token());
    } catch (error) {
      if (error instanceof TokenRefusedError) throw error;
      await pause(api.environment, retryDelay(failures, api.environment.random(), null), signal);
      signal.throwIfAborted();
    }
  }
}
