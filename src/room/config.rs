//! The bounds and delays of a room, with their defaults.

/// What an operator or a test may set. Times are milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomConfig {
    /// The relay's name in changes that several people wrote (`relay:<label>`).
    pub label: String,
    /// Whether the shell hands in every change of the workspace in the order of the feed. The room
    /// then announces changes as it is told, and its own only when they come back.
    pub follows_feed: bool,
    /// Whether the shell may lose the room's memory while connections stay (D1a): what they cannot tell again is
    /// attached to them then.
    pub hibernates: bool,
    /// Whether the shell keeps what is not saved yet on a disk of its own (D6).
    pub spool: bool,
    /// Longest time from the first unflushed update to its flush (D1).
    pub flush_after: u64,
    /// First delay after a failed flush or pull; doubles up to [`Self::retry_max`].
    pub retry_min: u64,
    /// Longest delay between two tries.
    pub retry_max: u64,
    /// How long storage may take before a load, pull or flush counts as failed.
    pub storage_timeout: u64,
    /// After how long, or a failure, people go on without storage (D4). Without it a failed read
    /// closes who waits for it (W2), and another relay may do better.
    pub alone_after: Option<u64>,
    /// How long a listener lease lasts without renewal (R3). Long, because a hibernating room
    /// renews nothing; both ends correct it: the last socket clears it, and so does the Worker
    /// when it finds an empty room.
    pub lease: u64,
    /// Connections of one room. One more is refused with 429 at the upgrade.
    pub max_sessions: usize,
    /// Connections of one person or program in one room.
    pub max_sessions_per_subject: usize,
    /// Bytes that may be queued for a connection, besides the largest frame it was sent (W9).
    pub max_queued_bytes: u64,
    /// Bytes of all documents that wait to be saved; an outage of D1 must not fill the memory.
    pub max_pending_bytes: usize,
    /// Bytes of loaded checkpoints that a room keeps for late joiners.
    pub max_cached_bytes: usize,
    /// Window in which a hot document's updates are merged into one frame per receiver (W3a).
    pub update_window: u64,
    /// The same for awareness.
    pub awareness_window: u64,
    /// Deliveries per second of one document from which it counts as hot.
    pub hot_deliveries: u64,
    /// Connections of one document up to which frames are forwarded at once, however fast.
    pub never_hot: usize,
}

impl RoomConfig {
    /// How long to wait before storage is tried again, after so many failures in a row.
    pub(super) fn backoff(&self, failures: u32) -> u64 {
        self.retry_min.saturating_mul(1 << failures.min(16)).min(self.retry_max)
    }
}

impl Default for RoomConfig {
    fn default() -> Self {
        Self {
            label: "relay".to_owned(),
            follows_feed: false,
            hibernates: true,
            spool: false,
            flush_after: 2_000,
            retry_min: 500,
            retry_max: 10_000,
            storage_timeout: 10_000,
            alone_after: None,
            lease: 24 * 60 * 60 * 1000,
            max_sessions: 512,
            max_sessions_per_subject: 64,
            max_queued_bytes: 4 * 1024 * 1024,
            max_pending_bytes: 32 * 1024 * 1024,
            max_cached_bytes: 24 * 1024 * 1024,
            update_window: 20,
            awareness_window: 50,
            hot_deliveries: 400,
            never_hot: 4,
        }
    }
}
