// The name under which this tab is present: the same after a reload, which else would leave a row behind
// until its time is over, and an account has few of them.
import type { Environment } from "./browser.ts";

const KEY = "yrelay.session";

export function sessionOfTab(environment: Pick<Environment, "tabStorage" | "uuid">): string {
  // Storage may be full or forbidden; the name then lasts as long as the page.
  try {
    const storage = environment.tabStorage();
    const kept = storage?.getItem(KEY);
    if (kept) return kept;
    const session = environment.uuid();
    storage?.setItem(KEY, session);
    return session;
  } catch {
    return environment.uuid();
  }
}
