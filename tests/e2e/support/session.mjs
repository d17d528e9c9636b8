// A concurrent editing session of three authors: the recorded one where it is at hand, else one of
// the same shape from a seed; and what each author's Yjs client sends for it.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as Y from "yjs";
import { ROOT } from "../../../tools/wrangler-config.mjs";

/** Not part of the repository; see the licence note in that folder. */
const RECORDED = join(ROOT, "..", "shared", "cases", "trace.json");

export const sha256 = (text) => createHash("sha256").update(text).digest("hex");

/**
 * The session as rows `[agent, seconds, parents, ...patches]`: `parents` is 0 for "the row before", else
 * row numbers; a patch is `[position, deleted, inserted]`. `endTextSha256` is undefined where only the
 * replay can tell.
 */
export function loadSession() {
  try {
    const { txns, endTextSha256, agents } = JSON.parse(readFileSync(RECORDED, "utf8"));
    return { source: "recorded", agents, rows: txns, endTextSha256 };
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
    return { source: "seeded", agents: 3, rows: generate({ seed: 20_231_122, agents: 3, count: 6_000 }) };
  }
}

/**
 * Makes each row's Yjs update. `updates[row]` is what the row's author sends, `needs[row]` the clock of each
 * author that its document has before, and `text` what everybody ends with.
 */
export function replay({ agents, rows }) {
  const docs = Array.from({ length: agents }, (_, agent) => {
    const doc = new Y.Doc();
    doc.clientID = agent + 1;
    return doc;
  });
  const whole = new Y.Doc();
  const updates = [];
  const needs = [];
  // Of each row, and of each document: how many rows of each author it contains.
  const reach = [];
  const known = docs.map(() => new Array(agents).fill(0));
  const rowsOf = docs.map(() => []);
  rows.forEach(([agent, , parents, ...patches], row) => {
    const doc = docs[agent];
    const target = new Array(agents).fill(0);
    for (const parent of parents === 0 ? [row - 1] : parents) reach[parent].forEach((count, of) => (target[of] = Math.max(target[of], count)));
    const lacking = rowsOf.flatMap((list, of) => list.slice(known[agent][of], target[of])).sort((a, b) => a - b);
    for (const ancestor of lacking) Y.applyUpdate(doc, updates[ancestor]);
    known[agent] = known[agent].map((count, of) => Math.max(count, target[of]));
    needs.push(docs.map((_, of) => Y.getState(doc.store, of + 1)));
    doc.once("update", (update) => updates.push(update));
    doc.transact(() => {
      const text = doc.getText("t");
      for (const [position, deleted, inserted] of patches) {
        if (deleted > 0) text.delete(position, deleted);
        if (inserted !== "") text.insert(position, inserted);
      }
    });
    if (updates.length !== row + 1) throw new Error(`row ${row} changes nothing`);
    rowsOf[agent].push(row);
    known[agent][agent] = rowsOf[agent].length;
    reach.push([...known[agent]]);
    Y.applyUpdate(whole, updates[row]);
  });
  return { updates, needs, rowsOf, text: whole.getText("t").toString() };
}

/** Three authors who type, delete, and now and then hear of each other. */
function generate({ seed, agents, count }) {
  let state = seed;
  // Mulberry32: small, and the same everywhere.
  const random = (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
  // A document of its own for each author gives the lengths that positions need.
  const docs = Array.from({ length: agents }, (_, agent) => Object.assign(new Y.Doc(), { clientID: agent + 1 }));
  const heads = docs.map(() => []);
  const rows = [];
  let agent = 0;
  while (rows.length < count) {
    if (random(12) === 0) agent = random(agents);
    if (random(40) === 0) {
      for (const other of docs) Y.applyUpdate(docs[agent], Y.encodeStateAsUpdate(other, Y.encodeStateVector(docs[agent])));
      heads[agent] = [...new Set(heads.flat())].sort((a, b) => a - b);
    }
    const text = docs[agent].getText("t");
    const position = random(text.length + 1);
    const deleted = text.length > 200 && random(5) === 0 ? Math.min(text.length - position, 1 + random(9)) : 0;
    const inserted = deleted > 0 && random(2) === 0 ? "" : String.fromCharCode(97 + random(26)).repeat(1 + random(3));
    if (deleted === 0 && inserted === "") continue;
    const before = heads[agent];
    rows.push([agent, rows.length, before, [position, deleted, inserted]]);
    docs[agent].transact(() => {
      if (deleted > 0) text.delete(position, deleted);
      if (inserted !== "") text.insert(position, inserted);
    });
    heads[agent] = [rows.length - 1];
  }
  return rows;
}
