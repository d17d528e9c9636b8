// Rule no-new-doc: documents come from the SDK (`openDoc`, `useDoc`). One of an application's own is kept
// by nobody: it is not on the device, not in other tabs, and nothing says whether it is saved.
import type { Rule } from "eslint";
import type { Node } from "estree";
import { takings } from "./names.ts";
import type { Origin } from "./names.ts";
import { usedAs } from "./syntax.ts";

/** Packages of Yjs, whose `Doc` it is. */
const YJS = /^(yjs|@y\/y)(\/|$)/;

export const noNewDoc: Rule.RuleModule = {
  meta: {
    type: "problem",
    docs: { description: "No Y.Doc outside of the SDK." },
    messages: {
      doc: "Get documents by `openDoc` or `useDoc`: nobody keeps, shares or saves a Y.Doc that is made here. (As a type, and after `instanceof`, it is welcome.)",
      passed: "Yjs is passed on as a whole, and with it `Doc`, which this rule then sees no more. Export what is needed by name.",
    },
    schema: [],
  },
  create(context) {
    return takings(context.sourceCode, (node, origin) => {
      if (!YJS.test(origin.from)) return;
      if (origin.name === "Doc" && !isLookedAt(node)) context.report({ node, messageId: "doc" });
      if (isWhole(origin) && isExported(node)) context.report({ node, messageId: "passed" });
    });
  },
};

function isWhole({ name }: Origin): boolean {
  return name === null;
}

function isLookedAt(node: Node): boolean {
  const { node: outer, parent } = usedAs(node);
  return parent?.type === "BinaryExpression" && parent.operator === "instanceof" && parent.right === outer;
}

function isExported(node: Node): boolean {
  if (node.type === "ExportAllDeclaration" || node.type === "ExportSpecifier") return true;
  const { parent } = usedAs(node);
  return parent?.type === "ExportSpecifier" || parent?.type === "ExportDefaultDeclaration";
}
