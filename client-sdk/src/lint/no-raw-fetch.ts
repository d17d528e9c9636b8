// Rule no-raw-fetch: nothing but the SDK names an address below /api/workspaces. A call past the SDK has no
// idempotency key, no order, no outbox and no coalescing; whether it is made by `fetch`, a wrapper of it,
// an EventSource or another library is all the same, so the rule looks at the address.
import type { Rule } from "eslint";
import type { Node } from "estree";
import { originOf } from "./names.ts";
import { parentOf, usedAs } from "./syntax.ts";
import type { Source } from "./syntax.ts";
import { GAP, propertyName, textsOf } from "./values.ts";
import { WORKSPACE_ADDRESS } from "./workspace.ts";

/** Looking at an address is not calling it: a service worker does so. */
const LOOKS = ["endsWith", "exec", "includes", "indexOf", "match", "matchAll", "replace", "search", "split", "startsWith", "test"];

/** What takes an address, of the global names. */
const CALLERS = ["EventSource", "Request", "WebSocket", "fetch"];

/** A base that is not known here, such as `${api}`, and then the workspaces. */
const BELOW_UNKNOWN = new RegExp(`${GAP}/workspaces(/|$)`, "i");

export const noRawFetch: Rule.RuleModule = {
  meta: {
    type: "problem",
    docs: { description: "No calls of /api/workspaces but by the SDK." },
    messages: {
      address: "Call the workspace API by the SDK (`applyOp`, `node`, `openDoc`, `changes`, `presence`): a raw call has no idempotency key, no outbox and no coalescing.",
    },
    schema: [],
  },
  create(context) {
    const source = context.sourceCode;
    const report = (node: Node) => isUsed(source, node) && context.report({ node, messageId: "address" });
    const checkJoined = (node: Node) => {
      if (isPart(node)) return;
      const isNew = textsOf(source, node).some(({ text, parts }) => WORKSPACE_ADDRESS.test(text) && !parts.some((part) => WORKSPACE_ADDRESS.test(part)));
      if (isNew || isCalledBelow(source, node)) report(node);
    };
    return {
      Literal(node) {
        if (typeof node.value === "string" && WORKSPACE_ADDRESS.test(node.value)) report(node);
      },
      TemplateElement(node) {
        if (WORKSPACE_ADDRESS.test(node.value.cooked ?? node.value.raw)) report(parentOf(node)!);
      },
      TemplateLiteral: checkJoined,
      BinaryExpression: checkJoined,
      CallExpression: checkJoined,
    };
  },
};

/** `fetch(`${api}/workspaces/…`)`: the base comes from elsewhere, and its name says what it is. */
function isCalledBelow(source: Source, node: Node): boolean {
  const { node: argument, parent } = usedAs(node);
  if ((parent?.type !== "CallExpression" && parent?.type !== "NewExpression") || parent.arguments[0] !== argument) return false;
  const origin = originOf(source, parent.callee);
  if (origin?.from !== "global" || !CALLERS.includes(origin.name ?? "")) return false;
  const isOurs = textsOf(source, node).some(({ text, parts }) => BELOW_UNKNOWN.test(text) && !parts.some((part) => WORKSPACE_ADDRESS.test(part)));
  return isOurs && /api/i.test(source.getText(node as Rule.Node).split("/workspaces")[0]!);
}

/** It is a part of a longer text, which is looked at as a whole. */
function isPart(node: Node): boolean {
  const { parent } = usedAs(node);
  return parent?.type === "TemplateLiteral" || (parent?.type === "BinaryExpression" && parent.operator === "+");
}

/** Not a type, a name of a module, or one side of a comparison. */
function isUsed(source: Source, node: Node): boolean {
  const { node: outer, parent } = usedAs(node);
  if (parent === null || (parent.type as string) === "TSLiteralType") return false;
  if (parent.type === "BinaryExpression" && parent.operator !== "+") return false;
  if (parent.type === "SwitchCase" || ("source" in parent && parent.source === outer)) return false;
  if (parent.type === "NewExpression") return !/^(RegExp|URLPattern)$/.test(originOf(source, parent.callee)?.name ?? "");
  return !(parent.type === "CallExpression" && parent.callee.type === "MemberExpression" && LOOKS.includes(propertyName(source, parent.callee) ?? ""));
}
