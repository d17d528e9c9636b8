// The demo: a workspace as an application shows it. Everything goes through one WorkspaceClient; each
// part of the page has a file of its own.
import { WorkspaceClient } from "../src/index.ts";
import { Activity } from "./activity.ts";
import { BoardView } from "./board.ts";
import { byId } from "./dom.ts";
import { HelperAgent } from "./helper-agent.ts";
import { Jobs } from "./jobs.ts";
import { NoteEditor } from "./note.ts";
import { clearNotice, notify } from "./notice.ts";
import { nameOf, ownPerson } from "./people.ts";
import { localSession } from "./session.ts";
import type { Session } from "./session.ts";
import { signIn } from "./sign-in.ts";
import { StatusBar } from "./status-bar.ts";

const NOTE = "notes/demo";

function openWorkspace(session: Session, person: string): void {
  const { api, workspace, relays, account, token } = session;
  const client = new WorkspaceClient({ api, workspace, relays, token, ...(account === undefined ? {} : { account }) });
  client.presence.show({ name: nameOf(person), path: NOTE });
  byId("workspace").textContent = workspace;
  byId("desk").hidden = false;

  const bar = new StatusBar(client);
  new Activity(client, { note: NOTE, self: () => client.status.account });
  const jobs = new Jobs(client, { changed: () => board.show(), refused: showRefusal });
  const board = new BoardView(jobs, person);
  new NoteEditor(client, { path: NOTE, person, status: (status) => {
    bar.showDocument(status);
    // It was read again, so the API is back.
    if (status.connection !== "connecting") void jobs.load();
  } });
  client.on("status", () => void jobs.load());
  addEventListener("online", () => void jobs.load());
  client.on("refused", ({ error }) => showRefusal(error));
  void jobs.load();
  board.show();
  const { agentToken } = session;
  if (agentToken !== undefined) new HelperAgent({ api, workspace, getToken: agentToken }, NOTE);
}

function showRefusal(error: unknown): void {
  notify(`This was not taken: ${error instanceof Error ? error.message : String(error)}`);
}

async function main(): Promise<void> {
  const person = ownPerson();
  const session = (await localSession(person)) ?? (await signIn());
  openWorkspace(session, person);
}

function start(): void {
  clearNotice();
  main().catch((error: Error) => notify(`The page could not start: ${error.message}`, { label: "Try again", act: start }));
}

start();
