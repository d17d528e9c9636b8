//! Every bound of the REST side, with its reason (R4). Those of the relay are in
//! [`crate::protocol::limits`], together with the lengths of ids and paths that both share.

/// Largest JSON body. A D1 value may have 2 MB; half leaves room for the row around it (D04).
pub const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Largest Yjs update in one request. Larger documents arrive as several updates.
pub const MAX_UPDATE_BYTES: usize = 16 * 1024 * 1024;

/// Nesting of a JSON body, the envelope of `/ops` included. Parsers and mergers may then recurse.
pub const MAX_JSON_DEPTH: usize = 64;

/// Operations in one `/ops` request: all of them are one D1 batch, which has bounded statements.
pub const MAX_OPS: usize = 50;

/// Bytes of the name of a root: as long as a path may be.
pub const MAX_ROOT_BYTES: usize = 512;

/// Roots of a document that is written as JSON. Editors have one or two.
pub const MAX_ROOTS: usize = 64;

/// Segments of a node path. Subtree operations look at every ancestor.
pub const MAX_PATH_SEGMENTS: usize = 32;

/// Characters of an `Idempotency-Key`: a UUID has 36, a hash 64.
pub const MAX_IDEMPOTENCY_KEY_BYTES: usize = 128;

/// Bytes of a token's `sub`: it is stored with every change.
pub const MAX_SUBJECT_BYTES: usize = 128;

/// Bytes of a token. A hundred workspaces with roles take about 5 KB; servers refuse headers
/// from 8 to 16 KB on anyway.
pub const MAX_TOKEN_BYTES: usize = 8 * 1024;

/// Bytes of an HS256 secret, at least: as many as the hash puts out (RFC 7518, section 3.2).
pub const MIN_SECRET_BYTES: usize = 32;

/// Bits of an RSA key, at least (NIST SP 800-131A).
pub const MIN_RSA_BITS: usize = 2048;

/// Keys of a set that are looked at; providers publish two to four.
pub const MAX_JWKS_KEYS: usize = 16;

/// Bytes of a key set: sixteen RSA keys with their certificates are some 50 KB.
pub const MAX_JWKS_BYTES: usize = 128 * 1024;

/// How long fetched keys are used. A key that the provider withdrew is good for as long.
pub const JWKS_FRESH_MS: u64 = 10 * 60 * 1000;

/// How long a fetch may take; callers wait for it.
pub const JWKS_FETCH_MS: u64 = 3_000;

/// How often an unknown key name may cause a fetch: anybody can invent names.
pub const JWKS_REFETCH_MS: u64 = 30_000;

/// How long nobody tries again after a fetch failed: a provider that is down is not helped by more.
pub const JWKS_PAUSE_MS: u64 = 2_000;

/// Seconds a scope token lives (A2). Revocation takes this long at worst (A4).
pub const SCOPE_TOKEN_SECONDS: u64 = 600;

/// Seconds that `nbf` may lie ahead: issuer and verifier have different clocks. `exp` has no
/// such allowance.
pub const NOT_BEFORE_LEEWAY_SECONDS: u64 = 60;

/// Bytes of a report about relays: twenty events with all of their labels are 14 KB.
pub const MAX_TELEMETRY_BYTES: usize = 16 * 1024;

/// Events in one report. A client has one or two of them in a bad minute.
pub const MAX_TELEMETRY_EVENTS: usize = 20;

/// Labels of one event: all relays of a client's list.
pub const MAX_TELEMETRY_LABELS: usize = 16;

/// Relays in the roll-up; labels are the word of clients, so their number needs an end.
pub const MAX_TELEMETRY_RELAYS: usize = 64;

/// What the roll-up looks back on: a day shows an outage of the night in the morning.
pub const TELEMETRY_WINDOW_MS: u64 = 24 * 60 * 60 * 1000;

/// How long reports are kept, as long as the change log.
pub const TELEMETRY_RETENTION_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// Bytes of a presence request: the state, and its members around it with escapes.
pub const MAX_PRESENCE_BYTES: usize = 8 * 1024;

/// Bytes of what a session tells of itself: a name, a colour, a path. Five hundred are half a MiB.
pub const MAX_PRESENCE_STATE_BYTES: usize = 1024;

/// Characters of a session's name: a UUID has 36.
pub const MAX_SESSION_BYTES: usize = 64;

/// Seconds that presence counts, at least: shorter would mean a write a minute for each tab.
pub const MIN_PRESENCE_SECONDS: u64 = 60;

/// Seconds that presence counts when the request names none.
pub const DEFAULT_PRESENCE_SECONDS: u64 = 120;

/// Seconds that presence counts, at most: a tab that died is shown for as long.
pub const MAX_PRESENCE_SECONDS: u64 = 300;

/// Sessions present in one workspace: each answer lists all of them.
pub const MAX_PRESENCE_ROWS: usize = 500;

/// Sessions of one subject in one workspace, so that nobody alone fills it.
pub const MAX_PRESENCE_ROWS_PER_SUBJECT: usize = 20;

/// Bytes of a request to signal: the data, and its members around it with escapes.
pub const MAX_SIGNAL_BYTES: usize = 32 * 1024;

/// Bytes of a signal's data. A description of a session with video is some 8 KB.
pub const MAX_SIGNAL_DATA_BYTES: usize = 16 * 1024;

/// Characters of a peer id: a UUID has 36.
pub const MAX_PEER_BYTES: usize = 64;

/// How long a signal waits for its peer: browsers give a connection up after half of it.
pub const SIGNAL_MS: u64 = 60_000;

/// Signals that wait for one peer: a dozen each from eight others. One answer holds them all.
pub const MAX_SIGNALS_PER_PEER: usize = 100;

/// Signals that wait in a workspace, since anybody in it can name any peer.
pub const MAX_SIGNALS: usize = 2_000;

/// Entries of a page when the request names no `limit`.
pub const DEFAULT_PAGE: u32 = 100;

/// Entries of a page at most; a larger `limit` is refused, so that nobody misses the rest.
pub const MAX_PAGE: u32 = 1000;

/// Bytes of a query string that is looked at.
pub const MAX_QUERY_BYTES: usize = 16 * 1024;
