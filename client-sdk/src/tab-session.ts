// The name under which this tab is present: the same after a reload, which else would leave a row behind
// until its time is over, and an account has few of them.
import type { Environment } from "./browser.ts";
import { TabMemory } from "./tab-memory.ts";

export function sessionOfTab(environment: Pick<Environment, "tabStorage" | "uuid">): string {
  const memory = new TabMemory(environment, "yrelay.session");
  const session = memory.read() || environment.uuid();
  memory.write(session);
  return session;
}
