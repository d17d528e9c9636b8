//! The tools: which call of the REST API each one is. Their names, schemas and annotations are in
//! `tools.json`, which the tests hold against this file.

use serde_json::{Map, Value};

use super::arguments::{Arguments, bad};
use super::limits::{DEFAULT_TOOL_PAGE, MAX_TOOL_PAGE, MAX_WAIT_SECONDS};
use super::rest::Collection;
use super::rpc::{Envelope, INVALID_PARAMS, RpcError};
use super::task::{self, Shape, Task};
use super::{Caller, RestCall, Step};
use crate::api::problem::Problem;
use crate::feed::limits::MAX_CLOCK;

/// `tools/call`. Arguments that are wrong are told in a result, so that a model can correct them.
pub(super) fn call(
    envelope: Envelope,
    mut params: Map<String, Value>,
    caller: &Caller,
) -> Result<Step, RpcError> {
    let invalid = |what: &str| Err(RpcError::new(INVALID_PARAMS, what));
    let arguments = match params.remove("arguments") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(arguments)) => arguments,
        Some(_) => return invalid("`arguments` is no object."),
    };
    let Some(tool) = params.get("name").and_then(Value::as_str).and_then(find) else {
        return invalid("There is no tool of this name; tools/list names them.");
    };
    let mut arguments = Arguments(arguments);
    let planned = tool(&mut arguments, caller).and_then(|plan| arguments.finish().map(|()| plan));
    Ok(match planned {
        Ok(Plan { call, shape }) => Step::Perform { task: Task::tool(envelope, call, shape), after_ms: 0 },
        Err(problem) => Step::Reply(task::refused(&envelope, &problem)),
    })
}

const JSON: &str = "application/json";

/// What a tool does: one call, and how its answer is shown.
struct Plan {
    call: RestCall,
    shape: Shape,
}

type Tool = fn(&mut Arguments, &Caller) -> Result<Plan, Problem>;

fn find(name: &str) -> Option<Tool> {
    Some(match name {
        "list_nodes" => list_nodes,
        "read_node" => read_node,
        "write_node" => write_node,
        "patch_node" => patch_node,
        "delete_node" => delete_node,
        "read_document" => read_document,
        "edit_document" => edit_document,
        "list_changes" => list_changes,
        "wait_for_changes" => wait_for_changes,
        "list_presence" => list_presence,
        "set_presence" => set_presence,
        _ => return None,
    })
}

fn list_nodes(arguments: &mut Arguments, caller: &Caller) -> Result<Plan, Problem> {
    let mut call = RestCall::of_workspace("GET", &arguments.workspace(caller)?, "nodes");
    call.query.push(limit(arguments)?);
    for name in ["prefix", "after"] {
        call.query.extend(arguments.text(name)?.map(|text| (name, text)));
    }
    Ok(Plan { call, shape: Shape::Plain })
}

fn read_node(arguments: &mut Arguments, caller: &Caller) -> Result<Plan, Problem> {
    let call = node("GET", Collection::Nodes, arguments, caller)?;
    Ok(Plan { call, shape: Shape::Node { cursor: arguments.text("cursor")? } })
}

fn write_node(arguments: &mut Arguments, caller: &Caller) -> Result<Plan, Problem> {
    let call = node("PUT", Collection::Nodes, arguments, caller)?;
    let mut plan = write(arguments, call, Some(("value", JSON)))?;
    plan.call.headers.extend(arguments.only_if_missing()?);
    Ok(plan)
}

fn patch_node(arguments: &mut Arguments, caller: &Caller) -> Result<Plan, Problem> {
    let call = node("PATCH", Collection::Nodes, arguments, caller)?;
    write(arguments, call, Some(("patch", "application/merge-patch+json")))
}

fn delete_node(arguments: &mut Arguments, caller: &Caller) -> Result<Plan, Problem> {
    let call = node("DELETE", Collection::Nodes, arguments, caller)?;
    write(arguments, call, None)
}

fn write(
    arguments: &mut Arguments,
    mut call: RestCall,
    body: Option<(&'static str, &'static str)>,
) -> Result<Plan, Problem> {
    call.headers = arguments.write_headers()?;
    if let Some((name, content_type)) = body {
        call.headers.push(("Content-Type", content_type.to_owned()));
        call.body = Some(arguments.value(name)?.to_string());
    }
    Ok(Plan { call, shape: Shape::Written })
}

fn read_document(arguments: &mut Arguments, caller: &Caller) -> Result<Plan, Problem> {
    let (workspace, path) = (arguments.workspace(caller)?, arguments.path()?);
    let accept = match arguments.text("format")?.as_deref() {
        None | Some("text") => "text/plain",
        Some("json") => JSON,
        Some(_) => return Err(bad("format", "is \"text\" or \"json\"")),
    };
    let mut call = RestCall::of_node("GET", &workspace, Collection::Documents, &path);
    call.query.extend(arguments.text("root")?.map(|root| ("root", root)));
    call.headers.push(("Accept", accept.to_owned()));
    let cursor = arguments.text("cursor")?;
    Ok(Plan { call, shape: Shape::Document { path: path.as_str().to_owned(), cursor } })
}

fn edit_document(arguments: &mut Arguments, caller: &Caller) -> Result<Plan, Problem> {
    let mut call = node("POST", Collection::Documents, arguments, caller)?.part("edits");
    let epoch = arguments.integer("epoch", (0, MAX_CLOCK))?;
    let mut body = Map::new();
    for name in ["root", "edits"] {
        body.insert(name.to_owned(), arguments.value(name)?);
    }
    body.extend(arguments.given("base").map(|base| ("base".to_owned(), base)));
    call.query.extend(epoch.map(|epoch| ("epoch", epoch.to_string())));
    call.headers.extend(arguments.idempotency_key()?);
    call.headers.push(("Content-Type", JSON.to_owned()));
    call.body = Some(Value::Object(body).to_string());
    Ok(Plan { call, shape: Shape::Written })
}

fn list_changes(arguments: &mut Arguments, caller: &Caller) -> Result<Plan, Problem> {
    let since = arguments.integer("since", (0, MAX_CLOCK))?.unwrap_or(0);
    changes(arguments, caller, since, 0)
}

fn wait_for_changes(arguments: &mut Arguments, caller: &Caller) -> Result<Plan, Problem> {
    let since = arguments.integer("since", (0, MAX_CLOCK))?.ok_or_else(|| bad("since", "is missing"))?;
    let seconds = arguments.integer("timeoutSeconds", (1, MAX_WAIT_SECONDS))?.unwrap_or(MAX_WAIT_SECONDS);
    changes(arguments, caller, since, seconds.saturating_mul(1000))
}

fn changes(arguments: &mut Arguments, caller: &Caller, since: u64, wait_ms: u64) -> Result<Plan, Problem> {
    let mut call = RestCall::of_workspace("GET", &arguments.workspace(caller)?, "changes");
    call.query = vec![("since", since.to_string()), limit(arguments)?];
    Ok(Plan { call, shape: Shape::Changes { since, wait_ms } })
}

fn list_presence(arguments: &mut Arguments, caller: &Caller) -> Result<Plan, Problem> {
    let mut call = RestCall::of_workspace("GET", &arguments.workspace(caller)?, "presence");
    call.query.extend(arguments.text("session")?.map(|session| ("session", session)));
    Ok(Plan { call, shape: Shape::Headed })
}

fn set_presence(arguments: &mut Arguments, caller: &Caller) -> Result<Plan, Problem> {
    let mut call = RestCall::of_workspace("PUT", &arguments.workspace(caller)?, "presence");
    let mut body = Map::new();
    body.insert("session".to_owned(), arguments.value("session")?);
    for name in ["ttl", "state"] {
        body.extend(arguments.given(name).map(|value| (name.to_owned(), value)));
    }
    call.headers.push(("Content-Type", JSON.to_owned()));
    call.body = Some(Value::Object(body).to_string());
    Ok(Plan { call, shape: Shape::Headed })
}

fn limit(arguments: &mut Arguments) -> Result<(&'static str, String), Problem> {
    let limit = arguments.integer("limit", (1, MAX_TOOL_PAGE))?.unwrap_or(DEFAULT_TOOL_PAGE);
    Ok(("limit", limit.to_string()))
}

/// A call of the node that the arguments name.
fn node(
    method: &'static str,
    collection: Collection,
    arguments: &mut Arguments,
    caller: &Caller,
) -> Result<RestCall, Problem> {
    Ok(RestCall::of_node(method, &arguments.workspace(caller)?, collection, &arguments.path()?))
}
