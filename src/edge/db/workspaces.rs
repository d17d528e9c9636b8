//! Workspaces: create, delete, and the listener lease.

use super::log::{Appended, Entry, append, lease_of, live_until};
use super::{Bind, Db, DbError, statement};
use crate::protocol::change::ChangeKind;

impl Db {
    /// Creates a workspace; `false` when the id is taken, also by a deleted one. `op` is the hashed
    /// idempotency key and the hash of the request.
    pub async fn create_workspace(
        &self,
        id: &str,
        op: Option<(&str, &str)>,
        now: u64,
    ) -> Result<bool, DbError> {
        let sql = "INSERT INTO workspaces (id, created_at, create_key, create_hash) VALUES (?1, ?2, ?3, ?4)
                   ON CONFLICT (id) DO NOTHING RETURNING id";
        let (key, hash) = op.map_or((Bind::Null, Bind::Null), |(k, h)| (Bind::Text(k), Bind::Text(h)));
        let results = self.batch(vec![statement(sql, [Bind::Text(id), Bind::Int(now), key, hash])]).await?;
        Ok(results.row(0).is_some())
    }

    /// The id that was created under a key, and the hash of the request.
    pub async fn created_under(&self, key: &str) -> Result<Option<(String, String)>, DbError> {
        let sql = "SELECT id, create_hash FROM workspaces WHERE create_key = ?1";
        let results = self.batch(vec![statement(sql, [Bind::Text(key)])]).await?;
        Ok(results.row(0).and_then(|row| Some((row.text("id")?, row.text("create_hash")?))))
    }

    /// Marks a workspace as deleted and logs it; nothing can be written to it afterwards (F7). Its
    /// content stays until it is purged. Returns the clock, and when the listener lease ends.
    pub async fn delete_workspace(
        &self,
        id: &str,
        actor: &str,
        op: Option<(&str, &str)>,
        now: u64,
    ) -> Result<(u64, u64), DbError> {
        let entry = Entry {
            workspace: id,
            kind: ChangeKind::DeleteWorkspace,
            path: "",
            actor,
            at: now,
            op,
            vector: None,
        };
        let mark = statement(
            "UPDATE workspaces SET deleted_at = ?2 WHERE id = ?1",
            [Bind::Text(id), Bind::Int(now)],
        );
        let results = self.batch(vec![append(&entry, &[]), mark, live_until(id)]).await?;
        Ok((Appended::read(&results, 0)?.clock, lease_of(&results, 2)))
    }

    /// Clears a listener lease that is nobody's any more, unless a later one than was seen is stored.
    pub async fn clear_lease(&self, id: &str, seen: u64) -> Result<(), DbError> {
        let sql = "UPDATE workspaces SET live_until = 0 WHERE id = ?1 AND live_until BETWEEN 1 AND ?2";
        self.batch(vec![statement(sql, [Bind::Text(id), Bind::Int(seen)])]).await.map(|_| ())
    }

    /// Extends the listener lease, unless it ends later already (R3). Returns whether the workspace
    /// lives; the lease of a deleted one is of no use.
    pub async fn extend_lease(&self, id: &str, until: u64) -> Result<bool, DbError> {
        let extend = "UPDATE workspaces SET live_until = ?2 WHERE id = ?1 AND live_until < ?2";
        let alive = "SELECT 1 FROM workspaces WHERE id = ?1 AND deleted_at IS NULL";
        let statements =
            vec![statement(extend, [Bind::Text(id), Bind::Int(until)]), statement(alive, [Bind::Text(id)])];
        Ok(self.batch(statements).await?.row(1).is_some())
    }
}
