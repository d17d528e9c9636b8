//! The tools: which call of the REST API each one is. Their names, schemas and annotations are in
//! `tools.json`, which the tests hold against this file.

use serde_json::{Map, Value};

use super::arguments::{Arguments, bad};
use super::limits::{DEFAULT_TOOL_PAGE, MAX_TOOL_PAGE, MAX_WAIT_SECONDS};
use super::rpc::{Envelope, INVALID_PARAMS, RpcError};
use super::task::{self, Shape, Task};
use super::{RestCall, Step};
use crate::api::auth::Actor;
use crate::api::problem::Problem;
use crate::api::route::Route;
use crate::feed::limits::MAX_CLOCK;

/// The result of `tools/list`. `build.rs` takes the whitespace out of `tools.json`.
pub(super) const DEFINITIONS: &str = include_str!(concat!(env!("OUT_DIR"), "/tools.json"));

/// `tools/call`. Arguments that are wrong are told in a result, so that a model can correct them.
pub(super) fn call(
    envelope: Envelope,
    mut params: Map<String, Value>,
    actor: &Actor,
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
    let planned = tool(&mut arguments, actor).and_then(|plan| arguments.finish().map(|()| plan));
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

type Tool = fn(&mut Arguments, &Actor) -> Result<Plan, Problem>;

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

fn list_nodes(arguments: &mut Arguments, actor: &Actor) -> Result<Plan, Problem> {
    let route = Route::ListNodes(arguments.workspace(actor)?);
    let mut query = vec![limit(arguments)?];
    for name in ["prefix", "after"] {
        query.extend(arguments.text(name)?.map(|text| (name, text)));
    }
    Ok(plan(route, query, Shape::Plain))
}

fn read_node(arguments: &mut Arguments, actor: &Actor) -> Result<Plan, Problem> {
    let route = Route::ReadNode(arguments.workspace(actor)?, arguments.path()?);
    Ok(plan(route, Vec::new(), Shape::Node { cursor: arguments.text("cursor")? }))
}

fn write_node(arguments: &mut Arguments, actor: &Actor) -> Result<Plan, Problem> {
    let route = Route::PutNode(arguments.workspace(actor)?, arguments.path()?);
    let mut plan = write(arguments, route, Some(("value", JSON)))?;
    plan.call.headers.extend(arguments.only_if_missing()?);
    Ok(plan)
}

fn patch_node(arguments: &mut Arguments, actor: &Actor) -> Result<Plan, Problem> {
    let route = Route::PatchNode(arguments.workspace(actor)?, arguments.path()?);
    write(arguments, route, Some(("patch", "application/merge-patch+json")))
}

fn delete_node(arguments: &mut Arguments, actor: &Actor) -> Result<Plan, Problem> {
    let route = Route::DeleteNode(arguments.workspace(actor)?, arguments.path()?);
    write(arguments, route, None)
}

fn write(
    arguments: &mut Arguments,
    route: Route,
    body: Option<(&'static str, &'static str)>,
) -> Result<Plan, Problem> {
    let mut plan = plan(route, Vec::new(), Shape::Written);
    plan.call.headers = arguments.write_headers()?;
    if let Some((name, content_type)) = body {
        plan.call.headers.push(("Content-Type", content_type.to_owned()));
        plan.call.body = Some(arguments.value(name)?.to_string());
    }
    Ok(plan)
}

fn read_document(arguments: &mut Arguments, actor: &Actor) -> Result<Plan, Problem> {
    let path = arguments.path()?;
    let shape = |cursor| Shape::Document { path: path.as_str().to_owned(), cursor };
    let accept = match arguments.text("format")?.as_deref() {
        None | Some("text") => "text/plain",
        Some("json") => JSON,
        Some(_) => return Err(bad("format", "is \"text\" or \"json\"")),
    };
    let query = arguments.text("root")?.map(|root| ("root", root)).into_iter().collect();
    let route = Route::ReadDocument(arguments.workspace(actor)?, path.clone());
    let mut plan = plan(route, query, shape(arguments.text("cursor")?));
    plan.call.headers.push(("Accept", accept.to_owned()));
    Ok(plan)
}

fn edit_document(arguments: &mut Arguments, actor: &Actor) -> Result<Plan, Problem> {
    let route = Route::EditDocument(arguments.workspace(actor)?, arguments.path()?);
    let epoch = arguments.integer("epoch", (0, MAX_CLOCK))?;
    let mut body = Map::new();
    for name in ["root", "edits"] {
        body.insert(name.to_owned(), arguments.value(name)?);
    }
    body.extend(arguments.given("base").map(|base| ("base".to_owned(), base)));
    let mut plan = plan(route, Vec::new(), Shape::Written);
    plan.call.query.extend(epoch.map(|epoch| ("epoch", epoch.to_string())));
    plan.call.headers.extend(arguments.idempotency_key()?);
    plan.call.headers.push(("Content-Type", JSON.to_owned()));
    plan.call.body = Some(Value::Object(body).to_string());
    Ok(plan)
}

fn list_changes(arguments: &mut Arguments, actor: &Actor) -> Result<Plan, Problem> {
    let since = arguments.integer("since", (0, MAX_CLOCK))?.unwrap_or(0);
    changes(arguments, actor, since, 0)
}

fn wait_for_changes(arguments: &mut Arguments, actor: &Actor) -> Result<Plan, Problem> {
    let since = arguments.integer("since", (0, MAX_CLOCK))?.ok_or_else(|| bad("since", "is missing"))?;
    let seconds = arguments.integer("timeoutSeconds", (1, MAX_WAIT_SECONDS))?.unwrap_or(MAX_WAIT_SECONDS);
    changes(arguments, actor, since, seconds.saturating_mul(1000))
}

fn changes(arguments: &mut Arguments, actor: &Actor, since: u64, wait_ms: u64) -> Result<Plan, Problem> {
    let route = Route::ListChanges(arguments.workspace(actor)?);
    let query = vec![("since", since.to_string()), limit(arguments)?];
    Ok(plan(route, query, Shape::Changes { since, wait_ms }))
}

fn list_presence(arguments: &mut Arguments, actor: &Actor) -> Result<Plan, Problem> {
    let route = Route::ListPresence(arguments.workspace(actor)?);
    let query = arguments.text("session")?.map(|session| ("session", session)).into_iter().collect();
    Ok(plan(route, query, Shape::Headed))
}

fn set_presence(arguments: &mut Arguments, actor: &Actor) -> Result<Plan, Problem> {
    let mut plan = plan(Route::PutPresence(arguments.workspace(actor)?), Vec::new(), Shape::Headed);
    let mut body = Map::new();
    body.insert("session".to_owned(), arguments.value("session")?);
    for name in ["ttl", "state"] {
        body.extend(arguments.given(name).map(|value| (name.to_owned(), value)));
    }
    plan.call.headers.push(("Content-Type", JSON.to_owned()));
    plan.call.body = Some(Value::Object(body).to_string());
    Ok(plan)
}

fn limit(arguments: &mut Arguments) -> Result<(&'static str, String), Problem> {
    let limit = arguments.integer("limit", (1, MAX_TOOL_PAGE))?.unwrap_or(DEFAULT_TOOL_PAGE);
    Ok(("limit", limit.to_string()))
}

fn plan(route: Route, query: Vec<(&'static str, String)>, shape: Shape) -> Plan {
    Plan { call: RestCall { route, query, headers: Vec::new(), body: None }, shape }
}
