#!/usr/bin/env node
// `yrelay-relays`: a step of an application's build, so that a bad list never ships, and the same list
// ships everywhere.
import { readFileSync, realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { RelayListError, parseRelayList } from "./relay-list.ts";
import type { Relay } from "./relay-list.ts";

const VARIABLE = "PUBLIC_RELAY_URLS";
const USAGE = `usage: yrelay-relays check [FILE]
       yrelay-relays print [FILE]
Checks the list of relays in the variable ${VARIABLE}, or in FILE: JSON, or a wrangler.toml that
has the variable. With both, they must be the same list. "print" writes the list for a build to take.`;

/** A call that cannot be answered: the exit code is 2. */
class CallError extends Error {}

/** Runs the command; answers what to print and the exit code: 1 for a bad list, 2 for a bad call. */
export function run(args: readonly string[], env: Readonly<Record<string, string | undefined>>): { code: number; text: string } {
  const [command, file, ...rest] = args;
  if ((command !== "check" && command !== "print") || rest.length > 0) return { code: 2, text: USAGE };
  try {
    const variable = env[VARIABLE];
    const relays = parseRelayList(file === undefined ? variable : read(file));
    if (command === "print") return { code: 0, text: JSON.stringify(relays) };
    if (file !== undefined && variable) {
      const drift = difference(relays, parseRelayList(variable));
      if (drift !== undefined) return { code: 1, text: `${VARIABLE} is another list than that in ${file}: ${drift}; build from ${file} by "yrelay-relays print ${file}"` };
    }
    return { code: 0, text: `good; relays in this order: ${relays.map(({ label }) => label).join(", ")}` };
  } catch (error) {
    if (error instanceof RelayListError) return { code: 1, text: error.message };
    if (error instanceof CallError) return { code: 2, text: error.message };
    return { code: 2, text: `${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? error}); give the name of a file with the list` };
  }
}

function read(file: string): string {
  const text = readFileSync(file, "utf8");
  return file.endsWith(".toml") ? variableOf(text, file) : text;
}

/** The variable's value: TOML's literal string in '…', or its basic string in "…", which escapes as JSON does. */
function variableOf(toml: string, file: string): string {
  const found = [...toml.matchAll(/^[ \t]*PUBLIC_RELAY_URLS[ \t]*=[ \t]*(?:'([^'\n]*)'|("(?:[^"\\\n]|\\.)+"))[ \t]*(?:#.*)?$/gm)];
  if (found.length !== 1) throw new CallError(`${file} has ${found.length} lines ${VARIABLE} = '…'; have one, in [vars], with the list as JSON between single quotes`);
  const [, literal, basic] = found[0]!;
  return literal ?? (JSON.parse(basic!) as string);
}

/** The first entry that differs, by label: urls may be long. */
function difference(one: readonly Relay[], other: readonly Relay[]): string | undefined {
  for (let index = 0; index < Math.max(one.length, other.length); index += 1) {
    const [here, there] = [one[index], other[index]];
    if (here?.label === there?.label && here?.url === there?.url) continue;
    const name = (relay: Relay | undefined) => (relay === undefined ? "nothing" : `"${relay.label}"`);
    return here?.label === there?.label ? `entry ${index}, "${here!.label}", has another url` : `entry ${index} is ${name(there)}, in the file ${name(here)}`;
  }
  return undefined;
}

// npm starts a bin through a link, so both sides are made real.
const started = process.argv[1];
if (started !== undefined && realpathSync(started) === fileURLToPath(import.meta.url)) {
  const { code, text } = run(process.argv.slice(2), process.env);
  (code === 0 ? console.log : console.error)(text);
  process.exitCode = code;
}
