/**
 * The log: one JSON line for each event, on standard output.
 *
 * Nobody's token may be in it (A3), whatever an error message quotes: texts are scrubbed here and
 * nowhere else. Every line has the relay's label, so that a search by label finds the process.
 *
 * @module
 */

import { MAX_LOG_TEXT } from "./limits.ts";

/** What a line may say besides its event. */
export type Fields = Record<string, string | number | boolean | undefined>;

/** Writes events. Names are in snake_case and stable: operators search for them. */
export interface Log {
  /** Something happened as it should. */
  info(event: string, fields?: Fields): void;
  /** Something failed that the relay deals with. */
  warn(event: string, fields?: Fields): void;
  /** Something failed that a person has to look at. */
  error(event: string, fields?: Fields): void;
}

/** A log of the relay with this label. */
export function createLog(label: string, write: (line: string) => void = writeLine): Log {
  const at = (level: string) => (event: string, fields: Fields = {}) => {
    const line: Fields = { at: new Date().toISOString(), level, relay: label, event };
    for (const [name, value] of Object.entries(fields)) {
      if (!(name in line)) line[name] = typeof value === "string" ? scrub(value) : value;
    }
    write(JSON.stringify(line));
  };
  return { info: at("info"), warn: at("warn"), error: at("error") };
}

/** A text without anything that may be a credential: query strings, bearers, signed tokens. */
export function scrub(text: string): string {
  return text
    .slice(0, MAX_LOG_TEXT)
    .replaceAll(/\?[^\s"')]*/g, "?…")
    .replaceAll(/\bBearer\s+\S+/gi, "Bearer …")
    .replaceAll(/\beyJ[\w-]*(\.[\w-]*)*/g, "…");
}

/** What an unknown thrown value says. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const encoder = new TextEncoder();

/** Written at once: a line that explains why the process ends must not wait in a queue. */
function writeLine(line: string): void {
  const bytes = encoder.encode(`${line}\n`);
  try {
    let written = 0;
    while (written < bytes.length) written += Deno.stdout.writeSync(bytes.subarray(written));
  } catch {
    // Whoever reads the log is gone; the relay goes on.
  }
}
