// Who is who. A browser gets a bird's or beast's name once, and keeps it: all its tabs are one person.

const NAMES = ["heron", "otter", "lynx", "wren", "badger", "marten", "plover", "hare", "curlew", "vole", "siskin", "stoat"];
/** Dark enough for white letters, light enough to be seen on a dark page. */
const COLOURS = ["#c2410c", "#7c3aed", "#0f766e", "#be185d", "#4d7c0f", "#1d4ed8", "#a16207", "#a21caf", "#b91c1c", "#0369a1"];
const KEY = "yrelay-demo.person";
const PERSON = /^([a-z]+)-(\d{1,4})$/;

export type Kind = "agent" | "human" | "relay" | "service";

/** The name of this browser's person, such as `heron-417`: the `sub` of its tokens. */
export function ownPerson(): string {
  try {
    const kept = localStorage.getItem(KEY);
    if (kept !== null && isPerson(kept)) return kept;
  } catch {
    // Without storage a page has a new name each time.
  }
  const person = `${NAMES[random(NAMES.length)]}-${random(9000) + 1000}`;
  try {
    localStorage.setItem(KEY, person);
  } catch {}
  return person;
}

/** Whether a `sub` is a name that this page gave. */
export function isPerson(sub: string): boolean {
  const name = PERSON.exec(sub)?.[1];
  return name !== undefined && NAMES.includes(name);
}

/** A `sub` as people read it: Heron 417. */
export function nameOf(sub: string): string {
  if (sub.startsWith("relay:")) return `People on ${sub.slice("relay:".length)}`;
  const [, name, number] = PERSON.exec(sub) ?? [];
  return name === undefined || !isPerson(sub) ? sub : `${name[0]!.toUpperCase()}${name.slice(1)} ${number}`;
}

/** Always the same for the same name. */
export function colourOf(sub: string): string {
  let sum = 0;
  for (const char of sub) sum = (sum * 31 + char.charCodeAt(0)) % 9973;
  return COLOURS[sum % COLOURS.length]!;
}

/** What is known of a writer: by the presence list, else by its name. */
export function kindOf(sub: string, present: ReadonlyMap<string, Kind>): Kind {
  if (sub.startsWith("relay:")) return "relay";
  return present.get(sub) ?? (isPerson(sub) ? "human" : "agent");
}

function random(below: number): number {
  return Math.floor(Math.random() * below);
}
