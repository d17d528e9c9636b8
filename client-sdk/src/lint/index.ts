// The entry "./lint": an ESLint plugin for applications that use a workspace, with a flat configuration.
import type { ESLint, Linter } from "eslint";
import { coalescedApplyOp } from "./coalesced-apply-op.ts";
import { noNewDoc } from "./no-new-doc.ts";
import { noRawFetch } from "./no-raw-fetch.ts";
import { noTimers } from "./no-timers.ts";

const rules = {
  "coalesced-apply-op": coalescedApplyOp,
  "no-new-doc": noNewDoc,
  "no-raw-fetch": noRawFetch,
  "no-timers": noTimers,
};

const plugin = {
  meta: { name: "yrelay-client", namespace: "yrelay", version: "0.1.0" },
  rules,
  configs: {} as { recommended: Linter.Config },
} satisfies ESLint.Plugin;

/** Every rule, as an error. It names the plugin itself: ESLint takes one object for a name. */
plugin.configs.recommended = {
  name: "yrelay/recommended",
  plugins: { yrelay: plugin },
  rules: Object.fromEntries(Object.keys(rules).map((name) => [`yrelay/${name}`, "error"])),
};

export default plugin;
