//! Presence: one row for each session, one batch for each call.

use super::expiry::PRESENCE;
use super::{Bind, Db, DbError, Results, Row, Statement, statement, unreadable};
use crate::api::limits::{MAX_PRESENCE_ROWS, MAX_PRESENCE_ROWS_PER_SUBJECT};
use crate::api::presence::{PresenceRequest, PresenceRow};
use crate::api::role::ActorKind;
use crate::protocol::Timestamp;

/// Whose session.
#[derive(Debug, Clone, Copy)]
pub struct Present<'a> {
    /// The workspace.
    pub workspace: &'a str,
    /// Who.
    pub sub: &'a str,
    /// What it is.
    pub kind: ActorKind,
}

/// Who is in a workspace that lives.
#[derive(Debug)]
pub struct Presences {
    /// Rows that count, by subject and session.
    pub rows: Vec<PresenceRow>,
    /// When the listener lease ends.
    pub live_until: Timestamp,
    /// The head of the workspace.
    pub head: u64,
    /// Whether the row was written; false when it would have been one too many.
    pub stored: bool,
}

impl Db {
    /// Who is here; `None` without a workspace.
    pub async fn presence(&self, workspace: &str, now: Timestamp) -> Result<Option<Presences>, DbError> {
        let results = self.batch(vec![lease(workspace), counting(workspace, now)]).await?;
        read(&results, 0, false)
    }

    /// Writes a session's row and reads who is here, in one batch that also removes some rows that
    /// count no more. `None` without a workspace.
    pub async fn put_presence(
        &self,
        who: Present<'_>,
        request: &PresenceRequest,
        now: Timestamp,
    ) -> Result<Option<Presences>, DbError> {
        // The limits are for sessions that count, so that those which a batch leaves over do no harm.
        let insert = format!(
            "INSERT INTO presence (workspace, sub, kind, session, state, expires_at)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6
             WHERE EXISTS (SELECT 1 FROM workspaces WHERE id = ?1 AND deleted_at IS NULL)
               AND (SELECT COUNT(*) FROM presence WHERE workspace = ?1 AND sub = ?2 AND expires_at > ?7
                    AND NOT (kind = ?3 AND session = ?4)) < {MAX_PRESENCE_ROWS_PER_SUBJECT}
               AND (SELECT COUNT(*) FROM presence WHERE workspace = ?1 AND expires_at > ?7
                    AND NOT (sub = ?2 AND kind = ?3 AND session = ?4)) < {MAX_PRESENCE_ROWS}
             ON CONFLICT (workspace, sub, kind, session)
             DO UPDATE SET state = excluded.state, expires_at = excluded.expires_at
             RETURNING 1"
        );
        let binds = [
            Bind::Text(who.workspace),
            Bind::Text(who.sub),
            Bind::Text(who.kind.as_str()),
            Bind::Text(&request.session),
            request.state.as_deref().map_or(Bind::Null, Bind::Text),
            Bind::Int(now.saturating_add(request.ttl_ms)),
            Bind::Int(now),
        ];
        let statements = vec![
            PRESENCE.expire(who.workspace, now),
            statement(insert, binds),
            lease(who.workspace),
            counting(who.workspace, now),
        ];
        let results = self.batch(statements).await?;
        read(&results, 2, results.row(1).is_some())
    }

    /// Removes a session's row, if there is one. Returns whether the workspace lives.
    pub async fn delete_presence(&self, who: Present<'_>, session: &str) -> Result<bool, DbError> {
        let binds = [
            Bind::Text(who.workspace),
            Bind::Text(who.sub),
            Bind::Text(who.kind.as_str()),
            Bind::Text(session),
        ];
        let sql = "DELETE FROM presence WHERE workspace = ?1 AND sub = ?2 AND kind = ?3 AND session = ?4";
        let results = self.batch(vec![statement(sql, binds), lease(who.workspace)]).await?;
        Ok(results.row(1).is_some())
    }
}

/// A row when the workspace lives.
fn lease(workspace: &str) -> Statement<'_> {
    let sql = "SELECT live_until, (SELECT MAX(clock) FROM change_log WHERE workspace = id) AS head
               FROM workspaces WHERE id = ?1 AND deleted_at IS NULL";
    statement(sql, [Bind::Text(workspace)])
}

fn counting(workspace: &str, now: Timestamp) -> Statement<'_> {
    let sql = "SELECT sub, kind, session, state, expires_at FROM presence
               WHERE workspace = ?1 AND expires_at > ?2 ORDER BY sub, kind, session";
    statement(sql, [Bind::Text(workspace), Bind::Int(now)])
}

/// Reads what [`lease`] and [`counting`] returned, the first as the `index`th statement.
fn read(results: &Results, index: usize, stored: bool) -> Result<Option<Presences>, DbError> {
    let Some(workspace) = results.row(index) else { return Ok(None) };
    let live_until = workspace.int("live_until").ok_or_else(unreadable)?;
    let rows = results.rows(index + 1).iter().map(row_of).collect::<Option<_>>().ok_or_else(unreadable)?;
    let head = workspace.int("head").unwrap_or(0);
    Ok(Some(Presences { rows, live_until, head, stored }))
}

fn row_of(row: &Row) -> Option<PresenceRow> {
    Some(PresenceRow {
        sub: row.text("sub")?,
        kind: ActorKind::parse(&row.text("kind")?)?,
        session: row.text("session")?,
        state: row.text("state"),
        expires_at: row.int("expires_at")?,
    })
}
