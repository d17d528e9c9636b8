//! Every bound of the feed, with its reason. Times are milliseconds.

/// Largest clock: 2^53 - 1, the largest integer that JavaScript and D1's bindings carry exactly.
pub const MAX_CLOCK: u64 = (1 << 53) - 1;

/// Changes in one read of the log. A change is 100 to 300 bytes of JSON, so a page is one modest
/// chunk, and a reader that is 10,000 behind needs 40 of a stream's reads.
pub const PAGE_LIMIT: u32 = 250;

/// Pause before the next read after a change was seen: what a reader of a busy workspace waits.
pub const POLL_MIN_MS: u64 = 250;

/// Longest pause between two reads of a quiet workspace. 60 reads in a five-minute stream, and the
/// longest delay of the first change after silence.
pub const POLL_MAX_MS: u64 = 5_000;

/// Pause between the reads of a bridged stream. A lost notification is revealed by the next one,
/// but the last one has no next: only a read finds it.
pub const SAFETY_READ_MS: u64 = 15_000;

/// A read without an answer for this long has failed. D1 answers in milliseconds, or not at all.
pub const READ_TIMEOUT_MS: u64 = 10_000;

/// Pause after the first of several failed reads; it doubles with each further failure.
pub const READ_RETRY_MIN_MS: u64 = 500;

/// Longest pause after a failed read.
pub const READ_RETRY_MAX_MS: u64 = 10_000;

/// Silence after which a comment is written. F4 promises 25 s; the rest is for late timers. It is
/// also how long a reader that left goes unnoticed, since only a write shows it (S05).
pub const HEARTBEAT_MS: u64 = 20_000;

/// Largest heartbeat that a configuration may ask for (F4).
pub const HEARTBEAT_MAX_MS: u64 = 25_000;

/// Age of a filtered reader's cursor after which an `event: head` moves it (F3).
pub const HEAD_EVENT_MS: u64 = 30_000;

/// Life of a stream (F4): it ends by itself although no platform reports every lost client (S05).
pub const LIFETIME_MS: u64 = 5 * 60_000;

/// What a reader waits before it connects again.
pub const RETRY_MS: u64 = 2_000;

/// Reads of one stream on the paid plan: 1,000 D1 queries per invocation, less what the handler
/// needs before the stream starts.
pub const MAX_READS_PAID: u32 = 900;

/// Reads of one stream on the free plan: 50 D1 queries per invocation.
pub const MAX_READS_FREE: u32 = 45;

/// Pause before a bridge that failed or closed is opened again; doubles while it does not last.
pub const BRIDGE_RETRY_MIN_MS: u64 = 1_000;

/// Longest pause between two attempts to open a bridge.
pub const BRIDGE_RETRY_MAX_MS: u64 = 60_000;

/// A bridge that is not open after this long is given up. Polling goes on meanwhile.
pub const BRIDGE_OPEN_TIMEOUT_MS: u64 = 10_000;

/// A bridge that was open this long worked: its pause starts at the minimum again.
pub const BRIDGE_STABLE_MS: u64 = 30_000;

/// Text that may wait for a slow reader before live changes are left to a later read.
pub const MAX_QUEUED_BYTES: usize = 256 * 1024;

/// Writes are joined up to this size: a page is a few chunks, not 250.
pub const WRITE_CHUNK_BYTES: usize = 32 * 1024;

/// How long a change stays in the log (F6).
pub const RETENTION_MS: u64 = 7 * 24 * 60 * 60_000;

/// Rows of one workspace that one sweep statement removes at most, so that it stays short: D1 runs
/// one statement at a time for all workspaces of a database.
pub const SWEEP_BATCH: u32 = 500;
