// Whether a timer starts itself again: by its callback, in a loop, or in a function that one of these calls.
import type { Scope } from "eslint";
import type { CallExpression, Node, ThisExpression } from "estree";
import { ancestorsOf, functionOf, isFunction, parentOf, readsOf, unwrap } from "./syntax.ts";
import type { Fn, Source } from "./syntax.ts";
import { propertyName } from "./values.ts";

/** What a function goes by: its variable, or the name of a member of `this`. */
type Key = Scope.Variable | string;

interface Mention {
  readonly key: Key;
  readonly node: Node;
}

const LOOPS = ["DoWhileStatement", "ForInStatement", "ForOfStatement", "ForStatement", "WhileStatement"];

/** The functions of a file, and which of them name which. */
export class Functions {
  readonly #source: Source;
  readonly #mentions: readonly Mention[];

  /** `selves`: every `this` of the file. */
  constructor(source: Source, selves: readonly ThisExpression[]) {
    this.#source = source;
    const variables = readsOf(source).flatMap(({ identifier, variable }) => (variable === null ? [] : [{ key: variable, node: identifier }]));
    const members = selves.flatMap((self) => {
      const member = parentOf(self);
      const name = member?.type === "MemberExpression" && member.object === self ? propertyName(source, member) : null;
      return name === null ? [] : [{ key: `this.${name}`, node: member! }];
    });
    this.#mentions = [...variables, ...members];
  }

  /** Whether the call of a timer may happen again and again. */
  repeats(call: CallExpression): boolean {
    const around = [...ancestorsOf(call)].filter(isFunction);
    const callback = call.arguments[0];
    if (isInLoop(call) || (callback !== undefined && this.#leadsTo([callback], around))) return true;
    const callers = this.#callersOf(around.flatMap((fn) => this.#keyOf(fn) ?? []));
    return this.#mentions.some(({ key, node }) => callers.has(key) && (isInLoop(node) || [...ancestorsOf(node)].some((fn) => this.#keyOf(fn) === key)));
  }

  /** Whether what is named in some nodes, and in the functions that these lead to, is one of the functions. */
  #leadsTo(nodes: readonly Node[], targets: readonly Fn[]): boolean {
    const keys = new Set(targets.flatMap((fn) => this.#keyOf(fn) ?? []));
    const reached = new Set<Key>();
    const within = (node: Node) => this.#mentions.filter((mention) => mention.node === unwrap(node) || [...ancestorsOf(mention.node)].includes(node));
    const open = nodes.flatMap(within);
    for (let mention = open.pop(); mention !== undefined; mention = open.pop()) {
      if (keys.has(mention.key)) return true;
      if (reached.has(mention.key)) continue;
      reached.add(mention.key);
      const { key } = mention;
      open.push(...this.#mentions.filter(({ node }) => [...ancestorsOf(node)].some((fn) => this.#keyOf(fn) === key)));
    }
    return false;
  }

  /** These, and every function that leads to one of them. */
  #callersOf(keys: readonly Key[]): ReadonlySet<Key> {
    const callers = new Set(keys);
    const open = [...keys];
    for (let key = open.pop(); key !== undefined; key = open.pop()) {
      for (const mention of this.#mentions) {
        if (mention.key !== key) continue;
        const found = [...ancestorsOf(mention.node)].flatMap((fn) => this.#keyOf(fn) ?? []).filter((caller) => !callers.has(caller));
        for (const caller of found) callers.add(caller);
        open.push(...found);
      }
    }
    return callers;
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
