//! What a failed batch means to its caller.

/// Why a batch was not committed, or may not have been.
#[derive(Debug)]
pub enum DbError {
    /// The idempotency key was used before.
    Duplicate,
    /// The workspace does not exist or was deleted.
    NoWorkspace,
    /// Another try would fail in the same way: a defect, or a limit of the database. It has to be
    /// looked into, so that the cause is logged and nothing is tried again.
    Permanent(String),
    /// A precondition does not hold: nothing was written.
    Precondition,
    /// A compaction that others overtook: nothing was written.
    Stale,
    /// A value or document over its limit: nothing was written.
    TooLarge,
    /// D1 failed for now or did not answer in time. The batch may have been committed.
    Unavailable(String),
}

/// What D1's message means. Constraint messages come from SQLite and name the column.
///
/// A text that nobody has seen before is permanent. Its batch may have been committed, so it is never
/// reported as saved, and under a key the client can ask again; but a server that tries whatever it
/// does not know hides its own defects, and asks three times what an overloaded database refuses once.
pub(super) fn classify(message: String) -> DbError {
    let meaning = MEANINGS.iter().find(|(text, _)| message.contains(text));
    match meaning.map(|(_, meaning)| meaning) {
        Some(Meaning::Duplicate) => DbError::Duplicate,
        Some(Meaning::NoWorkspace) => DbError::NoWorkspace,
        Some(Meaning::Precondition) => DbError::Precondition,
        Some(Meaning::Stale) => DbError::Stale,
        Some(Meaning::TooLarge) => DbError::TooLarge,
        Some(Meaning::Passes) => DbError::Unavailable(message),
        None => DbError::Permanent(message),
    }
}

enum Meaning {
    Duplicate,
    NoWorkspace,
    /// Another try may succeed.
    Passes,
    Precondition,
    Stale,
    TooLarge,
}

/// An answer without a row or column that the statement always returns.
pub(super) fn unreadable() -> DbError {
    DbError::Permanent("D1 answered with other columns than asked".to_owned())
}

/// The message of a call that D1 does not answer in time.
pub const NO_ANSWER: &str = "D1 did not answer in time";

/// Parts of messages: D1 has no codes. First the rules of the schema; then what passes, which is what
/// Cloudflare lists under "Debug D1" less what the application has to change. An overload passes although
/// another try adds to it: there are three at most, with a wait between them.
const MEANINGS: [(&str, Meaning); 16] = [
    ("UNIQUE constraint failed: change_log.workspace, change_log.op_key", Meaning::Duplicate),
    ("UNIQUE constraint failed: workspaces.create_key", Meaning::Duplicate),
    ("NOT NULL constraint failed: change_log.kind", Meaning::NoWorkspace),
    ("NOT NULL constraint failed: change_log.path", Meaning::Precondition),
    ("NOT NULL constraint failed: nodes.base", Meaning::Stale),
    ("CHECK constraint failed", Meaning::TooLarge),
    (NO_ANSWER, Meaning::Passes),
    // Another connection to the same database.
    ("SQLITE_BUSY", Meaning::Passes),
    // Too many requests queued, or queued for too long.
    ("overloaded", Meaning::Passes),
    // While it started up, inside of its storage, for new code, or over its memory or time, by this batch or by
    // another that ran beside it.
    ("reset", Meaning::Passes),
    ("Network connection lost", Meaning::Passes),
    // A replica from its primary, or the client.
    ("disconnected", Meaning::Passes),
    ("transient issue", Meaning::Passes),
    // The platform's own, with a reference in place of a cause.
    ("internal error", Meaning::Passes),
    // Something in front of the database answered, with a page.
    ("parse body as JSON", Meaning::Passes),
    // Ends by itself.
    ("long-running export", Meaning::Passes),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a10_what_passes_is_a_list() {
        for message in [
            "D1_ERROR: Network connection lost. (Network connection lost.)",
            "D1_ERROR: D1 DB is overloaded. Requests queued for too long.",
            "D1_ERROR: D1 DB is overloaded. Too many requests queued.",
            "D1_ERROR: D1 DB reset because its code was updated.",
            "D1_ERROR: D1 DB storage operation exceeded timeout which caused object to be reset.",
            "D1_ERROR: Internal error while starting up D1 DB storage caused object to be reset.",
            "D1_ERROR: Internal error in D1 DB storage caused object to be reset.",
            "D1_ERROR: D1 DB's isolate exceeded its memory limit and was reset.",
            "D1_ERROR: D1 DB exceeded its CPU time limit and was reset.",
            "D1_ERROR: Cannot resolve D1 DB due to transient issue on remote node.",
            "D1_ERROR: Can't read from request stream because client disconnected.",
            "D1_ERROR: Replica disconnected from primary.",
            "D1_ERROR: internal error; reference = 0a1b",
            "D1_ERROR: Currently processing a long-running export.",
            "D1_ERROR: Failed to parse body as JSON, got: error code: 1101",
            "D1_ERROR: database is locked: SQLITE_BUSY",
            NO_ANSWER,
        ] {
            assert!(
                matches!(classify(message.to_owned()), DbError::Unavailable(kept) if kept == message),
                "{message}"
            );
        }
    }

    #[test]
    fn a10_everything_else_is_permanent_and_keeps_its_cause() {
        for message in [
            "D1_ERROR: no such table: nodes: SQLITE_ERROR",
            "D1_ERROR: near \"SELEC\": syntax error at offset 0: SQLITE_ERROR",
            "D1_ERROR: too many SQL variables at offset 9: SQLITE_ERROR",
            "D1_ERROR: string or blob too big: SQLITE_TOOBIG",
            "D1_ERROR: database disk image is malformed: SQLITE_CORRUPT",
            "D1_ERROR: Exceeded maximum DB size.",
            "D1_ERROR: UNIQUE constraint failed: change_log.workspace, change_log.clock: SQLITE_CONSTRAINT",
            "D1_TYPE_ERROR: Type 'undefined' not supported for value 'undefined'",
            "a text that nobody has seen",
            "",
        ] {
            assert!(
                matches!(classify(message.to_owned()), DbError::Permanent(kept) if kept == message),
                "{message}"
            );
        }
    }

    #[test]
    fn a10_a_broken_rule_of_the_schema_is_neither() {
        let of = |constraint: &str| classify(format!("D1_ERROR: {constraint}: SQLITE_CONSTRAINT"));
        assert!(matches!(
            of("UNIQUE constraint failed: change_log.workspace, change_log.op_key"),
            DbError::Duplicate
        ));
        assert!(matches!(of("UNIQUE constraint failed: workspaces.create_key"), DbError::Duplicate));
        assert!(matches!(of("NOT NULL constraint failed: change_log.kind"), DbError::NoWorkspace));
        assert!(matches!(of("NOT NULL constraint failed: change_log.path"), DbError::Precondition));
        assert!(matches!(of("NOT NULL constraint failed: nodes.base"), DbError::Stale));
        assert!(matches!(of("CHECK constraint failed: length(value) < 1900000"), DbError::TooLarge));
    }
}
