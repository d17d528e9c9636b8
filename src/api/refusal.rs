//! Which op of a refused batch it was, and why (I04).
//!
//! The transaction says only that some precondition did not hold. What each op would have found is
//! looked up afterwards, so it is the best that can be said: nodes may have changed since.

use super::op::{Op, OpAction};
use super::problem::ProblemCode;
use crate::protocol::change::is_within;

/// What is stored at the path of an op.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// The clock of the node; `None` when there is none.
    pub clock: Option<u64>,
    /// Whether it is a document.
    pub is_document: bool,
    /// Whether there are nodes below the path.
    pub has_children: bool,
}

/// The first op that does not go with what it finds: with what is stored, in the order of the ops, or
/// with what the ops before it leave there. `None` when all of them would go now.
#[must_use]
pub fn first_refusal(ops: &[Op], found: &[Found]) -> Option<(usize, ProblemCode)> {
    let check = |(index, (op, found)): (usize, (&Op, &Found))| {
        let earlier = ops.get(..index).unwrap_or_default();
        refusal(earlier, op, found).map(|code| (index, code))
    };
    ops.iter().zip(found).enumerate().find_map(check)
}

fn refusal(earlier: &[Op], op: &Op, found: &Found) -> Option<ProblemCode> {
    let path = op.path.as_str();
    let left = left_by(earlier, path);
    let clock = match left {
        None => found.clock,
        Some(Left::Gone) => None,
        Some(Left::Written) => Some(UNKNOWN_CLOCK),
    };
    if !op.precondition.holds(clock) {
        return Some(ProblemCode::PreconditionFailed);
    }
    match op.action {
        OpAction::Put(_) | OpAction::Patch(_) if left.is_none() && found.is_document => {
            Some(ProblemCode::WrongNodeKind)
        }
        OpAction::Patch(_) if clock.is_none() => Some(ProblemCode::NodeNotFound),
        OpAction::Delete if clock.is_none() && !is_anything_below(earlier, path, found) => {
            Some(ProblemCode::NodeNotFound)
        }
        OpAction::Put(_) | OpAction::Patch(_) | OpAction::Delete => None,
    }
}

/// What earlier ops of a batch did to a node.
#[derive(Clone, Copy)]
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
fn is_anything_below(earlier: &[Op], path: &str, found: &Found) -> bool {
    let mut written = earlier.iter().filter(|op| is_within(op.path.as_str(), path));
    if written.any(|op| matches!(left_by(earlier, op.path.as_str()), Some(Left::Written))) {
        return true;
    }
    found.has_children && !matches!(left_by(earlier, path), Some(Left::Gone))
}

/// The clock of a node that the batch itself wrote: none that a client can name.
const UNKNOWN_CLOCK: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::op::parse_ops;
    use ProblemCode::{NodeNotFound, PreconditionFailed, WrongNodeKind};
    use serde_json::{Value, json};

    const NOTHING: Found = Found { clock: None, is_document: false, has_children: false };
    const PARENT: Found = Found { has_children: true, ..NOTHING };
    const RECORD: Found = Found { clock: Some(7), ..NOTHING };
    const DOCUMENT: Found = Found { is_document: true, ..RECORD };

    fn refused(ops: &Value, found: &[Found]) -> Option<(usize, ProblemCode)> {
        let ops = parse_ops(json!({ "ops": ops }).to_string().as_bytes()).unwrap();
        assert_eq!(ops.len(), found.len());
        first_refusal(&ops, found)
    }

    #[test]
    fn i04_an_op_is_refused_for_what_is_stored() {
        let put = |condition: Value| {
            let mut op = json!({"op": "put", "path": "a", "value": 1});
            op.as_object_mut().unwrap().extend(condition.as_object().unwrap().clone());
            json!([op])
        };
        let patch = json!([{"op": "patch", "path": "a", "patch": {}}]);
        let delete = json!([{"op": "delete", "path": "a"}]);
        let cases = [
            (put(json!({})), RECORD, None),
            (put(json!({"ifMatch": 7})), RECORD, None),
            (put(json!({"ifMatch": 6})), RECORD, Some(PreconditionFailed)),
            (put(json!({"ifMatch": "*"})), NOTHING, Some(PreconditionFailed)),
            (put(json!({"ifNoneMatch": "*"})), RECORD, Some(PreconditionFailed)),
            (put(json!({"ifNoneMatch": "*"})), NOTHING, None),
            // What the client asked for is told before what the node is.
            (put(json!({"ifMatch": 6})), DOCUMENT, Some(PreconditionFailed)),
            (put(json!({"ifMatch": 7})), DOCUMENT, Some(WrongNodeKind)),
            (patch.clone(), DOCUMENT, Some(WrongNodeKind)),
            (patch.clone(), NOTHING, Some(NodeNotFound)),
            (patch, RECORD, None),
            (delete.clone(), NOTHING, Some(NodeNotFound)),
            (delete.clone(), PARENT, None),
            (delete, DOCUMENT, None),
        ];
        for (ops, found, code) in cases {
            assert_eq!(refused(&ops, &[found]), code.map(|code| (0, code)), "{ops} {found:?}");
        }
    }

    #[test]
    fn i04_an_op_is_refused_for_what_the_ops_before_it_leave() {
        let put = |path: &str| json!({"op": "put", "path": path, "value": 1});
        let delete = |path: &str| json!({"op": "delete", "path": path});
        let patch = json!({"op": "patch", "path": "a/b", "patch": {}});
        let new = json!({"op": "put", "path": "a/b", "value": 1, "ifNoneMatch": "*"});
        let old = json!({"op": "put", "path": "a/b", "value": 1, "ifMatch": 7});
        let cases = [
            (json!([put("a/b"), patch]), vec![NOTHING, NOTHING], None),
            (json!([delete("a"), patch]), vec![PARENT, RECORD], Some((1, NodeNotFound))),
            (json!([delete("a"), put("a/b"), patch]), vec![PARENT, RECORD, RECORD], None),
            (json!([put("a/b"), new]), vec![NOTHING, NOTHING], Some((1, PreconditionFailed))),
            (json!([delete("a/b"), new]), vec![RECORD, RECORD], None),
            (json!([put("a/b"), old]), vec![RECORD, RECORD], Some((1, PreconditionFailed))),
            (json!([delete("a/b"), put("a/b")]), vec![DOCUMENT, DOCUMENT], None),
            (json!([put("a/b"), delete("a")]), vec![NOTHING, NOTHING], None),
            (json!([delete("a"), delete("a")]), vec![PARENT, PARENT], Some((1, NodeNotFound))),
            // Another name that begins alike is not below it.
            (json!([put("ab"), delete("a")]), vec![NOTHING, NOTHING], Some((1, NodeNotFound))),
            (json!([delete("x"), delete("y")]), vec![NOTHING, NOTHING], Some((0, NodeNotFound))),
        ];
        for (ops, found, expected) in cases {
            assert_eq!(refused(&ops, &found), expected, "{ops}");
        }
    }
}
