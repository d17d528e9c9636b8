// A.54: a relay is taken away in order while people write, and another one comes in its place.
import "fake-indexeddb/auto";
import assert from "node:assert/strict";
import { test } from "node:test";
import { startDenoRelay } from "../../tools/deno-relay.mjs";
import { publicScopeKey } from "../../tools/scope-key.mjs";
import { browser } from "./support/browser.mjs";
import { startDeno } from "./support/relays.mjs";
import { until, within } from "./support/waiting.mjs";

/** A relay that did not come back at the first try is tried again with a backoff. */
const PATIENCE = 60_000;

const text = ({ doc }) => doc.getText("t");

/** Another process in its place, at its address. */
function replace(relay, port) {
  const { secrets, mint } = relay.stack;
  const token = mint({ sub: "relay-deno", kind: "service", workspaces: { "*": "editor" }, ttl: 3600 });
  return startDenoRelay({ api: relay.api, token, publicKey: publicScopeKey(secrets.SCOPE_SIGNING_KEY), port, onLog: () => {} });
}

test("A.54 a relay drains: everybody sees it, nobody reloads or has to stop writing, and every edit arrives and is saved", { timeout: 180_000 }, async (t) => {
  const relay = await startDeno({ relay: { onLog: () => {} } });
  t.after(() => relay.stop());
  const workspace = await relay.workspace();
  const [ann, ben] = [browser(relay, workspace, "ann"), browser(relay, workspace, "ben")];
  const states = new Map();
  const open = (name, { client }) => {
    const document = client.openDoc("d");
    const seen = [];
    states.set(name, seen);
    document.on("status", ({ connection, isReadOnly }) => {
      const state = isReadOnly ? `${connection}, read-only` : connection;
      if (seen.at(-1) !== state) seen.push(state);
    });
    return document;
  };
  const first = ann.page();
  const mine = open("ann", first);
  await until(() => mine.status.isLoaded, "it is loaded");
  const other = open("ann's other tab", ann.page());
  const theirs = open("ben", ben.page());
  const all = [mine, other, theirs];
  const isLive = () => all.every(({ status }) => status.connection === "live");
  const isEverywhere = (words) => () => all.every((document) => words.every((word) => text(document).toString().includes(word)));
  await until(() => theirs.status.connection === "live", "ben is on the relay");
  await first.client.presence.refresh();
  await until(isLive, "all are on the relay");
  text(other).insert(0, "before ");
  await until(isEverywhere(["before"]), "the edit before is everywhere");
  await within(other.flush(), "it is saved");

  const { port } = relay.process;
  relay.process.signal("SIGTERM");
  await until(() => all.every(({ status }) => status.connection === "draining"), "everybody sees that it drains");
  text(other).insert(0, "during ");
  text(theirs).insert(0, "meanwhile ");
  assert.ok(all.every(({ status }) => !status.isReadOnly));
  assert.deepEqual(await within(relay.process.waitForExit(), "the process ends"), { code: 0, signal: null });
  await until(isEverywhere(["before", "during", "meanwhile"]), "the edits during it are everywhere", PATIENCE);
  assert.ok((await within(other.flush(), "they are saved without it")).clock > 0);

  relay.process = await replace(relay, port);
  await until(isLive, "all are back on the relay", PATIENCE);
  text(theirs).insert(0, "after ");
  const words = ["before", "during", "meanwhile", "after"];
  await until(isEverywhere(words), "the edit after is everywhere");
  await Promise.all(all.map((document) => within(document.flush(), "everything is saved")));
  const stored = await workspace.rest("GET", "/docs/d?root=t", { headers: { accept: "text/plain" } });
  assert.equal(stored.text, text(mine).toString());
  for (const word of words) assert.equal(stored.text.split(`${word} `).length, 2, `${word} is there once`);
  for (const [name, seen] of states) {
    t.diagnostic(`${name}: ${seen.join(", ")}`);
    const told = seen.slice(seen.indexOf("live"));
    // The relay is there again, and the document is compared with it; a try before that is `connecting` too.
    assert.deepEqual(told.filter((state) => state !== "connecting"), ["live", "draining", "live"], name);
    assert.equal(told[1], "draining", `${name} sees it at once`);
  }
});
