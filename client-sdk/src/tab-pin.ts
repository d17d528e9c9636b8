// The pin of a tab: `?relay=<label>` holds for the tab's life (S2), also when the application's own
// navigation drops it from the address, and after a reload.
import type { Environment } from "./browser.ts";
import { pinOf } from "./relay-list.ts";
import type { Relay } from "./relay-list.ts";

const KEY = "yrelay.relay";
const warned = new Set<string>();

/** The pinned entry, or `null`. `?relay=` without a label ends the pin; an unknown one warns once and is ignored. */
export function pinOfTab(relays: readonly Relay[], environment: Environment): number | null {
  const search = environment.search();
  const storage = environment.tabStorage();
  if (new URLSearchParams(search).get("relay") === "") forget(storage);
  const asked = pinOf(search, relays);
  if (typeof asked === "number") {
    remember(storage, relays[asked]!.label);
    return asked;
  }
  if (asked !== null) {
    warnOnce(asked.unknown, relays, environment);
    return null;
  }
  const kept = recall(storage);
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

// Storage may be full or forbidden; the pin then holds as long as the address says it.
function remember(storage: ReturnType<Environment["tabStorage"]>, label: string): void {
  try {
    storage?.setItem(KEY, label);
  } catch {}
}

function forget(storage: ReturnType<Environment["tabStorage"]>): void {
  try {
    storage?.removeItem(KEY);
  } catch {}
}

function recall(storage: ReturnType<Environment["tabStorage"]>): string | null {
  try {
    return storage?.getItem(KEY) ?? null;
  } catch {
    return null;
  }
}
