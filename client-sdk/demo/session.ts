// Where the API is, and tokens for it: the one part that is an application's own. This page asks the
// server that `cargo xtask dev` starts; where there is none, a person pastes a token (sign-in.ts).
import type { Relay } from "../src/index.ts";

export interface Session {
  readonly api: string;
  readonly relays: readonly Relay[];
  readonly workspace: string;
  /** The `sub` of the tokens, if known without one: then a page that starts offline finds what it stored. */
  readonly account?: string;
  /** A fresh API token of the person. */
  token(): Promise<string>;
  /** A fresh API token of an agent, where the page may act as one. */
  readonly agentToken?: () => Promise<string>;
}

interface Answer {
  readonly api: string;
  readonly relays: readonly Relay[];
  readonly workspace: string;
  readonly human: string;
  readonly agent: string;
}

/** The session that the local stack gives to a person, or `null` where there is no such server. */
export async function localSession(person: string): Promise<Session | null> {
  const ask = async (): Promise<Response> => {
    const query = new URLSearchParams({ person });
    const workspace = new URLSearchParams(location.search).get("workspace");
    if (workspace !== null) query.set("workspace", workspace);
    return fetch(`session.json?${query}`);
  };
  const first = await ask();
  if (first.status === 404) return null;
  const answer = await read(first);
  const again = async () => read(await ask());
  return {
    ...answer,
    account: person,
    token: async () => (await again()).human,
    agentToken: async () => (await again()).agent,
  };
}

/** A session with a token that somebody else made. The API and its relay are where this page is from. */
export function pastedSession(token: string, workspace: string): Session {
  const relay = { label: "cf", url: `${location.origin.replace(/^http/, "ws")}/ws` };
  return { api: location.origin, relays: [relay], workspace, token: async () => token };
}

async function read(response: Response): Promise<Answer> {
  if (!response.ok) throw new Error(`session.json answered ${response.status}: ${await response.text()}`);
  return (await response.json()) as Answer;
}
