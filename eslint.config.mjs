// Our own SDK and demo keep the rules that the SDK's plugin has for applications. What is let off is let
// off here, file by file and with its reason.
import * as typescript from "@typescript-eslint/parser";
import yrelay from "./client-sdk/src/lint/index.ts";

const SDK = ["client-sdk/src/**/*.ts"];
const PAGES = ["client-sdk/demo/**/*.{js,ts,tsx}", "examples/**/*.mjs"];

const letOff = (files, rule) => ({ files, rules: { [`yrelay/${rule}`]: "off" } });

export default [
  { ignores: ["**/*.test.ts", "client-sdk/{checks,dist,test}/"] },
  { linterOptions: { reportUnusedDisableDirectives: "error" } },
  { files: ["client-sdk/**/*.{ts,tsx}"], languageOptions: { parser: typescript, parserOptions: { ecmaFeatures: { jsx: true } } } },
  { ...yrelay.configs.recommended, files: [...SDK, ...PAGES] },
  { files: SDK, rules: { "yrelay/no-timers": ["error", { everywhere: true }] } },
  // The one file that names the platform's timers; everything else is handed them.
  letOff(["client-sdk/src/browser.ts"], "no-timers"),
  // Test doubles let real tasks run while the clock stands still.
  letOff(["client-sdk/src/testing.ts"], "no-timers"),
  // The table of the API's addresses, which the calls of the SDK are made from.
  letOff(["client-sdk/src/api/operations.ts"], "no-raw-fetch"),
  // Where a surface becomes due, and where what waited on it becomes what is sent.
  letOff(["client-sdk/src/ops/{coalescer,outbox}.ts"], "coalesced-apply-op"),
  // What the rule sends people to: where a shared document is made, and where two states are compared.
  letOff(["client-sdk/src/documents/{document,rest-document}.ts"], "no-new-doc"),
  // The copy that a replaced document leaves, which is read as text and thrown away.
  letOff(["client-sdk/demo/note.ts"], "no-new-doc"),
];
