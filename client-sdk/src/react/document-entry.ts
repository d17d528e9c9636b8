// A document that is open as long as components show it. Knows nothing of React.
import type { Awareness } from "y-protocols/awareness";
import type { Doc } from "yjs";
import type { SharedDocument } from "../documents/document.ts";
import { OPENING } from "../documents/types.ts";
import type { DocumentStatus } from "../documents/types.ts";
import type { RecoveryCopy } from "../sync-provider.ts";
import type { WorkspaceClient } from "../workspace-client.ts";
import type { Entry } from "./shared-entries.ts";

export interface DocumentView {
  /** `null` until the component is mounted, and on a server. */
  readonly document: SharedDocument | null;
  readonly doc: Doc | null;
  readonly awareness: Awareness | null;
  readonly status: DocumentStatus;
  /** The document was replaced or deleted, and this is the old one: offer it to its author, then `reopen`. */
  readonly recovery: RecoveryCopy | null;
}

export const NO_DOCUMENT: DocumentView = { document: null, doc: null, awareness: null, status: OPENING, recovery: null };

export class DocumentEntry implements Entry<DocumentView> {
  view: DocumentView = NO_DOCUMENT;
  readonly #client: WorkspaceClient;
  readonly #path: string;
  #stops: (() => void)[] = [];
  #changed: () => void = () => {};

  constructor(client: WorkspaceClient, path: string) {
    this.#client = client;
    this.#path = path;
  }

  start(changed: () => void): void {
    this.#changed = changed;
    this.#open();
  }

  stop(): void {
    for (const stop of this.#stops.splice(0)) stop();
    this.view.document?.close();
  }

  /** The document as it is there now, as another object. */
  reopen(): void {
    this.stop();
    this.#open();
    this.#changed();
  }

  #open(): void {
    const document = this.#client.openDoc(this.#path);
    const { doc, awareness, status } = document;
    this.view = { document, doc, awareness, status, recovery: null };
    this.#stops.push(
      document.on("status", (now) => this.#show({ status: now })),
      document.on("recovery", (recovery) => this.#show({ recovery })),
    );
  }

  #show(part: Partial<DocumentView>): void {
    this.view = { ...this.view, ...part };
    this.#changed();
  }
}
