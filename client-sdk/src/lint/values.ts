// What a string can be at run time, as far as one file tells: literals, templates, joined parts, constants,
// and parameters by the calls of their function. What is unknown is a gap in the text.
import type { Scope } from "eslint";
import type { Expression, Identifier, MemberExpression, Node } from "estree";
import { callsOf, functionOf, initOf, unwrap, variableOf } from "./syntax.ts";
import type { Source } from "./syntax.ts";

/** Stands for a part that is not known; no source text has it. */
export const GAP = "\u0000";

/** A string with more possible values than this is as good as unknown. */
const MAX_VALUES = 32;

export interface Text {
  readonly text: string;
  /** Its parts, as they stand in the source. */
  readonly parts: readonly string[];
}

const UNKNOWN: readonly Text[] = [{ text: GAP, parts: [] }];

/** Everything that an expression can be, with gaps. */
export function textsOf(source: Source, node: Node): readonly Text[] {
  const of = (part: Node) => textsOf(source, part);
  const inner = unwrap(node);
  switch (inner.type) {
    case "Literal":
      return [{ text: String(inner.value), parts: [String(inner.value)] }];
    case "TemplateLiteral":
      return joined(inner.quasis.flatMap((quasi, n) => [[fixed(quasi.value.cooked ?? quasi.value.raw)], ...(inner.expressions[n] === undefined ? [] : [of(inner.expressions[n])])]));
    case "TaggedTemplateExpression":
      return of(inner.quasi);
    case "BinaryExpression":
      return inner.operator === "+" ? joined([of(inner.left), of(inner.right)]) : UNKNOWN;
    case "ConditionalExpression":
      return limited([...of(inner.consequent), ...of(inner.alternate)]);
    case "LogicalExpression":
      return limited([...of(inner.left), ...of(inner.right)]);
    case "AssignmentExpression":
      return inner.operator === "=" ? of(inner.right) : UNKNOWN;
    case "CallExpression":
      return textsOfCall(source, inner, of);
    case "Identifier":
      return textsOfVariable(source, variableOf(source, inner), of);
    default:
      return UNKNOWN;
  }
}

/** The one thing that a string is, or null. */
export function textOf(source: Source, node: Node): string | null {
  const [only, ...others] = textsOf(source, node);
  return only === undefined || others.length > 0 || only.text.includes(GAP) ? null : only.text;
}

/** The name of a member, also of `a["b"]` and of `this.#b`. */
export function propertyName(source: Source, { computed, property }: MemberExpression): string | null {
  if (property.type === "PrivateIdentifier") return `#${property.name}`;
  if (!computed) return (property as Identifier).name;
  return textOf(source, property);
}

/** `["a", "b"].join("/")` and `"a".concat("b")`. */
function textsOfCall(source: Source, { callee, arguments: given }: Node & { type: "CallExpression" }, of: (part: Node) => readonly Text[]): readonly Text[] {
  if (callee.type !== "MemberExpression") return UNKNOWN;
  const name = propertyName(source, callee);
  const receiver = unwrap(callee.object);
  if (name === "concat" && receiver.type !== "ArrayExpression") return joined([receiver, ...given].map(of));
  if (name !== "join" || receiver.type !== "ArrayExpression") return UNKNOWN;
  const separator = given[0] === undefined ? [fixed(",")] : of(given[0]);
  return joined(receiver.elements.flatMap((element, n) => [...(n === 0 ? [] : [separator]), element === null ? UNKNOWN : of(element)]));
}

/** Each variable is looked at once, and one that is made of itself has a gap there. */
const TEXTS = new WeakMap<Scope.Variable, readonly Text[]>();

function textsOfVariable(source: Source, variable: Scope.Variable | null, of: (part: Node) => readonly Text[]): readonly Text[] {
  if (variable === null) return UNKNOWN;
  const known = TEXTS.get(variable);
  if (known !== undefined) return known;
  TEXTS.set(variable, UNKNOWN);
  const texts = textsGivenTo(source, variable, of);
  TEXTS.set(variable, texts);
  return texts;
}

/** What a variable was given, or a parameter by the calls in this file. */
function textsGivenTo(source: Source, variable: Scope.Variable, of: (part: Node) => readonly Text[]): readonly Text[] {
  const [definition] = variable.defs;
  if (definition === undefined) return UNKNOWN;
  if (definition.type === "Parameter") {
    const index = definition.node.params.findIndex((parameter: Node) => parameter === definition.name || (parameter.type === "AssignmentPattern" && parameter.left === definition.name));
    if (index < 0) return UNKNOWN;
    const owner = functionOf(source, definition.node);
    const given = (owner === null ? [] : callsOf(owner)).map((call) => call.arguments[index]).filter((argument) => argument !== undefined);
    return given.length === 0 ? UNKNOWN : limited(given.flatMap((argument) => of(argument)));
  }
  const values: Expression[] = variable.references.flatMap(({ writeExpr }) => (writeExpr ? [writeExpr as Expression] : []));
  return values.length === 0 || (initOf(variable) === null && variable.references.every(({ init }) => init)) ? UNKNOWN : limited(values.flatMap((value) => of(value)));
}

function fixed(text: string): Text {
  return { text, parts: [text] };
}

function joined(parts: readonly (readonly Text[])[]): readonly Text[] {
  return parts.reduce<readonly Text[]>((before, after) => limited(before.flatMap((a) => after.map((b) => ({ text: a.text + b.text, parts: [...a.parts, ...b.parts] })))), [{ text: "", parts: [] }]);
}

function limited(texts: readonly Text[]): readonly Text[] {
  return texts.length > MAX_VALUES ? UNKNOWN : texts;
}
