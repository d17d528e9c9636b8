// Where a value comes from: "global setTimeout", "yjs Doc". Followed through constants, destructuring,
// members of `window` and its like, and imports by whatever name.
import type { Rule, Scope } from "eslint";
import type { MemberExpression, Node, ObjectPattern, Property } from "estree";
import { initOf, isFunction, parentOf, readsOf, unwrap, usedAs, variableOf } from "./syntax.ts";
import type { Fn, Source } from "./syntax.ts";
import { propertyName, textOf } from "./values.ts";

/** Names of the global object. */
const GLOBAL_OBJECTS = ["global", "globalThis", "parent", "self", "top", "window"];

/** `name` null: the module itself, or the global object. */
export interface Origin {
  readonly from: string;
  readonly name: string | null;
}

const GLOBAL: Origin = { from: "global", name: null };

/** Null: from nowhere that is known. */
export function originOf(source: Source, node: Node): Origin | null {
  const inner = unwrap(node);
  if (inner.type === "Identifier") {
    const variable = variableOf(source, inner);
    return variable === null || variable.defs.length === 0 ? globalNamed(inner.name) : originOfVariable(source, variable);
  }
  if (inner.type === "MemberExpression") return memberOf(originOf(source, inner.object), propertyName(source, inner));
  if (inner.type === "ImportExpression") return moduleOf(textOf(source, inner.source));
  if (inner.type !== "CallExpression") return null;
  const [argument] = inner.arguments;
  const isRequire = inner.callee.type === "Identifier" && inner.callee.name === "require";
  if (isRequire && argument !== undefined) return moduleOf(textOf(source, argument));
  // `fetch.bind(window)` is fetch.
  const isBind = inner.callee.type === "MemberExpression" && propertyName(source, inner.callee) === "bind";
  return isBind ? originOf(source, (inner.callee as Node & { type: "MemberExpression" }).object) : null;
}

function globalNamed(name: string): Origin {
  return GLOBAL_OBJECTS.includes(name) ? GLOBAL : { from: "global", name };
}

function moduleOf(from: string | null): Origin | null {
  return from === null ? null : { from: from.replace(/^node:/, ""), name: null };
}

function memberOf(origin: Origin | null, name: string | null): Origin | null {
  if (origin === null || name === null) return null;
  if (origin.from === "global" && origin.name === null) return globalNamed(name);
  // What CommonJS makes of a module's names.
  if (origin.name === null && name === "default") return origin;
  return origin.name === null ? { ...origin, name } : null;
}

/** Each variable is looked at once; it is nothing to itself. */
const ORIGINS = new WeakMap<Scope.Variable, Origin | null>();

function originOfVariable(source: Source, variable: Scope.Variable): Origin | null {
  const known = ORIGINS.get(variable);
  if (known !== undefined) return known;
  ORIGINS.set(variable, null);
  const origin = originGivenTo(source, variable);
  ORIGINS.set(variable, origin);
  return origin;
}

function originGivenTo(source: Source, variable: Scope.Variable): Origin | null {
  const [definition] = variable.defs;
  if (definition?.type === "ImportBinding") {
    const module = moduleOf(String((definition.parent as { source: { value: unknown } }).source.value));
    const specifier = definition.node as Node;
    return specifier.type === "ImportSpecifier" ? memberOf(module, nameOf(specifier.imported)) : module;
  }
  if (definition?.type === "Parameter") return originOfAwaited(source, definition);
  const init = initOf(variable);
  if (init !== null) return originOf(source, init);
  if (definition?.type !== "Variable" || definition.node.id.type !== "ObjectPattern" || !definition.node.init) return null;
  const property = propertiesOf(definition.node.id).find(({ value }) => boundName(value) === variable.name);
  return property === undefined ? null : memberOf(originOf(source, definition.node.init as Node), keyOf(source, property));
}

/** `import("yjs").then((Y) => …)`. */
function originOfAwaited(source: Source, { node, name }: Scope.Definition): Origin | null {
  const fn = node as Fn;
  const call = parentOf(fn);
  const isAwaited = fn.params[0] === name && call?.type === "CallExpression" && call.callee.type === "MemberExpression" && awaitedBy(source, call.callee) === fn;
  return isAwaited ? originOf(source, (call.callee as MemberExpression).object) : null;
}

function propertiesOf(pattern: ObjectPattern): Property[] {
  return pattern.properties.filter((property) => property.type === "Property") as unknown as Property[];
}

function boundName(node: Node): string | null {
  if (node.type === "AssignmentPattern") return boundName(node.left);
  return node.type === "Identifier" ? node.name : null;
}

function keyOf(source: Source, { key, computed }: Property): string | null {
  return !computed && key.type === "Identifier" ? key.name : textOf(source, key);
}

function nameOf(node: Node): string {
  return node.type === "Identifier" ? node.name : String((node as { value?: unknown }).value);
}

/**
 * Tells where a file takes something: reads it, destructures it, or passes it on as an export. An alias is
 * told once, where it is made; what is done with it then is not told again.
 */
export function takings(source: Source, tell: (node: Node, origin: Origin) => void): Rule.RuleListener {
  const take: Take = (node, origin) => origin !== null && tell(node, origin);
  const takeModule = (node: Node) => takeMembers(source, node, take);
  return {
    ImportExpression: takeModule,
    CallExpression(node) {
      if (node.callee.type === "Identifier" && node.callee.name === "require") takeModule(node);
    },
    "ExportNamedDeclaration[source]": (node: Node) => takeExports(node, take),
    ExportAllDeclaration: (node) => takeExports(node, take),
    "Program:exit"() {
      for (const { identifier, variable } of readsOf(source)) {
        if (variable === null || variable.defs[0]?.type === "ImportBinding") take(identifier, originOf(source, identifier));
        takeMembers(source, identifier, take);
      }
    },
  };
}

type Take = (node: Node, origin: Origin | null) => void;

/** `x.y`, `x?.["y"]`, `const { y } = x` and `x.then(({ y }) => …)`. */
function takeMembers(source: Source, node: Node, take: Take): void {
  const { node: outer, parent } = usedAs(node);
  if (parent === null) return;
  if (parent.type === "MemberExpression" && parent.object === outer) {
    const pattern = awaitedBy(source, parent)?.params[0];
    if (pattern?.type === "ObjectPattern") takeProperties(source, pattern, { of: node, take });
    take(parent, originOf(source, parent));
    return takeMembers(source, parent, take);
  }
  const pattern = parent.type === "VariableDeclarator" ? parent.id : parent.type === "AssignmentExpression" && parent.right === outer ? parent.left : null;
  if (pattern?.type === "ObjectPattern") takeProperties(source, pattern, { of: node, take });
}

function takeProperties(source: Source, pattern: ObjectPattern, { of, take }: { readonly of: Node; readonly take: Take }): void {
  for (const property of propertiesOf(pattern)) take(property, memberOf(originOf(source, of), keyOf(source, property)));
}

/** The function that gets what `x` resolves to, for the member of `x.then(…)`. */
function awaitedBy(source: Source, member: MemberExpression): Fn | null {
  const call = parentOf(member);
  if (call?.type !== "CallExpression" || call.callee !== member || propertyName(source, member) !== "then") return null;
  const [callback] = call.arguments;
  return callback !== undefined && isFunction(callback) ? callback : null;
}

/** `export { x } from`, `export * from`. Types are nobody's values. */
function takeExports(statement: Node, take: Take): void {
  if (isType(statement)) return;
  if (statement.type === "ExportAllDeclaration") take(statement, moduleOf(String(statement.source.value)));
  if (statement.type !== "ExportNamedDeclaration" || !statement.source) return;
  const module = moduleOf(String(statement.source.value));
  for (const specifier of statement.specifiers.filter((one) => !isType(one))) take(specifier, memberOf(module, nameOf(specifier.local)));
}

function isType(node: Node): boolean {
  return (node as { exportKind?: string }).exportKind === "type";
}
