//! Records: read, list, put, patch, delete; and the batch of several ops.

use super::log::{Appended, Entry, Guard, append, lease_of, live_until};
use super::{Bind, Db, DbError, Row, Statement, statement, unreadable};
use crate::api::limits::MAX_PATH_SEGMENTS;
use crate::api::refusal::Found;
use crate::protocol::change::ChangeKind;
use crate::protocol::limits::MAX_PATH_BYTES;

/// A node as stored.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its path.
    pub path: String,
    /// `record` or `document`.
    pub kind: String,
    /// JSON text of a record; absent in lists.
    pub value: Option<String>,
    /// Clock of its newest change.
    pub clock: u64,
    /// Epoch of a document.
    pub epoch: u64,
    /// The head of the workspace when the node was read.
    pub head: u64,
}

/// What a node op does.
#[derive(Debug, Clone)]
pub enum Write<'a> {
    /// Removes the node and everything below it.
    Delete,
    /// Changes a record by a merge patch, given as JSON text.
    Patch(&'a str),
    /// Writes a record, given as JSON text.
    Put(&'a str),
}

/// One op of a mutation.
#[derive(Debug, Clone)]
pub struct NodeOp<'a> {
    /// Its place in the log.
    pub entry: Entry<'a>,
    /// What has to hold for it.
    pub guards: Vec<Guard>,
    /// What it does.
    pub write: Write<'a>,
}

impl<'a> NodeOp<'a> {
    /// An op, with the guards that follow from what it does added to those asked for.
    #[must_use]
    pub fn new(mut entry: Entry<'a>, mut guards: Vec<Guard>, write: Write<'a>) -> Self {
        let (kind, guard) = match write {
            Write::Delete => (ChangeKind::Delete, Guard::Subtree),
            Write::Patch(_) => (ChangeKind::Patch, Guard::Record),
            Write::Put(_) => (ChangeKind::Put, Guard::NotDocument),
        };
        entry.kind = kind;
        guards.push(guard);
        Self { entry, guards, write }
    }

    fn statements(&self) -> Vec<Statement<'a>> {
        let Entry { workspace, path, at, .. } = self.entry;
        let mut statements = vec![append(&self.entry, &self.guards)];
        let (workspace, path) = (Bind::Text(workspace), Bind::Text(path));
        match self.write {
            Write::Put(value) => statements.push(statement(
                "INSERT INTO nodes (workspace, path, kind, value, clock, updated_at)
                 VALUES (?1, ?2, 'record', ?3, (SELECT MAX(clock) FROM change_log WHERE workspace = ?1), ?4)
                 ON CONFLICT (workspace, path) DO UPDATE
                 SET value = excluded.value, clock = excluded.clock, updated_at = excluded.updated_at",
                [workspace, path, Bind::Text(value), Bind::Int(at)],
            )),
            // SQLite's json_patch is RFC 7396, so the record need not be read first.
            Write::Patch(patch) => statements.push(statement(
                "UPDATE nodes SET value = json_patch(value, ?3), updated_at = ?4,
                 clock = (SELECT MAX(clock) FROM change_log WHERE workspace = ?1)
                 WHERE workspace = ?1 AND path = ?2",
                [workspace, path, Bind::Text(patch), Bind::Int(at)],
            )),
            Write::Delete => {
                for table in ["nodes", "doc_updates"] {
                    statements.push(statement(
                        format!(
                            "DELETE FROM {table} WHERE workspace = ?1
                             AND (path = ?2 OR (path > ?2 || '/' AND path < ?2 || '0'))"
                        ),
                        [workspace, path],
                    ));
                }
            }
        }
        statements
    }
}

/// A committed mutation.
#[derive(Debug)]
pub struct Committed {
    /// One per op, in order.
    pub appended: Vec<Appended>,
    /// When the listener lease ends (R3).
    pub live_until: u64,
}

impl Db {
    /// Runs ops as one transaction: all or none.
    pub async fn mutate(&self, workspace: &str, ops: &[NodeOp<'_>]) -> Result<Committed, DbError> {
        let mut statements = Vec::new();
        let mut logged = Vec::new();
        for op in ops {
            logged.push(statements.len());
            statements.extend(op.statements());
        }
        let lease = statements.len();
        statements.push(live_until(workspace));
        let results = self.batch(statements).await?;
        let mut appended = Vec::with_capacity(ops.len());
        for index in logged {
            appended.push(Appended::read(&results, index)?);
        }
        Ok(Committed { appended, live_until: lease_of(&results, lease) })
    }

    /// Moves a node and everything below it in one transaction: a delete here, and a move there. Both
    /// changes follow one another; the clock of the second is the answer, with the lease.
    pub async fn rename(
        &self,
        entry: Entry<'_>,
        to: &str,
        guard: Option<Guard>,
    ) -> Result<(u64, u64), DbError> {
        let from = entry.path;
        let within = Guard::PathsWithin {
            bytes: (MAX_PATH_BYTES + from.len()).saturating_sub(to.len()),
            segments: MAX_PATH_SEGMENTS.saturating_sub(to.split('/').count()),
        };
        let guards: Vec<Guard> = guard.into_iter().chain([Guard::Subtree, within]).collect();
        let leaves = Entry { kind: ChangeKind::Delete, ..entry };
        let arrives = Entry { kind: ChangeKind::Move, path: to, op: None, ..entry };
        let (w, f, t) = (Bind::Text(entry.workspace), Bind::Text(from), Bind::Text(to));
        let below = "workspace = ?1 AND (path = ?2 OR (path > ?2 || '/' AND path < ?2 || '0'))";
        let statements = vec![
            append(&leaves, &guards),
            append(&arrives, &[Guard::Free]),
            statement(
                format!(
                    "UPDATE nodes SET path = ?3 || substr(path, length(?2) + 1), updated_at = ?4,
                     clock = (SELECT MAX(clock) FROM change_log WHERE workspace = ?1) WHERE {below}"
                ),
                [w, f, t, Bind::Int(entry.at)],
            ),
            statement(
                format!("UPDATE doc_updates SET path = ?3 || substr(path, length(?2) + 1) WHERE {below}"),
                [w, f, t],
            ),
            live_until(entry.workspace),
        ];
        let results = self.batch(statements).await?;
        Ok((Appended::read(&results, 1)?.clock, lease_of(&results, 4)))
    }

    /// Reads a node. The outer `None` is a workspace that is not there.
    pub async fn node(&self, workspace: &str, path: &str) -> Result<Option<Option<Node>>, DbError> {
        let sql = "SELECT path, kind, value, clock, epoch FROM nodes WHERE workspace = ?1 AND path = ?2";
        let binds = [Bind::Text(workspace), Bind::Text(path)];
        let results = self.batch(vec![alive(workspace), statement(sql, binds)]).await?;
        let Some(alive) = results.row(0) else { return Ok(None) };
        let head = alive.int("head").unwrap_or(0);
        results.row(1).map(|row| node_of(&row, head)).transpose().map(Some)
    }

    /// What is at each of some paths, in their order. One query, which reads no values.
    pub async fn found(&self, workspace: &str, paths: &[&str]) -> Result<Vec<Found>, DbError> {
        let paths = serde_json::Value::from(paths).to_string();
        let sql = "SELECT n.kind, n.clock, EXISTS (
                     SELECT 1 FROM nodes WHERE workspace = ?1 AND path > asked.value || '/' AND path < asked.value || '0'
                   ) AS below
                   FROM json_each(?2) AS asked LEFT JOIN nodes n ON n.workspace = ?1 AND n.path = asked.value
                   ORDER BY asked.key";
        let results = self.batch(vec![statement(sql, [Bind::Text(workspace), Bind::Text(&paths)])]).await?;
        let found = |row: &Row| Found {
            clock: row.int("clock"),
            is_document: row.text("kind").as_deref() == Some("document"),
            has_children: row.int("below") == Some(1),
        };
        Ok(results.rows(0).iter().map(found).collect())
    }

    /// Lists nodes after `after` in path order, those at or below `prefix` if there is one, with
    /// the head. `None` is a workspace that is not there.
    pub async fn list(
        &self,
        workspace: &str,
        prefix: Option<&str>,
        after: &str,
        limit: u32,
    ) -> Result<Option<(Vec<Node>, u64)>, DbError> {
        let below = match prefix {
            Some(_) => "AND (path = ?4 OR (path > ?4 || '/' AND path < ?4 || '0'))",
            None => "",
        };
        let sql = format!(
            "SELECT path, kind, clock, epoch FROM nodes WHERE workspace = ?1 AND path > ?2 {below} ORDER BY path LIMIT ?3"
        );
        let mut binds = vec![Bind::Text(workspace), Bind::Text(after), Bind::Int(u64::from(limit))];
        binds.extend(prefix.map(Bind::Text));
        let results = self.batch(vec![alive(workspace), statement(sql, binds)]).await?;
        let Some(alive) = results.row(0) else { return Ok(None) };
        let head = alive.int("head").unwrap_or(0);
        let nodes = results.rows(1).iter().map(|row| node_of(row, head)).collect::<Result<_, _>>()?;
        Ok(Some((nodes, head)))
    }
}

fn node_of(row: &Row, head: u64) -> Result<Node, DbError> {
    Ok(Node {
        path: row.text("path").ok_or_else(unreadable)?,
        kind: row.text("kind").ok_or_else(unreadable)?,
        value: row.text("value"),
        clock: row.int("clock").ok_or_else(unreadable)?,
        epoch: row.int("epoch").unwrap_or(0),
        head,
    })
}

fn alive(workspace: &str) -> Statement<'_> {
    let sql = "SELECT (SELECT MAX(clock) FROM change_log WHERE workspace = id) AS head
               FROM workspaces WHERE id = ?1 AND deleted_at IS NULL";
    statement(sql, [Bind::Text(workspace)])
}
