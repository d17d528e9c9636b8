// The hooks in React, with a client over an API in memory.
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";
import { StrictMode, createElement } from "react";
import type { FunctionComponent, ReactNode } from "react";
import { renderToString } from "react-dom/server";
import { MiniApi, problem } from "../../test/mini-api.ts";
import { act, mount, tell } from "../../test/mounted.ts";
import { until } from "../../test/waiting.ts";
import { WorkspaceClient } from "../index.ts";
import { FakeClock, fakePage, settled } from "../testing.ts";
import { WorkspaceProvider, useDoc, useNode, usePresence, useSyncStatus, useWorkspace } from "./index.ts";
import type { DocumentView } from "./index.ts";

let api: MiniApi;
let clock: FakeClock;
let client: WorkspaceClient;
let made = 0;

beforeEach(() => {
  api = new MiniApi();
  clock = new FakeClock();
  client = open("ann");
  history = [];
});
afterEach(() => client.close());

function open(sub: string): WorkspaceClient {
  made += 1;
  const environment = fakePage(clock, { fetch: (url, init) => api.fetch(url, init) });
  return new WorkspaceClient({ api: "http://127.0.0.1:1", workspace: `w${made}`, token: () => MiniApi.token(sub), account: sub, environment });
}

/** How often a client is asked for something, from now on. */
function counted(method: "node" | "openDoc"): () => number {
  let count = 0;
  const own = client[method] as (path: string, options?: object) => unknown;
  const counting = (path: string, options?: object) => {
    count += 1;
    return own.call(client, path, options);
  };
  Object.assign(client, { [method]: counting });
  return () => count;
}

/** Waits in the way of React: what happens meanwhile is rendered. */
const seen = (check: () => unknown, what: string) => act(() => until(check, what));
const inPage = (children: ReactNode, given: WorkspaceClient | null = client) => createElement(WorkspaceProvider, { client: given }, children);
const strict = (children: ReactNode) => createElement(StrictMode, null, inPage(children));
const reads = (path: string) => api.count("GET", `nodes/${path}`);

/** What was rendered of records, in this order. */
let history: string[] = [];
const Record: FunctionComponent<{ path: string }> = ({ path }) => {
  const { value, isLoading, error, node } = useNode<{ n: number }>(path);
  const text = error instanceof Error ? `failed, ${value?.n ?? "nothing"}` : isLoading ? "loading" : node === null ? "none" : String(value?.n);
  history.push(`${path}: ${text}`);
  return createElement("p", null, `[${path}: ${text}]`);
};
const record = (path: string) => createElement(Record, { path, key: "record" });

let lastView: (DocumentView & { reopen: () => void }) | null = null;
const Note: FunctionComponent<{ path: string }> = ({ path }) => {
  lastView = useDoc(path);
  const { document, status, recovery } = lastView;
  return createElement("p", null, `[${document?.path ?? "no document"}: ${status.connection}, ${status.save}${recovery === null ? "" : ", replaced"}]`);
};
const note = (path: string) => createElement(Note, { path });

describe("useNode", () => {
  test("reads once, and again at each change of the node alone", async () => {
    api.records.set("a", { n: 1 });
    const page = await mount(inPage(record("a")));
    await seen(() => page.text === "[a: 1]" && api.streams === 1, "it is read");
    assert.deepEqual(history, ["a: loading", "a: 1"]);
    await act(async () => api.put("a", "bob", { n: 2 }));
    await seen(() => page.text === "[a: 2]", "it is read anew");
    await act(async () => {
      api.put("other", "bob", { n: 3 });
      api.put("a/below", "bob", { n: 3 });
      await settled();
    });
    assert.deepEqual([page.text, reads("a")], ["[a: 2]", 2]);
    await page.unmount();
  });

  test("several components share one request, and a new one shows at once what is known", async () => {
    api.records.set("a", { n: 1 });
    const two = [createElement(Record, { path: "a", key: 1 }), createElement(Record, { path: "a", key: 2 })];
    const page = await mount(inPage(two));
    await seen(() => page.text === "[a: 1][a: 1]", "both show it");
    await page.render(inPage([...two, createElement(Record, { path: "a", key: 3 })]));
    assert.equal(page.text, "[a: 1][a: 1][a: 1]");
    assert.equal(reads("a"), 1);
    await page.unmount();
  });

  test("StrictMode mounts twice and reads once", async () => {
    api.records.set("a", { n: 1 });
    const asked = counted("node");
    const page = await mount(strict(record("a")));
    await seen(() => page.text === "[a: 1]", "it is read");
    assert.deepEqual([asked(), reads("a")], [1, 1]);
    await page.unmount();
  });

  test("another path shows nothing of the last one, also when that answers late", async () => {
    api.records.set("a", { n: 1 }).set("b", { n: 2 });
    let answer: (response: Response) => void = () => {};
    api.script = ({ path }) => (path === "nodes/a" ? new Promise<Response>((settle) => (answer = settle)) : undefined);
    const page = await mount(inPage(record("a")));
    await seen(() => reads("a") === 1, "it is asked for");
    await page.render(inPage(record("b")));
    await seen(() => page.text === "[b: 2]", "the other is read");
    assert.deepEqual(history, ["a: loading", "b: loading", "b: 2"]);
    await act(async () => {
      answer(Response.json({ path: "a", kind: "record", clock: 1, value: { n: 1 } }));
      await settled();
    });
    assert.equal(page.text, "[b: 2]");
    await page.unmount();
  });

  test("who leaves while it is loading ends the call and is not told", async () => {
    let signal: AbortSignal | null | undefined;
    const { fetch } = api;
    Object.assign(api, {
      fetch: (url: string, init: RequestInit) => {
        if (!url.endsWith("/nodes/a")) return fetch(url, init);
        ({ signal } = init);
        return new Promise<Response>((_, reject) => signal?.addEventListener("abort", () => reject(signal!.reason)));
      },
    });
    const page = await mount(inPage(record("a")));
    await seen(() => signal !== undefined, "it is asked for");
    await page.unmount();
    await settled();
    assert.deepEqual([signal?.aborted, page.errors], [true, []]);
  });

  test("a node that is not there is no error; a failure keeps what was known, and ends with the next change", async () => {
    const page = await mount(inPage(record("a")));
    await seen(() => page.text === "[a: none]" && api.streams === 1, "there is none");
    await act(async () => api.put("a", "bob", { n: 1 }));
    await seen(() => page.text === "[a: 1]", "it came");
    api.script = ({ path }) => (path === "nodes/a" ? Promise.resolve(problem(403, "forbidden")) : undefined);
    await act(async () => api.put("a", "bob", { n: 2 }));
    await seen(() => page.text === "[a: failed, 1]", "it fails");
    api.script = () => undefined;
    await act(async () => api.put("a", "bob", { n: 3 }));
    await seen(() => page.text === "[a: 3]", "it is read");
    await page.unmount();
  });

  test("what could not be read is read when the network is back, and on request", async () => {
    api.records.set("a", { n: 1 });
    let reload = () => {};
    const Button: FunctionComponent = () => {
      ({ reload } = useNode("a"));
      return null;
    };
    const page = await mount(inPage([record("a"), createElement(Button, { key: "button" })]));
    await seen(() => page.text === "[a: 1]", "it is read");
    api.script = ({ path }) => (path === "nodes/a" ? Promise.resolve(problem(503, "storage_unavailable")) : undefined);
    await act(async () => reload());
    for (let minute = 0; minute < 10 && page.text !== "[a: failed, 1]"; minute += 1) await act(() => clock.advance(60_000));
    assert.equal(page.text, "[a: failed, 1]");
    const tried = reads("a");
    await tell("offline");
    assert.equal(reads("a"), tried);
    api.script = () => undefined;
    api.records.set("a", { n: 2 });
    await tell("online");
    await seen(() => page.text === "[a: 2]", "it is read");
    await tell("online");
    assert.equal(reads("a"), tried + 1);
    await page.unmount();
  });

  test("changes while it is read are one more read", async () => {
    api.records.set("a", { n: 1 });
    const page = await mount(inPage(record("a")));
    await seen(() => page.text === "[a: 1]" && api.streams === 1, "it is read");
    let answer: (response: Response) => void = () => {};
    api.script = ({ path }) => (path === "nodes/a" ? new Promise<Response>((settle) => (answer = settle)) : undefined);
    await act(async () => api.put("a", "bob", { n: 2 }));
    await seen(() => reads("a") === 2, "it is asked for");
    await act(async () => {
      for (let n = 3; n < 12; n += 1) api.put("a", "bob", { n });
      await settled();
    });
    api.script = () => undefined;
    await act(async () => answer(Response.json({ path: "a", kind: "record", clock: 1, value: { n: 2 } })));
    await seen(() => page.text === "[a: 11]", "the newest is shown");
    assert.equal(reads("a"), 3);
    await page.unmount();
  });

  test("a path that cannot be one is told when it is rendered", async () => {
    await assert.rejects(mount(inPage(record("../x"))), TypeError);
  });
});

describe("useDoc", () => {
  test("opens a document, shows its status, and closes it with the last component", async () => {
    const opened = counted("openDoc");
    const page = await mount(strict([createElement(Note, { path: "d", key: 1 }), createElement(Note, { path: "d", key: 2 })]));
    await seen(() => page.text === "[d: feed, saved][d: feed, saved]", "it is loaded");
    assert.deepEqual([opened(), api.count("GET", "docs/d")], [1, 1]);
    const { document } = lastView!;
    assert.equal(client.openDoc("d"), document);
    await act(async () => document!.doc.getText("t").insert(0, "hello"));
    assert.equal(page.text, "[d: feed, pending][d: feed, pending]");
    await act(async () => void (await document!.flush()));
    assert.equal(page.text, "[d: feed, saved][d: feed, saved]");
    await page.render(strict([createElement(Note, { path: "d", key: 2 })]));
    assert.equal(client.openDoc("d"), document);
    await page.unmount();
    await settled();
    assert.notEqual(client.openDoc("d"), document);
    assert.equal(api.text("d"), "hello");
  });

  test("another path opens another document and closes the first", async () => {
    const page = await mount(inPage(note("d")));
    await seen(() => page.text === "[d: feed, saved]", "it is loaded");
    const first = lastView!.document;
    await page.render(inPage(note("e")));
    await seen(() => page.text === "[e: feed, saved]", "the other is loaded");
    await settled();
    assert.notEqual(client.openDoc("d"), first);
    await page.unmount();
  });

  test("who leaves while it is loading leaves no document behind", async () => {
    const page = await mount(inPage(note("d")));
    const { document } = lastView!;
    await page.unmount();
    await settled();
    assert.notEqual(client.openDoc("d"), document);
    assert.deepEqual(page.errors, []);
  });

  test("a document that was replaced is shown as that, with the old copy, until it is opened anew", async () => {
    const page = await mount(inPage(note("d")));
    await seen(() => page.text === "[d: feed, saved]" && api.streams === 1, "it is loaded");
    await act(async () => {
      lastView!.doc!.getText("t").insert(0, "mine");
      await lastView!.document!.flush();
    });
    await act(async () => api.replace("d"));
    await seen(() => page.text.endsWith("replaced]"), "it was replaced");
    assert.ok(lastView!.recovery!.document.length > 0);
    const old = lastView!.document;
    await act(async () => lastView!.reopen());
    await seen(() => page.text === "[d: feed, saved]", "it is open again");
    assert.notEqual(lastView!.document, old);
    assert.equal(lastView!.doc!.getText("t").toString(), "");
    await page.unmount();
  });
});

describe("usePresence and useSyncStatus", () => {
  const People: FunctionComponent = () => {
    const { list, otherHumans } = usePresence();
    return createElement("p", null, `[${otherHumans ?? "?"}: ${list?.presence.map(({ sub }) => sub).join() ?? ""}]`);
  };
  const State: FunctionComponent<{ path?: string }> = ({ path }) => createElement("p", null, `[${JSON.stringify(useSyncStatus(path as string)).slice(0, 40)}]`);

  test("who is here is shown when it is known, and when it changes", async () => {
    const page = await mount(strict(createElement(People)));
    assert.equal(page.text, "[?: ]");
    await act(async () => void (await client.presence.refresh()));
    assert.match(page.text, /^\[0: (ann)?\]$/);
    api.people.set("bob", new Set(["s1"]));
    await act(async () => void (await client.presence.refresh()));
    assert.match(page.text, /^\[1: .*bob\]$/);
    await page.unmount();
  });

  test("the status of the workspace and of a document", async () => {
    const page = await mount(strict(createElement(State)));
    await seen(() => page.text.includes('"role":"leader"'), "it leads");
    await page.render(strict(createElement(State, { path: "d" })));
    await seen(() => page.text.includes('"connection":"feed"'), "the document is loaded");
    await page.unmount();
  });
});

describe("the provider", () => {
  test("without one, a hook says what is missing", async () => {
    await assert.rejects(mount(record("a")), /WorkspaceProvider/);
  });

  test("another client is another workspace, and none is none yet", async () => {
    api.records.set("a", { n: 1 });
    const page = await mount(inPage(record("a"), null));
    assert.equal(page.text, "[a: loading]");
    await page.render(inPage(record("a")));
    await seen(() => page.text === "[a: 1]", "it is read");
    const other = open("bob");
    api.records.set("a", { n: 2 });
    await page.render(inPage(record("a"), other));
    await seen(() => page.text === "[a: 2]", "it is read by the other");
    await page.unmount();
    await other.close();
  });

  test("a server renders what is known without a client, and the page takes it over as it is", async () => {
    api.records.set("a", { n: 1 });
    const all = [record("a"), createElement(Note, { path: "d", key: "note" })];
    const html = renderToString(inPage(all, null));
    assert.equal(html.replaceAll(/<\/?p>/g, ""), "[a: loading][no document: connecting, saved]");
    assert.equal(renderToString(inPage(all)), html);
    assert.equal(api.count("GET", "nodes/"), 0);
    const page = await mount(inPage(all), html);
    await seen(() => page.text === "[a: 1][d: feed, saved]", "it goes on");
    assert.deepEqual(page.errors, []);
    await page.unmount();
  });

  test("what another part of the page knows already is no difference to the server's", async () => {
    api.records.set("a", { n: 1 });
    const first = await mount(inPage(record("a")));
    await seen(() => first.text === "[a: 1]", "it is read");
    const page = await mount(inPage(record("a")), renderToString(inPage(record("a"), null)));
    await seen(() => page.text === "[a: 1]", "it is shown");
    assert.deepEqual(page.errors, []);
    await page.unmount();
    await first.unmount();
  });

  test("useWorkspace gives the client itself", async () => {
    const Write: FunctionComponent = () => createElement("p", null, String(useWorkspace() === client));
    const page = await mount(inPage(createElement(Write)));
    assert.equal(page.text, "true");
    await page.unmount();
  });
});
