// What the tabs of one browser say to each other. They are of the same origin and account; a newer
// build speaks another version, and is not understood rather than misunderstood.

/** Raise it with any change of what follows. */
export const TABS_VERSION = 1;

export type Role = "follower" | "leader";

export type TabSpeech =
  /** Who leads? */
  | { readonly kind: "ask" }
  /** This tab does. */
  | { readonly kind: "leads"; readonly isHidden: boolean }
  /** A visible tab asks a hidden leader for its place; the leader has stopped, and the tab may take it. */
  | { readonly kind: "want" }
  | { readonly kind: "yield" }
  /** Something the leader does for a follower: heard, and later answered. */
  | { readonly kind: "call"; readonly id: string; readonly method: string; readonly payload: unknown }
  | { readonly kind: "heard"; readonly id: string }
  | { readonly kind: "answer"; readonly id: string; readonly value?: unknown; readonly error?: PlainError }
  /** Something that others may want to know. */
  | { readonly kind: "tell"; readonly topic: string; readonly payload: unknown };

export type TabMessage = TabSpeech & {
  readonly version: number;
  readonly from: string;
  /** To one tab; else to all. */
  readonly to?: string | undefined;
};

/** An error without its class, which does not survive the way. */
export interface PlainError {
  readonly name: string;
  readonly message: string;
  readonly code?: unknown;
  readonly status?: unknown;
  readonly detail?: unknown;
  readonly extra?: unknown;
}
