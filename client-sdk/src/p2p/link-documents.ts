// What one connection carries: which documents are open on both sides, and the frames of each. A document is
// carried while both have the same epoch of it, so an old copy never gets into a new one (W11).
import type { DataLink } from "./data-link.ts";
import { MAX_DOCUMENTS } from "./types.ts";

/** A path and its epoch; `null`: not known yet. */
export type OpenList = readonly (readonly [path: string, epoch: number | null])[];

export class LinkDocuments {
  readonly link: DataLink;
  readonly #heard: (path: string, frame: Uint8Array) => void;
  /** The peer's list; `null` before it has come. */
  #theirs: ReadonlyMap<string, number | null> | null = null;
  #isTheirsWhole = true;

  constructor(link: DataLink, heard: (path: string, frame: Uint8Array) => void, listed: () => void) {
    this.link = link;
    this.#heard = heard;
    link.on("text", (text) => this.#take(text) && listed());
    link.on("bytes", (bytes) => this.#split(bytes));
  }

  /** Tells what is open here. Past the bound the peer is told that there is more. */
  list(own: OpenList): void {
    this.link.say({ kind: "documents", documents: own.slice(0, MAX_DOCUMENTS), isWhole: own.length <= MAX_DOCUMENTS });
  }

  /** The peer's epoch of a document: `null` when it has none yet, `undefined` when it is not open there or not known. */
  epochOf(path: string): number | null | undefined {
    return this.#theirs?.get(path);
  }

  /** The peer has said that it does not have this document open. */
  isWithout(path: string): boolean {
    return this.#theirs !== null && this.#isTheirsWhole && !this.#theirs.has(path);
  }

  send(path: string, frame: Uint8Array): void {
    const name = new TextEncoder().encode(path);
    const message = new Uint8Array(2 + name.length + frame.length);
    new DataView(message.buffer).setUint16(0, name.length);
    message.set(name, 2);
    message.set(frame, 2 + name.length);
    this.link.send(message);
  }

  #take(text: string): boolean {
    try {
      const { kind, documents, isWhole } = JSON.parse(text) as { kind?: unknown; documents?: unknown; isWhole?: unknown };
      // A newer peer may say more.
      if (kind !== "documents" || !Array.isArray(documents)) return false;
      this.#theirs = new Map((documents as OpenList).slice(0, MAX_DOCUMENTS));
      this.#isTheirsWhole = isWhole === true;
      return true;
    } catch {
      this.link.close();
      return false;
    }
  }

  #split(message: Uint8Array): void {
    if (message.length < 2) return this.link.close();
    const end = 2 + new DataView(message.buffer, message.byteOffset).getUint16(0);
    if (end > message.length) return this.link.close();
    this.#heard(new TextDecoder().decode(message.subarray(2, end)), message.subarray(end));
  }
}
