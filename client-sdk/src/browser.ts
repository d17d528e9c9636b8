// What the SDK takes from its surroundings: a browser, Node, Deno or Bun. The one file that names
// their globals, so that a test can put a part of its own in place of each.

/** The part of a WebSocket that is used. */
export interface WebSocketLike {
  binaryType: string;
  readonly bufferedAmount: number;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onerror: ((event: never) => void) | null;
  onclose: ((event: { code: number }) => void) | null;
  send(data: string | Uint8Array<ArrayBuffer>): void;
  close(code?: number): void;
}

/** The part of `sessionStorage` that is used. */
export interface TabStorage {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

/** `closing`: the page is left for good. `stored`, `restored`: it went into the back/forward cache, and came out of it. */
export type Surroundings = "closing" | "focus" | "hidden" | "offline" | "online" | "restored" | "stored" | "visible";

export interface Environment {
  readonly WebSocket: new (url: string, protocols: string[]) => WebSocketLike;
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  /** Wall time in ms. */
  now(): number;
  /** From 0 to below 1. */
  random(): number;
  /** A new random name, such as an idempotency key. */
  uuid(): string;
  setTimeout(run: () => void, ms: number): unknown;
  clearTimeout(timer: unknown): void;
  isOnline(): boolean;
  isHidden(): boolean;
  /** Calls back on each change; answers how to end that. */
  watch(listener: (change: Surroundings) => void): () => void;
  /** The query string of the page, or "". */
  search(): string;
  /** Storage that lives as long as the tab; `null` where there is none. */
  tabStorage(): TabStorage | null;
  warn(text: string): void;
}

/** The part of a `BroadcastChannel` that is used. */
export interface BroadcastChannelLike {
  onmessage: ((event: { data: unknown }) => void) | null;
  postMessage(message: unknown): void;
  close(): void;
}

/** The part of `navigator.locks` that is used. */
export interface LockManagerLike {
  request(name: string, options: { signal?: AbortSignal; steal?: boolean }, run: () => Promise<void>): Promise<void>;
}

/** The part of an `RTCDataChannel` that is used. */
export interface DataChannelLike {
  binaryType: string;
  readonly bufferedAmount: number;
  bufferedAmountLowThreshold: number;
  readonly readyState: string;
  onopen: (() => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onclose: (() => void) | null;
  onbufferedamountlow: (() => void) | null;
  send(data: string | Uint8Array<ArrayBuffer>): void;
}

/** The part of an `RTCPeerConnection` that is used. */
export interface PeerConnectionLike {
  readonly connectionState: string;
  readonly iceGatheringState: string;
  readonly localDescription: { readonly sdp: string } | null;
  onconnectionstatechange: (() => void) | null;
  onicegatheringstatechange: (() => void) | null;
  createDataChannel(label: string, options: { negotiated: boolean; id: number }): DataChannelLike;
  /** Without an argument it makes the offer or the answer by itself. */
  setLocalDescription(): Promise<void>;
  setRemoteDescription(description: { type: "answer" | "offer"; sdp: string }): Promise<void>;
  close(): void;
}

/** A STUN or TURN server, as `RTCPeerConnection` takes it. */
export interface IceServer {
  readonly urls: string[] | string;
  readonly username?: string;
  readonly credential?: string;
}

/** What a page has besides: a database, and other tabs of the same origin. Each may be missing. */
export interface PageEnvironment extends Environment {
  /** `null` where there is none. May throw, as the browser's own property does. */
  indexedDB(): IDBFactory | null;
  locks(): LockManagerLike | null;
  openChannel(name: string): BroadcastChannelLike | null;
}

/** What browsers need besides to connect to each other. */
export interface PeerEnvironment {
  /** Throws where there is no WebRTC. */
  connectPeer(configuration: { iceServers: IceServer[] }): PeerConnectionLike;
  crypto(): Crypto;
}

/** The surroundings that this code runs in. Where there is no page, it is online and visible. */
export function browserEnvironment(): PageEnvironment {
  const page = typeof document === "undefined" ? undefined : document;
  return {
    WebSocket: globalThis.WebSocket as unknown as Environment["WebSocket"],
    fetch: (url, init) => globalThis.fetch(url, init),
    now: () => Date.now(),
    random: () => Math.random(),
    uuid: () => globalThis.crypto.randomUUID(),
    setTimeout: (run, ms) => globalThis.setTimeout(run, ms),
    clearTimeout: (timer) => globalThis.clearTimeout(timer as number),
    isOnline: () => globalThis.navigator?.onLine !== false,
    isHidden: () => page?.visibilityState === "hidden",
    watch: (listener) => (page === undefined ? () => {} : watchPage(page, listener)),
    search: () => globalThis.location?.search ?? "",
    tabStorage,
    warn: (text) => console.warn(text),
    indexedDB: () => globalThis.indexedDB ?? null,
    // Node has both too, but only pages have tabs.
    locks: () => (page === undefined ? null : ((globalThis.navigator?.locks as LockManagerLike | undefined) ?? null)),
    openChannel: (name) => (page === undefined || typeof BroadcastChannel === "undefined" ? null : (new BroadcastChannel(name) as unknown as BroadcastChannelLike)),
  };
}

/** A change after which it is worth looking again: somebody is at the page, or the network is there. */
export function isReturn(change: Surroundings): boolean {
  return change === "focus" || change === "online" || change === "restored" || change === "visible";
}

/** A part of its own, so that only pages that connect to each other carry it. */
export function peerEnvironment(): PeerEnvironment {
  return {
    connectPeer: (configuration) => new RTCPeerConnection(configuration) as unknown as PeerConnectionLike,
    crypto: () => globalThis.crypto,
  };
}

function watchPage(page: Document, listener: (change: Surroundings) => void): () => void {
  const ending = new AbortController();
  const { signal } = ending;
  for (const type of ["online", "offline", "focus"] as const) globalThis.addEventListener(type, () => listener(type), { signal });
  globalThis.addEventListener("pagehide", ({ persisted }) => listener(persisted ? "stored" : "closing"), { signal });
  globalThis.addEventListener("pageshow", ({ persisted }) => persisted && listener("restored"), { signal });
  page.addEventListener("visibilitychange", () => listener(page.visibilityState === "hidden" ? "hidden" : "visible"), { signal });
  return () => ending.abort();
}

function tabStorage(): TabStorage | null {
  // Only a page has a tab; and where cookies are blocked even reading the property throws.
  if (typeof document === "undefined") return null;
  try {
    return globalThis.sessionStorage;
  } catch {
    return null;
  }
}
