//! What a failed batch means to its caller.

/// Why a batch was not committed, or may not have been.
#[derive(Debug)]
pub enum DbError {
    /// The idempotency key was used before.
    Duplicate,
    /// The workspace does not exist or was deleted.
    NoWorkspace,
    /// A precondition does not hold: nothing was written.
    Precondition,
    /// A compaction that others overtook: nothing was written.
    Stale,
    /// A value or document over its limit: nothing was written.
    TooLarge,
    /// D1 failed or did not answer in time. The batch may have been committed.
    Unavailable(String),
}

/// What D1's message means. Constraint messages come from SQLite and name the column.
pub(super) fn classify(message: String) -> DbError {
    let has = |text: &str| message.contains(text);
    if has("UNIQUE constraint failed: change_log.workspace, change_log.op_key")
        || has("UNIQUE constraint failed: workspaces.create_key")
    {
        DbError::Duplicate
    } else if has("NOT NULL constraint failed: change_log.kind") {
        DbError::NoWorkspace
    } else if has("NOT NULL constraint failed: change_log.path") {
        DbError::Precondition
    } else if has("NOT NULL constraint failed: nodes.base") {
        DbError::Stale
    } else if has("CHECK constraint failed") {
        DbError::TooLarge
    } else {
        DbError::Unavailable(message)
    }
}

/// An answer without a row or column that the statement always returns.
pub(super) fn unreadable() -> DbError {
    DbError::Unavailable("D1 answered with other columns than asked".to_owned())
}
