// Runs inside workerd in place of the built Worker, which it wraps: D1 and the room fail or stall
// when a test says so. Local runs only; nothing of it ships.
//
// `PUT /__test/faults` sets the rules: [{on, match, how, times, skip, some, of, message}]. `on` is "d1" or "room";
// `match` is a part of an SQL text (which ends in " -- " and the numbers that are bound) or of a call's
// address; `how` is "fail" (nothing happens), "fail_after" (it happens, the answer is lost), "stall" (until the
// rules change; then it fails), "hold" (until the rules change; then it happens) or "pass" (it happens,
// and is counted). `times` counts down, after the first `skip` matches; `some` of every `of` matches are
// hit, spread evenly; `message` is what the error says in place of something that passes. `GET` returns the
// rules with their hits; a variable FAULTS has those to begin with. `POST /__test/sql` runs a statement.
import Built, { Room as BuiltRoom } from "./index.js";

let rules;

function setRules(given) {
  rules = given.map((one) => ({ times: Infinity, skip: 0, some: 1, of: 1, seen: 0, hits: 0, match: "", ...one }));
}

function rule(on, subject) {
  const fits = (one) => one.on === on && one.times > 0 && subject.includes(one.match);
  const found = rules.find((one) => fits(one) && one.skip-- <= 0 && (one.seen++ * one.some) % one.of < one.some);
  if (found) {
    found.times -= 1;
    found.hits += 1;
  }
  return found;
}

/** Runs `call`, unless a rule says otherwise. */
async function faulty(on, subject, message, call) {
  const found = rule(on, subject);
  if (!found || found.how === "pass") return call();
  // What is lost is the answer, also one that says no.
  if (found.how === "fail_after") await call().catch(() => {});
  // Polled, not signalled: a promise of one request must not be settled by another.
  while (["stall", "hold"].includes(found.how) && rules.includes(found)) await new Promise((settle) => setTimeout(settle, 50));
  if (found.how === "hold") return call();
  // As D1 does: what the Worker classifies is the cause.
  const text = found.message ?? message;
  throw new Error(text, { cause: new Error(text.replace("D1_ERROR: ", "")) });
}

// The names of the two classes are those that the Worker checks a binding for.
class D1Database {
  constructor(inner) {
    this.inner = inner;
    this.texts = new WeakMap();
  }

  prepare(sql) {
    const { texts } = this;
    const remember = (statement, numbers) => {
      texts.set(statement, `${sql} -- ${numbers.join(" ")}`);
      const { bind } = statement;
      statement.bind = (...values) => remember(bind.apply(statement, values), values.filter((value) => typeof value === "number"));
      return statement;
    };
    return remember(this.inner.prepare(sql), []);
  }

  batch(statements) {
    const sql = statements.map((statement) => this.texts.get(statement)).join(";\n");
    return faulty("d1", sql, "D1_ERROR: Network connection lost.", () => this.inner.batch(statements));
  }
}

class DurableObjectNamespace {
  constructor(inner) {
    this.inner = inner;
  }

  getByName(name, options) {
    const stub = this.inner.getByName(name, options);
    const message = "Durable Object reset because its code was updated.";
    return { fetch: (input, init) => faulty("room", input.url ?? String(input), message, () => stub.fetch(input, init)) };
  }
}

function wrap(env) {
  if (!rules) setRules(JSON.parse(env.FAULTS ?? "[]"));
  const wrapped = { ...env, DB: new D1Database(env.DB) };
  if (env.ROOM) wrapped.ROOM = new DurableObjectNamespace(env.ROOM);
  return wrapped;
}

export const Room = new Proxy(BuiltRoom, {
  construct: (target, [state, env], newTarget) => Reflect.construct(target, [state, wrap(env)], newTarget),
});

export default {
  async fetch(request, env, context) {
    const { pathname } = new URL(request.url);
    if (pathname === "/__test/faults") {
      if (request.method === "PUT") setRules(await request.json());
      return Response.json(rules ?? []);
    }
    if (pathname === "/__test/sql") {
      const { sql, binds = [] } = await request.json();
      const { results } = await env.DB.prepare(sql).bind(...binds).all();
      return Response.json(results);
    }
    return new Built(context, wrap(env)).fetch(request);
  },
};
