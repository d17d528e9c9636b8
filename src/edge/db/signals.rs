//! Signals between peers: an inbox for each peer, one batch for each call.

use super::expiry::SIGNALS;
use super::{Bind, Db, DbError, Row, Statement, statement, unreadable};
use crate::api::limits::{MAX_SIGNALS, MAX_SIGNALS_PER_PEER, SIGNAL_MS};
use crate::api::resource::Signal;
use crate::api::signal::{InboxQuery, SignalRequest};
use crate::protocol::Timestamp;

/// What became of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Its id, and when it ends.
    Stored {
        /// Its place in the inbox.
        id: u64,
        /// When it is gone.
        expires_at: Timestamp,
    },
    /// The inbox, or the workspace, holds as many as it can.
    Full,
}

impl Db {
    /// Puts a signal of `sub` into an inbox, in one batch that also removes some that are over.
    /// `None` without a workspace.
    pub async fn send_signal(
        &self,
        workspace: &str,
        sub: &str,
        signal: &SignalRequest,
        now: Timestamp,
    ) -> Result<Option<Sent>, DbError> {
        let expires_at = now.saturating_add(SIGNAL_MS);
        // The time as least id: when all rows of an inbox went, the next is still past every cursor.
        let insert = format!(
            "INSERT INTO signals (workspace, peer, id, topic, sender, sub, data, expires_at)
             SELECT ?1, ?2,
                    MAX(?8, (SELECT COALESCE(MAX(id), 0) + 1 FROM signals WHERE workspace = ?1 AND peer = ?2)),
                    ?3, ?4, ?5, ?6, ?7
             WHERE EXISTS (SELECT 1 FROM workspaces WHERE id = ?1 AND deleted_at IS NULL)
               AND (SELECT COUNT(*) FROM signals WHERE workspace = ?1 AND peer = ?2 AND expires_at > ?8)
                   < {MAX_SIGNALS_PER_PEER}
               AND (SELECT COUNT(*) FROM signals WHERE workspace = ?1 AND expires_at > ?8) < {MAX_SIGNALS}
             RETURNING id"
        );
        let binds = [
            Bind::Text(workspace),
            Bind::Text(&signal.to),
            Bind::Text(&signal.topic),
            Bind::Text(&signal.from),
            Bind::Text(sub),
            Bind::Text(&signal.data),
            Bind::Int(expires_at),
            Bind::Int(now),
        ];
        let statements = vec![SIGNALS.expire(workspace, now), statement(insert, binds), lives(workspace)];
        let results = self.batch(statements).await?;
        if results.row(2).is_none() {
            return Ok(None);
        }
        let Some(row) = results.row(1) else { return Ok(Some(Sent::Full)) };
        Ok(Some(Sent::Stored { id: row.int("id").ok_or_else(unreadable)?, expires_at }))
    }

    /// What an inbox holds past a cursor, oldest first; `None` without a workspace. Nothing is taken
    /// out: an answer that got lost is asked for again.
    pub async fn signals(
        &self,
        workspace: &str,
        inbox: InboxQuery<'_>,
        now: Timestamp,
    ) -> Result<Option<Vec<Signal>>, DbError> {
        let sql = "SELECT id, topic, sender, sub, data FROM signals
                   WHERE workspace = ?1 AND peer = ?2 AND id > ?3 AND expires_at > ?4 AND topic = COALESCE(?5, topic)
                   ORDER BY id";
        let binds = [
            Bind::Text(workspace),
            Bind::Text(inbox.peer),
            Bind::Int(inbox.after),
            Bind::Int(now),
            inbox.topic.map_or(Bind::Null, Bind::Text),
        ];
        let results = self.batch(vec![lives(workspace), statement(sql, binds)]).await?;
        if results.row(0).is_none() {
            return Ok(None);
        }
        let signals = results.rows(1).iter().map(signal_of).collect::<Option<_>>();
        signals.map(Some).ok_or_else(unreadable)
    }
}

/// A row when the workspace lives.
fn lives(workspace: &str) -> Statement<'_> {
    statement("SELECT 1 FROM workspaces WHERE id = ?1 AND deleted_at IS NULL", [Bind::Text(workspace)])
}

fn signal_of(row: &Row) -> Option<Signal> {
    Some(Signal {
        id: row.int("id")?,
        from: row.text("sender")?,
        sub: row.text("sub")?,
        topic: row.text("topic")?,
        data: serde_json::from_str(&row.text("data")?).ok()?,
    })
}
