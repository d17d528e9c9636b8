//! Compaction: many appended updates become one checkpoint (D2).

use super::db::documents::{Append, AppendedUpdate, Compaction};
use super::db::{Db, DbError};
use crate::document::checkpoint;

/// Whether a document has so many rows that one compaction is cheaper than reading them again.
#[must_use]
pub fn is_worthwhile(parts: u64) -> bool {
    parts > MAX_PARTS
}

/// Appends an update, after a compaction if the document is full of updates that repeat each other.
pub async fn append(db: &Db, update: &Append<'_>) -> Result<AppendedUpdate, DbError> {
    match db.append_update(update).await {
        Err(DbError::TooLarge) => match run(db, update.workspace, update.path).await {
            Ok(()) | Err(DbError::Stale) => db.append_update(update).await,
            Err(error) => Err(error),
        },
        result => result,
    }
}

/// Reads a document, merges it, and replaces what it read. What is appended meanwhile stays.
pub async fn run(db: &Db, workspace: &str, path: &str) -> Result<(), DbError> {
    let Some(base) = db.compaction_base(workspace, path).await? else { return Ok(()) };
    let Some(stored) = db.document(workspace, path, 0).await? else { return Ok(()) };
    let Some(epoch) = stored.epoch else { return Ok(()) };
    let parts: Vec<&[u8]> = stored.updates.iter().map(Vec::as_slice).collect();
    let merged = checkpoint::merge(&parts)
        .map_err(|error| DbError::Permanent(format!("stored updates cannot be merged: {error}")))?;
    db.compact(&Compaction {
        workspace,
        path,
        epoch,
        base,
        through: stored.clock,
        fence: 0,
        checkpoint: &merged,
    })
    .await
}

/// Rows of a document from which it is compacted. Each costs a row read at every load and a row
/// written when it goes; a flush comes at most every two seconds.
const MAX_PARTS: u64 = 64;
