// The client and the description of the API say the same. What differs fails here, so that a change of
// the API is noticed where it has to be followed.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as operations from "./operations.ts";
import type { HeaderName, Operation as Row, QueryName } from "./operations.ts";
import { PROBLEM_CODES } from "./problem.ts";
import { CHANGE_KINDS } from "./types.ts";
import type { Change, ChangeList, DocumentEdit, EditAnswer, Node, NodeList, Op, OpsAnswer, PresenceEntry, PresenceList, SignalList, TokenAnswer, Workspace, WriteAnswer } from "./types.ts";

type OperationId = Exclude<keyof typeof operations, "addressOf" | "checkWorkspaceId" | "encodePath">;

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly oneOf?: readonly Schema[];
  readonly properties?: Record<string, Schema>;
  readonly required?: readonly string[];
  readonly items?: Schema;
}

interface Parameter {
  readonly $ref?: string;
  readonly name: string;
  readonly in: string;
}

interface Operation {
  readonly operationId?: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Record<string, unknown> };
}

const DOCUMENT = JSON.parse(readFileSync(new URL("../../../src/api/openapi.json", import.meta.url), "utf8")) as {
  readonly paths: Record<string, Record<string, Operation>>;
  readonly components: { readonly schemas: Record<string, Schema>; readonly parameters: Record<string, Parameter> };
};

const names = (list: Iterable<string>) => [...list].sort();
const parameterOf = (parameter: Parameter) => (parameter.$ref ? DOCUMENT.components.parameters[parameter.$ref.split("/").at(-1)!]! : parameter);
const schemaOf = (schema: Schema): Schema => (schema.$ref ? schemaOf(DOCUMENT.components.schemas[schema.$ref.split("/").at(-1)!]!) : schema);

type Names<Name extends string> = { readonly [Key in Name]: true };
const KEY = { "Idempotency-Key": true } as const;
const WRITE = { "If-Match": true, "If-None-Match": true, ...KEY } as const;

// What the types name, which the compiler keeps equal to them.
const QUERIES: { readonly [Id in OperationId]: Names<QueryName<Id>> } = {
  applyOps: {},
  deleteNode: {},
  deletePresence: { session: true },
  editDocument: { epoch: true },
  listChanges: { since: true, limit: true },
  listNodes: { prefix: true, after: true, limit: true },
  listPresence: { session: true },
  listSignals: { peer: true, topic: true, after: true },
  mintToken: {},
  patchNode: {},
  postUpdate: { epoch: true },
  putNode: {},
  putPresence: {},
  readDocument: { root: true, sv: true },
  readNode: {},
  readWorkspace: {},
  sendSignal: {},
  streamChanges: { since: true },
};
const HEADERS: { readonly [Id in OperationId]: Names<HeaderName<Id>> } = {
  applyOps: KEY,
  deleteNode: WRITE,
  deletePresence: {},
  editDocument: KEY,
  listChanges: {},
  listNodes: {},
  listPresence: {},
  listSignals: {},
  mintToken: {},
  patchNode: WRITE,
  postUpdate: KEY,
  putNode: WRITE,
  putPresence: {},
  readDocument: { Accept: true },
  readNode: {},
  readWorkspace: {},
  sendSignal: {},
  streamChanges: {},
};

const ROWS = Object.entries(operations).filter(([, value]) => typeof value !== "function") as [string, Row<OperationId>][];
for (const [name, [id, method, path, body]] of ROWS) {
  const address = `/api/workspaces/{workspaceId}${path}`;
  test(`${id} is the operation of the description`, () => {
    assert.equal(name, id);
    const there = DOCUMENT.paths[address];
    assert.ok(there, `${address} is described`);
    const operation = there[method.toLowerCase()];
    assert.ok(operation, `${method} ${address} is described`);
    assert.equal(operation.operationId, id);
    const described = (operation.parameters ?? []).map(parameterOf);
    const named = (place: string) => described.filter((parameter) => parameter.in === place).map(({ name }) => name);
    for (const name of Object.keys(QUERIES[id])) assert.ok(named("query").includes(name), `?${name}= is described`);
    for (const name of Object.keys(HEADERS[id])) assert.ok(named("header").includes(name), `${name} is described`);
    assert.deepEqual(body === undefined ? operation.requestBody : body in operation.requestBody!.content, body === undefined ? undefined : true);
    assert.equal("Idempotency-Key" in HEADERS[id], named("header").includes("Idempotency-Key"), "a key goes wherever one is taken");
  });
}

test("every problem code of the description is in the type, and no other", () => {
  assert.deepEqual(names(PROBLEM_CODES), names(DOCUMENT.components.schemas["ProblemCode"]!.enum as string[]));
});

test("every kind of change is in the type, and no other", () => {
  const described = schemaOf(DOCUMENT.components.schemas["Change"]!.properties!["kind"]!).enum as string[];
  assert.deepEqual(names(CHANGE_KINDS), names(described));
});

// The compiler keeps each sample equal to its type, the test to its schema.
const CHANGE: Required<Change> = { clock: 1, kind: "put", path: "a", actor: "ann", at: 1 };
const NODE: Required<Node> = { path: "a", kind: "record", clock: 1, value: {} };
const ENTRY: Required<PresenceEntry> = { sub: "ann", kind: "human", session: "tab", state: {}, expiresAt: 1, self: true };
const SAMPLES: Record<string, object> = {
  Change: CHANGE,
  ChangeList: { changes: [CHANGE], head: 1, floor: 0 } satisfies Required<ChangeList>,
  EditAnswer: { clock: 1, epoch: 0, stateVector: "AA" } satisfies Required<EditAnswer>,
  Node: NODE,
  NodeList: { nodes: [NODE], next: null, head: 1 } satisfies Required<NodeList>,
  OpsAnswer: { clocks: [1], clock: 1 } satisfies Required<OpsAnswer>,
  PresenceEntry: ENTRY,
  PresenceList: { presence: [ENTRY, { ...ENTRY, session: null, state: null, expiresAt: null }], otherHumans: 1, complete: true } satisfies Required<PresenceList>,
  SignalList: { signals: [{ id: 1, from: "a", sub: "ann", topic: "t", data: {} }] } satisfies Required<SignalList>,
  TokenAnswer: { token: "t", expiresAt: 1, peerSecret: "s" } satisfies Required<TokenAnswer>,
  Workspace: { id: "w", head: 1, floor: 0 } satisfies Required<Workspace>,
  WriteAnswer: { clock: 1, path: "a" } satisfies Required<WriteAnswer>,
};

for (const [name, sample] of Object.entries(SAMPLES)) {
  const schema = DOCUMENT.components.schemas[name];
  test(`${name} has the members of its schema`, () => {
    assert.deepEqual(names(Object.keys(sample)), names(Object.keys(schema!.properties!)));
    check(sample, schema!, name);
  });
}

test("each op has the members of its schema", () => {
  const ops: Op[] = [
    { op: "put", path: "a", value: 1, ifMatch: 1, ifNoneMatch: "*" },
    { op: "patch", path: "a", patch: {}, ifMatch: "*", ifNoneMatch: "*" },
    { op: "delete", path: "a", ifMatch: 1, ifNoneMatch: "*" },
  ];
  const schemas = DOCUMENT.components.schemas["Op"]!.oneOf!.map(schemaOf);
  assert.deepEqual(names(schemas.map(({ properties }) => properties!["op"]!.const as string)), names(ops.map(({ op }) => op)));
  for (const op of ops) {
    const schema = schemas.find(({ properties }) => properties!["op"]!.const === op.op)!;
    assert.deepEqual(names(Object.keys(op)), names(Object.keys(schema.properties!)));
    check(op, schema, op.op);
  }
});

test("each edit has the members of its schema", () => {
  const [attributes, occurrence, text, value] = [{ bold: true }, 2, "x", { any: [1] }];
  const edits: DocumentEdit[] = [
    { op: "append", text, attributes },
    { op: "delete", quote: "q", occurrence },
    { op: "format", quote: "q", occurrence, attributes },
    { op: "insert", at: 0, text, attributes },
    { op: "insert", before: "q", occurrence, text, attributes },
    { op: "insert", after: "q", occurrence, text, attributes },
    { op: "insert", pointer: "/0", value },
    { op: "put", pointer: "/a", value },
    { op: "remove", pointer: "/a" },
    { op: "replace", quote: "q", occurrence, with: "w" },
    { op: "set", text },
  ];
  const membersOf = (object: object) => names(Object.keys(object)).join();
  const schemas = DOCUMENT.components.schemas["Edit"]!.oneOf!.map(schemaOf);
  const described = schemas.map(({ properties }) => `${properties!["op"]!.const}: ${membersOf(properties!)}`);
  assert.deepEqual(names(edits.map((edit) => `${edit.op}: ${membersOf(edit)}`)), names(described));
});

/** A sample against as much of JSON Schema as the description uses. */
function check(value: unknown, reference: Schema, at: string): void {
  const schema = schemaOf(reference);
  if (schema.oneOf) {
    const fitting = schema.oneOf.filter((option) => fits(value, option, at));
    return assert.equal(fitting.length, 1, `${at} fits one of its schemas`);
  }
  if (schema.const !== undefined) assert.deepEqual(value, schema.const, at);
  if (schema.enum) assert.ok(schema.enum.includes(value), `${at} is one of ${schema.enum}`);
  if (schema.type) assert.ok([schema.type].flat().includes(typeOf(value)), `${at} is ${schema.type}, not ${typeOf(value)}`);
  for (const name of schema.required ?? []) assert.ok(name in (value as object), `${at}.${name} is there`);
  for (const [name, inner] of Object.entries(schema.properties ?? {})) check((value as Record<string, unknown>)[name], inner, `${at}.${name}`);
  if (schema.items) for (const [index, entry] of (value as unknown[]).entries()) check(entry, schema.items, `${at}[${index}]`);
}

function fits(value: unknown, schema: Schema, at: string): boolean {
  try {
    check(value, schema, at);
    return true;
  } catch {
    return false;
  }
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return Number.isInteger(value) ? "integer" : typeof value;
}
