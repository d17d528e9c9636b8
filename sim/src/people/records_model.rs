//! What the nodes have to be: every committed change, in the order of its clock, done to a map.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::checks::{Ledger, Violation};
use crate::d1::{D1, Journalled};
use crate::people::records::{Planned, What};
use crate::protocol::change::is_within;

/// The tree of records, and the documents.
type Tree = BTreeMap<String, Node>;

#[derive(Debug, Clone, PartialEq)]
enum Node {
    /// Of this epoch, at this clock.
    Document(u64, u64),
    Record(Value, u64),
}

impl Node {
    const fn clock(&self) -> u64 {
        match self {
            Self::Document(_, clock) | Self::Record(_, clock) => *clock,
        }
    }

    fn moved(self, at: u64) -> Self {
        match self {
            Self::Document(epoch, _) => Self::Document(epoch, at),
            Self::Record(value, _) => Self::Record(value, at),
        }
    }
}

impl Ledger {
    /// R1: a batch is done as a whole, one change an op and in order, on what it asked for; and the nodes
    /// are what that makes of them. So nothing that was deleted is there again, and what was moved is there
    /// once, at its new path.
    pub fn check_nodes(&self, d1: &D1) -> Result<(), Violation> {
        let mut tree = Tree::new();
        let mut clock = 0;
        while let Some(change) = d1.journal.get(clock) {
            let Some(plan) = self.plans.get(&change.actor) else {
                clock += 1;
                write_document(&mut tree, change, clock as u64);
                continue;
            };
            for planned in plan {
                let is_it = d1.journal.get(clock).is_some_and(|found| {
                    found.actor == change.actor
                        && found.kind == planned.kind().as_str()
                        && found.path == planned.path
                });
                clock += 1;
                if !is_it {
                    let what = format!("{} at clock {clock} is not {planned:?} of {plan:?}", change.actor);
                    return Err(Violation::new("R1", what));
                }
                apply(&mut tree, planned, clock as u64).map_err(|why| {
                    Violation::new("R1", format!("{} at clock {clock}: {why}: {planned:?}", change.actor))
                })?;
            }
        }
        let records = d1.records("tree").into_iter();
        let records = records.map(|(path, (value, clock))| (path, Node::Record(value, clock)));
        let documents = d1.documents().into_iter();
        let documents = documents.map(|(path, (epoch, clock))| (path, Node::Document(epoch, clock)));
        let stored: Tree = records.chain(documents).collect();
        if tree == stored {
            return Ok(());
        }
        Err(Violation::new("R1", format!("nodes are {stored:?}, and changes make {tree:?}")))
    }
}

/// A document begins with its first update, and anew with each replacement.
fn write_document(tree: &mut Tree, change: &Journalled, clock: u64) {
    let epoch = match (change.kind.as_str(), tree.get(&change.path)) {
        ("update", Some(Node::Document(epoch, _))) => *epoch,
        ("update" | "replace", _) => clock,
        _ => return,
    };
    tree.insert(change.path.clone(), Node::Document(epoch, clock));
}

fn apply(tree: &mut Tree, planned: &Planned, clock: u64) -> Result<(), &'static str> {
    let Planned { path, precondition, what } = planned;
    if !precondition.holds(tree.get(path).map(Node::clock)) {
        return Err("what it asks for does not hold");
    }
    match what {
        What::Arrive(from) => {
            if below(tree, path).next().is_some() {
                return Err("there is something already");
            }
            for old in below(tree, from).collect::<Vec<_>>() {
                if let Some(node) = tree.remove(&old) {
                    tree.insert(format!("{path}{}", &old[from.len()..]), node.moved(clock));
                }
            }
        }
        What::Delete => {
            let gone: Vec<String> = below(tree, path).collect();
            if gone.is_empty() {
                return Err("there is nothing");
            }
            tree.retain(|path, _| !gone.contains(path));
        }
        // Its arrival takes it along.
        What::Leave if below(tree, path).next().is_none() => return Err("there is nothing"),
        What::Leave => {}
        What::Patch(patch) => {
            let Some(Node::Record(value, at)) = tree.get_mut(path) else { return Err("there is no record") };
            merge(value, patch);
            *at = clock;
        }
        What::Put(value) => drop(tree.insert(path.clone(), Node::Record(value.clone(), clock))),
    }
    Ok(())
}

fn below<'t>(tree: &'t Tree, root: &'t str) -> impl Iterator<Item = String> + 't {
    tree.keys().filter(move |path| is_within(path, root)).cloned()
}

/// A JSON merge patch (RFC 7396).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(members) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    for (name, value) in members {
        match (target.as_object_mut(), value) {
            (Some(object), Value::Null) => drop(object.remove(name)),
            (Some(object), value) => merge(object.entry(name.clone()).or_insert(Value::Null), value),
            (None, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_patch_changes_adds_and_removes() {
        let mut value = json!({ "a": 1, "b": { "c": 1, "d": [1] } });
        merge(&mut value, &json!({ "a": null, "b": { "c": 2, "d": { "e": null } }, "f": {} }));
        assert_eq!(value, json!({ "b": { "c": 2, "d": {} }, "f": {} }));
    }
}
