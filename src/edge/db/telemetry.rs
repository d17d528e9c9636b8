//! Reports about relays: their insert, their roll-up and their sweep.

use super::{Bind, Db, DbError, Row, Statement, statement, unreadable};
use crate::api::limits::TELEMETRY_RETENTION_MS;
use crate::api::telemetry::{ADVANCE, AdvanceCount, CYCLE_ALL_FAILED, EventKind, TelemetryEvent};
use crate::protocol::Timestamp;

impl Db {
    /// Stores events in one batch. `id` tells two requests of one millisecond apart. What a client
    /// sends again is stored again, which is good enough for counts.
    pub async fn store_telemetry(
        &self,
        events: &[TelemetryEvent],
        id: &str,
        now: Timestamp,
    ) -> Result<(), DbError> {
        let statements = events.iter().enumerate().map(|(part, event)| insert(event, id, part, now));
        self.batch(statements.collect()).await.map(|_| ())
    }

    /// What was reported since a time: advances by pair of labels, the most frequent first, and how
    /// often all relays failed.
    pub async fn relay_reports(&self, since: Timestamp) -> Result<(Vec<AdvanceCount>, u64), DbError> {
        let sql = format!(
            "SELECT name, from_label, to_label, COUNT(*) AS count, MAX(at) AS last_at FROM telemetry
             WHERE received >= ?1 GROUP BY name, from_label, to_label
             ORDER BY name = '{CYCLE_ALL_FAILED}' DESC, count DESC LIMIT {MAX_PAIRS}"
        );
        let results = self.batch(vec![statement(sql, [Bind::Int(since)])]).await?;
        let (mut advances, mut cycles) = (Vec::new(), 0);
        for row in results.rows(0) {
            match row.text("name").as_deref() {
                Some(ADVANCE) => advances.push(advance_of(&row).ok_or_else(unreadable)?),
                Some(CYCLE_ALL_FAILED) => cycles = row.int("count").ok_or_else(unreadable)?,
                _ => return Err(unreadable()),
            }
        }
        Ok((advances, cycles))
    }

    /// Removes one batch of old reports. Returns whether there may be more.
    pub async fn sweep_telemetry(&self, now: Timestamp) -> Result<bool, DbError> {
        let sql = format!(
            "DELETE FROM telemetry WHERE (received, id, part) IN
             (SELECT received, id, part FROM telemetry WHERE received < ?1 ORDER BY received LIMIT {SWEPT_AT_ONCE})
             RETURNING 1"
        );
        let before = now.saturating_sub(TELEMETRY_RETENTION_MS);
        let results = self.batch(vec![statement(sql, [Bind::Int(before)])]).await?;
        Ok(results.rows(0).len() == SWEPT_AT_ONCE)
    }
}

fn insert<'a>(event: &'a TelemetryEvent, id: &'a str, part: usize, now: Timestamp) -> Statement<'a> {
    let sql = "INSERT INTO telemetry (received, id, part, name, at, from_label, to_label, trigger, labels, workspace)
               VALUES (?1, ?2, ?3, ?4, MIN(?5, ?1), ?6, ?7, ?8, ?9, ?10)";
    let (from, to, trigger, labels) = match &event.kind {
        EventKind::Advance { from, to, trigger } => {
            (Bind::Text(from), Bind::Text(to), Bind::Text(trigger), Bind::Null)
        }
        EventKind::CycleAllFailed { labels } => (Bind::Null, Bind::Null, Bind::Null, Bind::Text(labels)),
    };
    let workspace = event.workspace.as_ref().map_or(Bind::Null, |id| Bind::Text(id.as_str()));
    let (received, id, part) = (Bind::Int(now), Bind::Text(id), Bind::Int(part as u64));
    let (name, at) = (Bind::Text(event.kind.name()), Bind::Int(event.at));
    statement(sql, [received, id, part, name, at, from, to, trigger, labels, workspace])
}

fn advance_of(row: &Row) -> Option<AdvanceCount> {
    Some(AdvanceCount {
        from: row.text("from_label")?,
        to: row.text("to_label")?,
        count: row.int("count")?,
        last_at: row.int("last_at")?,
    })
}

/// Pairs of labels that are read: a list of relays has a handful, and only a hostile client
/// reports more.
const MAX_PAIRS: usize = 1_000;

/// Rows that one statement of the sweep removes, well within D1's time.
const SWEPT_AT_ONCE: usize = 2_000;
