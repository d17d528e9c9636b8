// The two sides of every comparison behind one interface, so that a scenario is written
// once: where to connect, how to store a document, how to write a record, which
// construction of the Durable Object answers.

import { createHmac } from "node:crypto";

import { syncFrame } from "./frames.mjs";
import { SECRETS, deadline, startFloor, startYrelay } from "./servers.mjs";

/** The raw forwarder. `name` tells two floors apart when one plays the other side. */
export async function openFloor(database, name) {
  const server = await startFloor(database, name);
  await expectOk(fetch(`${server.url}/tables`, { method: "POST", ...deadline() }));
  const ws = server.url.replace("http", "ws");
  return {
    name: server.name,
    server,
    answersStep1: false,
    socketUrl: async (document) => `${ws}/ws/${WORKSPACE}/${document}`,
    joinUrl: async (_, kind) => `${ws}/join/${kind}`,
    seed: async (_, { whole }) => {
      const body = syncFrame(1, whole);
      await expectOk(fetch(`${server.url}/join`, { method: "PUT", body, ...deadline() }));
    },
    write: async (path, value) => {
      const body = JSON.stringify({ path, value });
      await expectOk(fetch(`${server.url}/batch`, { method: "POST", body, ...deadline() }));
    },
    instance: async () => {
      const answer = await expectOk(fetch(`${server.url}/instance/${WORKSPACE}`, deadline()));
      return answer.text();
    },
  };
}

/** The Worker under test, by its public contract only. */
export async function openYrelay(database) {
  const server = await startYrelay(database);
  const api = `${server.url}/api/workspaces`;
  const ws = server.url.replace("http", "ws");
  const headers = () => ({ authorization: `Bearer ${apiToken("human-0")}` });
  const send = (method, url, type, body) => expectOk(fetch(url, {
    method, body, headers: { ...headers(), "content-type": type }, ...deadline(),
  }));
  await send("POST", api, JSON_TYPE, JSON.stringify({ id: WORKSPACE }));
  const tokens = new Map();
  const socketUrl = async (document, client = 0, workspace = WORKSPACE) => {
    const token = await cached(tokens, `${workspace} ${client}`, async () => {
      if (workspace !== WORKSPACE) await send("POST", api, JSON_TYPE, JSON.stringify({ id: workspace }));
      return relayToken(`${api}/${workspace}`, client);
    });
    return `${ws}/ws/${workspace}/${document}?token=${encodeURIComponent(token)}`;
  };
  return {
    name: server.name,
    server,
    answersStep1: true,
    socketUrl,
    joinUrl: (document) => socketUrl(document),
    seed: async (document, { parts }) => {
      for (const part of parts) {
        await send("POST", `${api}/${WORKSPACE}/docs/${document}/updates`, "application/octet-stream", part);
      }
    },
    write: (path, value) => send("PUT", `${api}/${WORKSPACE}/nodes/${path}`, JSON_TYPE, JSON.stringify(value)),
    edit: (document, edits) =>
      send("POST", `${api}/${WORKSPACE}/docs/${document}/edits`, JSON_TYPE, JSON.stringify({ root: "content", edits })),
    changes: (signal) => expectOk(fetch(`${api}/${WORKSPACE}/changes/stream`, {
      headers: { ...headers(), accept: "text/event-stream" }, signal,
    })),
    /** A text that differs for each construction of the Room. */
    instance: async () => {
      const answer = await expectOk(fetch(`${server.url}/__dev/rooms/${WORKSPACE}`, { headers: headers(), ...deadline() }));
      return (await answer.json()).instance;
    },
  };
}

/** An API token as DESIGN A1 says: HS256, owner of every workspace, one hour. */
export function apiToken(subject, kind = "human") {
  const claims = {
    sub: subject, kind, aud: "yrelay",
    exp: Math.floor(Date.now() / 1000) + 3600, workspaces: { "*": "owner" },
  };
  const encode = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const body = `${encode({ alg: "HS256", typ: "JWT" })}.${encode(claims)}`;
  return `${body}.${createHmac("sha256", SECRETS.API_JWT_SECRET).update(body).digest("base64url")}`;
}

const WORKSPACE = "bench";
const JSON_TYPE = "application/json";
/** Scope tokens live 10 minutes (A2); renewed well before. */
const TOKEN_REUSE_MS = 5 * 60_000;

async function relayToken(workspace, client) {
  const answer = await expectOk(fetch(`${workspace}/tokens`, {
    method: "POST",
    headers: { authorization: `Bearer ${apiToken(`human-${client}`)}`, "content-type": JSON_TYPE },
    body: JSON.stringify({ purpose: "relay" }),
    ...deadline(),
  }));
  return (await answer.json()).token;
}

async function cached(map, key, make) {
  const held = map.get(key);
  if (held !== undefined && held.until > Date.now()) return held.value;
  const value = await make();
  map.set(key, { value, until: Date.now() + TOKEN_REUSE_MS });
  return value;
}

/** The path of the request is named, its query is not: it may hold a token. */
async function expectOk(request) {
  const answer = await request;
  if (answer.ok) return answer;
  const text = (await answer.text()).slice(0, 300);
  throw new Error(`${new URL(answer.url).pathname} answered ${answer.status}: ${text}`);
}
