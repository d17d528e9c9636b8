// Rule no-timers: code that uses the workspace does not poll. What changes is told by events, and the SDK
// has the few timers that are needed.
import type { Rule } from "eslint";
import type { CallExpression, Node, ThisExpression } from "estree";
import { takings } from "./names.ts";
import type { Origin } from "./names.ts";
import { Functions } from "./repeats.ts";
import { usedAs } from "./syntax.ts";
import { WORKSPACE_ADDRESS, isSdk } from "./workspace.ts";

const TIMERS = ["setImmediate", "setInterval", "setTimeout"];

/** Not timers by themselves: they draw, or use idle time. One that starts itself again is a timer. */
const FRAMES = ["requestAnimationFrame", "requestIdleCallback"];

interface Options {
  readonly allowOnce?: boolean;
  readonly everywhere?: boolean;
  readonly modules?: readonly string[];
}

export const noTimers: Rule.RuleModule = {
  meta: {
    type: "problem",
    docs: { description: "No timers in code that uses the workspace API." },
    messages: {
      timer: "{{name}}: code that uses the workspace starts no timers. Listen to `changes`, `presence` or `status` instead; they tell when something is new.",
      repeats: "{{name}} starts itself again, which is polling. Listen to `changes`, `presence` or `status` instead; they tell when something is new.",
    },
    schema: [
      {
        type: "object",
        additionalProperties: false,
        properties: {
          allowOnce: { type: "boolean", description: "Allow timers that do not start themselves again." },
          everywhere: { type: "boolean", description: "Check every file, not only those that use the workspace." },
          modules: { type: "array", items: { type: "string" }, description: "Modules of the application whose users use the workspace." },
        },
      },
    ],
    defaultOptions: [{}],
  },
  create(context) {
    const { allowOnce = false, everywhere = false, modules = [] } = (context.options[0] ?? {}) as Options;
    const source = context.sourceCode;
    let usesWorkspace = everywhere;
    const found: { readonly node: Node; readonly origin: Origin }[] = [];
    const selves: ThisExpression[] = [];
    const listener = takings(source, (node, origin) => isTimer(origin) && found.push({ node, origin }));
    const look = (node: Node & { source?: Node | null }) => {
      const from = node.source?.type === "Literal" ? String(node.source.value) : "";
      usesWorkspace ||= isSdk(from) || modules.includes(from);
    };
    return {
      ...listener,
      ThisExpression: (node) => void selves.push(node),
      ImportDeclaration: look,
      ExportAllDeclaration(node) {
        look(node);
        listener.ExportAllDeclaration?.(node);
      },
      ImportExpression(node) {
        look(node);
        listener.ImportExpression?.(node);
      },
      Literal: ({ value }) => void (usesWorkspace ||= typeof value === "string" && (isSdk(value) || WORKSPACE_ADDRESS.test(value))),
      TemplateElement: ({ value }) => void (usesWorkspace ||= WORKSPACE_ADDRESS.test(value.raw)),
      'MemberExpression[property.name=/^(applyOp|openDoc)$/]': () => void (usesWorkspace = true),
      "Program:exit"(node) {
        listener["Program:exit"]?.(node);
        if (!usesWorkspace || found.length === 0) return;
        const functions = new Functions(source, selves);
        for (const { node, origin } of found) {
          const call = callOf(node);
          const repeats = origin.name === "setInterval" || (call !== null && functions.repeats(call));
          const isFrame = FRAMES.includes(origin.name ?? "");
          // Whoever gets an alias may start it again.
          if (!repeats && (isFrame || (allowOnce && call !== null))) continue;
          context.report({ node, messageId: repeats ? "repeats" : "timer", data: { name: origin.name ?? origin.from } });
        }
      },
    };
  },
};

function isTimer({ from, name }: Origin): boolean {
  if (from === "timers" || from === "timers/promises") return name === null ? false : [...TIMERS, "scheduler"].includes(name);
  return from === "global" && name !== null && [...TIMERS, ...FRAMES].includes(name);
}

/** The call of it, if it is called here. */
function callOf(node: Node): CallExpression | null {
  const { node: outer, parent } = usedAs(node);
  return parent?.type === "CallExpression" && parent.callee === outer ? parent : null;
}
