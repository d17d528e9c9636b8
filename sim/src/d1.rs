//! D1: SQLite in memory with the migrations of the repository, and a journal of what was committed.

use std::collections::BTreeMap;
use std::rc::Rc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};

use crate::checks::Violation;
use crate::people::replica::{Extent, Replica};
use crate::protocol::change::is_within;

pub use rusqlite::types::Value;

/// The one workspace of a world.
pub const WORKSPACE: &str = "w";

/// A statement with its values.
#[derive(Debug, Clone)]
pub struct Sql {
    /// The text.
    pub text: String,
    /// The values of its parameters, in order.
    pub binds: Vec<Value>,
}

/// One row of a result.
#[derive(Debug, Clone)]
pub struct Row {
    columns: Rc<Vec<String>>,
    values: Vec<Value>,
}

impl Row {
    /// An integer column; `None` for NULL and for a column that is not there.
    pub fn int(&self, column: &str) -> Option<u64> {
        match self.get(column)? {
            Value::Integer(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// A text column; `None` for NULL and for a column that is not there.
    pub fn text(&self, column: &str) -> Option<String> {
        match self.get(column)? {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    fn get(&self, column: &str) -> Option<&Value> {
        self.values.get(self.columns.iter().position(|name| name == column)?)
    }
}

/// What a batch returned.
#[derive(Debug, Default)]
pub struct Results(Vec<Vec<Row>>);

impl Results {
    /// The rows of the `index`th statement.
    pub fn rows(&self, index: usize) -> Vec<Row> {
        self.0.get(index).cloned().unwrap_or_default()
    }

    /// The first row of the `index`th statement.
    pub fn row(&self, index: usize) -> Option<Row> {
        self.0.get(index)?.first().cloned()
    }
}

/// A committed change, as the journal remembers it after the log has pruned it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journalled {
    /// Its kind.
    pub kind: String,
    /// Its node.
    pub path: String,
    /// Who made it.
    pub actor: String,
}

/// A document as stored.
#[derive(Debug, Clone)]
pub struct StoredDocument {
    /// Its epoch.
    pub epoch: u64,
    /// Its content.
    pub replica: Replica,
}

/// The database of a world.
pub struct D1 {
    pub(crate) connection: Connection,
    /// Every change that was ever committed; the clock of the first is 1.
    pub journal: Vec<Journalled>,
    /// Documents as they were when last looked at, with their clock and what they were compacted to.
    seen: BTreeMap<String, ((u64, u64), StoredDocument)>,
    /// How much each epoch's document had, by the clock of the change that brought it there. A document that
    /// moves keeps its epoch, and no two have the same.
    history: BTreeMap<u64, BTreeMap<u64, Extent>>,
}

impl D1 {
    /// A database with the migrations applied and one workspace.
    #[must_use]
    pub fn new() -> Self {
        let connection = Connection::open_in_memory().expect("SQLite opens");
        connection.set_prepared_statement_cache_capacity(256);
        for migration in MIGRATIONS {
            connection.execute_batch(migration).expect("a migration applies");
        }
        connection
            .execute("INSERT INTO workspaces (id, created_at) VALUES (?1, 0)", params![WORKSPACE])
            .expect("a workspace is made");
        Self { connection, journal: Vec::new(), seen: BTreeMap::new(), history: BTreeMap::new() }
    }

    /// Runs a batch as D1 does: all of it or nothing. The error is SQLite's message.
    pub fn run(&mut self, batch: &[Sql]) -> Result<Results, String> {
        let written = self.connection.total_changes();
        self.connection.execute_batch("BEGIN").map_err(message)?;
        let results: Result<Vec<Vec<Row>>, String> =
            batch.iter().map(|sql| self.statement(sql).map_err(message)).collect();
        match results {
            Ok(rows) => {
                self.connection.execute_batch("COMMIT").map_err(message)?;
                if self.connection.total_changes() > written {
                    self.note();
                }
                Ok(Results(rows))
            }
            Err(error) => {
                self.connection.execute_batch("ROLLBACK").map_err(message)?;
                Err(error)
            }
        }
    }

    fn statement(&self, sql: &Sql) -> rusqlite::Result<Vec<Row>> {
        let mut statement = self.connection.prepare_cached(&sql.text)?;
        let columns = Rc::new(statement.column_names().into_iter().map(str::to_owned).collect::<Vec<_>>());
        let mut rows = statement.query(rusqlite::params_from_iter(&sql.binds))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let value = |index| row.get_ref(index).map(|value: ValueRef<'_>| value.into());
            let values = (0..columns.len()).map(value).collect::<Result<_, _>>()?;
            found.push(Row { columns: Rc::clone(&columns), values });
        }
        Ok(found)
    }

    /// Copies what was just committed into the journal.
    fn note(&mut self) {
        let mut statement = self
            .connection
            .prepare_cached("SELECT clock, kind, path, actor FROM change_log WHERE workspace = ?1 AND clock > ?2 ORDER BY clock")
            .expect("the log can be read");
        let rows = statement
            .query_map(params![WORKSPACE, self.journal.len()], |row| {
                Ok((
                    row.get::<_, u64>(0)?,
                    Journalled { kind: row.get(1)?, path: row.get(2)?, actor: row.get(3)? },
                ))
            })
            .expect("the log can be read");
        let rows: Vec<_> = rows.map(|row| row.expect("a row of the log")).collect();
        drop(statement);
        for (clock, change) in rows {
            // A gap is found by `check_log`; what is in it stays unknown.
            while (self.journal.len() as u64) < clock - 1 {
                self.journal.push(Journalled {
                    kind: "gap".into(),
                    path: String::new(),
                    actor: String::new(),
                });
            }
            if let Some(document) = self.document(&change.path) {
                self.history.entry(document.epoch).or_default().insert(clock, document.replica.extent());
            }
            self.journal.push(change);
        }
    }

    /// How much the document of an epoch had at a clock.
    pub fn extent_at(&self, epoch: u64, clock: u64) -> Option<&Extent> {
        Some(self.history.get(&epoch)?.range(..=clock).next_back()?.1)
    }

    /// Whether the workspace is deleted.
    pub fn is_deleted(&self) -> bool {
        self.journal.last().is_some_and(|change| change.kind == "delete_workspace")
    }

    /// Whether a node, or something above it, was ever deleted or moved away after a clock.
    pub fn was_removed(&self, path: &str, after: u64) -> bool {
        let later = self.journal.iter().skip(usize::try_from(after).unwrap_or(usize::MAX));
        later.filter(|change| change.kind == "delete").any(|change| is_within(path, &change.path))
    }

    /// F1: clocks are gapless and never used twice, also after pruning.
    pub fn check_log(&self) -> Result<(), Violation> {
        let head = self.journal.len() as u64;
        let newest: Option<u64> = self
            .connection
            .prepare_cached("SELECT MAX(clock) FROM change_log WHERE workspace = ?1")
            .and_then(|mut statement| statement.query_row(params![WORKSPACE], |row| row.get(0)))
            .expect("the log can be read");
        if newest.unwrap_or(0) != head {
            return Err(Violation::new("F1", format!("the newest clock is {newest:?} after {head} changes")));
        }
        if let Some(gap) = self.journal.iter().position(|change| change.kind == "gap") {
            return Err(Violation::new("F1", format!("clock {} was left out", gap + 1)));
        }
        match self.journal.iter().rev().skip(1).find(|change| change.kind == "delete_workspace") {
            Some(_) => Err(Violation::new("F7", "something changed in a deleted workspace".to_owned())),
            None => Ok(()),
        }
    }

    /// The oldest clock that the log still has, less one.
    pub fn floor(&self) -> u64 {
        let oldest: Option<u64> = self
            .connection
            .query_row("SELECT MIN(clock) FROM change_log WHERE workspace = ?1", params![WORKSPACE], |row| {
                row.get(0)
            })
            .expect("the log can be read");
        oldest.map_or(self.journal.len() as u64, |oldest| oldest - 1)
    }

    /// Until when writers tell the room of changes (R3).
    pub fn lease(&self) -> u64 {
        let sql = "SELECT live_until FROM workspaces WHERE id = ?1";
        self.connection.query_row(sql, params![WORKSPACE], |row| row.get(0)).expect("the workspace is there")
    }

    /// A document as it is stored now; `None` when there is none.
    pub fn document(&mut self, path: &str) -> Option<StoredDocument> {
        let (clock, base, epoch): (u64, u64, u64) = self
            .connection
            .prepare_cached("SELECT clock, base, epoch FROM nodes WHERE workspace = ?1 AND path = ?2 AND kind = 'document'")
            .and_then(|mut statement| {
                statement.query_row(params![WORKSPACE, path], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            })
            .ok()?;
        // Rows that came to those that were there are taken in alone: a replica is one for all who look.
        let seen = self.seen.get(path).filter(|((_, at), seen)| *at == base && seen.epoch == epoch);
        let (after, replica) = match seen {
            Some(((at, _), document)) if *at == clock => return Some(document.clone()),
            Some(((at, _), document)) => (*at, document.replica.clone()),
            None => (0, Replica::of(&[])),
        };
        for update in self.updates(path, after) {
            replica.apply(&update);
        }
        let document = StoredDocument { epoch, replica };
        self.seen.insert(path.to_owned(), ((clock, base), document.clone()));
        Some(document)
    }

    /// The documents that are stored: their paths, and the epoch and clock of each.
    pub fn documents(&self) -> BTreeMap<String, (u64, u64)> {
        let sql = "SELECT path, epoch, clock FROM nodes WHERE workspace = ?1 AND kind = 'document'";
        let mut statement = self.connection.prepare_cached(sql).expect("documents can be read");
        let rows = statement
            .query_map(params![WORKSPACE], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))
            .expect("documents can be read");
        rows.map(|row| row.expect("a document")).collect()
    }

    /// The document of an epoch, wherever it is by now.
    pub fn document_of(&mut self, epoch: u64) -> Option<StoredDocument> {
        let path = self.documents().into_iter().find(|(_, (known, _))| *known == epoch)?.0;
        self.document(&path)
    }

    /// The updates stored past a clock, each of one row: a world's documents are far smaller than a row.
    fn updates(&self, path: &str, after: u64) -> Vec<Vec<u8>> {
        use base64::Engine as _;
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT data FROM doc_updates WHERE workspace = ?1 AND path = ?2 AND clock > ?3 ORDER BY clock, part",
            )
            .expect("updates can be read");
        let rows = statement
            .query_map(params![WORKSPACE, path, after], |row| row.get::<_, String>(0))
            .expect("updates can be read");
        let engine = base64::engine::general_purpose::STANDARD_NO_PAD;
        rows.map(|row| engine.decode(row.expect("an update")).expect("base64")).collect()
    }

    /// The records at or below a path, with their values and clocks.
    pub fn records(&self, path: &str) -> BTreeMap<String, (serde_json::Value, u64)> {
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT path, value, clock FROM nodes WHERE workspace = ?1 AND kind = 'record'
                 AND (path = ?2 OR (path > ?2 || '/' AND path < ?2 || '0'))",
            )
            .expect("records can be read");
        let rows = statement
            .query_map(params![WORKSPACE, path], |row| {
                Ok((row.get(0)?, (row.get::<_, String>(1)?, row.get(2)?)))
            })
            .expect("records can be read");
        let parse = |text: String| serde_json::from_str(&text).expect("JSON");
        rows.map(|row| row.expect("a record"))
            .map(|(path, (text, clock))| (path, (parse(text), clock)))
            .collect()
    }

    /// The number in the record at a path, and how far the record has been written.
    pub fn number(&self, path: &str) -> Option<u64> {
        let value: String = self
            .connection
            .query_row(
                "SELECT value FROM nodes WHERE workspace = ?1 AND path = ?2",
                params![WORKSPACE, path],
                |row| row.get(0),
            )
            .ok()?;
        serde_json::from_str::<serde_json::Value>(&value).ok()?.get("n")?.as_u64()
    }
}

/// SQLite's own words, as D1 passes them on.
fn message(error: rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message,
        other => other.to_string(),
    }
}

const MIGRATIONS: [&str; 6] = [
    include_str!("../../migrations/0001_init.sql"),
    include_str!("../../migrations/0002_telemetry.sql"),
    include_str!("../../migrations/0003_replays.sql"),
    include_str!("../../migrations/0004_edits.sql"),
    include_str!("../../migrations/0005_presence.sql"),
    include_str!("../../migrations/0006_signals.sql"),
];
