//! What comes over HTTP: addresses, queries, cursors, tokens, bodies, MCP.

use yrelay::api::auth::{ApiSecret, verify_api_token};
use yrelay::api::credentials::{bearer, redact_text, redact_url, upgrade_credentials};
use yrelay::api::edit::{parse_content, parse_edits};
use yrelay::api::idempotency::IdempotencyKey;
use yrelay::api::jwks::{UnverifiedApiToken, parse_jwks};
use yrelay::api::op::parse_ops;
use yrelay::api::path::{NodePath, WorkspaceId};
use yrelay::api::precondition::Precondition;
use yrelay::api::presence::parse_presence;
use yrelay::api::problem::Problem;
use yrelay::api::query::Query;
use yrelay::api::request::{parse_create_workspace, parse_move, parse_token_request};
use yrelay::api::route::{allowed_methods, route as find_route};
use yrelay::api::signal::{parse_inbox, parse_signal};
use yrelay::api::telemetry::parse_telemetry;
use yrelay::api::token::{Purpose, open_scope_token};
use yrelay::document::edit::edit;
use yrelay::document::validate::validate_update;
use yrelay::feed::cursor::parse_cursor;
use yrelay::feed::filter::Filter;
use yrelay::mcp::{self, Caller, Headers, Step};

/// In seconds; any time will do.
const NOW: u64 = 1_796_000_000;
/// What an answer that refuses may weigh: it may quote the request, within bounds.
const MAX_PROBLEM_BYTES: usize = 16 * 1024;
/// `{"t":"hello world"}`, to be edited.
const DOCUMENT: &[u8] = b"\x01\x01\x0b\x00\x04\x01\x01t\x0bhello world\x00";

/// A refusal is a 4xx with a bounded JSON body.
fn taken<T>(result: Result<T, Problem>) -> bool {
    let Err(problem) = result else { return true };
    assert!((400..500).contains(&problem.status()), "{problem:?}");
    let body = problem.body();
    assert!(body.len() <= MAX_PROBLEM_BYTES, "a refusal of {} bytes", body.len());
    serde_json::from_str::<serde_json::Value>(&body).expect("a refusal is JSON");
    false
}

/// A body, of the route that the first byte picks.
pub fn bodies(data: &[u8]) -> bool {
    let Some((which, body)) = data.split_first() else { return false };
    let path = NodePath::parse("a/b").expect("a path");
    match which % 10 {
        0 => taken(parse_ops(body)),
        1 => edits(body),
        2 => taken(parse_content(body, None)),
        3 => taken(parse_create_workspace(body)),
        4 => taken(parse_move(body, &path)),
        5 => taken(parse_token_request(body)),
        6 => taken(parse_presence(body)),
        7 => taken(parse_signal(body)),
        8 => taken(parse_telemetry(body)),
        _ => parse_jwks(body).is_some(),
    }
}

/// Edits that can be made are a valid update, and of a size that the request accounts for.
fn edits(body: &[u8]) -> bool {
    let request = match parse_edits(body) {
        Ok(request) => request,
        Err(problem) => return taken::<()>(Err(problem)),
    };
    if let Ok(edited) = edit(&[DOCUMENT], &[(&request.root, &request.edits)], 7) {
        validate_update(&edited.update).expect("edits make a valid update");
        assert!(edited.update.len() <= body.len() * 16 + 4096, "{} bytes", edited.update.len());
    }
    true
}

/// Two lines: the query of an address, and `Last-Event-ID`.
pub fn query(data: &[u8]) -> bool {
    let text = String::from_utf8_lossy(data);
    let (query, header) = text.split_once('\n').unwrap_or((&text, ""));
    let _any = parse_cursor(Some(header), Some(query));
    let parsed = match Query::parse(query) {
        Ok(parsed) => parsed,
        Err(problem) => return taken::<()>(Err(problem)),
    };
    let mut all =
        taken(parsed.limit()) & taken(parsed.since()) & taken(parsed.epoch()) & taken(parsed.kinds());
    all &= taken(parsed.path_text("prefix")) & taken(parse_inbox(&parsed).map(drop));
    let _any = Filter::parse(parsed.value("prefix").ok().flatten(), parsed.value("kinds").ok().flatten());
    let _any = parse_cursor(Some(header), parsed.value("since").ok().flatten());
    let _any = upgrade_credentials(&parsed, Some(header)).is_ok();
    all
}

/// Two words: a method, and a path.
pub fn route(data: &[u8]) -> bool {
    let text = String::from_utf8_lossy(data);
    let (method, path) = text.split_once(' ').unwrap_or(("GET", &text));
    let _any = allowed_methods(path).is_ok();
    if let Ok(parsed) = NodePath::parse(path) {
        assert_eq!(NodePath::parse(parsed.as_str()).map(|again| again == parsed).ok(), Some(true));
    }
    if let Ok(parsed) = WorkspaceId::parse(path) {
        assert_eq!(parsed.as_str(), path);
    }
    taken(find_route(method, path))
}

/// A token, as every reader of one gets it; and other headers.
pub fn token(data: &[u8]) -> bool {
    let text = String::from_utf8_lossy(data);
    let secret = ApiSecret::new(&[7; 32]).expect("a secret");
    let is_good = verify_api_token(&secret, None, &text, NOW).is_ok();
    let _any = UnverifiedApiToken::open(&text, Some("https://issuer"), NOW).is_ok();
    let is_scope = open_scope_token(&text, Purpose::Relay, NOW).is_ok();
    let _any = bearer(Some(&text)).is_ok();
    let _any = (redact_text(&text), redact_url(&text));
    taken(IdempotencyKey::parse(Some(&text)));
    taken(Precondition::from_headers(Some(&text), None));
    is_good || is_scope
}

/// The body of a request of MCP.
pub fn mcp(data: &[u8]) -> bool {
    let headers = Headers {
        accept: Some("application/json, text/event-stream"),
        protocol_version: Some("2025-06-18"),
        method: None,
        name: None,
    };
    let caller = Caller { workspaces: vec!["w".to_owned()], is_for_one: true };
    match mcp::open(&headers, data, &caller) {
        Err(problem) => taken::<()>(Err(problem)),
        Ok(Step::Reply(reply)) => {
            let body = reply.body.unwrap_or_default();
            assert!(body.len() <= data.len() * 8 + MAX_PROBLEM_BYTES, "an answer of {} bytes", body.len());
            let parsed: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
            parsed.get("error").is_none()
        }
        Ok(Step::Perform { task, .. }) => {
            let address = task.call().address();
            let path = address.split('?').next().unwrap_or_default();
            assert!(find_route(task.call().method, path).is_ok(), "{address} is no address of the API");
            true
        }
        Ok(Step::List(_)) => true,
    }
}
