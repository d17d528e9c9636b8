//! Known bugs, to be switched on one at a time: the simulator has to find each of them.
//!
//! Without the feature `planted-bugs` the question is a constant, so nothing of it is in what ships.
//! With it the active bug is chosen while the program runs, for one thread: one build finds them all.

/// A bug that systems of this kind have had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Who leaves takes the awareness of everybody along (W5).
    AwarenessRemovalOfOthers,
    /// A compaction does not ask what the document became meanwhile (D2).
    CheckpointWithoutEpochCheck,
    /// The sweep removes a log's newest row as well, so the next clock was there before (F1).
    ClockReuseAfterSweep,
    /// A heartbeat carries an id that the stream does not vouch for (F3).
    CursorMovedByHeartbeat,
    /// A step 2 that only has deletes is dropped, although the room lacks some of them (W3).
    DeletesTakenForKnown,
    /// The idempotency key is not stored, so a retry is carried out again (R2).
    DoubleApplyOnRetry,
    /// A flush that fails takes its updates along (D1).
    LostTailOnFlushFailure,
    /// A receipt is given for what was received (W8).
    ReceiptBeforeCommit,
    /// A request that is found under its key is answered, and the room is not told (R3).
    SilentReplay,
    /// A connection that does not keep up stays open and misses what comes next (W9).
    UpdateDroppedOnSlowConsumer,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::AwarenessRemovalOfOthers,
        Self::CheckpointWithoutEpochCheck,
        Self::ClockReuseAfterSweep,
        Self::CursorMovedByHeartbeat,
        Self::DeletesTakenForKnown,
        Self::DoubleApplyOnRetry,
        Self::LostTailOnFlushFailure,
        Self::ReceiptBeforeCommit,
        Self::SilentReplay,
        Self::UpdateDroppedOnSlowConsumer,
    ];
}

#[cfg(feature = "planted-bugs")]
thread_local! {
    static ACTIVE: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Makes a bug the one of this thread, or none.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Option<Bug>) {
    ACTIVE.set(bug);
}

/// Whether a bug is active.
#[cfg(feature = "planted-bugs")]
#[must_use]
pub fn planted(bug: Bug) -> bool {
    ACTIVE.get() == Some(bug)
}

/// Whether a bug is active: never.
#[cfg(not(feature = "planted-bugs"))]
#[must_use]
pub const fn planted(_: Bug) -> bool {
    false
}
