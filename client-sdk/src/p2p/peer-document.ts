// One document over the direct connections: a sync with each peer that has it open, and the awareness
// of this browser's people. The same conversation as with a relay, so its edits count as others' everywhere.
import type { Awareness } from "y-protocols/awareness";
import type * as Y from "yjs";
import { clientsOf } from "../quiet-awareness.ts";
import type { AwarenessChange } from "../quiet-awareness.ts";
import { SyncSession } from "../sync-session.ts";
import { removeAwarenessStates } from "../yjs.ts";
import type { LinkDocuments } from "./link-documents.ts";

export interface PeerDocumentParts {
  readonly path: string;
  readonly doc: Y.Doc;
  readonly awareness: Awareness;
}

export interface PeerDocumentEvents {
  /** Who is reached has changed. */
  changed(): void;
  /** People were taken out of the awareness with a connection; a relay may still know them. */
  forgot(): void;
}

interface Conversation {
  readonly session: SyncSession;
  readonly epoch: number;
  isSynced: boolean;
  /** Awareness clients that this peer spoke for. */
  readonly people: Set<number>;
}

export class PeerDocument {
  readonly path: string;
  /** When it was opened, in ms. */
  readonly since: number;
  readonly #parts: PeerDocumentParts;
  readonly #events: PeerDocumentEvents;
  readonly #conversations = new Map<LinkDocuments, Conversation>();
  /** Clients that others speak for, on whatever way they were heard. */
  readonly #others = new Set<number>();
  epoch: number | null = null;

  constructor(parts: PeerDocumentParts, since: number, events: PeerDocumentEvents) {
    this.path = parts.path;
    this.since = since;
    this.#parts = parts;
    this.#events = events;
    parts.doc.on("update", this.#handleUpdate);
    parts.awareness.on("change", this.#handleChange);
    parts.awareness.on("update", this.#handleAwarenessUpdate);
  }

  /** Begins or ends the conversation, after either side's list. */
  meet(documents: LinkDocuments): void {
    const theirs = documents.epochOf(this.path);
    const known = this.#conversations.get(documents);
    if (known !== undefined && known.epoch === this.epoch && theirs === this.epoch) return;
    if (known !== undefined) this.leave(documents);
    if (this.epoch === null || theirs !== this.epoch || !documents.link.isOpen) return;
    this.#begin(documents, this.epoch);
  }

  leave(documents: LinkDocuments): void {
    const conversation = this.#conversations.get(documents);
    if (conversation === undefined) return;
    this.#conversations.delete(documents);
    this.#forget([...conversation.people]);
  }

  /** Everything of this copy is there, and the other way round. */
  isSyncedWith(documents: LinkDocuments): boolean {
    return this.#conversations.get(documents)?.isSynced === true;
  }

  handleFrame(documents: LinkDocuments, frame: Uint8Array): void {
    this.#conversations.get(documents)?.session.handleFrame(frame);
  }

  /** Whoever forgot the others asks who they are. */
  askForPeople(): void {
    for (const { session } of this.#conversations.values()) session.queryAwareness();
  }

  close(): void {
    const { doc, awareness } = this.#parts;
    doc.off("update", this.#handleUpdate);
    awareness.off("change", this.#handleChange);
    awareness.off("update", this.#handleAwarenessUpdate);
    for (const documents of [...this.#conversations.keys()]) this.leave(documents);
  }

  #begin(documents: LinkDocuments, epoch: number): void {
    const { doc, awareness } = this.#parts;
    const channel = {
      label: "peer",
      send: (frame: Uint8Array) => documents.send(this.path, frame),
      say: () => {},
      synced: () => this.#handleSynced(documents),
      // A hole in what came: a new connection brings it.
      fail: () => documents.link.close(),
    };
    const session = new SyncSession({ doc, awareness, channel, isProbe: false, ownClients: () => this.#own() }, {
      synced: () => {},
      readOnly: () => {},
      // The API takes it in parts, or refuses it for good.
      tooLarge: () => documents.link.close(),
    });
    this.#conversations.set(documents, { session, epoch, isSynced: false, people: new Set() });
  }

  #handleSynced(documents: LinkDocuments): void {
    const conversation = this.#conversations.get(documents);
    if (conversation === undefined) return;
    conversation.isSynced = true;
    this.#events.changed();
  }

  #own(): number[] {
    return [...this.#parts.awareness.getStates().keys()].filter((client) => !this.#others.has(client));
  }

  readonly #handleUpdate = (update: Uint8Array, origin: unknown): void => {
    for (const { session } of this.#conversations.values()) session.sendUpdate(update, origin);
  };

  readonly #handleChange = (change: AwarenessChange, origin: unknown): void => {
    if (origin instanceof SyncSession) {
      this.#count(origin, change);
      return;
    }
    const own = clientsOf(change).filter((client) => !this.#others.has(client));
    for (const client of change.removed) this.#others.delete(client);
    if (own.length > 0) for (const { session } of this.#conversations.values()) session.sendAwareness(own);
  };

  /** Somebody said that this client is gone: it is not, and its clock was raised by that. */
  readonly #handleAwarenessUpdate = (change: AwarenessChange, origin: unknown): void => {
    const own = this.#parts.awareness.clientID;
    if (!(origin instanceof SyncSession) || !clientsOf(change).includes(own)) return;
    for (const { session } of this.#conversations.values()) session.sendAwareness([own]);
  };

  #count(origin: SyncSession, { added, removed }: AwarenessChange): void {
    const people = [...this.#conversations.values()].find(({ session }) => session === origin)?.people;
    for (const client of added) {
      if (client === this.#parts.awareness.clientID) continue;
      this.#others.add(client);
      people?.add(client);
    }
    for (const client of removed) {
      this.#others.delete(client);
      people?.delete(client);
    }
  }

  /** Their clocks go too, else a state that comes again would count as old. */
  #forget(people: number[]): void {
    const { awareness } = this.#parts;
    if (people.length === 0) return;
    removeAwarenessStates(awareness, people, this);
    for (const client of people) {
      awareness.meta.delete(client);
      this.#others.delete(client);
    }
    this.#events.forgot();
  }
}
