//! What a client may ask to change, from a single request or from a batch.

use serde_json::{Map, Value};

use super::json::{parse_json, parse_object, whole};
use super::limits::MAX_OPS;
use super::path::NodePath;
use super::precondition::Precondition;
use super::problem::{Problem, ProblemCode};
use crate::protocol::change::ChangeKind;

/// One wish about one record. It becomes a change once it is committed.
#[derive(Debug, Clone, PartialEq)]
pub struct Op {
    /// The node.
    pub path: NodePath,
    /// What has to be true for it.
    pub precondition: Precondition,
    /// What happens to the node.
    pub action: OpAction,
}

/// What an [`Op`] does.
#[derive(Debug, Clone, PartialEq)]
pub enum OpAction {
    /// The node and everything below it go.
    Delete,
    /// The value is changed by a merge patch (RFC 7396), which the database applies.
    Patch(Value),
    /// The value is written whole.
    Put(Value),
}

impl Op {
    /// The op of `PUT …/nodes/<path>`: the body is the value.
    ///
    /// # Errors
    /// Those of [`parse_json`].
    pub fn put(path: NodePath, precondition: Precondition, body: &[u8]) -> Result<Self, Problem> {
        Ok(Self { path, precondition, action: OpAction::Put(parse_json(body)?) })
    }

    /// The op of `PATCH …/nodes/<path>`: the body is the patch.
    ///
    /// # Errors
    /// Those of [`parse_json`].
    pub fn patch(path: NodePath, precondition: Precondition, body: &[u8]) -> Result<Self, Problem> {
        Ok(Self { path, precondition, action: OpAction::Patch(parse_json(body)?) })
    }

    /// The op of `DELETE …/nodes/<path>`.
    #[must_use]
    pub const fn delete(path: NodePath, precondition: Precondition) -> Self {
        Self { path, precondition, action: OpAction::Delete }
    }

    /// The kind of change that it becomes.
    #[must_use]
    pub const fn kind(&self) -> ChangeKind {
        match self.action {
            OpAction::Delete => ChangeKind::Delete,
            OpAction::Patch(_) => ChangeKind::Patch,
            OpAction::Put(_) => ChangeKind::Put,
        }
    }
}

/// Reads the body of `POST …/ops`: 1 to 50 ops, applied in order, all or none. An op sees the
/// effect of those before it.
///
/// # Errors
/// Those of [`parse_json`], or `bad_request` and `invalid_path` with the `index` of the op.
pub fn parse_ops(body: &[u8]) -> Result<Vec<Op>, Problem> {
    let Some(Value::Array(items)) = parse_object(body, &["ops"])?.remove("ops") else {
        return Err(Problem::because(ProblemCode::BadRequest, "`ops` has to be an array."));
    };
    if items.is_empty() || items.len() > MAX_OPS {
        return Err(Problem::because(ProblemCode::BadRequest, format!("`ops` holds 1 to {MAX_OPS} ops."))
            .with("limit", MAX_OPS));
    }
    let parse = |(index, item)| parse_op(item).map_err(|problem: Problem| problem.with("index", index));
    items.into_iter().enumerate().map(parse).collect()
}

fn parse_op(item: Value) -> Result<Op, Problem> {
    let Value::Object(mut fields) = item else { return Err(bad("An op has to be an object.")) };
    let action = match take_text(&mut fields, "op")?.as_str() {
        "put" => OpAction::Put(take(&mut fields, "value")?),
        "patch" => OpAction::Patch(take(&mut fields, "patch")?),
        "delete" => OpAction::Delete,
        _ => return Err(bad("`op` is `put`, `patch` or `delete`.")),
    };
    let path = NodePath::parse(&take_text(&mut fields, "path")?)?;
    let precondition = take_precondition(&mut fields)?;
    if !fields.is_empty() {
        return Err(bad("The op has a member that an op of this kind does not have."));
    }
    Ok(Op { path, precondition, action })
}

/// `"ifMatch": 10`, `"ifMatch": "*"` or `"ifNoneMatch": "*"`: the headers, for one op.
fn take_precondition(fields: &mut Map<String, Value>) -> Result<Precondition, Problem> {
    match (fields.remove("ifMatch"), fields.remove("ifNoneMatch")) {
        (None, None) => Ok(Precondition::None),
        (None, Some(Value::String(star))) if star == "*" => Ok(Precondition::IfNoneMatch),
        (Some(Value::String(star)), None) if star == "*" => Ok(Precondition::Exists),
        (Some(value), None) => {
            whole(&value).map(Precondition::IfMatch).ok_or_else(|| bad("`ifMatch` is a clock or `*`."))
        }
        (None, Some(_)) => Err(bad("`ifNoneMatch` can only be `*`.")),
        (Some(_), Some(_)) => Err(bad("Give `ifMatch` or `ifNoneMatch`, not both.")),
    }
}

pub(super) fn take(fields: &mut Map<String, Value>, name: &str) -> Result<Value, Problem> {
    fields.remove(name).ok_or_else(|| bad(&format!("`{name}` is missing.")))
}

pub(super) fn take_text(fields: &mut Map<String, Value>, name: &str) -> Result<String, Problem> {
    match take(fields, name)? {
        Value::String(text) => Ok(text),
        _ => Err(bad(&format!("`{name}` has to be a string."))),
    }
}

pub(super) fn bad(detail: &str) -> Problem {
    Problem::because(ProblemCode::BadRequest, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn path(text: &str) -> NodePath {
        NodePath::parse(text).unwrap()
    }

    fn ops(items: &Value) -> Result<Vec<Op>, Problem> {
        parse_ops(json!({ "ops": items }).to_string().as_bytes())
    }

    #[test]
    fn a_batch_is_read_in_order_with_its_preconditions() {
        let read = ops(&json!([
            {"op": "put", "path": "a", "value": {"x": 1}, "ifMatch": 10},
            {"op": "patch", "path": "b/c", "patch": {"x": null}, "ifMatch": "*"},
            {"op": "put", "path": "d", "value": null, "ifNoneMatch": "*"},
            {"op": "delete", "path": "é"},
        ]))
        .unwrap();
        let expected = vec![
            Op {
                path: path("a"),
                precondition: Precondition::IfMatch(10),
                action: OpAction::Put(json!({"x": 1})),
            },
            Op {
                path: path("b/c"),
                precondition: Precondition::Exists,
                action: OpAction::Patch(json!({"x": null})),
            },
            Op {
                path: path("d"),
                precondition: Precondition::IfNoneMatch,
                action: OpAction::Put(Value::Null),
            },
            Op::delete(path("é"), Precondition::None),
        ];
        assert_eq!(read, expected);
        assert_eq!(read.iter().map(Op::kind).collect::<Vec<_>>()[..2], [ChangeKind::Put, ChangeKind::Patch]);
    }

    #[test]
    fn a_bad_op_is_named_by_its_index() {
        let good = json!({"op": "delete", "path": "a"});
        let bad = [
            json!(1),
            json!({"path": "a"}),
            json!({"op": "move", "path": "a"}),
            json!({"op": 1, "path": "a"}),
            json!({"op": "delete"}),
            json!({"op": "put", "path": "a"}),
            json!({"op": "patch", "path": "a", "value": 1}),
            json!({"op": "delete", "path": "a", "value": 1}),
            json!({"op": "put", "path": "a", "value": 1, "if_match": 3}),
            json!({"op": "delete", "path": "a", "ifMatch": "10"}),
            json!({"op": "delete", "path": "a", "ifMatch": -1}),
            json!({"op": "delete", "path": "a", "ifMatch": 1.5}),
            json!({"op": "delete", "path": "a", "ifMatch": null}),
            json!({"op": "delete", "path": "a", "ifNoneMatch": 1}),
            json!({"op": "delete", "path": "a", "ifMatch": 1, "ifNoneMatch": "*"}),
        ];
        for item in bad {
            let problem = ops(&json!([good, item])).unwrap_err();
            assert_eq!(
                (problem.code, &problem.extra["index"]),
                (ProblemCode::BadRequest, &1.into()),
                "{item}"
            );
        }
        for wrong in ["", "/a", "a/../b", "a%2Fb\n"] {
            let problem = ops(&json!([{"op": "delete", "path": wrong}])).unwrap_err();
            assert_eq!((problem.code, &problem.extra["index"]), (ProblemCode::InvalidPath, &0.into()));
        }
    }

    #[test]
    fn r4_a_batch_has_1_to_50_ops_and_nothing_else() {
        let op = json!({"op": "delete", "path": "a"});
        assert_eq!(ops(&json!(vec![op.clone(); 50])).unwrap().len(), 50);
        assert_eq!(ops(&json!(vec![op; 51])).unwrap_err().extra["limit"], 50);
        assert!(ops(&json!([])).is_err() && ops(&json!({})).is_err());
        for body in ["{}", "[]", "{\"ops\":[],\"x\":1}", "null"] {
            assert_eq!(parse_ops(body.as_bytes()).unwrap_err().code, ProblemCode::BadRequest, "{body}");
        }
    }

    #[test]
    fn the_body_of_a_single_request_is_the_value_itself() {
        let put = Op::put(path("a"), Precondition::None, b"{\"value\":1}").unwrap();
        assert_eq!(put.action, OpAction::Put(json!({"value": 1})));
        assert_eq!(
            Op::put(path("a"), Precondition::None, b"null").unwrap().action,
            OpAction::Put(Value::Null)
        );
        assert!(Op::put(path("a"), Precondition::None, b"").is_err());
        let patch = Op::patch(path("a"), Precondition::IfMatch(3), b"{\"x\":null}").unwrap();
        assert_eq!((patch.kind(), patch.precondition), (ChangeKind::Patch, Precondition::IfMatch(3)));
    }
}
