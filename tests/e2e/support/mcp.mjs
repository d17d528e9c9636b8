// Official MCP clients for the tests, and requests by hand for what such a client never sends.
import assert from "node:assert/strict";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { PATIENCE } from "./waiting.mjs";

/** The revision in which every request names its version. */
export const MODERN = "2026-07-28";
/** How each era is spoken: with `server/discover` or with `initialize`. */
export const ERAS = { modern: { pin: MODERN }, legacy: "legacy" };
/** Longest wait of a tool (20 s), and some more. */
const CALL_LIMIT = PATIENCE + 20_000;

/** A connected client. `call` gives the structured result, `refused` the problem of a tool that failed. */
export class McpClient {
  static async connect(url, token, era = "modern") {
    const client = new Client({ name: "yrelay-test", version: "1.0.0" }, { versionNegotiation: { mode: ERAS[era] } });
    const headers = { authorization: `Bearer ${token}` };
    await client.connect(new StreamableHTTPClientTransport(new URL("/mcp", url), { requestInit: { headers } }), { timeout: CALL_LIMIT });
    // With the list the client knows the schemas, and holds every result against its own.
    await client.listTools();
    return Object.assign(new McpClient(), { client });
  }

  async call(name, args = {}) {
    const result = await this.client.callTool({ name, arguments: args }, { timeout: CALL_LIMIT });
    assert.notEqual(result.isError, true, result.content?.[0]?.text);
    assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent);
    assert.ok(Number.isInteger(result.structuredContent.head), "the head");
    return result.structuredContent;
  }

  async refused(name, args = {}) {
    const result = await this.client.callTool({ name, arguments: args }, { timeout: CALL_LIMIT });
    assert.equal(result.isError, true);
    const problem = JSON.parse(result.content[0].text);
    for (const member of ["code", "detail", "cure"]) assert.ok(problem[member], member);
    return problem;
  }

  close() {
    return this.client.close();
  }
}

/** One request by hand: `{ status, headers, text, json }`. A string as `body` is sent as it is. */
export async function raw(url, { method = "POST", body, headers = {}, token } = {}) {
  const answer = await fetch(new URL("/mcp", url), {
    method,
    headers: { "content-type": "application/json", ...(token ? { authorization: `Bearer ${token}` } : {}), ...headers },
    body: body === undefined || typeof body === "string" ? body : JSON.stringify(body),
    signal: AbortSignal.timeout(PATIENCE),
  });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, text, json: text ? JSON.parse(text) : undefined };
}
