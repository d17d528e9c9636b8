// The note: CodeMirror bound to the document's text, with the cursors of the others.
import { defaultKeymap } from "@codemirror/commands";
import { Compartment, EditorState } from "@codemirror/state";
import { EditorView, drawSelection, keymap, placeholder } from "@codemirror/view";
import { yCollab, yUndoManagerKeymap } from "y-codemirror.next";
import * as Y from "yjs";
import type { DocumentStatus, SharedDocument, WorkspaceClient } from "../src/index.ts";
import { byId } from "./dom.ts";
import { notify } from "./notice.ts";
import { colourOf, nameOf } from "./people.ts";

/** The shared type that agents edit too. */
const ROOT = "content";

export interface NoteOptions {
  readonly path: string;
  readonly person: string;
  readonly status: (status: DocumentStatus) => void;
}

export class NoteEditor {
  readonly #client: WorkspaceClient;
  readonly #options: NoteOptions;
  readonly #editable = new Compartment();
  #view: EditorView | null = null;

  constructor(client: WorkspaceClient, options: NoteOptions) {
    this.#client = client;
    this.#options = options;
    byId("note-path").textContent = options.path;
    this.#open();
  }

  #open(): void {
    const note = this.#client.openDoc(this.#options.path);
    const { person } = this.#options;
    const color = colourOf(person);
    note.awareness.setLocalStateField("user", { name: nameOf(person), color, colorLight: `${color}33` });
    note.awareness.on("change", ({ added, removed }: { added: number[]; removed: number[] }) => {
      // Somebody came or left: the list of who is here says the rest.
      if ([...added, ...removed].some((client) => client !== note.awareness.clientID)) void this.#client.presence.refresh().catch(() => {});
    });
    this.#view?.destroy();
    this.#view = new EditorView({ parent: byId("note"), state: this.#stateOf(note) });
    note.on("status", (status) => this.#show(status));
    // What is on the device may come after everything that the status has to tell. Not at once: the editor may be
    // in the middle of an update of its own. Once it may be edited a keystroke changes nothing of that.
    note.doc.on("update", () => queueMicrotask(() => this.#view?.state.readOnly && this.#show(note.status)));
    note.on("recovery", ({ document }) => this.#recover(note, document));
    this.#show(note.status);
  }

  #stateOf({ doc, awareness }: SharedDocument): EditorState {
    const text = doc.getText(ROOT);
    return EditorState.create({
      doc: text.toString(),
      extensions: [
        keymap.of([...yUndoManagerKeymap, ...defaultKeymap]),
        drawSelection(),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-labelledby": "note-title", spellcheck: "true" }),
        placeholder("Write here. Open the page in a second browser, or send an agent."),
        this.#editable.of(EditorState.readOnly.of(true)),
        yCollab(text, awareness),
      ],
    });
  }

  /** What is on the device may be edited while the server is out of reach; a page without either waits. */
  #show(status: DocumentStatus): void {
    this.#options.status(status);
    const view = this.#view!;
    const isEmpty = view.state.doc.length === 0;
    const mayEdit = !status.isReadOnly && status.connection !== "stopped" && (status.isLoaded || !isEmpty);
    if (view.state.readOnly === mayEdit) view.dispatch({ effects: this.#editable.reconfigure(EditorState.readOnly.of(!mayEdit)) });
  }

  /** The note is another one now. The old copy must not be merged into it: its author gets it as text. */
  #recover(note: SharedDocument, document: Uint8Array): void {
    const old = new Y.Doc();
    Y.applyUpdate(old, document);
    notify("The note was replaced or deleted meanwhile. This is the copy that you had.", undefined, old.getText(ROOT).toString());
    note.close();
    this.#open();
  }
}
