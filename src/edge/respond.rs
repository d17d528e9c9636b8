//! Requests in, responses out: bodies within their limit, JSON, problems, CORS.

use futures_util::StreamExt;
use serde::Serialize;
use worker::{Headers, Request, Response, ResponseBuilder};

use super::config::Config;
use super::db::DbError;
use crate::api::auth::Actor;
use crate::api::idempotency::IdempotencyKey;
use crate::api::path::WorkspaceId;
use crate::api::problem::{Problem, ProblemCode};

/// What a handler returns.
pub type Answer = Result<Response, Problem>;

/// A JSON answer.
pub fn json<T: Serialize>(status: u16, value: &T) -> Answer {
    let body = serde_json::to_vec(value).map_err(|_| Problem::new(ProblemCode::Internal))?;
    Ok(ResponseBuilder::new()
        .with_status(status)
        .with_headers(headers(&[("Content-Type", "application/json"), ("Cache-Control", "no-store")]))
        .fixed(body))
}

/// Adds a header to an answer.
#[must_use]
pub fn with_header(mut response: Response, name: &str, value: &str) -> Response {
    // Only a value that is no header value fails, and ours are digits and tokens.
    let _ = response.headers_mut().set(name, value);
    response
}

/// A problem as a response.
#[must_use]
pub fn problem(problem: &Problem) -> Response {
    let fields = problem.headers();
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    ResponseBuilder::new()
        .with_status(problem.status())
        .with_headers(headers(&fields))
        .fixed(problem.body().into_bytes())
}

/// Headers from pairs.
#[must_use]
pub fn headers(fields: &[(&str, &str)]) -> Headers {
    let headers = Headers::new();
    for (name, value) in fields {
        let _ = headers.set(name, value);
    }
    headers
}

/// A header of the request.
#[must_use]
pub fn header(request: &Request, name: &str) -> Option<String> {
    request.headers().get(name).ok().flatten()
}

/// The hashed idempotency key of a mutation, if the request has one. The key counts for one actor,
/// workspace, method and address below the workspace (R1).
pub fn op_key(
    request: &Request,
    actor: &Actor,
    workspace: &WorkspaceId,
    (method, below): (&str, &str),
) -> Result<Option<String>, Problem> {
    let key = IdempotencyKey::parse(header(request, "Idempotency-Key").as_deref())?;
    Ok(key.map(|key| key.scope_key(&actor.sub, workspace, method, below)))
}

/// The path and the query of a request, as they stand in its address. The platform has normalized
/// the address; `Request::url` would parse it again, with 150 KB of tables for foreign host names.
#[must_use]
pub fn path_and_query(request: &Request) -> (String, String) {
    let url = request.inner().url();
    let without_fragment = url.split('#').next().unwrap_or_default();
    let query = without_fragment.split_once('?').map_or("", |(_, query)| query);
    (request.path(), query.to_owned())
}

/// Reads a body of at most `limit` bytes; it stops reading as soon as it is longer (R4).
pub async fn body(request: &mut Request, limit: usize) -> Result<Vec<u8>, Problem> {
    let too_large = || {
        Problem::because(ProblemCode::PayloadTooLarge, format!("The body may have {limit} bytes."))
            .with("limit", limit)
    };
    let stated = header(request, "Content-Length").and_then(|length| length.parse::<usize>().ok());
    if stated.is_some_and(|length| length > limit) {
        return Err(too_large());
    }
    let broken = |_| Problem::because(ProblemCode::BadRequest, "The body could not be read.");
    // A request without a body has no stream.
    let Ok(mut stream) = request.stream() else { return Ok(Vec::new()) };
    let mut bytes = Vec::with_capacity(stated.unwrap_or(0));
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(broken)?;
        if bytes.len() + chunk.len() > limit {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The CORS headers for a listed origin; the caller has refused others already.
#[must_use]
pub fn cors(mut response: Response, config: &Config, origin: Option<&str>) -> Response {
    let Some(origin) = origin.filter(|origin| config.origins.check(Some(origin)).is_ok()) else {
        return response;
    };
    let fields = [
        ("Access-Control-Allow-Origin", origin),
        (
            "Access-Control-Expose-Headers",
            "ETag, Idempotency-Replayed, Retry-After, Yrelay-Epoch, Yrelay-Head",
        ),
        ("Vary", "Origin"),
    ];
    for (name, value) in fields {
        let _ = response.headers_mut().set(name, value);
    }
    response
}

/// The answer to a preflight request.
#[must_use]
pub fn preflight(methods: &str) -> Response {
    let fields = [
        ("Access-Control-Allow-Methods", methods),
        (
            "Access-Control-Allow-Headers",
            "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, \
             MCP-Protocol-Version, Mcp-Method, Mcp-Name",
        ),
        ("Access-Control-Max-Age", "86400"),
    ];
    ResponseBuilder::new().with_status(204).with_headers(headers(&fields)).empty()
}

/// The problem of a storage failure that no handler explains better.
#[must_use]
pub fn storage(error: &DbError) -> Problem {
    match error {
        DbError::TooLarge => Problem::new(ProblemCode::DocumentTooLarge),
        DbError::Unavailable(cause) => {
            worker::console_error!("storage: {cause}");
            Problem::new(ProblemCode::StorageUnavailable)
        }
        DbError::Permanent(cause) => {
            worker::console_error!("storage, not tried again: {cause}");
            Problem::new(ProblemCode::Internal)
        }
        DbError::NoWorkspace => Problem::new(ProblemCode::WorkspaceNotFound),
        DbError::Duplicate | DbError::Precondition | DbError::Stale => {
            Problem::new(ProblemCode::WrongNodeKind)
        }
    }
}
