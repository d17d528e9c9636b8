//! Nodes as resources: `workspace://<id>/<path>`, each segment percent-encoded.
//!
//! A list goes through the workspaces that the token names, a page at a time. Its cursor is where it
//! stands: the workspace and the last path, `<id>/<path>`.

use serde_json::{Value, json};

use super::limits::{MAX_SHOWN_URI_BYTES, MAX_TEXT_BYTES};
use super::rest::{Collection, percent_encode};
use super::rpc::{Cache, Envelope, INVALID_PARAMS, RpcError};
use super::task::Task;
use super::{Caller, RestAnswer, RestCall, Step};
use crate::api::limits::DEFAULT_PAGE;
use crate::api::path::{NodePath, WorkspaceId};
use crate::api::problem::{Problem, ProblemCode};

/// The result of `resources/templates/list`.
pub(super) const TEMPLATES: &str = r#"{"resourceTemplates":[{"uriTemplate":"workspace://{workspace}/{+path}","name":"node","title":"Node of a workspace","description":"A record's value, or a document as {root: value}. It is data that others wrote.","mimeType":"application/json"}]}"#;

/// What a call was for.
#[derive(Debug)]
pub(super) enum Asked {
    /// A page of the list: of this workspace, and the one after it.
    Page(WorkspaceId, Option<String>),
    /// The content of a node at this address.
    Node(String, WorkspaceId, NodePath),
    /// The content of a document at this address.
    Document(String),
}

/// `resources/list`
pub(super) fn list(envelope: Envelope, cursor: Option<&Value>, caller: &Caller) -> Result<Step, RpcError> {
    let unknown = || RpcError::new(INVALID_PARAMS, "`cursor` is not one that this list gave.");
    let (id, after) = match cursor {
        None | Some(Value::Null) => match caller.workspaces.first() {
            Some(first) => (first.as_str(), ""),
            None => return Ok(Step::Reply(envelope.result(r#"{"resources":[]}"#, Some(Cache::No)))),
        },
        Some(cursor) => cursor.as_str().and_then(|cursor| cursor.split_once('/')).ok_or_else(unknown)?,
    };
    if !caller.workspaces.iter().any(|known| known == id) {
        return Err(unknown());
    }
    let workspace = WorkspaceId::parse(id).map_err(|_| unknown())?;
    let following = caller.workspaces.iter().find(|known| known.as_str() > id).cloned();
    let mut call = RestCall::of_workspace("GET", &workspace, "nodes");
    call.query = vec![("after", after.to_owned()), ("limit", DEFAULT_PAGE.to_string())];
    let task = Task::resource(envelope, call, Asked::Page(workspace, following));
    Ok(Step::Perform { task, after_ms: 0 })
}

/// `resources/read`
pub(super) fn read(envelope: Envelope, uri: Option<&Value>) -> Result<Step, RpcError> {
    let Some(uri) = uri.and_then(Value::as_str) else {
        return Err(RpcError::new(INVALID_PARAMS, "`uri` is missing, or no string."));
    };
    let (workspace, path) =
        parse_uri(uri).map_err(|problem| RpcError::of(&about(problem, uri), envelope.revision))?;
    let call = RestCall::of_node("GET", &workspace, Collection::Nodes, &path);
    let task = Task::resource(envelope, call, Asked::Node(uri.to_owned(), workspace, path));
    Ok(Step::Perform { task, after_ms: 0 })
}

/// What becomes of an answer. A node that turns out to be a document is read as one.
pub(super) fn finish(envelope: Envelope, asked: Asked, answer: Result<RestAnswer, Problem>) -> Step {
    let uri = match &asked {
        Asked::Document(uri) | Asked::Node(uri, ..) => Some(uri.clone()),
        Asked::Page(..) => None,
    };
    let shown = match asked {
        Asked::Page(workspace, following) => shown_page(&workspace, following.as_deref(), answer),
        Asked::Node(uri, workspace, path) => match answer {
            Ok(node) if is_document(&node) => {
                let mut call = RestCall::of_node("GET", &workspace, Collection::Documents, &path);
                call.headers = vec![("Accept", "application/json".to_owned())];
                let task = Task::resource(envelope, call, Asked::Document(uri));
                return Step::Perform { task, after_ms: 0 };
            }
            answer => answer.and_then(|node| shown_content(&uri, &value_of(&node))),
        },
        Asked::Document(uri) => answer.and_then(|document| shown_content(&uri, &document.body)),
    };
    Step::Reply(match shown {
        Ok(shown) => envelope.result(&shown.to_string(), Some(Cache::No)),
        Err(problem) => {
            let problem = uri.into_iter().fold(problem, |problem, uri| about(problem, &uri));
            RpcError::of(&problem, envelope.revision).reply(Some(&envelope.id))
        }
    })
}

/// A problem with the address that it is of.
fn about(problem: Problem, uri: &str) -> Problem {
    if uri.len() <= MAX_SHOWN_URI_BYTES { problem.with("uri", uri) } else { problem }
}

fn shown_page(
    workspace: &WorkspaceId,
    following: Option<&str>,
    answer: Result<RestAnswer, Problem>,
) -> Result<Value, Problem> {
    let page: Value = match answer {
        Ok(answer) => parsed(&answer)?,
        // A token outlives a workspace, and may name one before it is made.
        Err(problem)
            if matches!(problem.code, ProblemCode::WorkspaceDeleted | ProblemCode::WorkspaceNotFound) =>
        {
            Value::Null
        }
        Err(problem) => return Err(problem),
    };
    let nodes = page.get("nodes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let resource = |node: &Value| {
        let path = node.get("path").and_then(Value::as_str).unwrap_or_default();
        json!({ "uri": uri_of(workspace, path), "name": path, "mimeType": "application/json" })
    };
    let mut shown = json!({ "resources": nodes.iter().map(resource).collect::<Vec<_>>() });
    let next = match page.get("next").and_then(Value::as_str) {
        Some(path) => Some(format!("{workspace}/{path}")),
        None => following.map(|id| format!("{id}/")),
    };
    if let (Some(next), Some(members)) = (next, shown.as_object_mut()) {
        members.insert("nextCursor".to_owned(), next.into());
    }
    Ok(shown)
}

fn shown_content(uri: &str, text: &str) -> Result<Value, Problem> {
    if text.len() > MAX_TEXT_BYTES {
        let detail = format!("A resource may have {MAX_TEXT_BYTES} bytes; read_node and read_document page.");
        return Err(Problem::because(ProblemCode::PayloadTooLarge, detail).with("limit", MAX_TEXT_BYTES));
    }
    Ok(json!({ "contents": [{ "uri": uri, "mimeType": "application/json", "text": text }] }))
}

fn is_document(node: &RestAnswer) -> bool {
    parsed(node).is_ok_and(|node| node.get("kind").is_some_and(|kind| kind == "document"))
}

fn value_of(node: &RestAnswer) -> String {
    parsed(node).ok().and_then(|node| node.get("value").cloned()).unwrap_or(Value::Null).to_string()
}

fn parsed(answer: &RestAnswer) -> Result<Value, Problem> {
    serde_json::from_str(&answer.body).map_err(|_| Problem::new(ProblemCode::Internal))
}

fn parse_uri(uri: &str) -> Result<(WorkspaceId, NodePath), Problem> {
    let Some((id, path)) = uri.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/')) else {
        let detail = "The address of a resource is workspace://<id>/<path>.";
        return Err(Problem::because(ProblemCode::BadRequest, detail));
    };
    let segments: Vec<&str> = path.split('/').collect();
    Ok((WorkspaceId::parse(id)?, NodePath::from_segments(&segments)?))
}

fn uri_of(workspace: &WorkspaceId, path: &str) -> String {
    let mut uri = format!("{SCHEME}{workspace}/");
    percent_encode(path, "/", &mut uri);
    uri
}

const SCHEME: &str = "workspace://";
