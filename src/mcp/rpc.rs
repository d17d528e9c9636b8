//! JSON-RPC 2.0: one message in, one response out.

use serde_json::{Map, Value, json};

use super::limits::{MAX_TEXT_BYTES, PUBLIC_TTL_MS};
use super::revision::Revision;
use super::{Reply, SERVER_INFO};
use crate::api::json::{parse_json, whole};
use crate::api::problem::{Problem, ProblemCode};

pub(super) const PARSE_ERROR: i32 = -32700;
pub(super) const INVALID_REQUEST: i32 = -32600;
pub(super) const METHOD_NOT_FOUND: i32 = -32601;
pub(super) const INVALID_PARAMS: i32 = -32602;
pub(super) const INTERNAL_ERROR: i32 = -32603;
pub(super) const HEADER_MISMATCH: i32 = -32020;
pub(super) const UNSUPPORTED_VERSION: i32 = -32022;
/// A resource that is not there, before revision 2026-07-28; since then that is `INVALID_PARAMS`.
pub(super) const RESOURCE_NOT_FOUND: i32 = -32002;

/// What a client sends.
#[derive(Debug)]
pub(super) enum Message {
    /// Nobody waits for an answer.
    Notification,
    Request(Request),
}

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    pub id: Value,
    pub method: String,
    pub params: Map<String, Value>,
}

/// Reads a body. With an error comes the id, if that could be read. Of batches no revision that is
/// served knows, and there is nothing a client could respond to.
pub(super) fn parse(body: &[u8]) -> Result<Message, (Option<Value>, RpcError)> {
    let parsed = parse_json(body)
        .map_err(|problem| (None, RpcError::new(PARSE_ERROR, detail(&problem)).with_status(400)))?;
    let wrong = |id: Option<Value>, what: &str| (id, RpcError::new(INVALID_REQUEST, what).with_status(400));
    let Value::Object(mut message) = parsed else {
        return Err(wrong(None, "The body is one JSON-RPC message: an object, not a batch."));
    };
    let id = message.remove("id");
    if id.as_ref().is_some_and(|id| !(id.is_string() || id.is_i64() || id.is_u64() || whole(id).is_some())) {
        return Err(wrong(None, "`id` is a string or a whole number."));
    }
    if message.get("jsonrpc").is_none_or(|version| version != "2.0") {
        return Err(wrong(id, "`jsonrpc` is not \"2.0\"."));
    }
    let Some(Value::String(method)) = message.remove("method") else {
        return Err(wrong(id, "`method` is missing, or no string. Responses are not expected here."));
    };
    let params = match message.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return Err(wrong(id, "`params` is no object.")),
    };
    Ok(id.map_or(Message::Notification, |id| Message::Request(Request { id, method, params })))
}

/// An error of the protocol: the request itself is wrong, or a resource cannot be had. What goes
/// wrong in a tool is a result.
#[derive(Debug, PartialEq)]
pub(super) struct RpcError {
    code: i32,
    message: String,
    data: Option<Value>,
    status: u16,
}

impl RpcError {
    pub(super) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None, status: 200 }
    }

    pub(super) fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }

    pub(super) fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// The refusal of a resource.
    pub(super) fn of(problem: &Problem, revision: Revision) -> Self {
        let code = match problem.code {
            ProblemCode::NodeNotFound | ProblemCode::WorkspaceNotFound | ProblemCode::WorkspaceDeleted
                if revision == Revision::Legacy =>
            {
                RESOURCE_NOT_FOUND
            }
            _ if problem.status() < 500 => INVALID_PARAMS,
            _ => INTERNAL_ERROR,
        };
        let data = serde_json::from_str(&told(problem)).unwrap_or_default();
        Self::new(code, detail(problem)).with_data(data)
    }

    pub(super) fn reply(self, id: Option<&Value>) -> Reply {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let (Some(members), Some(data)) = (error.as_object_mut(), self.data) {
            members.insert("data".to_owned(), data);
        }
        let id = id.map_or_else(String::new, |id| format!(r#","id":{id}"#));
        Reply { status: self.status, body: Some(format!(r#"{{"jsonrpc":"2.0"{id},"error":{error}}}"#)) }
    }
}

/// What a problem says in a sentence.
fn detail(problem: &Problem) -> &str {
    if problem.detail.is_empty() { problem.code.info().cause } else { &problem.detail }
}

/// A problem as JSON text for a model: with its cure, and without a current value that is too long
/// for an answer.
pub(super) fn told(problem: &Problem) -> String {
    let mut problem = problem.clone().with("cure", problem.code.cure());
    let body = problem.body();
    if body.len() <= MAX_TEXT_BYTES {
        return body;
    }
    problem.extra.remove("value");
    problem.body()
}

/// Whether a client may keep a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cache {
    /// Not at all, and it is this caller's.
    No,
    /// It is the same for every caller.
    Public,
}

/// What a response needs of its request.
#[derive(Debug)]
pub(super) struct Envelope {
    pub id: Value,
    pub revision: Revision,
}

impl Envelope {
    /// A result, given as the text of a JSON object. `cache` is for the methods whose results have
    /// to say how long they may be kept.
    pub(super) fn result(&self, result: &str, cache: Option<Cache>) -> Reply {
        let rest = result.strip_prefix('{').unwrap_or(result);
        let mut members = String::new();
        if self.revision == Revision::Modern {
            members = format!(
                r#""resultType":"complete","_meta":{{"io.modelcontextprotocol/serverInfo":{SERVER_INFO}}}"#
            );
            if let Some(cache) = cache {
                let (ttl, scope) =
                    if cache == Cache::Public { (PUBLIC_TTL_MS, "public") } else { (0, "private") };
                members.push_str(&format!(r#","ttlMs":{ttl},"cacheScope":"{scope}""#));
            }
            if rest != "}" {
                members.push(',');
            }
        }
        let id = &self.id;
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{members}{rest}}}"#);
        Reply { status: 200, body: Some(body) }
    }
}
