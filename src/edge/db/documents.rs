//! Documents: append an update, read them back, compact them (D1, D2).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;

use super::log::{Appended, Entry, Guard, append, lease_of, live_until};
use super::{Bind, Db, DbError, Results, Statement, statement, unreadable};
use crate::document::checkpoint;
use crate::planted::{Bug, planted};
use crate::protocol::change::ChangeKind;
use crate::room::Stored;

/// An update to append.
#[derive(Debug, Clone, Copy)]
pub struct Append<'a> {
    /// The workspace.
    pub workspace: &'a str,
    /// The document.
    pub path: &'a str,
    /// The Yjs update, checked.
    pub update: &'a [u8],
    /// The epoch that it belongs to; `None` takes the stored one.
    pub epoch: Option<u64>,
    /// Who wrote it.
    pub actor: &'a str,
    /// When.
    pub at: u64,
    /// The hashed idempotency key and the hash of the request.
    pub op: Option<(&'a str, &'a str)>,
    /// The clock that the writer knows, if it wants to hear whether it missed something since.
    pub after: Option<u64>,
    /// Whether the writer wants to know the listener lease (R3); a room has its own.
    pub wants_lease: bool,
    /// What else has to hold.
    pub guard: Option<Guard>,
    /// Whether this is all of the content, and what was there goes: its clock is the new epoch.
    pub replaces: bool,
    /// The state vector that a replay answers.
    pub vector: Option<&'a str>,
}

impl<'a> Append<'a> {
    /// The statements of one append. [`Self::read`] knows their order.
    fn add_statements(&self, chunks: &'a [String], statements: &mut Vec<Statement<'a>>) {
        let Self { workspace, path, update, epoch, actor, at, op, after, vector, .. } = *self;
        let kind = if self.replaces { ChangeKind::Replace } else { ChangeKind::Update };
        let entry = Entry { workspace, kind, path, actor, at, op, vector };
        let guards: Vec<Guard> = [Guard::Document(epoch)].into_iter().chain(self.guard).collect();
        statements.push(append(&entry, &guards));
        let update_counters = if self.replaces {
            "parts = excluded.parts, size = excluded.size,
             epoch = excluded.clock, base = excluded.clock, fence = 0"
        } else {
            "parts = parts + excluded.parts, size = size + excluded.size"
        };
        statements.push(statement(format!(
            // The epoch of a new document is its first clock: one that is deleted and made again
            // under the same path is another document.
            "INSERT INTO nodes (workspace, path, kind, epoch, clock, updated_at, parts, size)
             SELECT ?1, ?2, 'document', MAX(clock), MAX(clock), ?3, ?4, ?5 FROM change_log WHERE workspace = ?1
             ON CONFLICT (workspace, path) DO UPDATE
             SET clock = excluded.clock, updated_at = excluded.updated_at, {update_counters}
             RETURNING epoch, parts, EXISTS (
               SELECT 1 FROM doc_updates WHERE workspace = ?1 AND path = ?2 AND clock > ?6
             ) AS missed"),
            [
                Bind::Text(workspace),
                Bind::Text(path),
                Bind::Int(at),
                Bind::Int(chunks.len() as u64),
                Bind::Int(update.len() as u64),
                // Its own rows come later in the batch.
                after.map_or(Bind::Null, Bind::Int),
            ],
        ));
        if self.wants_lease {
            statements.push(live_until(workspace));
        }
        if self.replaces {
            statements.push(statement(
                "DELETE FROM doc_updates WHERE workspace = ?1 AND path = ?2",
                [Bind::Text(workspace), Bind::Text(path)],
            ));
        }
        for (part, data) in chunks.iter().enumerate() {
            statements.push(insert_part(workspace, path, None, part, data));
        }
    }

    fn read(&self, results: &Results, first: usize) -> Result<AppendedUpdate, DbError> {
        let appended = Appended::read(results, first)?;
        let written = results.row(first + 1).ok_or_else(unreadable)?;
        Ok(AppendedUpdate {
            clock: appended.clock,
            created: appended.created,
            epoch: written.int("epoch").unwrap_or(0),
            parts: written.int("parts").unwrap_or(0),
            live_until: if self.wants_lease { lease_of(results, first + 2) } else { 0 },
            missed: written.int("missed") == Some(1),
            at: self.at,
        })
    }
}

/// An update that is committed.
#[derive(Debug)]
pub struct AppendedUpdate {
    /// Clock of its change.
    pub clock: u64,
    /// Whether it created the document.
    pub created: bool,
    /// The document's epoch.
    pub epoch: u64,
    /// Rows that the document's updates take; many are worth a compaction.
    pub parts: u64,
    /// When the listener lease ends (R3); 0 when it was not asked for.
    pub live_until: u64,
    /// Whether others appended something past the clock that the writer knew.
    pub missed: bool,
    /// When it was appended.
    pub at: u64,
}

#[derive(Debug)]
struct Part {
    clock: u64,
    part: u64,
    data: String,
}

impl Db {
    /// Appends an update in one transaction with its change (R1).
    pub async fn append_update(&self, append: &Append<'_>) -> Result<AppendedUpdate, DbError> {
        let mut appended = self.append_updates(std::slice::from_ref(append)).await?;
        appended.pop().ok_or_else(unreadable)
    }

    /// Appends several updates in one transaction: all or none.
    pub async fn append_updates(&self, appends: &[Append<'_>]) -> Result<Vec<AppendedUpdate>, DbError> {
        let chunks: Vec<Vec<String>> = appends
            .iter()
            .map(|append| checkpoint::chunks(append.update, CHUNK_BYTES).map(|c| BASE64.encode(c)).collect())
            .collect();
        let (mut statements, mut firsts) = (Vec::new(), Vec::new());
        for (append, chunks) in appends.iter().zip(&chunks) {
            firsts.push(statements.len());
            append.add_statements(chunks, &mut statements);
        }
        let results = self.batch(statements).await?;
        appends.iter().zip(firsts).map(|(append, first)| append.read(&results, first)).collect()
    }

    /// Reads a document's updates past a clock, with its own clock and epoch. A document that does
    /// not exist reads as empty; `None` is a workspace that is not there.
    pub async fn document(&self, workspace: &str, path: &str, after: u64) -> Result<Option<Stored>, DbError> {
        Ok(self.document_and_head(workspace, path, after).await?.map(|(stored, _)| stored))
    }

    /// The same, with the head of the workspace.
    ///
    /// Large documents are read in pages: a value crosses into WASM as text of its own.
    pub async fn document_and_head(
        &self,
        workspace: &str,
        path: &str,
        after: u64,
    ) -> Result<Option<(Stored, u64)>, DbError> {
        let mut newest;
        let mut parts: Vec<Part> = Vec::new();
        let mut stored = Stored::default();
        let mut first_seen = None;
        loop {
            let (clock, part) = parts.last().map_or((after, MAX_CLOCK), |last| (last.clock, last.part));
            let page = statement(
                format!(
                    "{SELECT_PARTS} AND (clock > ?3 OR (clock = ?3 AND part > ?4)) ORDER BY clock, part LIMIT {PAGE_PARTS}"
                ),
                [Bind::Text(workspace), Bind::Text(path), Bind::Int(clock), Bind::Int(part)],
            );
            let results = self.batch(vec![document_statement(workspace, path), page]).await?;
            let Some(head) = results.row(0) else { return Ok(None) };
            let base = head.int("base").unwrap_or(0);
            let epoch = head.int("epoch");
            // Between two pages a compaction moves rows, and a delete makes another document of those
            // that follow: start again with what is there now.
            if *first_seen.get_or_insert((base, epoch)) != (base, epoch) {
                parts.clear();
                first_seen = None;
                continue;
            }
            stored.clock = head.int("clock").unwrap_or(0);
            stored.epoch = epoch;
            newest = head.int("head").unwrap_or(0);
            let rows = parts_of(&results, 1)?;
            let last = rows.len() < PAGE_PARTS;
            parts.extend(rows);
            if last {
                break;
            }
        }
        stored.updates = join_parts(&parts)?;
        Ok(Some((stored, newest)))
    }

    /// Replaces a document's updates up to a clock by one checkpoint (D2). Nothing is written when
    /// the document changed its epoch or was compacted meanwhile, or the fencing token is old.
    pub async fn compact(&self, compaction: &Compaction<'_>) -> Result<(), DbError> {
        let Compaction { workspace, path, epoch, base, through, fence, checkpoint } = *compaction;
        let chunks: Vec<String> =
            checkpoint::chunks(checkpoint, CHUNK_BYTES).map(|c| BASE64.encode(c)).collect();
        let (w, p) = (Bind::Text(workspace), Bind::Text(path));
        let holds = if planted(Bug::CheckpointWithoutEpochCheck) {
            "fence <= ?6 AND ?3 >= 0 AND ?4 >= 0"
        } else {
            "epoch = ?3 AND base = ?4 AND fence <= ?6"
        };
        let mut statements = vec![
            statement(
                format!(
                    "UPDATE nodes SET fence = ?6, base = CASE WHEN {holds} THEN ?5 END
                     WHERE workspace = ?1 AND path = ?2"
                ),
                [w, p, Bind::Int(epoch), Bind::Int(base), Bind::Int(through), Bind::Int(fence)],
            ),
            statement(
                "DELETE FROM doc_updates WHERE workspace = ?1 AND path = ?2 AND clock <= ?3",
                [w, p, Bind::Int(through)],
            ),
        ];
        for (part, data) in chunks.iter().enumerate() {
            statements.push(insert_part(workspace, path, Some(through), part, data));
        }
        statements.push(statement(
            "UPDATE nodes SET
             parts = (SELECT COUNT(*) FROM doc_updates WHERE workspace = ?1 AND path = ?2),
             size = (SELECT COALESCE(SUM(length(data)), 0) * 3 / 4 FROM doc_updates WHERE workspace = ?1 AND path = ?2)
             WHERE workspace = ?1 AND path = ?2",
            [w, p],
        ));
        self.batch(statements).await.map(|_| ())
    }

    /// The clock up to which a document is compacted.
    pub async fn compaction_base(&self, workspace: &str, path: &str) -> Result<Option<u64>, DbError> {
        let results = self.batch(vec![document_statement(workspace, path)]).await?;
        Ok(results.row(0).and_then(|row| row.int("base")))
    }
}

/// A checkpoint that is to replace a document's updates.
#[derive(Debug, Clone, Copy)]
pub struct Compaction<'a> {
    /// The workspace.
    pub workspace: &'a str,
    /// The document.
    pub path: &'a str,
    /// The epoch that was read.
    pub epoch: u64,
    /// The compaction that was read: another one since then makes this one stale.
    pub base: u64,
    /// The newest clock that the checkpoint contains.
    pub through: u64,
    /// The fencing token of the writer; smaller than the stored one is stale.
    pub fence: u64,
    /// One Yjs update with everything up to `through`.
    pub checkpoint: &'a [u8],
}

fn document_statement<'a>(workspace: &'a str, path: &'a str) -> Statement<'a> {
    statement(
        "SELECT n.clock, n.epoch, n.base, (SELECT MAX(clock) FROM change_log WHERE workspace = w.id) AS head
         FROM workspaces w
         LEFT JOIN nodes n ON n.workspace = w.id AND n.path = ?2 AND n.kind = 'document'
         WHERE w.id = ?1 AND w.deleted_at IS NULL",
        [Bind::Text(workspace), Bind::Text(path)],
    )
}

/// Stores one chunk, at a clock or at that of the change just logged, if the document is there.
fn insert_part<'a>(
    workspace: &'a str,
    path: &'a str,
    clock: Option<u64>,
    part: usize,
    data: &'a str,
) -> Statement<'a> {
    let sql = "INSERT INTO doc_updates (workspace, path, clock, part, data)
               SELECT ?1, ?2, COALESCE(?3, (SELECT MAX(clock) FROM change_log WHERE workspace = ?1)), ?4, ?5
               WHERE EXISTS (SELECT 1 FROM nodes WHERE workspace = ?1 AND path = ?2)";
    let clock = clock.map_or(Bind::Null, Bind::Int);
    statement(sql, [Bind::Text(workspace), Bind::Text(path), clock, Bind::Int(part as u64), Bind::Text(data)])
}

fn parts_of(results: &Results, index: usize) -> Result<Vec<Part>, DbError> {
    let part = |row: &super::Row| {
        Some(Part { clock: row.int("clock")?, part: row.int("part")?, data: row.text("data")? })
    };
    results.rows(index).iter().map(part).collect::<Option<_>>().ok_or_else(unreadable)
}

fn join_parts(parts: &[Part]) -> Result<Vec<Vec<u8>>, DbError> {
    let mut updates: Vec<(u64, Vec<u8>)> = Vec::new();
    for part in parts {
        let broken = |_| DbError::Permanent("a stored update is not base64".to_owned());
        let bytes = BASE64.decode(&part.data).map_err(broken)?;
        match updates.last_mut() {
            Some((clock, update)) if *clock == part.clock => update.extend(bytes),
            _ => updates.push((part.clock, bytes)),
        }
    }
    Ok(updates.into_iter().map(|(_, update)| update).collect())
}

const SELECT_PARTS: &str = "SELECT clock, part, data FROM doc_updates WHERE workspace = ?1 AND path = ?2";

/// Bytes of an update in one row: 1.9 MB of base64, under D1's 2,000,000 bytes a value.
const CHUNK_BYTES: usize = 1_425_000;

/// Rows read at once. Compaction keeps a document to fewer, unless it is large.
const PAGE_PARTS: usize = 256;

/// Larger than any clock, and exact as a JavaScript number.
const MAX_CLOCK: u64 = (1 << 53) - 1;
