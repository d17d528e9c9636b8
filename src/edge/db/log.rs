//! The change log: its one insert, its reads and its sweep.

use super::{Bind, Db, DbError, Results, Row, Statement, statement, unreadable};
use crate::api::precondition::Precondition;
use crate::feed::limits::{RETENTION_MS, SWEEP_BATCH};
use crate::feed::retention::cutoff;
use crate::planted::{Bug, planted};
use crate::protocol::Timestamp;
use crate::protocol::change::{Change, ChangeKind};

/// Where a workspace's log stands.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    /// Newest clock; 0 while nothing has changed.
    pub head: u64,
    /// Clock of the newest pruned row: a cursor below it cannot be resumed (F2).
    pub floor: u64,
    /// When the listener lease ends.
    pub live_until: u64,
    /// Whether the workspace was deleted.
    pub deleted: bool,
}

/// A page of the log, with the head at the time of reading.
#[derive(Debug)]
pub struct Page {
    /// Changes, oldest first.
    pub changes: Vec<Change>,
    /// Where the log stands.
    pub head: Head,
}

/// What one op adds to the log.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The workspace.
    pub workspace: &'a str,
    /// What happened.
    pub kind: ChangeKind,
    /// To which node.
    pub path: &'a str,
    /// Who did it.
    pub actor: &'a str,
    /// When.
    pub at: u64,
    /// The hashed idempotency key and the hash of the request.
    pub op: Option<(&'a str, &'a str)>,
    /// What a replay of edits answers as state vector.
    pub vector: Option<&'a str>,
}

/// What an op needs to find. Compared inside the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// The node has this clock.
    Clock(u64),
    /// A document, or no node at all; with an epoch, a document of that epoch.
    Document(Option<u64>),
    /// The node exists.
    Exists,
    /// The node does not exist.
    Missing,
    /// A record, or no node at all.
    NotDocument,
    /// A record that exists.
    Record,
    /// Neither the node nor anything below it exists.
    Free,
    /// No path at or below the node has more bytes, or more segments after it.
    PathsWithin {
        /// Bytes, at most.
        bytes: usize,
        /// Segments after those of the node, at most.
        segments: usize,
    },
    /// The node, or something below it, exists.
    Subtree,
}

impl Guard {
    /// The guard of a precondition.
    #[must_use]
    pub const fn of(precondition: Precondition) -> Option<Self> {
        match precondition {
            Precondition::None => None,
            Precondition::Exists => Some(Self::Exists),
            Precondition::IfMatch(clock) => Some(Self::Clock(clock)),
            Precondition::IfNoneMatch => Some(Self::Missing),
        }
    }
}

/// The insert that every mutation begins with. It takes the next clock, and it fails, and with it
/// the whole batch, when the workspace is gone or a guard does not hold.
pub fn append<'a>(entry: &Entry<'a>, guards: &[Guard]) -> Statement<'a> {
    let node = "FROM nodes WHERE workspace = ?1 AND path = ?3";
    let subtree =
        "FROM nodes WHERE workspace = ?1 AND (path = ?3 OR (path > ?3 || '/' AND path < ?3 || '0'))";
    let holds: Vec<String> = guards
        .iter()
        .map(|guard| match guard {
            Guard::Clock(clock) => format!("EXISTS (SELECT 1 {node} AND clock = {clock})"),
            Guard::Document(None) => format!("NOT EXISTS (SELECT 1 {node} AND kind <> 'document')"),
            Guard::Document(Some(epoch)) => {
                format!("EXISTS (SELECT 1 {node} AND kind = 'document' AND epoch = {epoch})")
            }
            Guard::Exists => format!("EXISTS (SELECT 1 {node})"),
            Guard::Missing => format!("NOT EXISTS (SELECT 1 {node})"),
            Guard::NotDocument => format!("NOT EXISTS (SELECT 1 {node} AND kind <> 'record')"),
            Guard::Record => format!("EXISTS (SELECT 1 {node} AND kind = 'record')"),
            Guard::Free => format!("NOT EXISTS (SELECT 1 {subtree})"),
            Guard::PathsWithin { bytes, segments } => format!(
                "NOT EXISTS (SELECT 1 {subtree} AND (length(CAST(path AS BLOB)) > {bytes}
                   OR length(path) - length(replace(path, '/', '')) - length(?3) + length(replace(?3, '/', '')) > {segments}))"
            ),
            Guard::Subtree => format!("EXISTS (SELECT 1 {subtree})"),
        })
        .collect();
    let holds = if holds.is_empty() { "1".to_owned() } else { holds.join(" AND ") };
    let sql = format!(
        "INSERT INTO change_log (workspace, clock, kind, path, actor, at, op_key, op_hash, created, epoch, vector)
         SELECT ?1,
                (SELECT COALESCE(MAX(clock), 0) + 1 FROM change_log WHERE workspace = ?1),
                CASE WHEN EXISTS (SELECT 1 FROM workspaces WHERE id = ?1 AND deleted_at IS NULL)
                     THEN CASE WHEN ?2 = 'replace' AND NOT EXISTS (SELECT 1 {node}) THEN 'update' ELSE ?2 END END,
                CASE WHEN {holds} THEN ?3 END,
                ?4, ?5, ?6, ?7,
                NOT EXISTS (SELECT 1 {node}),
                CASE WHEN ?6 IS NOT NULL AND ?2 = 'update' THEN (SELECT epoch {node}) END,
                CASE WHEN ?6 IS NOT NULL THEN ?8 END
         RETURNING clock, created"
    );
    let op = entry.op.filter(|_| !planted(Bug::DoubleApplyOnRetry));
    let (key, hash) = op.map_or((Bind::Null, Bind::Null), |(k, h)| (Bind::Text(k), Bind::Text(h)));
    statement(
        sql,
        [
            Bind::Text(entry.workspace),
            Bind::Text(entry.kind.as_str()),
            Bind::Text(entry.path),
            Bind::Text(entry.actor),
            Bind::Int(entry.at),
            key,
            hash,
            entry.vector.map_or(Bind::Null, Bind::Text),
        ],
    )
}

/// What [`append`] returns.
#[derive(Debug, Clone, Copy)]
pub struct Appended {
    /// The clock of the change.
    pub clock: u64,
    /// Whether the node did not exist before.
    pub created: bool,
}

impl Appended {
    /// Reads what the `index`th statement of a batch returned.
    pub fn read(results: &Results, index: usize) -> Result<Self, DbError> {
        let row = results.row(index).ok_or_else(unreadable)?;
        let clock = row.int("clock").ok_or_else(unreadable)?;
        Ok(Self { clock, created: row.int("created") == Some(1) })
    }
}

/// The first answer to an idempotency key.
#[derive(Debug)]
pub struct Replay {
    /// The clock of the change that the key made.
    pub clock: u64,
    /// The hash of the request that made it.
    pub op_hash: String,
    /// Whether the first request created the node.
    pub created: bool,
    /// The epoch that the first answer named, of an update.
    pub epoch: u64,
    /// The state vector that the first answer named, of edits.
    pub vector: Option<String>,
    /// What the request changed.
    pub changes: Vec<Change>,
    /// When the listener lease ends.
    pub live_until: u64,
}

impl Db {
    /// Looks up what a key did, by a request of so many changes: they follow one another, and the key
    /// stands in the first.
    pub async fn replay(&self, workspace: &str, op_key: &str, count: u64) -> Result<Option<Replay>, DbError> {
        let sql = "SELECT clock, kind, path, actor, at, op_hash, created, epoch, vector FROM change_log
                   WHERE workspace = ?1
                     AND clock >= (SELECT clock FROM change_log WHERE workspace = ?1 AND op_key = ?2)
                   ORDER BY clock LIMIT ?3";
        let binds = [Bind::Text(workspace), Bind::Text(op_key), Bind::Int(count)];
        let results = self.batch(vec![statement(sql, binds), live_until(workspace)]).await?;
        let rows = results.rows(0);
        let Some(row) = rows.first() else { return Ok(None) };
        let changes: Vec<Change> =
            rows.iter().map(change_of).collect::<Option<_>>().ok_or_else(unreadable)?;
        let clock = row.int("clock").ok_or_else(unreadable)?;
        Ok(Some(Replay {
            clock,
            op_hash: row.text("op_hash").unwrap_or_default(),
            created: row.int("created") == Some(1),
            // A document that the update made has its clock as epoch.
            epoch: row.int("epoch").unwrap_or(clock),
            vector: row.text("vector"),
            changes,
            live_until: if planted(Bug::SilentReplay) { 0 } else { lease_of(&results, 1) },
        }))
    }

    /// Where the log stands; `None` for a workspace that never was. One query, three rows read.
    pub async fn head(&self, workspace: &str) -> Result<Option<Head>, DbError> {
        let results = self.batch(vec![head_statement(workspace)]).await?;
        Ok(head_of(&results))
    }

    /// Changes past `since`, oldest first, with the head. One transaction, so that both agree.
    pub async fn page(&self, workspace: &str, since: u64, limit: u32) -> Result<Option<Page>, DbError> {
        let sql = "SELECT clock, kind, path, actor, at FROM change_log
                   WHERE workspace = ?1 AND clock > ?2 ORDER BY clock LIMIT ?3";
        let binds = [Bind::Text(workspace), Bind::Int(since), Bind::Int(u64::from(limit))];
        let results = self.batch(vec![head_statement(workspace), statement(sql, binds)]).await?;
        let Some(head) = head_of(&results) else { return Ok(None) };
        let changes = results.rows(1).iter().map(change_of).collect::<Option<_>>().ok_or_else(unreadable)?;
        Ok(Some(Page { changes, head }))
    }

    /// Removes one batch of old rows from each of some workspaces that have any (F6). Returns how
    /// many rows went: 0 means that nothing is left to do.
    pub async fn sweep(&self, now: Timestamp) -> Result<usize, DbError> {
        // A sweep removes a prefix, so the oldest row tells whether there is anything to remove.
        let sql = "SELECT id, head, low FROM (
                     SELECT id, (SELECT MAX(clock) FROM change_log WHERE workspace = id) AS head,
                            (SELECT MIN(clock) FROM change_log WHERE workspace = id) AS low,
                            (SELECT at FROM change_log WHERE workspace = id ORDER BY clock LIMIT 1) AS oldest
                     FROM workspaces)
                   WHERE head > low AND oldest < ?1 LIMIT ?2";
        let before = now.saturating_sub(RETENTION_MS);
        let results = self.batch(vec![statement(sql, [Bind::Int(before), Bind::Int(SWEPT_AT_ONCE)])]).await?;
        let mut removed = 0;
        for row in results.rows(0) {
            let (id, head, low) = (row.text("id"), row.int("head"), row.int("low"));
            let (Some(id), Some(head), Some(low)) = (id, head, low) else { return Err(unreadable()) };
            let Some(cutoff) = cutoff(now, head, low.saturating_sub(1), SWEEP_BATCH) else { continue };
            let sql = "DELETE FROM change_log WHERE workspace = ?1 AND clock <= ?2 AND clock < COALESCE(
                         (SELECT MIN(clock) FROM change_log WHERE workspace = ?1 AND clock <= ?2 AND at >= ?3),
                         ?2 + 1)
                       RETURNING clock";
            let binds = [Bind::Text(&id), Bind::Int(cutoff.through), Bind::Int(cutoff.before)];
            let results = self.batch(vec![statement(sql, binds)]).await?;
            removed += results.rows(0).len();
        }
        Ok(removed)
    }
}

/// Reads the listener lease in the same transaction as a mutation (R3).
pub fn live_until(workspace: &str) -> Statement<'_> {
    statement("SELECT live_until FROM workspaces WHERE id = ?1", [Bind::Text(workspace)])
}

/// Reads what [`live_until`] returned, as the `index`th statement.
#[must_use]
pub fn lease_of(results: &Results, index: usize) -> u64 {
    results.row(index).and_then(|row| row.int("live_until")).unwrap_or(0)
}

fn head_statement(workspace: &str) -> Statement<'_> {
    let sql = "SELECT (SELECT MAX(clock) FROM change_log WHERE workspace = id) AS head,
                      (SELECT MIN(clock) FROM change_log WHERE workspace = id) AS low,
                      live_until, deleted_at
               FROM workspaces WHERE id = ?1";
    statement(sql, [Bind::Text(workspace)])
}

fn head_of(results: &Results) -> Option<Head> {
    let row = results.row(0)?;
    Some(Head {
        head: row.int("head").unwrap_or(0),
        floor: row.int("low").unwrap_or(1).saturating_sub(1),
        live_until: row.int("live_until").unwrap_or(0),
        deleted: row.int("deleted_at").is_some(),
    })
}

fn change_of(row: &Row) -> Option<Change> {
    Some(Change {
        clock: row.int("clock")?,
        kind: ChangeKind::parse(&row.text("kind")?)?,
        path: row.text("path")?,
        actor: row.text("actor")?,
        at: row.int("at")?,
    })
}

/// Workspaces that one step of the sweep looks after.
const SWEPT_AT_ONCE: u64 = 20;
