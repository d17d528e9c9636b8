// The Yjs side of `cargo xtask verify`. A line in: `{"updates":[…],"states":{name:…},"vector":…}`, updates in
// base64. A line out: `{"fault":…}`, null when stock Yjs takes the updates, and each state, which somebody
// else made of them, gives the same document. `vector` is that of the document by another reader.
import { createInterface } from "node:readline";
import * as Y from "yjs";

const bytes = (text) => Uint8Array.from(Buffer.from(text, "base64"));

function load(updates) {
  const doc = new Y.Doc();
  for (const update of updates) Y.applyUpdate(doc, update);
  return doc;
}

/** Values in a form where equal means equal: keys in order, and every type told apart. */
function canonical(value) {
  if (value instanceof Y.Doc) return ["document", value.guid];
  if (value instanceof Y.AbstractType) return typeContent(value);
  if (value instanceof Uint8Array) return ["bytes", Buffer.from(value).toString("base64")];
  // yrs writes a bigint that fits as a number.
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : ["bigint", value.toString()];
  if (value === undefined) return ["undefined"];
  if (typeof value === "number" && !Number.isFinite(value)) return ["number", String(value)];
  if (Array.isArray(value)) return value.map(canonical);
  if (value === null || typeof value !== "object") return value;
  return { object: Object.keys(value).sort().map((key) => [key, canonical(value[key])]) };
}

/**
 * A shared type, whatever it is: its kind, its live entries by key, and its live items in order. A root has
 * no kind until somebody asks for one, so nothing is asked for.
 */
function typeContent(type) {
  const entries = [...type._map].filter(([, item]) => !item.deleted).sort(([a], [b]) => (a < b ? -1 : 1));
  const list = new List();
  for (let item = type._start; item !== null; item = item.right) {
    if (!item.deleted) list.add(item.content);
  }
  const entry = ([key, item]) => [key, item.content.getContent().map(canonical)];
  return { kind: type.constructor.name, name: type.nodeName ?? type.hookName, entries: entries.map(entry), items: list.items };
}

/** Items as a reader sees them: how text is cut, and where a format that changes nothing stands, is no part. */
class List {
  items = [];
  #format = {};

  add(content) {
    if (content instanceof Y.ContentFormat) {
      const { [content.key]: _before, ...others } = this.#format;
      this.#format = content.value === null ? others : { ...others, [content.key]: content.value };
      return;
    }
    const format = JSON.stringify(canonical(this.#format));
    if (!(content instanceof Y.ContentString)) {
      this.items.push(...content.getContent().map((value) => ({ value: canonical(value), format })));
    } else if (typeof this.items.at(-1)?.text === "string" && this.items.at(-1).format === format) {
      this.items.at(-1).text += content.str;
    } else {
      this.items.push({ text: content.str, format });
    }
  }
}

/** All roots that have content: one without is not there for a reader that comes later. */
function show(doc) {
  const roots = [...doc.share].map(([name, type]) => [name, typeContent(type)]);
  const filled = roots.filter(([, { entries, items }]) => entries.length + items.length > 0);
  return JSON.stringify(filled.sort(([a], [b]) => (a < b ? -1 : 1)));
}

const showVector = (vector) => JSON.stringify([...vector].filter(([, clock]) => clock > 0).sort(([a], [b]) => a - b));
const vectorOf = (doc) => showVector(Y.decodeStateVector(Y.encodeStateVector(doc)));

function faultOf({ updates, states, vector }) {
  const doc = load(updates.map(bytes));
  const [shown, clocks] = [show(doc), vectorOf(doc)];
  if (vector && showVector(Y.decodeStateVector(bytes(vector))) !== clocks) return "its state vector is another one in Yjs";
  for (const [name, state] of Object.entries(states)) {
    const other = load([bytes(state)]);
    if (vectorOf(other) !== clocks) return `its state by ${name} has another state vector in Yjs`;
    if (show(other) !== shown) return `its content by ${name} is another one than by Yjs`;
  }
  return null;
}

for await (const line of createInterface({ input: process.stdin })) {
  let fault;
  try {
    fault = faultOf(JSON.parse(line));
  } catch (error) {
    fault = `Yjs does not take it: ${error.message}`;
  }
  process.stdout.write(`${JSON.stringify({ fault })}\n`);
}
