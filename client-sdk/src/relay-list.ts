// The list of relays: what PUBLIC_RELAY_URLS may hold, and the pin of a tab (S2). Checked when an
// application is built and again when it starts, by the same code.

/** One entry of the list. Its place is its priority. */
export interface Relay {
  /** Short and stable: telemetry and `?relay=` name the relay by it. */
  readonly label: string;
  /** Ends in `/ws`; the workspace and the document's path are put after it. */
  readonly url: string;
}

/** More entries are a mistake: a walker would spend minutes on a list where nothing answers. */
export const MAX_RELAYS = 16;
const LABEL = /^[a-z0-9-]{1,32}$/;
const EXAMPLE = '[{"label":"cf","url":"wss://cf.relay.example.com/ws"}]';

/** The list is unusable. `problems` has a line for each thing to correct. */
export class RelayListError extends Error {
  readonly code = "invalid_relay_list";
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`PUBLIC_RELAY_URLS is not a list of relays:\n${problems.map((problem) => `  ${problem}`).join("\n")}`);
    this.name = "RelayListError";
    this.problems = problems;
  }
}

/** Reads the value of PUBLIC_RELAY_URLS. Throws a `RelayListError` that names every problem. */
export function parseRelayList(text: string | undefined): readonly Relay[] {
  if (text === undefined || text.trim() === "") throw new RelayListError([`it is not set; set it to a JSON array such as ${EXAMPLE}`]);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    // Only the position: the rest of the engine's message repeats the text.
    const position = /position \d+/.exec((error as Error).message)?.[0];
    throw new RelayListError([`it is not JSON${position ? ` (at ${position})` : ""}; write a JSON array such as ${EXAMPLE}`]);
  }
  return checkRelayList(value);
}

/** Checks a list that is already parsed. Throws a `RelayListError` that names every problem. */
export function checkRelayList(value: unknown): readonly Relay[] {
  if (!Array.isArray(value)) throw new RelayListError([`it is not an array; write a JSON array such as ${EXAMPLE}`]);
  if (value.length === 0) throw new RelayListError([`it is empty; name at least one relay, such as ${EXAMPLE}`]);
  if (value.length > MAX_RELAYS) throw new RelayListError([`it has ${value.length} entries; keep at most ${MAX_RELAYS}`]);
  const problems: string[] = [];
  const seen = new Map<string, number>();
  const relays = value.map((entry: unknown, index) => {
    const found = typeof entry === "object" && entry !== null ? (entry as Record<string, unknown>) : {};
    const label = found["label"];
    const url = found["url"];
    const note = (problem: string | undefined) => problem !== undefined && problems.push(`entry ${index}: ${problem}`);
    note(labelProblem(label, seen));
    note(urlProblem(url, label));
    if (typeof label === "string" && !seen.has(label)) seen.set(label, index);
    return { label: String(label), url: String(url) };
  });
  if (problems.length > 0) throw new RelayListError(problems);
  return relays;
}

/**
 * What a page's query string pins: an index, `null` for no pin, or the label that is not in the
 * list. The caller warns of the last and goes on without a pin.
 */
export function pinOf(search: string, relays: readonly Relay[]): number | null | { unknown: string } {
  const label = new URLSearchParams(search).get("relay");
  if (label === null || label === "") return null;
  const index = relays.findIndex((relay) => relay.label === label);
  return index >= 0 ? index : { unknown: label };
}

function labelProblem(label: unknown, seen: ReadonlyMap<string, number>): string | undefined {
  if (typeof label !== "string" || !LABEL.test(label)) return 'its "label" is not 1 to 32 of a-z, 0-9 and "-"; give it a short, stable name';
  const first = seen.get(label);
  return first === undefined ? undefined : `the label "${label}" is that of entry ${first} too; give each relay its own`;
}

function urlProblem(url: unknown, label: unknown): string | undefined {
  if (typeof url !== "string" || !URL.canParse(url)) return 'its "url" is not an absolute URL; write wss://<host>/ws';
  const { protocol, username, password, pathname, hostname } = new URL(url);
  if (protocol !== "wss:" && protocol !== "ws:") return `its url begins with ${protocol}; a relay is wss: (or ws: on the loopback address)`;
  // Not echoed: what stands there may be a secret.
  if (username !== "" || password !== "") return "its url holds credentials; remove them, connections use scope tokens";
  if (/[?#]/.test(url)) return "its url has a query or a fragment; end it at /ws";
  if (!pathname.endsWith("/ws") || !url.endsWith("/ws")) return "its url does not end in /ws; a relay serves /ws/<workspace>";
  if (protocol === "ws:" && !isLoopback(hostname)) return "its url is ws:, which sends tokens in the clear; use wss: except on the loopback address";
  // Hosts of the form <vendor>.relay.<domain> say the label, so that telemetry needs no table.
  const vendor = /^([^.]+)\.relay\./.exec(hostname)?.[1];
  if (vendor !== undefined && typeof label === "string" && vendor !== label) return `its host says "${vendor}" and its label "${label}"; make them equal`;
  return undefined;
}

function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname.endsWith(".localhost") || hostname === "[::1]" || /^127(\.\d+){3}$/.test(hostname);
}
