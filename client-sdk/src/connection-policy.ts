// Whether a document is worth a socket (S3). Pure: inputs are arguments, and what was decided before is
// one of them, since what is not known changes nothing.

export interface Company {
  /** Humans other than this one, in any number of tabs; `null` when not known. */
  readonly otherHumans: number | null;
  /** Whether the surface is a Yjs document that somebody edits here. */
  readonly isYjs: boolean;
  /** Others are reached without a relay. */
  readonly isCarried?: boolean;
}

/** A person alone never opens a socket, nor does a surface that Yjs does not carry, or that peers do. */
export function shouldOpenWs({ otherHumans, isYjs, isCarried = false }: Company): boolean {
  return isYjs && !isCarried && otherHumans !== null && otherHumans >= 1;
}

/** Why a socket is held, or kept closed, whatever the company. The application may have names of its own. */
export type Reason = string;

/**
 * A set of reasons in place of a flag: who sets one takes back that one alone. A reason against wins;
 * without a reason for it, company decides.
 */
export class ConnectionPolicy {
  readonly #holds = new Set<Reason>();
  readonly #blocks = new Set<Reason>();
  #isOpen = false;

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Keeps a socket open while the reason is set: two windows on one desk, a demonstration. */
  hold(reason: Reason, isSet = true): void {
    if (isSet) this.#holds.add(reason);
    else this.#holds.delete(reason);
  }

  /** Keeps it closed while the reason is set. */
  block(reason: Reason, isSet = true): void {
    if (isSet) this.#blocks.add(reason);
    else this.#blocks.delete(reason);
  }

  /** Decides anew. A hidden page opens nothing, and closes nothing that is in use. */
  evaluate(company: Company, isHidden: boolean): boolean {
    if (this.#blocks.size > 0) this.#isOpen = false;
    else if (this.#holds.size > 0) this.#isOpen = company.isYjs;
    else if (company.otherHumans === null) this.#isOpen &&= company.isYjs;
    else if (shouldOpenWs(company)) this.#isOpen ||= !isHidden;
    else this.#isOpen = false;
    return this.#isOpen;
  }
}
