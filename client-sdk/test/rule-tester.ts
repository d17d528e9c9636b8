// ESLint's RuleTester under Node's test runner, over JavaScript and over TypeScript.
import { describe, it } from "node:test";
import * as typescript from "@typescript-eslint/parser";
import { RuleTester } from "eslint";
import type { Rule } from "eslint";

RuleTester.describe = describe as typeof RuleTester.describe;
RuleTester.it = it as typeof RuleTester.it;

interface Case {
  readonly code: string;
  readonly name?: string;
  readonly options?: readonly object[];
  /** The messages, in the order of the source. */
  readonly errors?: readonly string[];
}

export interface Cases {
  readonly good: readonly (Case | string)[];
  readonly bad: readonly (Case & { readonly errors: readonly string[] })[];
}

/** JSX is read in both; TypeScript's parser gets the cases of JavaScript too. */
export function testRule(name: string, rule: Rule.RuleModule, { script, types }: { readonly script: Cases; readonly types: Cases }): void {
  const languageOptions = { parserOptions: { ecmaFeatures: { jsx: true } } };
  const valid = (cases: Cases) => cases.good.map((one) => given(typeof one === "string" ? { code: one } : one));
  const invalid = (cases: Cases) => cases.bad.map(({ errors, ...one }) => ({ ...given(one), errors: errors.map((messageId) => ({ messageId })) }));
  new RuleTester({ languageOptions }).run(name, rule, { valid: valid(script), invalid: invalid(script) });
  const both = { valid: [...valid(script), ...valid(types)], invalid: [...invalid(script), ...invalid(types)] };
  new RuleTester({ languageOptions: { ...languageOptions, parser: typescript } }).run(`${name}, TypeScript`, rule, both);
}

function given({ options, ...one }: Case) {
  return { ...one, ...(options === undefined ? {} : { options: [...options] }) };
}
