// One connection's conversation about one document: the sync in both directions, then updates. It is
// synced when it has what the relay had, and the relay has what it had.
import type * as Y from "yjs";
import { decodeFrame, encodeAwareness, encodeQueryAwareness, encodeSyncStep1, encodeSyncStep2, encodeUpdate } from "./messages.ts";
import type { Message } from "./messages.ts";
import { reportError } from "./emitter.ts";
import type { Channel } from "./relay-socket.ts";
import { Awareness, applyAwarenessUpdate, applyUpdate, encodeAwarenessUpdate, encodeStateAsUpdate, encodeStateVector } from "./yjs.ts";

/** The relay's limit of a binary frame. A larger one would be answered by 1009, so it is not sent. */
export const MAX_FRAME_BYTES = 1024 * 1024;

export interface SyncSessionEvents {
  /** Both sides have everything. Told before the channel is told, which may make a probe the one in use. */
  synced(): void;
  readOnly(reason: string): void;
  /** A frame would be over the limit; it was not sent. */
  tooLarge(): void;
}

export interface SyncSessionParts {
  readonly doc: Y.Doc;
  readonly awareness: Awareness;
  readonly channel: Channel;
  readonly isProbe: boolean;
  /** The client ids that this connection speaks for. */
  readonly ownClients: () => readonly number[];
}

export class SyncSession {
  readonly #doc: Y.Doc;
  readonly #awareness: Awareness;
  readonly #channel: Channel;
  readonly #events: SyncSessionEvents;
  readonly #ownClients: () => readonly number[];
  /** A probe's session takes no part in awareness: the relay in use still shows this person. */
  #isProbe: boolean;
  #received = false;
  #answered = false;
  #synced = false;

  /** Begins the sync. Writes wait for the relay's own step 1: a relay that does not know the document's epoch yet takes none (W11). */
  constructor(parts: SyncSessionParts, events: SyncSessionEvents) {
    this.#doc = parts.doc;
    this.#awareness = parts.awareness;
    this.#channel = parts.channel;
    this.#isProbe = parts.isProbe;
    this.#ownClients = parts.ownClients;
    this.#events = events;
    this.#channel.send(encodeSyncStep1(encodeStateVector(this.#doc)));
    if (!this.#isProbe) this.#announce();
  }

  say(message: object): void {
    this.#channel.say(message);
  }

  handleFrame(frame: Uint8Array): void {
    let messages: Message[];
    try {
      messages = decodeFrame(frame);
    } catch {
      // What was in the frame is missing now, and what depends on it will not show: sync anew.
      return this.#channel.fail();
    }
    for (const message of messages) {
      try {
        this.#handle(message);
      } catch (error) {
        // An observer of the application's: no fault of the relay, and no reason to drop what follows.
        reportError(error);
      }
    }
  }

  /** A change of the document, from here or from `origin`. */
  sendUpdate(update: Uint8Array, origin: unknown): void {
    // Before the answer to step 1 it is a part of that answer.
    if (origin === this || !this.#answered) return;
    // What one relay said is told to another one only by a probe, which has to have all when it takes over.
    if (origin instanceof SyncSession && !this.#isProbe) return;
    this.#send(encodeUpdate(update));
  }

  /** Tells of the awareness states that this connection speaks for, or of some of them. */
  sendAwareness(clients: readonly number[] = this.#ownClients()): void {
    if (this.#isProbe) return;
    const known = clients.filter((client) => this.#awareness.meta.has(client));
    if (known.length > 0) this.#send(encodeAwareness(encodeAwarenessUpdate(this.#awareness, known)));
  }

  /** This probe's connection is the one in use now. */
  adopt(): void {
    this.#isProbe = false;
    this.#announce();
    this.queryAwareness();
  }

  /** Asks who is there. */
  queryAwareness(): void {
    this.#send(encodeQueryAwareness());
  }

  /** A state that is not newer than what this client left behind counts as gone, so its clock goes up (W5). */
  #announce(): void {
    const state = this.#awareness.getLocalState();
    if (state === null) return;
    this.#awareness.setLocalState(state);
    this.sendAwareness();
  }

  #handle(message: Message): void {
    switch (message.kind) {
      case "syncStep1":
        // The answer to a later one heals a hole in what the relay has (D5).
        if (!this.#send(encodeSyncStep2(encodeStateAsUpdate(this.#doc, message.bytes)))) return;
        this.#answered = true;
        return this.#check();
      case "syncStep2":
        applyUpdate(this.#doc, message.bytes, this);
        this.#received = true;
        return this.#check();
      case "update":
        return applyUpdate(this.#doc, message.bytes, this);
      case "awareness":
        return this.#isProbe ? undefined : applyAwarenessUpdate(this.#awareness, message.bytes, this);
      case "queryAwareness":
        return this.sendAwareness();
      case "auth":
        return this.#events.readOnly(message.reason);
    }
  }

  #check(): void {
    if (this.#synced || !this.#received || !this.#answered) return;
    this.#synced = true;
    this.#events.synced();
    this.#channel.synced();
  }

  #send(frame: Uint8Array): boolean {
    if (frame.length > MAX_FRAME_BYTES) {
      this.#events.tooLarge();
      return false;
    }
    this.#channel.send(frame);
    return true;
  }
}
