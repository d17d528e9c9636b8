//! Says why a batch was refused: one query for all of its nodes, and one for the value to show.

use serde_json::Value;

use super::db::Db;
use super::respond::storage;
use crate::api::op::Op;
use crate::api::path::WorkspaceId;
use crate::api::problem::{Problem, ProblemCode};
use crate::api::refusal::first_refusal;

/// Says which op was refused, and what its node is now. Nothing was written.
pub async fn explain(db: &Db, workspace: &WorkspaceId, ops: &[Op]) -> Problem {
    let paths: Vec<&str> = ops.iter().map(|op| op.path.as_str()).collect();
    let found = match db.found(workspace.as_str(), &paths).await {
        Ok(found) => found,
        Err(error) => return storage(&error),
    };
    let Some((index, code)) = first_refusal(ops, &found) else {
        return Problem::because(
            ProblemCode::PreconditionFailed,
            "A node changed while the request was under way; read and retry.",
        );
    };
    let problem = match code {
        ProblemCode::PreconditionFailed => current(db, workspace, paths.get(index).copied()).await,
        code => Problem::new(code),
    };
    if ops.len() > 1 { problem.with("index", index) } else { problem }
}

/// 412 with the clock and the value of one node. Only its value is read: those of fifty nodes could
/// be 95 MB.
async fn current(db: &Db, workspace: &WorkspaceId, path: Option<&str>) -> Problem {
    let node = match db.node(workspace.as_str(), path.unwrap_or_default()).await {
        Ok(node) => node.flatten(),
        Err(error) => return storage(&error),
    };
    let value = node.as_ref().and_then(|node| node.value.as_deref());
    let value: Option<Value> = value.and_then(|text| serde_json::from_str(text).ok());
    Problem::precondition_failed(node.map(|node| node.clock), value)
}
