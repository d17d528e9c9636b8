// A stack whose D1 and room fail on command; see faulty-worker.mjs for the rules.
import { fileURLToPath } from "node:url";
import { startCf } from "./relays.mjs";
import { PATIENCE } from "./waiting.mjs";

/** Starts a Worker that can be told to fail: `relay.faults(...rules)`, `relay.sql(text, ...binds)`. */
export async function startFaulty(options = {}) {
  const entry = fileURLToPath(new URL("faulty-worker.mjs", import.meta.url));
  const relay = await startCf({ ...options, entry });
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
