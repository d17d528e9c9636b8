// A stack whose D1 and room fail on command; see faulty-worker.mjs for the rules.
import { fileURLToPath } from "node:url";
import { startBoth, startCf } from "./relays.mjs";
import { PATIENCE } from "./waiting.mjs";

/** The entry of such a stack. */
export const FAULTY = fileURLToPath(new URL("faulty-worker.mjs", import.meta.url));

/** Starts a Worker that can be told to fail: `relay.faults(...rules)`, `relay.sql(text, ...binds)`. */
export async function startFaulty(options = {}) {
  return commanded(await startCf({ ...options, entry: FAULTY }));
}

/** The same with a Deno relay beside it, whose storage fails with the Worker's: `{ cf, deno }`. Stop `deno` last. */
export async function startBothFaulty(options = {}) {
  const { cf, deno } = await startBoth({ ...options, entry: FAULTY });
  return { cf: commanded(cf), deno };
}

/** The same commands for a stack that was started with this `entry` otherwise. */
export function commanded(relay) {
  const ask = async (path, method, value) => {
    const init = { method, body: value && JSON.stringify(value), signal: AbortSignal.timeout(PATIENCE) };
    const answer = await fetch(`${relay.api}/__test/${path}`, init);
    if (!answer.ok) throw new Error(`/__test/${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  };
  return Object.assign(relay, {
    /** Replaces all rules. */
    faults: (...rules) => ask("faults", "PUT", rules),
    /** The hits of the rules in force, in their order. */
    hits: async () => (await ask("faults", "GET")).map((rule) => rule.hits),
    /** Rows of a statement. */
    sql: (sql, ...binds) => ask("sql", "POST", { sql, binds }),
  });
}
