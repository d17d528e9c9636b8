/**
 * Where replicas may be: a list of addresses, or a name that has all of them.
 *
 * @module
 */

import { DNS_INTERVAL } from "../limits.ts";
import { type Log, messageOf } from "../log.ts";

/** What `RELAY_PEERS` says. */
export type Peers =
  | { readonly kind: "list"; readonly addresses: readonly string[] }
  | { readonly kind: "dns"; readonly name: string; readonly port: number };

/** Reads `RELAY_PEERS`, or throws the end of a sentence that begins with its name. */
export function parsePeers(text: string): Peers {
  const [, name, port] = /^dns:([\w.-]+):(\d{1,5})$/.exec(text) ?? [];
  if (name !== undefined && Number(port) >= 1 && Number(port) <= 65_535) {
    return { kind: "dns", name, port: Number(port) };
  }
  const addresses = listOf(text);
  if (!addresses) {
    throw new Error(
      'must be a JSON array of addresses, such as ["http://10.0.0.1:8788"], without a path; or dns:<name>:<port>',
    );
  }
  return { kind: "list", addresses };
}

/** Answers the addresses of today. A lookup that fails leaves them as they were. */
export function createLookup(
  peers: Peers,
  log: Log,
  resolve = resolveName,
): () => Promise<readonly string[]> {
  if (peers.kind === "list") return () => Promise.resolve(peers.addresses);
  const { name, port } = peers;
  let [found, next, isFailing]: [string[], number, boolean] = [[], 0, false];
  return async () => {
    if (Date.now() < next) return found;
    next = Date.now() + DNS_INTERVAL;
    try {
      found = (await resolve(name)).map((host) =>
        `http://${host.includes(":") ? `[${host}]` : host}:${port}`
      );
      isFailing = false;
    } catch (error) {
      if (!isFailing) log.warn("peers_unresolved", { name, cause: messageOf(error) });
      isFailing = true;
    }
    return found;
  };
}

/** Both kinds of addresses; it is enough that the name has one of them. */
async function resolveName(name: string): Promise<string[]> {
  const answers = await Promise.allSettled([Deno.resolveDns(name, "A"), Deno.resolveDns(name, "AAAA")]);
  const good = answers.flatMap((answer) => answer.status === "fulfilled" ? answer.value : []);
  const [first] = answers;
  if (good.length === 0 && first.status === "rejected") throw first.reason;
  return good;
}

function listOf(text: string): string[] | undefined {
  try {
    const list: unknown = JSON.parse(text);
    if (!Array.isArray(list) || list.length === 0) return undefined;
    const addresses = list.map((address) => typeof address === "string" ? originOf(address) : undefined);
    return addresses.every((address) => address !== undefined) ? addresses : undefined;
  } catch {
    return undefined;
  }
}

/** An address without anything but scheme, host and port; undefined for another. */
function originOf(address: string): string | undefined {
  const url = URL.parse(address);
  const isBare = url && /^https?:$/.test(url.protocol) && [url.origin, `${url.origin}/`].includes(url.href);
  return isBare ? url.origin : undefined;
}
