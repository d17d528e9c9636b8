//! Every bound of the MCP side, with its reason. Bodies, paths and keys have those of the REST API.

/// Bytes of text in one answer: some 16,000 tokens. More comes page by page.
pub const MAX_TEXT_BYTES: usize = 64 * 1024;

/// Bytes of an address that an error repeats: more than any resource's, whose path has 512 bytes, each
/// at most three in an address.
pub const MAX_SHOWN_URI_BYTES: usize = 2048;

/// Entries of a page when the call names no `limit`.
pub const DEFAULT_TOOL_PAGE: u64 = 50;

/// Entries of a page at most: what a model reads is dearer than another call.
pub const MAX_TOOL_PAGE: u64 = 200;

/// Seconds that `wait_for_changes` waits when the call names none, and at most. With the last read
/// (8 s at worst) a call ends within 30 s; many clients give up after 60.
pub const MAX_WAIT_SECONDS: u64 = 20;

/// Pause after the first look of a wait. It grows by half: ten looks in 20 s.
pub const WAIT_PAUSE_MIN_MS: u64 = 500;

/// Longest pause of a wait: what a change that comes late may have to wait.
pub const WAIT_PAUSE_MAX_MS: u64 = 4_000;

/// How long a client may keep what is the same until the next deployment.
pub const PUBLIC_TTL_MS: u32 = 300_000;
