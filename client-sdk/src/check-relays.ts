#!/usr/bin/env node
// `yrelay-relays check`: a step of an application's build, so that a bad list never ships.
import { readFileSync, realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { RelayListError, parseRelayList } from "./relay-list.ts";

const USAGE = `usage: yrelay-relays check [FILE]
Checks the list of relays in the variable PUBLIC_RELAY_URLS, or in FILE.`;

/** Runs the command; answers what to print and the exit code: 1 for a bad list, 2 for a bad call. */
export function run(args: readonly string[], env: Readonly<Record<string, string | undefined>>): { code: number; text: string } {
  const [command, file, ...rest] = args;
  if (command !== "check" || rest.length > 0) return { code: 2, text: USAGE };
  try {
    const relays = parseRelayList(file === undefined ? env["PUBLIC_RELAY_URLS"] : readFileSync(file, "utf8"));
    return { code: 0, text: `good; relays in this order: ${relays.map(({ label }) => label).join(", ")}` };
  } catch (error) {
    if (error instanceof RelayListError) return { code: 1, text: error.message };
    return { code: 2, text: `${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? error}); give the name of a file with the list` };
  }
}

// npm starts a bin through a link, so both sides are made real.
const started = process.argv[1];
if (started !== undefined && realpathSync(started) === fileURLToPath(import.meta.url)) {
  const { code, text } = run(process.argv.slice(2), process.env);
  (code === 0 ? console.log : console.error)(text);
  process.exitCode = code;
}
