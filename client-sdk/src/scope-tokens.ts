// Scope tokens for the relays, from the API.
import { jsonOf } from "./api/api.ts";
import type { Api } from "./api/api.ts";
import * as operations from "./api/operations.ts";
import { ProblemError } from "./api/problem.ts";
import type { TokenAnswer } from "./api/types.ts";
import { TokenRefusedError } from "./token-source.ts";
import type { TokenProvider } from "./token-source.ts";

export function scopeTokensOf(api: Api): TokenProvider {
  return async () => {
    try {
      // The connection tries again by itself, and has its own time limit.
      return jsonOf<TokenAnswer>(await api.call(operations.mintToken, { body: JSON.stringify({ purpose: "relay" }) }, { tries: 1 }));
    } catch (error) {
      if (error instanceof ProblemError && (error.status === 401 || error.status === 403)) throw new TokenRefusedError(error.message);
      throw error;
    }
  };
}
