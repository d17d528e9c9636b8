// Reading syntax and scopes: what several rules ask of a file. Types of TypeScript are seen through.
import type { Rule, Scope } from "eslint";
import type { Expression, Identifier, Node, SimpleCallExpression } from "estree";

export type Source = Rule.RuleContext["sourceCode"];
export type Fn = Node & { type: "ArrowFunctionExpression" | "FunctionDeclaration" | "FunctionExpression" };

/** Wrappers that say something about types and nothing about values. */
const TYPE_WRAPPERS = ["TSAsExpression", "TSInstantiationExpression", "TSNonNullExpression", "TSSatisfiesExpression", "TSTypeAssertion"];

/** Without parentheses, `?.`, `await`, `(0, x)` and assertions of types. */
export function unwrap(node: Node): Node {
  if (node.type === "ChainExpression") return unwrap(node.expression);
  if (node.type === "AwaitExpression") return unwrap(node.argument);
  if (node.type === "SequenceExpression") return unwrap(node.expressions.at(-1)!);
  return TYPE_WRAPPERS.includes(node.type) ? unwrap((node as unknown as { expression: Expression }).expression) : node;
}

/** The first ancestor that is not a wrapper of the node, and the node as it stands there. */
export function usedAs(node: Node): { readonly node: Node; readonly parent: Node | null } {
  const parent = parentOf(node);
  const isWrapped = parent !== null && unwrap(parent) !== parent && (parent.type !== "SequenceExpression" || parent.expressions.at(-1) === node);
  return isWrapped ? usedAs(parent) : { node, parent };
}

export function parentOf(node: Node): Node | null {
  return (node as Rule.Node).parent ?? null;
}

/** From the parent outwards. */
export function* ancestorsOf(node: Node): Generator<Node> {
  for (let parent = parentOf(node); parent !== null; parent = parentOf(parent)) yield parent;
}

export function isFunction(node: Node): node is Fn {
  return node.type === "ArrowFunctionExpression" || node.type === "FunctionDeclaration" || node.type === "FunctionExpression";
}

export function variableOf(source: Source, identifier: Identifier): Scope.Variable | null {
  for (let scope: Scope.Scope | null = source.getScope(identifier); scope !== null; scope = scope.upper) {
    const variable = scope.set.get(identifier.name);
    if (variable !== undefined) return variable;
  }
  return null;
}

/** What a variable is, if it is given a value once and by name. */
export function initOf(variable: Scope.Variable): Expression | null {
  const [definition] = variable.defs;
  if (definition?.type !== "Variable" || definition.node.id.type !== "Identifier") return null;
  const writes = variable.references.filter((reference) => reference.isWrite());
  return writes.length === 1 && writes[0]!.init ? ((definition.node.init as Expression | null | undefined) ?? null) : null;
}

/** The variable that a function goes by. */
export function functionOf(source: Source, fn: Node): Scope.Variable | null {
  const parent = parentOf(fn);
  if (parent?.type === "VariableDeclarator" && parent.id.type === "Identifier") return variableOf(source, parent.id);
  return fn.type === "FunctionDeclaration" && fn.id !== null ? variableOf(source, fn.id) : null;
}

/** The calls of a variable. */
export function callsOf(variable: Scope.Variable): SimpleCallExpression[] {
  return variable.references.flatMap(({ identifier }) => {
    const { node, parent } = usedAs(identifier as Node);
    return parent?.type === "CallExpression" && parent.callee === node ? [parent] : [];
  });
}

/** Every identifier that is read as a value, with its variable; null: it is not declared in this file. */
export function readsOf(source: Source): readonly { readonly identifier: Identifier; readonly variable: Scope.Variable | null }[] {
  const references = source.scopeManager.scopes.flatMap((scope) => scope.references);
  return references.flatMap((reference) => {
    // Only TypeScript's parser tells types from values.
    const { isValueReference = true } = reference as { isValueReference?: boolean };
    const identifier = reference.identifier as Node;
    if (identifier.type !== "Identifier" || !reference.isRead() || !isValueReference || isTypeOnly(identifier)) return [];
    return [{ identifier, variable: reference.resolved !== null && reference.resolved.defs.length > 0 ? reference.resolved : null }];
  });
}

/** In `typeof x`, of values and of types. */
function isTypeOnly(identifier: Identifier): boolean {
  const { parent } = usedAs(identifier);
  if (parent?.type === "UnaryExpression") return parent.operator === "typeof";
  for (const ancestor of ancestorsOf(identifier)) {
    if ((ancestor.type as string) === "TSTypeQuery") return true;
    if ((ancestor.type as string) !== "TSQualifiedName") return false;
  }
  return false;
}
