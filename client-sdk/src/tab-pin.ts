// The pin of a tab: `?relay=<label>` holds for the tab's life (S2), also when the application's own
// navigation drops it from the address, and after a reload.
import type { Environment } from "./browser.ts";
import { pinOf } from "./relay-list.ts";
import type { Relay } from "./relay-list.ts";
import { TabMemory } from "./tab-memory.ts";

const warned = new Set<string>();

/** The pinned entry, or `null`. `?relay=` without a label ends the pin; an unknown one warns once and is ignored. */
export function pinOfTab(relays: readonly Relay[], environment: Environment): number | null {
  const search = environment.search();
  const memory = new TabMemory(environment, "yrelay.relay");
  if (new URLSearchParams(search).get("relay") === "") memory.write(null);
  const asked = pinOf(search, relays);
  if (typeof asked === "number") {
    memory.write(relays[asked]!.label);
    return asked;
  }
  if (asked !== null) {
    warnOnce(asked.unknown, relays, environment);
    return null;
  }
  const kept = memory.read();
  // A kept label that is not in the list any more comes from an older build: no pin.
  const index = relays.findIndex(({ label }) => label === kept);
  return index >= 0 ? index : null;
}

function warnOnce(label: string, relays: readonly Relay[], environment: Environment): void {
  if (warned.has(label)) return;
  warned.add(label);
  const known = relays.map((relay) => relay.label).join(", ");
  environment.warn(`?relay=${label} is ignored: no relay has this label; there are ${known}`);
}
