//! What `cargo xtask verify` says of a world's database: the facts that `tools/read-database.mjs` reads, by the same
//! statements, judged by the same code. Stock Yjs is not asked; the core and yrs are compared.

use rusqlite::{Connection, Row, Statement};
use verify::content;
use verify::fact::{Fact, Node, Part, Workspace};
use verify::report::Report;
use verify::structure::Structure;
use yrs::updates::decoder::Decode;
use yrs::{Doc, ReadTxn, Transact, Update};

use crate::checks::Violation;
use crate::d1::D1;

type Read<T> = rusqlite::Result<T>;

impl D1 {
    /// The verifier finds no fault.
    pub fn verify(&self) -> Result<(), Violation> {
        let mut report = Report::default();
        let mut structure = Structure::default();
        let facts = facts(&self.connection).map_err(|error| Violation::new("D1", error.to_string()))?;
        for fact in facts {
            let updates = structure.check(&fact, &mut report);
            let (Fact::Node(node), Some(updates)) = (&fact, updates) else { continue };
            let checked = content::check(node, &updates, |request| Ok(compared(request)), &mut report);
            checked.map_err(|what| Violation::new("D1", what))?;
        }
        match report.faults.is_empty() {
            true => Ok(()),
            false => Err(Violation::new("D1", format!("the verifier: {}", report.text()))),
        }
    }
}

/// Whether the document as one update of the core and as its rows in yrs are the same to yrs.
fn compared(request: &serde_json::Value) -> Option<String> {
    let states = request["states"].as_object()?;
    let mut extents = states.iter().map(|(name, state)| (name, extent(state.as_str().unwrap_or_default())));
    let (first, is) = extents.next()?;
    let (other, _) = extents.find(|(_, other)| *other != is)?;
    Some(format!("{first} and {other} make two documents of it"))
}

fn extent(state: &str) -> Option<yrs::Snapshot> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD_NO_PAD.decode(state).ok()?;
    let doc = Doc::new();
    doc.transact_mut().apply_update(Update::decode_v1(&bytes).ok()?).ok()?;
    let snapshot = doc.transact().snapshot();
    Some(snapshot)
}

fn facts(database: &Connection) -> Read<Vec<Fact>> {
    let mut facts = Vec::new();
    for row in rows(&mut select(database, "workspaces", "")?, [], workspace)? {
        facts.push(Fact::Workspace(row));
    }
    facts.extend(rows(&mut select(database, "gaps", "")?, [], gap)?);
    facts.extend(rows(&mut select(database, "kinds", "")?, [], kind)?);
    for table in WITH_WORKSPACE {
        let orphan = |row: &Row<'_>| {
            let (workspace, count) = (row.get("workspace")?, row.get("count")?);
            Ok(Fact::Orphan { table: table.to_owned(), workspace, path: None, count })
        };
        facts.extend(rows(&mut select(database, "orphans of workspaces, in TABLE", table)?, [], orphan)?);
    }
    let orphan = |row: &Row<'_>| {
        let (workspace, path, count) = (row.get("workspace")?, row.get("path")?, row.get("count")?);
        Ok(Fact::Orphan { table: "doc_updates".to_owned(), workspace, path: Some(path), count })
    };
    facts.extend(rows(&mut select(database, "orphans of documents", "")?, [], orphan)?);
    let mut parts = select(database, "parts", "")?;
    for mut node in rows(&mut select(database, "nodes", "")?, [], node)? {
        if node.kind == "document" {
            node.updates = rows(&mut parts, [&node.workspace, &node.path], part)?;
        }
        facts.push(Fact::Node(node));
    }
    Ok(facts)
}

/// The statement with a name of `tools/read-database.sql`.
fn select<'d>(database: &'d Connection, name: &str, table: &str) -> Read<Statement<'d>> {
    let parts = STATEMENTS.split("-- name: ").skip(1).filter_map(|part| part.split_once('\n'));
    let text = parts.into_iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text);
    database.prepare(&text.replacen("TABLE", table, 1))
}

fn rows<T, const N: usize>(
    statement: &mut Statement<'_>,
    binds: [&String; N],
    read: impl Fn(&Row<'_>) -> Read<T>,
) -> Read<Vec<T>> {
    statement.query_map(rusqlite::params_from_iter(binds), |row| read(row))?.collect()
}

fn workspace(row: &Row<'_>) -> Read<Workspace> {
    Ok(Workspace {
        id: row.get("id")?,
        deleted: row.get("deleted")?,
        changes: row.get("changes")?,
        first: row.get("first")?,
        head: row.get("head")?,
        deletions: row.get("deletions")?,
    })
}

fn gap(row: &Row<'_>) -> Read<Fact> {
    Ok(Fact::Gap { workspace: row.get("workspace")?, clock: row.get("clock")?, before: row.get("before")? })
}

fn kind(row: &Row<'_>) -> Read<Fact> {
    let (workspace, kind) = (row.get("workspace")?, row.get("kind")?);
    Ok(Fact::Kind { workspace, kind, clock: row.get("clock")?, count: row.get("count")? })
}

fn node(row: &Row<'_>) -> Read<Node> {
    let value: Option<String> = row.get("value")?;
    let parsed = value.map(|value| serde_json::from_str::<serde_json::Value>(&value));
    Ok(Node {
        workspace: row.get("workspace")?,
        path: row.get("path")?,
        kind: row.get("kind")?,
        clock: row.get("clock")?,
        epoch: row.get("epoch")?,
        base: row.get("base")?,
        parts: row.get("parts")?,
        size: row.get("size")?,
        change_path: row.get("changePath")?,
        epoch_kind: row.get("epochKind")?,
        epoch_created: row.get("epochCreated")?,
        value_fault: parsed.and_then(Result::err).map(|error| error.to_string()),
        updates: Vec::new(),
    })
}

fn part(row: &Row<'_>) -> Read<Part> {
    Ok(Part { clock: row.get("clock")?, part: row.get("part")?, data: row.get("data")? })
}

const STATEMENTS: &str = include_str!("../../tools/read-database.sql");
const WITH_WORKSPACE: [&str; 4] = ["change_log", "nodes", "presence", "signals"];
