// Whether a timer starts itself again: by its callback, in a loop, or in a function that one of these calls.
import type { Scope } from "eslint";
import type { CallExpression, Node, ThisExpression } from "estree";
import { ancestorsOf, functionOf, isFunction, parentOf, readsOf } from "./syntax.ts";
import type { Source } from "./syntax.ts";
import { propertyName } from "./values.ts";

/** What a function goes by: its variable, or the name of a member of `this`. */
type Key = Scope.Variable | string;

interface Mention {
  readonly key: Key;
  readonly node: Node;
  /** The functions that it stands in. */
  readonly within: readonly Key[];
}

const LOOPS = ["DoWhileStatement", "ForInStatement", "ForOfStatement", "ForStatement", "WhileStatement"];

/** The functions of a file, and which of them name which. */
export class Functions {
  readonly #source: Source;
  readonly #mentions: readonly Mention[];
  readonly #byKey: ReadonlyMap<Key, readonly Mention[]>;
  readonly #byFunction: ReadonlyMap<Key, readonly Mention[]>;

  /** `selves`: every `this` of the file. */
  constructor(source: Source, selves: readonly ThisExpression[]) {
    this.#source = source;
    const variables = readsOf(source).flatMap(({ identifier, variable }) => (variable === null ? [] : [this.#mention(variable, identifier)]));
    const members = selves.flatMap((self) => {
      const member = parentOf(self);
      const name = member?.type === "MemberExpression" && member.object === self ? propertyName(source, member) : null;
      return name === null ? [] : [this.#mention(`this.${name}`, member!)];
    });
    this.#mentions = [...variables, ...members];
    this.#byKey = grouped(this.#mentions, ({ key }) => [key]);
    this.#byFunction = grouped(this.#mentions, ({ within }) => within);
  }

  /** Whether the call of a timer may happen again and again. */
  repeats(call: CallExpression): boolean {
    const around = this.#around(call);
    const callback = call.arguments[0];
    if (isInLoop(call) || (callback !== undefined && this.#leadsTo(callback, new Set(around)))) return true;
    const callers = [...this.#callersOf(around)];
    return callers.some((caller) => this.#byKey.get(caller)?.some(({ within, node }) => within.includes(caller) || isInLoop(node)));
  }

  /** Whether what a callback names, and the functions that this leads to, is one of the functions. */
  #leadsTo(callback: Node, targets: ReadonlySet<Key>): boolean {
    const [start, end] = callback.range!;
    const open = this.#mentions.filter(({ node }) => node.range![0] >= start && node.range![1] <= end);
    const reached = new Set<Key>();
    for (let mention = open.pop(); mention !== undefined; mention = open.pop()) {
      if (targets.has(mention.key)) return true;
      if (reached.has(mention.key)) continue;
      reached.add(mention.key);
      open.push(...(this.#byFunction.get(mention.key) ?? []));
    }
    return false;
  }

  /** These, and every function that leads to one of them. */
  #callersOf(keys: readonly Key[]): ReadonlySet<Key> {
    const callers = new Set(keys);
    // A set tells of what is added to it on the way.
    for (const key of callers) for (const { within } of this.#byKey.get(key) ?? []) for (const caller of within) callers.add(caller);
    return callers;
  }

  #mention(key: Key, node: Node): Mention {
    return { key, node, within: this.#around(node) };
  }

  #around(node: Node): Key[] {
    return [...ancestorsOf(node)].flatMap((ancestor) => this.#keyOf(ancestor) ?? []);
  }

  #keyOf(fn: Node): Key | null {
    if (!isFunction(fn)) return null;
    const parent = parentOf(fn);
    if (parent?.type !== "MethodDefinition" && parent?.type !== "PropertyDefinition" && parent?.type !== "Property") return functionOf(this.#source, fn);
    const { key } = parent;
    return key.type === "PrivateIdentifier" ? `this.#${key.name}` : key.type === "Identifier" && !parent.computed ? `this.${key.name}` : null;
  }
}

function isInLoop(node: Node): boolean {
  return [...ancestorsOf(node)].some(({ type }) => LOOPS.includes(type));
}

function grouped(mentions: readonly Mention[], keysOf: (mention: Mention) => readonly Key[]): ReadonlyMap<Key, readonly Mention[]> {
  const groups = new Map<Key, Mention[]>();
  for (const mention of mentions) {
    for (const key of keysOf(mention)) {
      const group = groups.get(key);
      if (group === undefined) groups.set(key, [mention]);
      else group.push(mention);
    }
  }
  return groups;
}
