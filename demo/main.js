// The demo page: a shared text, who is on it, what is saved, and an agent that writes by REST.
import * as Y from "yjs";
import { bindTextArea, shown, storedIndex } from "./binding.js";
import { follow } from "./feed.js";
import { connect } from "./relay.js";

const DOCUMENT = "notes/demo";
const RECORD = "demo/agent";
const SHOWN_CHANGES = 40;
const COLOURS = ["#c2410c", "#7c3aed", "#0f766e", "#be185d", "#4d7c0f", "#1d4ed8", "#a16207", "#6d28d9"];
const NAMES = ["Heron", "Otter", "Lynx", "Wren", "Badger", "Marten", "Plover", "Hare"];

const element = (id) => document.getElementById(id);
const pick = (list) => list[Math.floor(Math.random() * list.length)];

/** Where the stack is, with a person's and an agent's API token. Only this machine is answered. */
async function fetchSession() {
  const answer = await fetch("session.json");
  if (!answer.ok) throw new Error(`session.json answered ${answer.status}`);
  return answer.json();
}

async function api(session, token, path, init = {}) {
  const answer = await fetch(`${session.api}/api/workspaces/${session.workspace}${path}`, {
    ...init,
    headers: { authorization: `Bearer ${token}`, ...(init.body && { "content-type": "application/json" }) },
  });
  if (!answer.ok) throw new Error(`${path} answered ${answer.status}`);
  return answer.json();
}

/** A scope token, from an API token that is fetched anew each time, since it ends too. */
async function fetchScopeToken(purpose) {
  const session = await fetchSession();
  const { token } = await api(session, session.human, "/tokens", { method: "POST", body: JSON.stringify({ purpose }) });
  return token;
}

function showChange({ clock, kind, path, actor, at }) {
  const item = document.createElement("li");
  const cell = (name, text, tag = "span") => {
    const node = document.createElement(tag);
    node.className = name;
    node.textContent = text;
    item.append(node);
  };
  cell("clock", `#${clock}`);
  cell("kind", kind);
  cell("what", `${path} by ${actor}`);
  cell("at", new Date(at).toLocaleTimeString(), "time");
  const list = element("changes");
  list.prepend(item);
  while (list.children.length > SHOWN_CHANGES) list.lastChild.remove();
}

function showPeople(awareness) {
  const list = element("people");
  list.replaceChildren();
  for (const [client, { user }] of awareness.getStates()) {
    if (!user) continue;
    const item = document.createElement("li");
    item.textContent = client === awareness.clientID ? `${user.name} (you)` : user.name;
    item.style.background = user.color;
    list.append(item);
  }
}

/** Draws the carets of the others into a copy of the text that lies over the text area. */
function showCarets(awareness, text) {
  const stored = text.toString();
  const carets = [];
  for (const [client, { user, cursor }] of awareness.getStates()) {
    if (client === awareness.clientID || !user || !cursor) continue;
    const position = Y.createAbsolutePositionFromRelativePosition(Y.createRelativePositionFromJSON(cursor.head), text.doc);
    if (position?.type === text) carets.push({ user, index: shown(stored.slice(0, position.index)).length });
  }
  carets.sort((a, b) => a.index - b.index);
  const [all, layer] = [shown(stored), element("carets")];
  layer.replaceChildren();
  let from = 0;
  for (const { user, index } of carets) {
    const [mark, label, name] = ["i", "b", "span"].map((tag) => document.createElement(tag));
    name.textContent = user.name;
    label.style.background = mark.style.borderColor = user.color;
    if (!all.slice(0, index).includes("\n")) mark.className = "first-line";
    label.append(name);
    mark.append(label);
    layer.append(all.slice(from, index), mark);
    from = index;
  }
  // A line end at the very end has no height without something after it.
  layer.append(`${all.slice(from)}\u200b`);
  layer.scrollTop = element("text").scrollTop;
}

function shareCaret(awareness, area, text) {
  if (document.activeElement !== area) return;
  const position = (index) => {
    return Y.relativePositionToJSON(Y.createRelativePositionFromTypeIndex(text, storedIndex(text.toString(), index), -1));
  };
  awareness.setLocalStateField("cursor", { anchor: position(area.selectionStart), head: position(area.selectionEnd) });
}

function bindEditor(session) {
  const doc = new Y.Doc();
  const text = doc.getText("content");
  const area = element("text");
  element("path").textContent = `${session.workspace}/${DOCUMENT}`;
  const provider = connect({
    relayUrl: session.relay,
    room: `${session.workspace}/${DOCUMENT}`,
    doc,
    fetchToken: () => fetchScopeToken("relay"),
    onStatus: (state, words) => {
      element("status").dataset.state = state;
      element("status").textContent = words;
    },
  });
  const { awareness } = provider;
  awareness.setLocalStateField("user", { name: `${pick(NAMES)} ${doc.clientID % 100}`, color: pick(COLOURS) });
  bindTextArea(area, text);
  // Not before the stored text is here, so that nobody types into an empty page by mistake.
  provider.once("sync", () => {
    area.disabled = false;
    area.focus();
  });
  awareness.on("change", () => {
    showPeople(awareness);
    showCarets(awareness, text);
  });
  text.observe(() => showCarets(awareness, text));
  area.addEventListener("scroll", () => (element("carets").scrollTop = area.scrollTop));
  document.addEventListener("selectionchange", () => shareCaret(awareness, area, text));
  showPeople(awareness);
}

function bindAgent() {
  const button = element("agent");
  button.disabled = false;
  button.addEventListener("click", async () => {
    const session = await fetchSession();
    const value = { says: "hello from an agent", at: new Date().toISOString() };
    await api(session, session.agent, `/nodes/${RECORD}`, { method: "PUT", body: JSON.stringify(value) });
  });
}

async function main() {
  const session = await fetchSession();
  bindEditor(session);
  bindAgent();
  // What is already there first, then everything after it.
  const { head, floor } = await api(session, session.human, "");
  const since = Math.max(floor, head - SHOWN_CHANGES);
  follow({
    streamUrl: `${session.api}/api/workspaces/${session.workspace}/changes/stream`,
    fetchToken: () => fetchScopeToken("stream"),
    since,
    onChange: showChange,
    onReset: () => element("changes").replaceChildren(),
  });
}

main().catch((error) => {
  element("status").dataset.state = "failed";
  element("status").textContent = error.message;
});
