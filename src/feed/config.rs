//! What may differ between deployments of the feed.

use super::limits;

/// How a stream behaves; [`Default`] is for the paid plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamConfig {
    /// Silence in milliseconds after which a comment is written; at most 25 s counts (F4).
    pub heartbeat_ms: u64,
    /// Added to the lifetime. The shell draws it for each stream, so that streams that began
    /// together do not return together.
    pub jitter_ms: i64,
    /// Life of the stream in milliseconds (F4).
    pub lifetime_ms: u64,
    /// Reads after which the stream says bye, whatever its age: a platform limits the queries of
    /// one invocation. See [`limits::MAX_READS_PAID`] and [`limits::MAX_READS_FREE`].
    pub max_reads: u32,
    /// Changes in one read.
    pub page_limit: u32,
    /// Longest pause between two polls, in milliseconds.
    pub poll_max_ms: u64,
    /// Shortest pause between two polls without more to read, in milliseconds.
    pub poll_min_ms: u64,
    /// What the reader is told to wait before it connects again, in milliseconds.
    pub retry_ms: u64,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            heartbeat_ms: limits::HEARTBEAT_MS,
            jitter_ms: 0,
            lifetime_ms: limits::LIFETIME_MS,
            max_reads: limits::MAX_READS_PAID,
            page_limit: limits::PAGE_LIMIT,
            poll_max_ms: limits::POLL_MAX_MS,
            poll_min_ms: limits::POLL_MIN_MS,
            retry_ms: limits::RETRY_MS,
        }
    }
}

impl StreamConfig {
    /// The nearest values that make sense: no zero that would loop, no heartbeat that breaks F4.
    pub(super) fn clamped(mut self) -> Self {
        self.heartbeat_ms = self.heartbeat_ms.clamp(1, limits::HEARTBEAT_MAX_MS);
        self.max_reads = self.max_reads.max(1);
        self.page_limit = self.page_limit.max(1);
        self.poll_min_ms = self.poll_min_ms.max(1);
        self.poll_max_ms = self.poll_max_ms.max(self.poll_min_ms);
        self
    }
}
