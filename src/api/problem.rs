//! A refusal: one stable code, its HTTP status, and the RFC 9457 body that goes with it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Content type of every error body.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Why a request is refused. Turn it into a response with [`Problem::status`],
/// [`Problem::headers`] and [`Problem::body`].
///
/// `detail` and `extra` are shown to the client: they never hold a token (A3) and, for a
/// workspace the client may not see, nothing that depends on whether it exists (U07).
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// What went wrong, for programs.
    pub code: ProblemCode,
    /// What went wrong this time, for people. The code's title when empty.
    pub detail: String,
    /// Further members of the body, such as `head` and `floor`. Names of RFC 9457 are ignored.
    pub extra: BTreeMap<String, Value>,
    /// Seconds to wait, as `Retry-After`.
    pub retry_after: Option<u32>,
    /// The methods the resource has, as `Allow`.
    pub allow: Option<&'static str>,
    /// The current clock, as `ETag`: a failed precondition says what to send next.
    pub clock: Option<u64>,
}

impl Problem {
    /// A problem that says no more than its code. 503 and 429 start with a `Retry-After`, because
    /// clients rely on one.
    #[must_use]
    pub const fn new(code: ProblemCode) -> Self {
        let retry_after = match code {
            ProblemCode::KeysUnavailable | ProblemCode::RateLimited | ProblemCode::StorageUnavailable => {
                Some(DEFAULT_RETRY_SECONDS)
            }
            _ => None,
        };
        Self { code, detail: String::new(), extra: BTreeMap::new(), retry_after, allow: None, clock: None }
    }

    /// A problem with a sentence about this case.
    #[must_use]
    pub fn because(code: ProblemCode, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..Self::new(code) }
    }

    /// Adds a member to the body.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(name.to_owned(), value.into());
        self
    }

    /// Says how many seconds to wait.
    #[must_use]
    pub const fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// 405 with the methods that the resource has.
    #[must_use]
    pub const fn method_not_allowed(allow: &'static str) -> Self {
        let mut problem = Self::new(ProblemCode::MethodNotAllowed);
        problem.allow = Some(allow);
        problem
    }

    /// 412 with what the node is now: its clock, and its value if it has one (I04). Both are null
    /// when there is no such node.
    #[must_use]
    pub fn precondition_failed(clock: Option<u64>, value: Option<Value>) -> Self {
        let mut problem = Self::new(ProblemCode::PreconditionFailed)
            .with("clock", clock.map_or(Value::Null, Value::from))
            .with("value", value.unwrap_or(Value::Null));
        problem.clock = clock;
        problem
    }

    /// 410 for a cursor that the log cannot serve (F2).
    #[must_use]
    pub fn cursor_gone(head: u64, floor: u64) -> Self {
        Self::new(ProblemCode::CursorGone).with("head", head).with("floor", floor)
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.code.info().status
    }

    /// Every header of the response, `Content-Type` included.
    #[must_use]
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers =
            vec![("Content-Type", PROBLEM_JSON.to_owned()), ("Cache-Control", "no-store".to_owned())];
        if let Some(seconds) = self.retry_after {
            headers.push(("Retry-After", seconds.to_string()));
        }
        if let Some(allow) = self.allow {
            headers.push(("Allow", allow.to_owned()));
        }
        if let Some(clock) = self.clock {
            headers.push(("ETag", format!("\"{clock}\"")));
        }
        match self.code {
            ProblemCode::Unauthorized => headers.push(("WWW-Authenticate", "Bearer".to_owned())),
            ProblemCode::TokenExpired => {
                headers.push(("WWW-Authenticate", "Bearer error=\"invalid_token\"".to_owned()));
            }
            ProblemCode::UpgradeRequired => headers.push(("Upgrade", "websocket".to_owned())),
            _ => {}
        }
        headers
    }

    /// The body: a JSON object on one line.
    #[must_use]
    pub fn body(&self) -> String {
        let info = self.code.info();
        let detail = if self.detail.is_empty() { info.cause } else { &self.detail };
        let mut body = Map::new();
        for (name, value) in &self.extra {
            body.insert(name.clone(), value.clone());
        }
        // After the extras, so that none of them can stand in for a standard member.
        body.insert("type".to_owned(), format!("urn:yrelay:problem:{}", info.name).into());
        body.insert("title".to_owned(), info.title.into());
        body.insert("status".to_owned(), info.status.into());
        body.insert("code".to_owned(), info.name.into());
        body.insert("detail".to_owned(), detail.into());
        Value::Object(body).to_string()
    }
}

impl Problem {
    /// The problem for the other module of the Worker: its body, in which the clock has a member.
    #[must_use]
    pub fn to_wire(&self) -> String {
        match self.clock {
            Some(clock) => self.clone().with(CLOCK_ON_WIRE, clock).body(),
            None => self.body(),
        }
    }

    /// The problem that [`Problem::to_wire`] or [`Problem::body`] wrote; an internal one for anything else.
    #[must_use]
    pub fn from_wire(text: &str) -> Self {
        let Ok(Value::Object(members)) = serde_json::from_str(text) else {
            return Self::new(ProblemCode::Internal);
        };
        let name = members.get("code").and_then(Value::as_str);
        let code = ProblemCode::ALL.iter().find(|code| Some(code.info().name) == name);
        let mut problem = Self::new(code.copied().unwrap_or(ProblemCode::Internal));
        problem.detail = members.get("detail").and_then(Value::as_str).unwrap_or_default().to_owned();
        problem.clock = members.get(CLOCK_ON_WIRE).and_then(Value::as_u64);
        for (name, value) in &members {
            if !NOT_EXTRA.contains(&name.as_str()) {
                problem.extra.insert(name.clone(), value.clone());
            }
        }
        problem
    }
}

/// The members that every problem has a field or its code for.
const NOT_EXTRA: [&str; 6] = ["code", CLOCK_ON_WIRE, "detail", "status", "title", "type"];

/// The clock, which a response has as its `ETag`.
const CLOCK_ON_WIRE: &str = "etag";

impl From<ProblemCode> for Problem {
    fn from(code: ProblemCode) -> Self {
        Self::new(code)
    }
}

/// One row of the table of codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProblemInfo {
    /// The code as the body spells it. Never changes meaning.
    pub name: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// A short summary, the same every time.
    pub title: &'static str,
    /// What the client did, or what happened here.
    pub cause: &'static str,
}

/// The table of codes as Markdown, for `docs/API.md`.
#[must_use]
pub fn markdown_table() -> String {
    let mut table = String::from("| code | status | cause | cure |\n| --- | --- | --- | --- |\n");
    for code in ProblemCode::ALL {
        let (ProblemInfo { name, status, cause, .. }, cure) = (code.info(), code.cure());
        table.push_str(&format!("| `{name}` | {status} | {cause} | {cure} |\n"));
    }
    table
}

/// Seconds to wait when nobody knows better: D1 resets take one to a few seconds.
const DEFAULT_RETRY_SECONDS: u32 = 2;

/// Declares the enum and its table together: a code cannot lack a status, a cause or a cure.
macro_rules! problem_codes {
    ($($variant:ident $name:literal $status:literal $title:literal, $cause:literal, $cure:literal;)*) => {
        /// Every code a response can carry, in the order of their statuses.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum ProblemCode {
            $(#[doc = $cause] $variant,)*
        }

        impl ProblemCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its row of the table.
            #[must_use]
            pub const fn info(self) -> &'static ProblemInfo {
                match self {
                    $(Self::$variant => &ProblemInfo {
                        name: $name, status: $status, title: $title, cause: $cause,
                    },)*
                }
            }

            /// What a client does about it. For the documents: not in the table, because a Worker
            /// never shows it and would carry 2 KB of text.
            #[must_use]
            pub const fn cure(self) -> &'static str {
                match self {
                    $(Self::$variant => $cure,)*
                }
            }
        }
    };
}

problem_codes! {
    BadRequest "bad_request" 400 "Bad request",
        "A header, a parameter or a field of the body is not what this endpoint takes.",
        "Read `detail`, which names it (and `index`, in a list); do not retry unchanged.";
    InvalidCursor "invalid_cursor" 400 "Invalid cursor",
        "The cursor is not a clock: a whole number from 0 to 2^53 - 1.",
        "Send the clock of the last change you have seen, or 0.";
    InvalidJson "invalid_json" 400 "Invalid JSON",
        "The body is not JSON in UTF-8, or it is nested deeper than 64 levels.",
        "Correct the body.";
    InvalidPath "invalid_path" 400 "Invalid path",
        "The path is empty, over 512 bytes or 32 segments, or has an empty, `.` or `..` segment, a control character, an encoded `/` or bytes that are not UTF-8.",
        "Choose another path; encode each segment by itself.";
    InvalidWorkspaceId "invalid_workspace_id" 400 "Invalid workspace id",
        "A workspace id is 1 to 64 of the characters `A-Z a-z 0-9 _ -`.",
        "Choose another id.";
    TokenExpired "token_expired" 401 "Token expired",
        "The token was good and its time is over.",
        "Fetch a fresh token and retry once.";
    Unauthorized "unauthorized" 401 "Unauthorized",
        "There is no token, it cannot be read, or its signature is not ours.",
        "Send a valid token in `Authorization: Bearer`; do not retry with the same one.";
    Forbidden "forbidden" 403 "Forbidden",
        "The token does not allow this, in this workspace or at all. Whether the workspace exists is not said.",
        "Ask an owner for a role; do not retry.";
    OriginNotAllowed "origin_not_allowed" 403 "Origin not allowed",
        "The page that sends the request is not on the list of allowed origins.",
        "Add its origin to the configuration of the server.";
    NodeNotFound "node_not_found" 404 "Node not found",
        "The workspace has no node at this path.",
        "Create it, or list the nodes.";
    NotFound "not_found" 404 "Not found",
        "There is no endpoint at this address.",
        "Compare the address with `/api/openapi.json`.";
    WorkspaceNotFound "workspace_not_found" 404 "Workspace not found",
        "There is no workspace with this id, and never was.",
        "Create it, or correct the id.";
    MethodNotAllowed "method_not_allowed" 405 "Method not allowed",
        "The address exists and does not take this method.",
        "Use one of the methods in `Allow`.";
    NotAcceptable "not_acceptable" 406 "Not acceptable",
        "What was asked for cannot be shown as any type in `Accept`.",
        "Documents have `application/octet-stream`, `text/plain` and `application/json`, MCP has `application/json`.";
    EpochChanged "epoch_changed" 409 "Epoch changed",
        "The document was replaced, or deleted and made again, since the epoch that the request names.",
        "Load the document anew; keep the old copy apart, never merge it.";
    Exists "exists" 409 "Already exists",
        "A workspace with this id exists already; or the target of a move does, or something below it.",
        "Use it, or choose another name.";
    PointerNotFound "pointer_not_found" 409 "Pointer not found",
        "A pointer of the edit at `index` leads to nothing in the root.",
        "Read the document again and correct the pointer.";
    QuoteAmbiguous "quote_ambiguous" 409 "Quote ambiguous",
        "The text has the quote of the edit at `index` `count` times.",
        "Name one with `occurrence`, or quote more of the text around it.";
    QuoteNotFound "quote_not_found" 409 "Quote not found",
        "The text does not have the quote of the edit at `index`, or only `count` times.",
        "Read the document again and quote what is there.";
    WrongNodeKind "wrong_node_kind" 409 "Wrong kind of node",
        "The node is a document and the request is for a record, or the reverse.",
        "Use `/docs/` for documents and `/nodes/` for records.";
    CursorGone "cursor_gone" 410 "Cursor gone",
        "The log no longer reaches back to this cursor, or the cursor is ahead of the log.",
        "Read the current state, then continue from `head`.";
    WorkspaceDeleted "workspace_deleted" 410 "Workspace deleted",
        "The workspace was deleted.",
        "Stop; nothing will be here again.";
    PreconditionFailed "precondition_failed" 412 "Precondition failed",
        "The node is not at the clock in `If-Match`, or exists in spite of `If-None-Match: *`.",
        "Merge your change with `value`, then retry with `clock` as the new `If-Match`.";
    StaleBase "stale_base" 412 "Stale base",
        "The document has more than the `base` of the edits.",
        "Read the document again, and send the edits with the new base.";
    DocumentTooLarge "document_too_large" 413 "Document too large",
        "The document would be over its size limit with this update.",
        "Split the document; do not retry.";
    PayloadTooLarge "payload_too_large" 413 "Payload too large",
        "The body is over the limit, which is 1 MiB.",
        "Send less, or several requests.";
    UnsupportedMediaType "unsupported_media_type" 415 "Unsupported media type",
        "The endpoint does not take a body of this `Content-Type`.",
        "Send the type that the description names.";
    IdempotencyKeyReused "idempotency_key_reused" 422 "Idempotency key reused",
        "The key was used before, by the same actor for the same address, with another body.",
        "Use a new key for a new request.";
    InvalidEdit "invalid_edit" 422 "Invalid edit",
        "The edit at `index` is not possible in this root: an offset past the end or inside a character, or another kind of root.",
        "Read `detail`; do not retry unchanged.";
    InvalidUpdate "invalid_update" 422 "Invalid update",
        "The bytes are not a Yjs update in encoding version 1, or they break its bounds.",
        "Send what `Y.encodeStateAsUpdate` or the `update` event gives.";
    UpgradeRequired "upgrade_required" 426 "Upgrade required",
        "The address is a WebSocket and the request is a plain one.",
        "Connect with a WebSocket client.";
    RateLimited "rate_limited" 429 "Too many requests",
        "This actor sends requests faster than the limit.",
        "Wait for `Retry-After` seconds.";
    Internal "internal" 500 "Internal error",
        "A defect of this server or of its database; its log has the cause. Whether a write happened is not said.",
        "Retry once with the same `Idempotency-Key`, then report it.";
    KeysUnavailable "keys_unavailable" 503 "Keys unavailable",
        "The keys of the issuer of API tokens could not be fetched, so nothing is known about this token.",
        "Retry after `Retry-After` seconds with the same token; the operator looks at `API_JWKS_URL`.";
    StorageUnavailable "storage_unavailable" 503 "Storage unavailable",
        "The database did not answer in time. A write may or may not have happened.",
        "Retry after `Retry-After` seconds with the same `Idempotency-Key`.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_snake_case_and_statuses_ascend() {
        let names: std::collections::BTreeSet<_> =
            ProblemCode::ALL.iter().map(|code| code.info().name).collect();
        assert_eq!(names.len(), ProblemCode::ALL.len());
        assert!(names.iter().all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
        assert!(ProblemCode::ALL.iter().map(|code| code.info().status).is_sorted());
    }

    #[test]
    fn the_markdown_table_has_one_row_for_every_code() {
        let table = markdown_table();
        assert_eq!(table.lines().count(), ProblemCode::ALL.len() + 2);
        assert!(table.lines().all(|line| line.matches(" | ").count() == 3), "{table}");
        assert!(table.contains("\n| `cursor_gone` | 410 | "));
    }

    #[test]
    fn docs_api_md_shows_the_table_of_codes_as_it_is() {
        let shown = include_str!("../../docs/API.md").replace("\r\n", "\n");
        assert!(shown.contains(&markdown_table()), "paste this into docs/API.md:\n{}", markdown_table());
    }

    #[test]
    fn a_problem_crosses_between_modules_whole() {
        let mut problem =
            Problem::because(ProblemCode::StaleBase, "no").with("index", 3).with("epoch", Value::Null);
        problem.clock = Some(7);
        assert_eq!(Problem::from_wire(&problem.to_wire()), problem);
        assert_eq!(Problem::from_wire(&problem.body()), Problem { clock: None, ..problem });
        assert_eq!(Problem::from_wire("{").code, ProblemCode::Internal);
    }

    #[test]
    fn an_extra_member_cannot_replace_a_standard_one() {
        let problem = Problem::because(ProblemCode::BadRequest, "no")
            .with("status", 200)
            .with("code", "fine")
            .with("index", 3);
        let body: Value = serde_json::from_str(&problem.body()).unwrap();
        assert_eq!(
            body,
            serde_json::json!({
                "type": "urn:yrelay:problem:bad_request", "title": "Bad request", "status": 400,
                "code": "bad_request", "detail": "no", "index": 3,
            })
        );
    }

    #[test]
    fn i04_a_failed_precondition_tells_the_current_clock_and_value() {
        let problem = Problem::precondition_failed(Some(11), Some(serde_json::json!({"a": 1})));
        assert_eq!(problem.status(), 412);
        assert!(problem.headers().contains(&("ETag", "\"11\"".to_owned())));
        let body: Value = serde_json::from_str(&problem.body()).unwrap();
        assert_eq!((&body["clock"], &body["value"]["a"]), (&11.into(), &1.into()));
        let absent: Value = serde_json::from_str(&Problem::precondition_failed(None, None).body()).unwrap();
        assert!(absent["clock"].is_null() && absent["value"].is_null());
    }

    #[test]
    fn headers_follow_the_code() {
        let unavailable = Problem::new(ProblemCode::StorageUnavailable).retry_after(7);
        assert!(unavailable.headers().contains(&("Retry-After", "7".to_owned())));
        let limited = Problem::new(ProblemCode::RateLimited);
        assert!(limited.headers().iter().any(|(name, _)| *name == "Retry-After"));
        let method = Problem::method_not_allowed("GET, PUT");
        assert!(method.headers().contains(&("Allow", "GET, PUT".to_owned())));
        let expired = Problem::new(ProblemCode::TokenExpired);
        assert!(expired.headers().iter().any(|(name, _)| *name == "WWW-Authenticate"));
        assert_eq!(Problem::cursor_gone(9, 4).extra["floor"], 4);
        assert_eq!(Problem::new(ProblemCode::NotFound).headers().len(), 2);
    }
}
