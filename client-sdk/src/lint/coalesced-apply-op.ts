// Rule coalesced-apply-op: every write of a page waits for the pause in which writes are merged. The
// client's `applyOp` does so; this rule finds what goes round it.
import type { Rule } from "eslint";
import type { CallExpression, Expression, Identifier, Node, Super } from "estree";
import { originOf, takings } from "./names.ts";
import { ancestorsOf, initOf, isFunction, unwrap, variableOf } from "./syntax.ts";
import type { Source } from "./syntax.ts";
import { propertyName } from "./values.ts";
import { isSdk } from "./workspace.ts";

interface Options {
  readonly modules?: readonly string[];
}

export const coalescedApplyOp: Rule.RuleModule = {
  meta: {
    type: "problem",
    docs: { description: "Every applyOp passes the coalescer of the workspace client." },
    messages: {
      other: "This `applyOp` is not the workspace client's, so nothing merges its writes. Call `client.applyOp`, or list its module in `modules` if it does so.",
      flush: "`flush` right after `applyOp` sends every write by itself. The write goes out after the pause without it; await the promise of `applyOp` to know when it is committed.",
      cast: "Calling a write coalesced does not make it so. Give it to `applyOp`; the outbox makes the rest of what is due.",
      agent: "`WorkspaceAgent` sends every write by itself. A page writes by `applyOp` of its `WorkspaceClient`.",
    },
    schema: [
      {
        type: "object",
        additionalProperties: false,
        properties: { modules: { type: "array", items: { type: "string" }, description: "Modules of the application that pass the client's applyOp on." } },
      },
    ],
    defaultOptions: [{}],
  },
  create(context) {
    const { modules = [] } = (context.options[0] ?? {}) as Options;
    const source = context.sourceCode;
    const isTrusted = (module: string) => isSdk(module) || modules.includes(module);
    const applied: CallExpression[] = [];
    const agents: Node[] = [];
    let isPage = false;
    const agentListener = takings(source, (node, { from, name }) => from === "yrelay-client/agent" && name === "WorkspaceAgent" && agents.push(node));
    return {
      ...agentListener,
      ImportDeclaration({ source: { value } }) {
        isPage ||= typeof value === "string" && /^(yrelay-client(\/react)?|react|react-dom)$/.test(value);
      },
      CallExpression(node) {
        agentListener.CallExpression?.(node);
        const name = calledName(source, node);
        if (name === "applyOp" && isOther(source, node, isTrusted)) context.report({ node: node.callee as Rule.Node, messageId: "other" });
        if (name === "applyOp") applied.push(node);
      },
      "CallExpression:exit"(node) {
        if (calledName(source, node) === "flush" && applied.some((write) => isSoonAfter(source, write, node))) context.report({ node, messageId: "flush" });
      },
      // As an assertion only: as an annotation the compiler checks it.
      ":matches(TSAsExpression, TSTypeAssertion) TSTypeReference[typeName.name=/^(Coalesced|Due)$/]"(node: Rule.Node) {
        context.report({ node, messageId: "cast" });
      },
      "Program:exit"(node) {
        agentListener["Program:exit"]?.(node);
        if (isPage) for (const agent of agents) context.report({ node: agent as Rule.Node, messageId: "agent" });
      },
    };
  },
};

function calledName(source: Source, { callee }: CallExpression): string | null {
  const inner = unwrap(callee);
  if (inner.type === "Identifier") return inner.name;
  return inner.type === "MemberExpression" ? propertyName(source, inner) : null;
}

/** Surely not the client's: what comes in as an argument, or from a hook, is taken to be. */
function isOther(source: Source, { callee }: CallExpression, isTrusted: (module: string) => boolean): boolean {
  const inner = unwrap(callee);
  if (inner.type === "MemberExpression") return isOtherReceiver(source, inner.object, isTrusted);
  const identifier = inner as Identifier;
  const origin = originOf(source, identifier);
  if (origin !== null) return origin.from === "global" || !isTrusted(origin.from);
  const variable = variableOf(source, identifier);
  const [definition] = variable?.defs ?? [];
  const body = definition?.type === "FunctionName" ? (definition.node as Node) : variable && initOf(variable);
  return body !== null && body !== undefined && !/\.applyOp\b/.test(source.getText(body as Rule.Node));
}

function isOtherReceiver(source: Source, receiver: Expression | Super, isTrusted: (module: string) => boolean): boolean {
  const inner = unwrap(receiver);
  const origin = originOf(source, inner);
  if (origin !== null) return origin.name === null && origin.from !== "global" && !isTrusted(origin.from);
  const made = inner.type === "Identifier" ? variableOf(source, inner) : null;
  const given = made && initOf(made);
  const init = given ? unwrap(given) : inner;
  if (init.type !== "NewExpression") return false;
  const maker = originOf(source, init.callee);
  return maker !== null && !isTrusted(maker.from) && !maker.from.startsWith(".");
}

/** In the same function, or when the write is answered, on the same client. */
function isSoonAfter(source: Source, write: CallExpression, flush: CallExpression): boolean {
  const receiver = receiverText(source, write);
  if (receiver === null || receiver !== receiverText(source, flush) || write.range![0] > flush.range![0]) return false;
  const owner = (node: Node) => [...ancestorsOf(node)].find(isFunction) ?? null;
  const isAnswer = [...ancestorsOf(flush)].some((ancestor) => ancestor.type === "CallExpression" && ancestor.callee.range![0] <= write.range![0] && write.range![1] <= ancestor.callee.range![1]);
  return owner(write) === owner(flush) || isAnswer;
}

function receiverText(source: Source, { callee }: CallExpression): string | null {
  const inner = unwrap(callee);
  return inner.type === "MemberExpression" ? source.getText(inner.object as Rule.Node) : null;
}
