// The bar: which way edits travel, what is saved, what the device keeps, and who is here.
import type { DocumentStatus, PresenceEntry, PresenceList, SaveLevel, WorkspaceClient, WorkspaceStatus } from "../src/index.ts";
import { byId, make } from "./dom.ts";
import { notify } from "./notice.ts";
import { colourOf, nameOf } from "./people.ts";

type Tone = "busy" | "calm" | "good" | "warn";

const SAVED: Record<SaveLevel, readonly [string, Tone]> = {
  pending: ["Not saved yet", "busy"],
  local: ["On this device", "busy"],
  relayed: ["With the relay", "busy"],
  saved: ["Saved", "good"],
};

export class StatusBar {
  readonly #client: WorkspaceClient;
  #document: DocumentStatus | null = null;
  #wasSignedOut = false;

  constructor(client: WorkspaceClient) {
    this.#client = client;
    client.on("status", (status) => this.#showWorkspace(status));
    client.on("presence", (list) => showPresent(list));
    this.#showWorkspace(client.status);
  }

  showDocument(status: DocumentStatus): void {
    this.#document = status;
    this.#show();
  }

  #showWorkspace({ storage, storageLoss, needsSignIn }: WorkspaceStatus): void {
    const isLost = storage === "memory" && storageLoss !== undefined;
    setChip("storage", isLost ? `Nothing is kept on this device (${storageLoss})` : "", "warn");
    if (needsSignIn && !this.#wasSignedOut) {
      notify("You are signed out. What you write is kept here until you are back.", { label: "Sign in again", act: () => this.#client.restart() });
    }
    this.#wasSignedOut = needsSignIn;
    this.#show();
  }

  #show(): void {
    if (this.#document === null) return;
    setChip("connection", ...connectionOf(this.#document));
    const [text, tone] = SAVED[this.#document.save];
    // Records are not part of the document's state.
    const { waiting } = this.#client.status;
    const isWaiting = this.#document.save === "saved" && waiting > 0;
    if (isWaiting) setChip("saved", waiting === 1 ? "1 change on its way" : `${waiting} changes on their way`, "busy");
    else setChip("saved", text, tone);
  }
}

function connectionOf({ connection, label, isReadOnly, reason }: DocumentStatus): readonly [string, Tone] {
  switch (connection) {
    case "live":
      return [`${isReadOnly ? "Reading on" : "Live on"} ${label ?? "a relay"}`, "good"];
    case "peer":
      return ["Browser to browser", "good"];
    case "feed":
      return reason === undefined ? ["Alone, no socket", "calm"] : ["Out of reach", "warn"];
    case "draining":
      return ["The relay restarts", "busy"];
    case "stopped":
      return [`Stopped: ${reason ?? "unknown"}`, "warn"];
    case "connecting":
      return [reason === undefined ? "Connecting" : "Out of reach", reason === undefined ? "busy" : "warn"];
  }
}

/** Nothing is written that is there already, so that a screen reader repeats nothing. */
function setChip(id: "connection" | "saved" | "storage", text: string, tone: Tone): void {
  const chip = byId(id);
  chip.hidden = text === "";
  if (chip.textContent !== text) chip.textContent = text;
  chip.dataset["tone"] = tone;
}

/** Each once, in however many windows; people first, oneself before all. */
function showPresent({ presence }: PresenceList): void {
  const bySub = new Map<string, PresenceEntry>();
  for (const entry of presence) if (!bySub.has(entry.sub) || entry.self) bySub.set(entry.sub, entry);
  const rank = ({ self, kind }: PresenceEntry) => (self ? 0 : kind === "human" ? 1 : 2);
  const entries = [...bySub.values()].sort((a, b) => rank(a) - rank(b) || (a.sub < b.sub ? -1 : 1));
  byId("present").replaceChildren(...entries.map((entry) => {
    const name = typeof entry.state?.["name"] === "string" ? entry.state["name"] : nameOf(entry.sub);
    const item = make("li", "person", name);
    item.dataset["kind"] = entry.kind;
    item.style.setProperty("--person", colourOf(entry.sub));
    if (entry.self) item.append(make("span", "you", "you"));
    return item;
  }));
}
