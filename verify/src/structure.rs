//! Rows against rows: clocks, counters, epochs, and rows that belong to nothing.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use yrelay::protocol::change::ChangeKind;

use crate::fact::{Fact, Node, Part, Workspace};
use crate::report::Report;

/// Checks facts in the order in which they come: workspaces before nodes.
#[derive(Default)]
pub struct Structure {
    /// The log of each workspace: its oldest and its newest clock.
    logs: BTreeMap<String, (u64, u64)>,
}

impl Structure {
    /// Checks one fact. Returns the updates of a document whose rows are whole.
    pub fn check(&mut self, fact: &Fact, report: &mut Report) -> Option<Vec<Vec<u8>>> {
        match fact {
            Fact::Damaged { message } => report.fault("database", message),
            Fact::End => {}
            Fact::Gap { workspace, clock, before } => {
                let (from, to) = (before + 1, clock.saturating_sub(1));
                report.fault(
                    &format!("change_log {workspace} clock {clock}"),
                    &format!("clocks {from} to {to} are missing"),
                );
            }
            Fact::Kind { workspace, kind, clock, count } => {
                if ChangeKind::parse(kind).is_none() {
                    report.fault(
                        &format!("change_log {workspace} clock {clock}"),
                        &format!("{count} rows have the unknown kind `{kind}`"),
                    );
                }
            }
            Fact::Node(node) => return self.check_node(node, report),
            Fact::Orphan { table, workspace, path: None, count } => report.fault(
                &format!("{table} {workspace}"),
                &format!("{count} rows of a workspace that is not there"),
            ),
            Fact::Orphan { table, workspace, path: Some(path), count } => report.fault(
                &format!("{table} {workspace}/{path}"),
                &format!("{count} rows of a document that is not there"),
            ),
            Fact::Workspace(workspace) => self.check_workspace(workspace, report),
        }
        None
    }

    fn check_workspace(&mut self, workspace: &Workspace, report: &mut Report) {
        let Workspace { id, deleted, changes, first, head, deletions } = workspace;
        report.workspaces += 1;
        report.changes += changes;
        if let (Some(first), Some(head)) = (first, head) {
            self.logs.insert(id.clone(), (*first, *head));
            if *first == 0 {
                report.fault(&format!("change_log {id} clock 0"), "clocks begin at 1");
            }
        }
        if (*deleted == 1) != (deletions.unwrap_or(0) == 1) {
            let what = "deleted_at and the log's delete_workspace do not agree";
            report.fault(&format!("workspaces {id}"), what);
        }
    }

    fn check_node(&self, node: &Node, report: &mut Report) -> Option<Vec<Vec<u8>>> {
        let at = format!("nodes {}/{}", node.workspace, node.path);
        match self.logs.get(&node.workspace) {
            Some((_, head)) if node.clock > *head => {
                let what = format!("its clock {} is past the head {head} of the log", node.clock);
                report.fault(&at, &what);
            }
            Some((first, _)) if node.clock >= *first => check_change(&at, node, report),
            // Its change is older than the log.
            Some(_) => {}
            None => report.fault(&at, "its workspace has no log, so clocks would be given twice"),
        }
        match node.kind.as_str() {
            "document" => {
                report.documents += 1;
                self.check_epoch(&at, node, report);
                check_document(&at, node, report)
            }
            "record" => {
                report.records += 1;
                if let Some(fault) = &node.value_fault {
                    report.fault(&at, &format!("its value is not JSON: {fault}"));
                }
                None
            }
            other => {
                report.fault(&at, &format!("the kind `{other}` is unknown"));
                None
            }
        }
    }

    /// An epoch is the clock of the change that made the document, or replaced it.
    fn check_epoch(&self, at: &str, node: &Node, report: &mut Report) {
        let Node { epoch, clock, base, .. } = node;
        let is_in_log = self.logs.get(&node.workspace).is_some_and(|(first, _)| epoch >= first);
        let began = match node.epoch_kind.as_deref() {
            Some("replace") => true,
            Some("update") => node.epoch_created == Some(1),
            Some(_) => false,
            None => !is_in_log,
        };
        if *epoch == 0 || epoch > clock || !began {
            report.fault(at, &format!("its epoch {epoch} is not the clock of a change that began it"));
        }
        if *base > *clock || *base != 0 && base < epoch {
            report.fault(at, &format!("its base {base} is outside of epoch {epoch} to clock {clock}"));
        }
        let old = node.updates.iter().find(|part| part.clock < *epoch || part.clock < *base);
        if let Some(part) = old {
            let what = format!("is older than the document's epoch {epoch} or base {base}");
            report.fault(&row(node, part.clock), &what);
        }
        if let Some(part) = node.updates.iter().find(|part| part.clock > *clock) {
            report.fault(&row(node, part.clock), &format!("is newer than the document's clock {clock}"));
        }
    }
}

/// The change at a node's clock is about it, or about what it is below of.
fn check_change(at: &str, node: &Node, report: &mut Report) {
    // A clock that is missing in the log is told as a gap.
    let Some(path) = &node.change_path else { return };
    let is_own =
        node.path == *path || node.path.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('/'));
    if !is_own {
        report.fault(at, &format!("its clock {} is that of a change of `{path}`", node.clock));
    }
}

fn row(node: &Node, clock: u64) -> String {
    format!("doc_updates {}/{} clock {clock}", node.workspace, node.path)
}

/// Puts the chunks together. `None` when they are not whole.
fn check_document(at: &str, node: &Node, report: &mut Report) -> Option<Vec<Vec<u8>>> {
    let rows = node.updates.len() as u64;
    report.parts += rows;
    let before = report.faults.len();
    if rows != node.parts {
        report.fault(at, &format!("it counts {} parts, and has {rows}", node.parts));
    }
    let mut updates: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut next = 0;
    for Part { clock, part, data } in &node.updates {
        let is_first = updates.last().is_none_or(|(last, _)| last != clock);
        if is_first {
            updates.push((*clock, Vec::new()));
            next = 0;
        }
        if *part != next {
            report.fault(&row(node, *clock), &format!("part {next} is missing"));
        }
        next = part + 1;
        match (BASE64.decode(data), updates.last_mut()) {
            (Ok(bytes), Some((_, update))) => update.extend(bytes),
            _ => report.fault(&row(node, *clock), &format!("part {part} is not base64")),
        }
    }
    let bytes: u64 = updates.iter().map(|(_, update)| update.len() as u64).sum();
    // A compaction counts by the length of base64, which rounds up by less than a byte a row.
    if report.faults.len() == before && !(bytes..=bytes + rows).contains(&node.size) {
        report.fault(at, &format!("it counts {} bytes, and has {bytes}", node.size));
    }
    report.bytes += bytes;
    (report.faults.len() == before).then(|| updates.into_iter().map(|(_, update)| update).collect())
}
