//! Workspaces: create, delete, and the listener lease.

use super::log::{Appended, Entry, append};
use super::{Bind, Db, DbError, statement};
use crate::protocol::change::ChangeKind;

impl Db {
    /// Creates a workspace; `false` when the id is taken, also by a deleted one.
    pub async fn create_workspace(&self, id: &str, now: u64) -> Result<bool, DbError> {
        let sql = "INSERT INTO workspaces (id, created_at) VALUES (?1, ?2) ON CONFLICT (id) DO NOTHING RETURNING id";
        let results = self.batch(vec![statement(sql, [Bind::Text(id), Bind::Int(now)])]).await?;
        Ok(results.row(0).is_some())
    }

    /// Marks a workspace as deleted and logs it; nothing can be written to it afterwards (F7). Its
    /// content stays until it is purged.
    pub async fn delete_workspace(&self, id: &str, actor: &str, now: u64) -> Result<u64, DbError> {
        let entry =
            Entry { workspace: id, kind: ChangeKind::DeleteWorkspace, path: "", actor, at: now, op: None };
        let mark = "UPDATE workspaces SET deleted_at = ?2 WHERE id = ?1";
        let results =
            self.batch(vec![append(&entry, &[]), statement(mark, [Bind::Text(id), Bind::Int(now)])]).await?;
        Ok(Appended::read(&results, 0)?.clock)
    }

    /// Clears a lease that was found to be nobody's, unless it was renewed since.
    pub async fn clear_lease(&self, id: &str, seen: u64) -> Result<(), DbError> {
        let sql = "UPDATE workspaces SET live_until = 0 WHERE id = ?1 AND live_until = ?2";
        self.batch(vec![statement(sql, [Bind::Text(id), Bind::Int(seen)])]).await.map(|_| ())
    }

    /// Sets when the listener lease ends; 0 clears it (R3).
    pub async fn set_lease(&self, id: &str, until: u64) -> Result<(), DbError> {
        let sql = "UPDATE workspaces SET live_until = ?2 WHERE id = ?1 AND live_until <> ?2";
        self.batch(vec![statement(sql, [Bind::Text(id), Bind::Int(until)])]).await.map(|_| ())
    }
}
