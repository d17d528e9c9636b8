/**
 * The rooms of this process: made when somebody connects, dropped when nobody is left and all is
 * saved.
 *
 * @module
 */

import { Action, Core } from "./core.ts";
import {
  DRAIN_FLUSH_WAIT,
  MAX_PARTING,
  MAX_ROOMS,
  MAX_SOCKETS,
  MAX_STUCK_BYTES,
  MAX_TRAPS,
  OPEN_DEADLINE,
} from "./limits.ts";
import { messageOf } from "./log.ts";
import { RESTART, Room, type RoomOwner, type RoomParts, TRY_LATER, type Visitor } from "./room.ts";
import type { Spool } from "./spool.ts";
import { until } from "./until.ts";

/** Why nobody new is let in. */
export interface Refusal {
  readonly code: "rate_limited" | "storage_unavailable";
  readonly detail: string;
}

/** What the host needs besides what rooms share. */
export interface HostParts extends RoomParts {
  /** The core cannot be used any more: the process should end. */
  readonly onBroken: (cause: string) => void;
  /** A room left unsaved updates in the spool. */
  readonly onAbandoned: () => void;
  /** Other bounds than those of `limits.ts`, for tests. */
  readonly limits?: Partial<HostLimits>;
}

/** How much the relay takes on. */
export interface HostLimits {
  readonly sockets: number;
  readonly rooms: number;
  /** Sockets of one workspace that do not answer their close. */
  readonly parting: number;
  /** Bytes that such sockets have not taken. */
  readonly stuckBytes: number;
}

/** All rooms. */
export class RoomHost implements RoomOwner {
  /** Set once, when it is open: rooms made from then on use it. */
  spool: Spool | undefined;
  /** The relay will stop soon: proxies are told to send nobody any more, who comes is let in. */
  isLeaving = false;
  /** Nobody is let in any more. */
  isDraining = false;
  readonly #parts: HostParts;
  readonly #limits: HostLimits;
  readonly #rooms = new Map<string, Room>();
  #sockets = 0;
  #made = 0;
  #traps = 0;

  constructor(parts: HostParts) {
    this.#parts = parts;
    const defaults = {
      sockets: MAX_SOCKETS,
      rooms: MAX_ROOMS,
      parting: MAX_PARTING,
      stuckBytes: MAX_STUCK_BYTES,
    };
    this.#limits = { ...defaults, ...parts.limits };
  }

  /** Whether the API confirmed the workspace while its room was live. */
  isKnown(workspace: string): boolean {
    return this.#rooms.get(workspace)?.isKnown ?? false;
  }

  /** Why a session is not let in, or undefined. Asked before the upgrade. */
  refuses(workspace: string, session: string): Refusal | undefined {
    const { parting } = this.#parts;
    const full = (what: string): Refusal => ({
      code: "storage_unavailable",
      detail: `${what}; use the next relay.`,
    });
    if (this.#sockets >= this.#limits.sockets) return full("The relay has no place left");
    if (parting.stuckBytes >= this.#limits.stuckBytes) return full("The relay is short of memory");
    const room = this.#rooms.get(workspace);
    if (!room && this.#rooms.size >= this.#limits.rooms) {
      return full("The relay has no place left for another workspace");
    }
    const detail = parting.countOf(workspace) >= this.#limits.parting
      ? "Too many connections of this workspace do not answer their close."
      : room?.refuses(session);
    return detail === undefined ? undefined : { code: "rate_limited", detail };
  }

  /** Takes a socket whose upgrade is under way. */
  take(socket: WebSocket, workspace: string, visitor: Visitor, isKnown: boolean): void {
    this.carry(socket, workspace, () => this.#admit(socket, workspace, visitor, isKnown));
  }

  /** Counts a socket whose upgrade is under way, and says when it is open. */
  carry(socket: WebSocket, workspace: string, onOpen: () => void): void {
    let isCounted = false;
    const count = (isHere: boolean) => {
      // A close may come twice.
      if (isHere !== isCounted) this.#sockets += isHere ? 1 : -1;
      isCounted = isHere;
    };
    count(true);
    // The runtime says nothing of a handshake that was cut.
    const limit = setTimeout(() => count(false), OPEN_DEADLINE);
    socket.addEventListener("close", () => count(false));
    socket.addEventListener("open", () => {
      clearTimeout(limit);
      count(true);
      if (this.isDraining) {
        this.#parts.parting.part(socket, workspace, RESTART, "the relay restarts; connect again");
      } else onOpen();
    });
  }

  /** Open sockets, those on their way out included. */
  get connections(): number {
    return this.#sockets;
  }

  /** Rooms. */
  get count(): number {
    return this.#rooms.size;
  }

  /** Bytes that open sockets have not taken; those on their way out are counted apart. */
  get queuedBytes(): number {
    let bytes = 0;
    for (const room of this.#rooms.values()) bytes += room.queuedBytes;
    return bytes;
  }

  /** The room of a workspace, if it is live. */
  find(workspace: string): Room | undefined {
    return this.#rooms.get(workspace);
  }

  /** When the oldest update came in that is not saved, in ms. */
  get unsavedSince(): number | undefined {
    const times = [...this.#rooms.values()].map((room) => room.unsavedSince).filter((at) => at !== undefined);
    return times.length > 0 ? Math.min(...times) : undefined;
  }

  /** Rooms that have something to save. */
  get unsavedRooms(): number {
    return [...this.#rooms.values()].filter((room) => room.hasUnsaved).length;
  }

  /** Saves everything that is not saved, now. */
  flush(): void {
    for (const room of [...this.#rooms.values()]) room.flush();
  }

  /** Sends everybody away. */
  restart(): void {
    for (const room of [...this.#rooms.values()]) room.restart();
  }

  /** The workspaces that somebody is in. */
  get workspaces(): string[] {
    return [...this.#rooms.values()].filter((room) => room.clients > 0).map((room) => room.workspace);
  }

  /** Saves a room and sends everybody in it away: another replica has the workspace now. */
  async handOver(workspace: string): Promise<void> {
    const room = this.#rooms.get(workspace);
    if (!room) return;
    room.flush();
    await until(() => !room.hasUnsaved, DRAIN_FLUSH_WAIT);
    this.#parts.people?.moved(workspace);
    room.restart();
  }

  /** A room is empty. */
  onIdle(room: Room): void {
    this.#drop(room);
  }

  /** A room trapped. The others go on while the core still works; a trap leaks what its room held. */
  onTrap(room: Room): void {
    this.#drop(room);
    this.#parts.onAbandoned();
    this.#traps += 1;
    const cause = this.#traps > MAX_TRAPS ? "the core trapped too often" : this.#probe();
    if (cause !== undefined) this.#parts.onBroken(cause);
  }

  #admit(socket: WebSocket, workspace: string, visitor: Visitor, isKnown: boolean): void {
    const { parting } = this.#parts;
    const room = this.#room(workspace);
    if (!room) return parting.part(socket, workspace, TRY_LATER, "the relay has no place left");
    room.isKnown ||= isKnown;
    room.enter(visitor, socket);
  }

  #room(workspace: string): Room | undefined {
    const found = this.#rooms.get(workspace);
    if (found) return found;
    if (this.#rooms.size >= this.#limits.rooms) return undefined;
    this.#made += 1;
    const room = new Room(workspace, this.#made, this.#parts, this.spool, this);
    this.#rooms.set(workspace, room);
    return room;
  }

  #drop(room: Room): void {
    if (this.#rooms.get(room.workspace) === room) this.#rooms.delete(room.workspace);
  }

  /** Why the core cannot be used, or undefined: a room of its own is taken through a short life. */
  #probe(): string | undefined {
    try {
      const core = new Core(this.#parts.coreConfig);
      const session = core.open(PROBE_SESSION, 0);
      core.text(session, '{"type":"ping"}', 0);
      core.close(session, 0);
      while (core.next() !== Action.None);
      core.free();
      return undefined;
    } catch (error) {
      return `the core cannot be used any more: ${messageOf(error)}`;
    }
  }
}

const PROBE_SESSION = JSON.stringify({
  sub: "probe",
  kind: "client",
  can_write: false,
  expires_at: Number.MAX_SAFE_INTEGER,
  document: "probe",
  epoch: null,
});
