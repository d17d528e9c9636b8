//! Rows with an end of their own, presence and signals: they go with a later write of their workspace,
//! or with the sweep.

use super::{Bind, Db, DbError, Statement, statement};
use crate::protocol::Timestamp;

/// A table whose rows have an `expires_at`.
#[derive(Debug, Clone, Copy)]
pub struct Expiring {
    table: &'static str,
    key: &'static str,
}

/// Who is here.
pub const PRESENCE: Expiring = Expiring { table: "presence", key: "workspace, sub, kind, session" };

/// What waits for peers.
pub const SIGNALS: Expiring = Expiring { table: "signals", key: "workspace, peer, id" };

impl Expiring {
    /// Removes some rows of a workspace that are over, as a part of its next write.
    pub fn expire(self, workspace: &str, now: Timestamp) -> Statement<'_> {
        let sql = self.delete("workspace = ?2 AND", EXPIRED_AT_ONCE);
        statement(sql, [Bind::Int(now), Bind::Text(workspace)])
    }

    fn sweep(self, now: Timestamp) -> Statement<'static> {
        statement(self.delete("", SWEPT_AT_ONCE), [Bind::Int(now)])
    }

    fn delete(self, whose: &str, limit: usize) -> String {
        let Self { table, key } = self;
        format!(
            "DELETE FROM {table} WHERE ({key}) IN
             (SELECT {key} FROM {table} WHERE {whose} expires_at <= ?1 LIMIT {limit}) RETURNING 1"
        )
    }
}

impl Db {
    /// Removes one batch of what is over. Returns whether there may be more.
    pub async fn sweep_expired(&self, now: Timestamp) -> Result<bool, DbError> {
        let results = self.batch(vec![PRESENCE.sweep(now), SIGNALS.sweep(now)]).await?;
        Ok((0..2).any(|table| results.rows(table).len() == SWEPT_AT_ONCE))
    }
}

/// Rows that a write removes beside its own: more than it adds, so that what is over never piles up,
/// and few, so that no write pays for a crowd that left.
const EXPIRED_AT_ONCE: usize = 20;

/// Rows that one statement of the sweep removes, well within D1's time.
const SWEPT_AT_ONCE: usize = 2_000;
