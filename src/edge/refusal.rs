//! Which op of a refused batch it was, and why (I04).
//!
//! The transaction says only that some precondition did not hold. What each op would have found is
//! looked up afterwards, so it is the best that can be said: nodes may have changed since.

use serde_json::Value;

use super::db::nodes::Node;
use super::db::{Db, DbError};
use super::respond::storage;
use crate::api::op::{Op, OpAction};
use crate::api::path::WorkspaceId;
use crate::api::problem::{Problem, ProblemCode};

/// Says which op was refused, and what its node is now. Nothing was written.
pub async fn explain(db: &Db, workspace: &WorkspaceId, ops: &[Op]) -> Problem {
    for (index, op) in ops.iter().enumerate() {
        let earlier = ops.get(..index).unwrap_or_default();
        match refusal(db, workspace, earlier, op).await {
            Ok(None) => {}
            Ok(Some(problem)) if ops.len() > 1 => return problem.with("index", index),
            Ok(Some(problem)) => return problem,
            Err(error) => return storage(&error),
        }
    }
    Problem::because(
        ProblemCode::PreconditionFailed,
        "A node changed while the request was under way; read and retry.",
    )
}

/// Why an op does not go with what it finds, if it does not: the stored node, or what the ops
/// before it leave there.
async fn refusal(
    db: &Db,
    workspace: &WorkspaceId,
    earlier: &[Op],
    op: &Op,
) -> Result<Option<Problem>, DbError> {
    let path = op.path.as_str();
    let stored = db.node(workspace.as_str(), path).await?.flatten();
    let left = left_by(earlier, path);
    let clock = match left {
        None => stored.as_ref().map(|node| node.clock),
        Some(Left::Gone) => None,
        Some(Left::Written) => Some(UNKNOWN_CLOCK),
    };
    if !op.precondition.holds(clock) {
        let value = stored.as_ref().and_then(value_of);
        return Ok(Some(Problem::precondition_failed(stored.map(|node| node.clock), value)));
    }
    let is_document = left.is_none() && stored.is_some_and(|node| node.kind == "document");
    let code = match op.action {
        OpAction::Put(_) | OpAction::Patch(_) if is_document => Some(ProblemCode::WrongNodeKind),
        OpAction::Patch(_) if clock.is_none() => Some(ProblemCode::NodeNotFound),
        OpAction::Delete if clock.is_none() && !is_anything_below(db, workspace, earlier, path).await? => {
            Some(ProblemCode::NodeNotFound)
        }
        OpAction::Put(_) | OpAction::Patch(_) | OpAction::Delete => None,
    };
    Ok(code.map(Problem::new))
}

/// What earlier ops of a batch did to a node.
enum Left {
    Gone,
    Written,
}

/// `None` when none of the ops touched it.
fn left_by(earlier: &[Op], path: &str) -> Option<Left> {
    earlier.iter().rev().find_map(|op| match op.action {
        OpAction::Delete => is_within(path, op.path.as_str()).then_some(Left::Gone),
        OpAction::Put(_) | OpAction::Patch(_) => (path == op.path.as_str()).then_some(Left::Written),
    })
}

/// Whether there is something for a delete of a path that is no node itself.
async fn is_anything_below(
    db: &Db,
    workspace: &WorkspaceId,
    earlier: &[Op],
    path: &str,
) -> Result<bool, DbError> {
    let mut written = earlier.iter().filter(|op| is_within(op.path.as_str(), path));
    if written.any(|op| matches!(left_by(earlier, op.path.as_str()), Some(Left::Written))) {
        return Ok(true);
    }
    if matches!(left_by(earlier, path), Some(Left::Gone)) {
        return Ok(false);
    }
    let listed = db.list(workspace.as_str(), Some(path), "", 1).await?;
    Ok(listed.is_some_and(|(nodes, _)| !nodes.is_empty()))
}

fn is_within(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn value_of(node: &Node) -> Option<Value> {
    node.value.as_deref().and_then(|text| serde_json::from_str(text).ok())
}

/// The clock of a node that the batch itself wrote: none that a client can name.
const UNKNOWN_CLOCK: u64 = u64::MAX;
