/**
 * One workspace on this relay: events in, the room's actions out. The counterpart of the Durable
 * Object's `room_object`.
 *
 * It owns the core, the sockets, the one timer and the one feed of the workspace. All protocol is in
 * the core.
 *
 * @module
 */

import { Backlog } from "./backlog.ts";
import { Action, Core, StoredDocument } from "./core.ts";
import { Feed } from "./feed.ts";
import { MAX_TIMER, QUEUED_WORTH_TELLING } from "./limits.ts";
import { type Log, messageOf } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import type { Parting } from "./parting.ts";
import type { People } from "./people.ts";
import type { Spool, SpoolSource } from "./spool.ts";
import type { Storage, StoreError } from "./storage.ts";
import type { Turns } from "./turns.ts";

/** What all rooms of the process share. */
export interface RoomParts {
  readonly storage: Storage;
  readonly parting: Parting;
  readonly turns: Turns;
  readonly metrics: Metrics;
  readonly log: Log;
  /** Who is told of the people on sockets. */
  readonly people?: People;
  /** The core's configuration, as JSON. */
  readonly coreConfig: string;
  readonly maxFrameBytes: number;
  /** Names this run of the process in idempotency keys. */
  readonly run: string;
  /** Makes a core; a test makes one that fails. */
  readonly makeCore?: (config: string) => Core;
}

/** Who connects. */
export interface Visitor {
  /** The core's session, as JSON. */
  readonly session: string;
  /** Who it is, of a person; services are no presence. */
  readonly person: string | undefined;
  /** When its token ends, in ms. */
  readonly expiresAt: number;
}

/** Whom a room tells that it is over. */
export interface RoomOwner {
  /** Nobody is connected and nothing is left to save. */
  onIdle(room: Room): void;
  /** The core trapped: the room is closed and must not be used again. */
  onTrap(room: Room): void;
}

/** One connection. */
interface Session {
  readonly socket: WebSocket;
  readonly backlog: Backlog;
  /** Tells of a person that it is gone. */
  readonly leave: (() => void) | undefined;
}

/** Frames as a socket gives and takes them. */
type Data = string | ArrayBuffer | Uint8Array<ArrayBuffer>;

/** A live workspace. */
export class Room implements SpoolSource {
  /** Whether the API said that the workspace is there. */
  isKnown = false;
  /** Another one after each construction, so that a test can tell whether the room was built anew. */
  readonly instance = crypto.randomUUID();
  readonly #core: Core;
  readonly #parts: RoomParts;
  readonly #spool: Spool | undefined;
  readonly #owner: RoomOwner;
  readonly #sessions = new Map<number, Session>();
  #feed: Feed | undefined;
  #timer: { id: ReturnType<typeof setTimeout>; at: number } | undefined;
  #isOver = false;

  /** `number` tells the rooms of this run apart in the spool. */
  constructor(
    readonly workspace: string,
    readonly number: number,
    parts: RoomParts,
    spool: Spool | undefined,
    owner: RoomOwner,
  ) {
    this.#parts = parts;
    this.#spool = spool;
    this.#owner = owner;
    this.#core = parts.makeCore?.(parts.coreConfig) ?? new Core(parts.coreConfig);
  }

  /** Why a session is not let in, or undefined. */
  refuses(session: string): string | undefined {
    if (this.#isOver) return undefined;
    try {
      return this.#core.refuses(session);
    } catch (error) {
      this.#trap(error);
      return undefined;
    }
  }

  /** Lets an open socket in. */
  enter({ session, person, expiresAt }: Visitor, socket: WebSocket): void {
    const refusal = this.refuses(session);
    if (refusal !== undefined) return this.#parts.parting.part(socket, this.workspace, TRY_LATER, refusal);
    this.#run((core, now) => {
      const id = core.open(session, now);
      const leave = person === undefined
        ? undefined
        : this.#parts.people?.enter(this.workspace, person, expiresAt);
      const connection = { socket, backlog: new Backlog(socket), leave };
      this.#sessions.set(id, connection);
      socket.addEventListener("message", ({ data }) => this.#receive(id, connection, data));
      socket.addEventListener("close", () => this.#leave(id, connection));
    });
    // A core that trapped has not taken it in.
    if (this.#isOver) this.#parts.parting.part(socket, this.workspace, RESTART, FAILED);
  }

  /** Connections. */
  get clients(): number {
    return this.#sessions.size;
  }

  /** Bytes that its sockets have not taken. */
  get queuedBytes(): number {
    let bytes = 0;
    for (const { socket } of this.#sessions.values()) bytes += socket.bufferedAmount;
    return bytes;
  }

  /** When the oldest update came in that is not saved, in ms; undefined when all is. */
  get unsavedSince(): number | undefined {
    return this.#isOver ? undefined : this.#core.unsavedSince();
  }

  /** Whether something is not saved. */
  get hasUnsaved(): boolean {
    return !this.#isOver && this.#core.hasUnsaved();
  }

  /** Saves what is not saved, now. */
  flush(): void {
    this.#run((core, now) => core.flush(now));
  }

  /** Sends everybody away, to come back here or elsewhere. */
  restart(): void {
    this.#run((core, now) => core.restart(now));
  }

  #receive(id: number, session: Session, data: string | ArrayBuffer): void {
    // Told to close: what it still says is not heard.
    if (this.#sessions.get(id) !== session) return;
    const { metrics, turns, maxFrameBytes } = this.#parts;
    const now = Date.now();
    const length = typeof data === "string" ? data.length : data.byteLength;
    metrics.framesIn += 1;
    metrics.bytesIn += length;
    if (length > maxFrameBytes) {
      this.#expel(id, TOO_BIG, tooBig(maxFrameBytes));
    } else if (turns.isFree(now)) {
      this.#take(id, data, now);
      turns.done(Date.now());
    } else {
      const later = () => this.#sessions.get(id) === session && this.#take(id, data, Date.now());
      if (!turns.wait(session.socket, length, later)) this.#expel(id, TRY_LATER, TOO_FAST);
    }
  }

  #take(id: number, data: string | ArrayBuffer, now: number): void {
    if (typeof data === "string") this.#run((core, now) => core.text(id, data, now));
    else this.#frame(id, data, now);
  }

  #expel(id: number, code: number, reason: string): void {
    this.#dismiss(id, code, reason);
    this.#run((core, now) => core.close(id, now));
  }

  /** A close may be told twice, and after the room closed the socket itself. */
  #leave(id: number, session: Session): void {
    if (this.#sessions.get(id) !== session) return;
    const leave = () => {
      if (this.#sessions.get(id) !== session) return;
      this.#forget(id);
      this.#run((core, now) => core.close(id, now));
    };
    // What it sent before counts.
    const { turns } = this.#parts;
    if (!turns.has(session.socket) || !turns.wait(session.socket, 0, leave)) leave();
  }

  #forget(id: number): void {
    const session = this.#sessions.get(id);
    this.#sessions.delete(id);
    session?.leave?.();
  }

  /** `#run` for the event that there are most of: it makes no closure, and crosses the border as rarely as it can. */
  #frame(id: number, data: ArrayBuffer, now: number): void {
    if (this.#isOver) return;
    try {
      this.#settle(this.#core.frame(id, new Uint8Array(data), now), data);
    } catch (error) {
      this.#trap(error);
    }
  }

  /** Hands an event to the core and does what it asks. */
  #run<T>(event: (core: Core, now: number) => T): T | undefined {
    if (this.#isOver) return undefined;
    try {
      const result = event(this.#core, Date.now());
      this.#settle(this.#core.next(), undefined);
      return result;
    } catch (error) {
      this.#trap(error);
      return undefined;
    }
  }

  /** Does what the core asks after an event, from its first action on. `input` is the frame that was it. */
  #settle(first: number, input: ArrayBuffer | undefined): void {
    const core = this.#core;
    for (let action = first; action !== Action.None; action = core.next()) this.#perform(action, input);
    // A room with a connection is not idle; the core need not be asked after every frame.
    if (this.#sessions.size === 0 && core.isIdle()) this.#end();
    else this.#arm();
  }

  #perform(action: number, input: ArrayBuffer | undefined): void {
    const core = this.#core;
    switch (action) {
      case Action.SendInput:
        // The very buffer that came in goes out again, without a copy.
        if (input) this.#send(input, input.byteLength);
        break;
      case Action.SendBytes: {
        const bytes = core.bytes() as Uint8Array<ArrayBuffer>;
        this.#send(bytes, bytes.length);
        break;
      }
      case Action.SendText: {
        const text = core.message();
        this.#send(text, text.length);
        break;
      }
      case Action.Close:
        this.#dismiss(core.session(), core.code(), core.message());
        break;
      case Action.Load:
        this.#read(core.message(), core.number());
        break;
      case Action.Pull:
        this.#read(core.message(), core.number(), core.after());
        break;
      case Action.Persist:
        this.#persist();
        break;
      case Action.Lease:
        this.#follow(core.number() > 0);
        break;
      case Action.Spool:
        this.#spool?.gather(this);
        break;
      case Action.Keep:
        this.#keep();
        break;
      case Action.Release:
        this.#spool?.release(this.number, this.workspace, core.message(), core.number());
        break;
    }
  }

  /** Sends a frame to its receivers. One that is closing fails alone (R05). */
  #send(data: Data, length: number): void {
    const { metrics } = this.#parts;
    for (let id = this.#core.to(); id !== 0; id = this.#core.to()) {
      const session = this.#sessions.get(id);
      if (session?.socket.readyState !== WebSocket.OPEN) continue;
      try {
        session.socket.send(data);
      } catch {
        continue;
      }
      metrics.framesOut += 1;
      metrics.bytesOut += length;
      const queued = session.backlog.sent(data, QUEUED_WORTH_TELLING);
      // What the core then asks for is done by the loop that is running.
      if (queued > 0) this.#core.queued(id, queued, Date.now());
    }
  }

  #dismiss(id: number, code: number, reason: string): void {
    const socket = this.#sessions.get(id)?.socket;
    this.#forget(id);
    if (socket) this.#parts.parting.part(socket, this.workspace, code, reason);
  }

  /** Reads a document, or what is newer than a clock of it. */
  async #read(document: string, generation: number, after?: number): Promise<void> {
    const stored = await this.#parts.storage.read(this.workspace, document, after);
    this.#run((core, now) => {
      if (isError(stored)) {
        if (after === undefined) core.loadFailed(document, generation, stored, now);
        else core.pullFailed(document, generation, stored, now);
        return;
      }
      const found = new StoredDocument(stored.clock, stored.epoch, stored.update);
      if (after === undefined) core.loaded(document, generation, found, now);
      else core.pulled(document, generation, found, now);
    });
  }

  async #persist(): Promise<void> {
    const core = this.#core;
    const [document, flush] = [core.message(), core.number()];
    const saved = await this.#parts.storage.append({
      workspace: this.workspace,
      document,
      update: core.bytes(),
      epoch: core.epoch(),
      author: core.actor(),
      after: core.after(),
      // A retry of the same bytes has the same number.
      key: `${this.#parts.run}-${this.number}-${flush}`,
    });
    this.#run((core, now) => {
      if (isError(saved)) core.persistFailed(document, flush, saved, now);
      else core.persisted(document, flush, saved.clock, saved.epoch, saved.missed, now);
    });
  }

  /** The spool takes what came in since it last did. */
  spool(): void {
    this.#run((core) => core.spool());
  }

  #keep(): void {
    const core = this.#core;
    this.#spool?.keep({
      room: this.number,
      workspace: this.workspace,
      document: core.message(),
      epoch: core.epoch(),
      author: core.actor(),
      number: core.number(),
      update: core.bytes(),
    });
  }

  /** Follows the workspace's changes, or no more. */
  #follow(isWanted: boolean): void {
    if (!isWanted) {
      this.#feed?.stop();
      this.#feed = undefined;
    } else if (!this.#feed) {
      const { storage, log, metrics } = this.#parts;
      const listener = {
        change: (json: string) => void this.#run((core, now) => core.change(json, now)),
        reset: (head: number) => this.#run((core, now) => core.reset(head, now)),
        deleted: (head: number) => {
          const change = { clock: head, kind: "delete_workspace", path: "", actor: "", at: Date.now() };
          this.#run((core, now) => core.change(JSON.stringify(change), now));
        },
      };
      const open = (since: number | undefined, signal: AbortSignal) =>
        storage.changes(this.workspace, since, signal);
      this.#feed = new Feed(listener, { open, log, metrics });
    }
  }

  /** One timer, for the earliest thing that is due. */
  #arm(): void {
    const at = this.#core.timeoutAt();
    // An earlier timer than needed fires for nothing once; moving it with every frame costs more.
    if (this.#timer && this.#timer.at <= at) return;
    clearTimeout(this.#timer?.id);
    this.#timer = undefined;
    if (at === Infinity) return;
    const fire = () => {
      this.#timer = undefined;
      this.#run((core, now) => core.timeout(now));
    };
    const wait = Math.min(Math.max(at - Date.now(), 0), MAX_TIMER);
    this.#timer = { id: setTimeout(fire, wait), at };
  }

  #end(): void {
    this.#stop();
    this.#core.free();
    this.#owner.onIdle(this);
  }

  /**
   * The core broke off in the middle of something: this room is not to be trusted with a word more.
   * Its clients bring back what it had, and so does the spool. Its memory is not freed, since that
   * would run the same code.
   */
  #trap(error: unknown): void {
    this.#stop();
    this.#parts.metrics.traps += 1;
    this.#parts.log.error("room_trapped", { workspace: this.workspace, cause: messageOf(error) });
    for (const id of [...this.#sessions.keys()]) this.#dismiss(id, RESTART, FAILED);
    this.#spool?.abandon(this.number);
    this.#owner.onTrap(this);
  }

  #stop(): void {
    this.#isOver = true;
    clearTimeout(this.#timer?.id);
    this.#feed?.stop();
  }
}

function isError(answer: StoreError | object): answer is StoreError {
  return typeof answer === "string";
}

/** Why a frame of more than so many bytes is refused. */
export function tooBig(bytes: number): string {
  const size = bytes % MEBIBYTE === 0 ? `${bytes / MEBIBYTE} MiB` : `${bytes} bytes`;
  return `a frame may have ${size}; send larger updates by REST`;
}

const MEBIBYTE = 1024 * 1024;

/** Close codes that the shell uses by itself; the core knows them all. */
export const RESTART = 1012;
export const TRY_LATER = 1013;
export const TOO_BIG = 1009;

const FAILED = "the room failed; connect again";
export const TOO_FAST = "more frames than the relay can take; connect again later";
