// Edits by quoted text and by pointer, against stock Yjs: it applies each update without a throw, shows
// what was asked for, and keeps what people typed meanwhile.
//
//   node --test tests/yjs/edit.test.mjs
//
// YRELAY_YJS_EDITS (default 300) random documents; YRELAY_YJS_SEED picks others.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import * as Y from "yjs";

const root = new URL("../..", import.meta.url).pathname;
const rounds = Number(process.env.YRELAY_YJS_EDITS ?? 300);
const firstSeed = Number(process.env.YRELAY_YJS_SEED ?? 1);
/** How long the core may take for all of them, in ms; the first run compiles it. */
const LIMIT = 600_000;
/** The client id of the server's edits. */
const SERVER = 4_000_000_000;

const hex = (bytes) => (bytes.length === 0 ? "-" : Buffer.from(bytes).toString("hex"));
const unhex = (text) => Uint8Array.from(Buffer.from(text, "hex"));

/** Asks the core to edit many documents: each `{ doc, edits, root }` gets `{ update, vector }` or `{ code }`. */
function editAll(wishes) {
  const line = ({ doc, edits, root: name = "t" }, n) => {
    const body = Buffer.from(JSON.stringify({ root: name, edits })).toString("hex");
    return `edit ${hex(Y.encodeStateAsUpdate(doc))} ${body} ${SERVER + n}`;
  };
  const input = `${wishes.map(line).join("\n")}\n`;
  const options = { cwd: root, input, maxBuffer: 1 << 30, timeout: LIMIT };
  const answers = execFileSync("cargo", ["run", "--quiet", "--example", "document"], options).toString().split("\n").slice(0, -1);
  assert.equal(answers.length, wishes.length);
  return answers.map((answer) => {
    const [update, vector] = answer.split(" ");
    return update === "error" ? { code: vector } : { update: unhex(update), vector: unhex(vector) };
  });
}

/** A document that somebody has open, with these edits by the server applied. */
function edited(wish) {
  const [answer] = editAll([wish]);
  assert.equal(answer.code, undefined);
  apply(wish.doc, answer);
  return wish.doc;
}

function apply(doc, { update, vector }) {
  Y.applyUpdate(doc, update, "server");
  assert.equal(doc.store.pendingStructs, null);
  assert.equal(doc.store.pendingDs, null);
  assert.deepEqual(Y.decodeStateVector(vector), Y.decodeStateVector(Y.encodeStateVector(doc)));
}

function text(content, clientID = 1) {
  const doc = new Y.Doc();
  doc.clientID = clientID;
  doc.getText("t").insert(0, content);
  return doc;
}

/** mulberry32: a run is repeated by its seed. */
const generator = (seed) => () => {
  seed = (seed + 0x6d2b79f5) | 0;
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
};

const words = ["a", "b ", "hello ", "é", "👍", "e\u0301", "👷‍♀️", "\n"];
/** Yjs writes into the attributes that it is given. */
const mark = (random) => ({ ...pick(random, marks) });
const marks = [{ bold: true }, { bold: null }, { i: {} }, { a: { href: "x" } }];
const pick = (random, list) => list[Math.floor(random() * list.length)];
const borders = (string) => [...string].reduce((list, c) => [...list, list.at(-1) + c.length], [0]);

/** A text that people wrote, formatted, and put embeds into. */
function written(random) {
  const doc = new Y.Doc({ gc: random() < 0.5 });
  doc.clientID = 1 + Math.floor(random() * 3);
  const t = doc.getText("t");
  for (let step = 0; step < 12; step++) {
    const at = pick(random, borders(t.toString()).filter((n) => n <= t.length));
    const chance = random();
    if (chance < 0.15 && t.length > at) t.delete(at, 1 + (/[\ud800-\udbff]/.test(t.toString()[at]) ? 1 : 0));
    else if (chance < 0.35) t.format(at, t.length - at, mark(random));
    else if (chance < 0.4) t.insertEmbed(t.length, { image: "x" });
    else t.insert(at, pick(random, words), chance < 0.6 ? mark(random) : undefined);
  }
  return doc;
}

/** An edit with what Yjs itself does for it on a copy, where embeds do not come in between. */
function wish(random, doc) {
  const own = new Y.Doc();
  Y.applyUpdate(own, Y.encodeStateAsUpdate(doc));
  own.clientID = SERVER;
  const t = own.getText("t");
  const shown = t.toString();
  const plain = t.toDelta().every((part) => typeof part.insert === "string");
  const [from, to] = [pick(random, borders(shown)), pick(random, borders(shown))].sort((a, b) => a - b);
  const quote = shown.slice(from, to);
  const occurrence = quote === "" ? 0 : places(shown, quote).indexOf(from) + 1;
  const word = pick(random, words);
  const attributes = mark(random);
  if (occurrence > 0 && plain && random() < 0.4) {
    t.format(from, quote.length, attributes);
    return { edit: { op: "format", quote, occurrence, attributes }, own };
  }
  if (occurrence > 0 && random() < 0.5) return { edit: { op: "replace", quote, occurrence, with: word }, shown: shown.slice(0, from) + word + shown.slice(to) };
  if (plain && random() < 0.5) {
    const inserted = random() < 0.5 ? attributes : undefined;
    // Without attributes it is at a border to Yjs's own caches what text looks like; here, like before it.
    if (!inserted) return { edit: { op: "insert", at: from, text: word }, shown: shown.slice(0, from) + word + shown.slice(from) };
    t.insert(from, word, { ...inserted });
    return { edit: { op: "insert", at: from, text: word, attributes: inserted }, own };
  }
  if (random() < 0.5) return { edit: { op: "append", text: word }, shown: shown + word };
  const next = shown.slice(0, from) + word + shown.slice(to).split("").reverse().join("").replace(/[\ud800-\udfff]/g, "");
  return { edit: { op: "set", text: next }, shown: next };
}

/** Where a quote is, as the server counts: none over another. */
function places(shown, quote) {
  const found = [];
  for (let at = shown.indexOf(quote); at >= 0; at = shown.indexOf(quote, at + quote.length)) found.push(at);
  return found;
}

/** A delta without attributes that are null, as Yjs shows one that was never set. */
const normal = (delta) => delta.map(({ insert, attributes }) => [insert, Object.entries(attributes ?? {}).filter(([, value]) => value !== null).sort()]);
const joined = (delta) =>
  normal(delta).reduce((parts, [insert, marks]) => {
    const last = parts.at(-1);
    const same = last && typeof last[0] === "string" && typeof insert === "string" && JSON.stringify(last[1]) === JSON.stringify(marks);
    if (same) last[0] += insert;
    else parts.push([insert, marks]);
    return parts;
  }, []);

test("edits of texts with formats and embeds do what Yjs itself does", { timeout: LIMIT }, () => {
  const cases = Array.from({ length: rounds }, (_, n) => {
    const random = generator(firstSeed + n);
    const doc = written(random);
    return { doc, ...wish(random, doc), embeds: doc.getText("t").toDelta().filter((part) => typeof part.insert !== "string").length };
  });
  const answers = editAll(cases.map(({ doc, edit }) => ({ doc, edits: [edit] })));
  for (const [n, { doc, edit, own, shown, embeds }] of cases.entries()) {
    const note = `seed ${firstSeed + n}: ${JSON.stringify(edit)}`;
    assert.equal(answers[n].code, undefined, note);
    apply(doc, answers[n]);
    const t = doc.getText("t");
    if (own) assert.deepEqual(joined(t.toDelta()), joined(own.getText("t").toDelta()), note);
    else assert.equal(t.toString(), shown, note);
    assert.equal(t.toDelta().filter((part) => typeof part.insert !== "string").length, embeds, `${note}: embeds stay`);
  }
});

test("what people type at the same time is kept, and everybody ends with the same", { timeout: LIMIT }, () => {
  const cases = Array.from({ length: rounds }, (_, n) => {
    const random = generator(firstSeed + 7919 * (n + 1));
    const doc = written(random);
    return { doc, ...wish(random, doc), random };
  });
  const answers = editAll(cases.map(({ doc, edit }) => ({ doc, edits: [edit] })));
  for (const [n, { doc, edit, random }] of cases.entries()) {
    const note = `case ${n}: ${JSON.stringify(edit)}`;
    const person = new Y.Doc();
    person.clientID = 77;
    Y.applyUpdate(person, Y.encodeStateAsUpdate(doc));
    const t = person.getText("t");
    t.insert(Math.floor(random() * (t.length + 1)), "HUMAN");
    const typed = Y.encodeStateAsUpdate(person);
    Y.applyUpdate(person, answers[n].update);
    Y.applyUpdate(doc, answers[n].update);
    Y.applyUpdate(doc, typed);
    // Yjs removes marks around nothing where it meets them, and tells the others: until nobody has more.
    for (let round = 0; round < 3; round++) {
      Y.applyUpdate(doc, Y.encodeStateAsUpdate(person));
      Y.applyUpdate(person, Y.encodeStateAsUpdate(doc));
    }
    assert.ok(t.toString().includes("HUMAN"), note);
    assert.deepEqual(doc.getText("t").toDelta(), t.toDelta(), note);
  }
});

test("a caret in words that stay does not move, and undo takes back only one's own", () => {
  const doc = text("The quick brown fox jumps.");
  const t = doc.getText("t");
  const undo = new Y.UndoManager(t, { captureTimeout: 0 });
  t.insert(t.length, " Mine.");
  const caret = Y.createRelativePositionFromTypeIndex(t, "The quick bro".length);
  edited({ doc, edits: [{ op: "set", text: "A quick brown cat jumps. Mine." }] });
  assert.equal(t.toString(), "A quick brown cat jumps. Mine.");
  assert.equal(Y.createAbsolutePositionFromRelativePosition(caret, doc).index, "A quick bro".length);
  undo.undo();
  assert.equal(t.toString(), "A quick brown cat jumps.");
  assert.equal(undo.undoStack.length, 0);
});

test("XML as ProseMirror keeps it: quotes inside elements, with marks", () => {
  const doc = new Y.Doc();
  const fragment = doc.getXmlFragment("t");
  const paragraph = (content) => {
    const element = new Y.XmlElement("paragraph");
    element.insert(0, [new Y.XmlText(content)]);
    return element;
  };
  const list = new Y.XmlElement("bullet_list");
  list.insert(0, [paragraph("first item"), paragraph("second item")]);
  fragment.insert(0, [paragraph("Hello world"), list, paragraph("gone")]);
  fragment.get(0).get(0).format(6, 5, { strong: {} });
  fragment.delete(2, 1);
  const edits = [
    { op: "replace", quote: "lo wor", with: "p, wor" },
    { op: "delete", quote: "item", occurrence: 2 },
    { op: "insert", after: "first", text: " and only", attributes: { em: {} } },
    { op: "format", quote: "second", attributes: { strong: {} } },
  ];
  edited({ doc, edits });
  assert.equal(fragment.toString(), "<paragraph>Help, <strong>world</strong></paragraph><bullet_list><paragraph>first<em> and only</em> item</paragraph><paragraph><strong>second</strong> </paragraph></bullet_list>");
  const refused = editAll([
    { doc, edits: [{ op: "append", text: "x" }] },
    { doc, edits: [{ op: "set", text: "x" }] },
    { doc, edits: [{ op: "insert", at: 0, text: "x" }] },
    { doc, edits: [{ op: "replace", quote: "gone", with: "x" }] },
    { doc, edits: [{ op: "replace", quote: "worldfirst", with: "x" }] },
    { doc, edits: [{ op: "put", pointer: "/0", value: 1 }] },
  ]);
  assert.deepEqual(refused.map(({ code }) => code), ["invalid_edit", "invalid_edit", "invalid_edit", "quote_not_found", "quote_not_found", "invalid_edit"]);
});

test("maps and arrays get the values that JavaScript has", () => {
  const value = { a: [1, -64, 63, 64, 2 ** 31, 2 ** 53, 0.5, 0.1, 1e300, -7], n: null, s: "é👍", o: { x: true, y: false } };
  const map = edited({ doc: new Y.Doc(), root: "m", edits: [{ op: "put", pointer: "/k", value }, { op: "put", pointer: "/l", value: 1 }, { op: "remove", pointer: "/l" }] });
  assert.deepEqual(map.getMap("m").toJSON(), { k: value });
  const doc = new Y.Doc();
  doc.getArray("a").insert(0, [1, 2, 3, 4]);
  doc.getArray("a").push([new Y.Map([["list", Y.Array.from(["x", "z"])]])]);
  edited({
    doc,
    root: "a",
    edits: [
      { op: "insert", pointer: "/4/list/1", value: "y" },
      { op: "remove", pointer: "/1" },
      { op: "put", pointer: "/0", value: "one" },
      { op: "insert", pointer: "/-", value: "end" },
    ],
  });
  assert.deepEqual(doc.getArray("a").toJSON(), ["one", 3, 4, { list: ["x", "y", "z"] }, "end"]);
});

test("two people set one key at the same time and the server a third value: all end equal", () => {
  const one = new Y.Doc();
  one.getMap("m").set("k", "old");
  const two = new Y.Doc();
  Y.applyUpdate(two, Y.encodeStateAsUpdate(one));
  const [answer] = editAll([{ doc: one, root: "m", edits: [{ op: "put", pointer: "/k", value: "server" }] }]);
  two.getMap("m").set("k", "person");
  apply(one, answer);
  Y.applyUpdate(two, answer.update);
  Y.applyUpdate(one, Y.encodeStateAsUpdate(two));
  assert.deepEqual(one.getMap("m").toJSON(), two.getMap("m").toJSON());
});
