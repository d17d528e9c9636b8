//! The small bodies: creating a workspace, asking for a token, sending an update.

use serde_json::Value;

use super::json::parse_object;
use super::limits::MAX_UPDATE_BYTES;
use super::path::{NodePath, WorkspaceId};
use super::problem::{Problem, ProblemCode};
use super::token::Purpose;
use crate::protocol::change::is_within;

/// The body of `POST /api/workspaces`: `{"id":"…"}`, or `{}` or nothing for an id that the server
/// chooses.
///
/// # Errors
/// Those of JSON bodies, `bad_request`, or `invalid_workspace_id`.
pub fn parse_create_workspace(body: &[u8]) -> Result<Option<WorkspaceId>, Problem> {
    if body.is_empty() {
        return Ok(None);
    }
    match parse_object(body, &["id"])?.remove("id") {
        None => Ok(None),
        Some(Value::String(id)) => WorkspaceId::parse(&id).map(Some),
        Some(_) => Err(ProblemCode::InvalidWorkspaceId.into()),
    }
}

/// The body of `POST …/nodes/<path>/move`: `{"to":"new/path"}`.
///
/// # Errors
/// Those of JSON bodies, `invalid_path`, or `bad_request` for a place at or below the node itself.
pub fn parse_move(body: &[u8], from: &NodePath) -> Result<NodePath, Problem> {
    let to = match parse_object(body, &["to"])?.get("to") {
        Some(Value::String(to)) => NodePath::parse(to)?,
        _ => return Err(Problem::because(ProblemCode::BadRequest, "`to` is missing or not a string.")),
    };
    if is_within(to.as_str(), from.as_str()) {
        return Err(Problem::because(
            ProblemCode::BadRequest,
            "A node cannot move to itself or below itself.",
        ));
    }
    Ok(to)
}

/// The body of `POST …/tokens`: `{"purpose":"relay"}` or `{"purpose":"stream"}`.
///
/// # Errors
/// Those of JSON bodies, or `bad_request`.
pub fn parse_token_request(body: &[u8]) -> Result<Purpose, Problem> {
    match parse_object(body, &["purpose"])?.get("purpose") {
        Some(Value::String(purpose)) => purpose.parse(),
        _ => Err(Problem::because(ProblemCode::BadRequest, "`purpose` is missing or not a string.")),
    }
}

/// The size of a Yjs update body, before it is validated.
///
/// # Errors
/// `payload_too_large`, or `invalid_update` for no bytes at all.
pub fn check_update_size(bytes: usize) -> Result<(), Problem> {
    match bytes {
        0 => Err(Problem::because(ProblemCode::InvalidUpdate, "The body is empty.")),
        1..=MAX_UPDATE_BYTES => Ok(()),
        _ => Err(Problem::new(ProblemCode::PayloadTooLarge).with("limit", MAX_UPDATE_BYTES)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_is_created_with_or_without_an_id() {
        let id = |body: &str| parse_create_workspace(body.as_bytes()).map(|id| id.map(|id| id.to_string()));
        assert_eq!(id("{\"id\":\"team-1\"}"), Ok(Some("team-1".to_owned())));
        assert_eq!((id("{}"), id("")), (Ok(None), Ok(None)));
        for bad in ["{\"id\":\"a/b\"}", "{\"id\":1}", "{\"id\":null}", "{\"id\":\"*\"}"] {
            assert_eq!(id(bad).unwrap_err().code, ProblemCode::InvalidWorkspaceId, "{bad}");
        }
        assert_eq!(id("{\"name\":\"x\"}").unwrap_err().code, ProblemCode::BadRequest);
    }

    #[test]
    fn a_token_request_names_one_purpose() {
        assert_eq!(parse_token_request(b"{\"purpose\":\"relay\"}"), Ok(Purpose::Relay));
        assert_eq!(parse_token_request(b"{\"purpose\":\"stream\"}"), Ok(Purpose::Stream));
        for bad in ["{}", "{\"purpose\":\"admin\"}", "{\"purpose\":1}", "{\"purpose\":\"relay\",\"ttl\":9}"] {
            assert_eq!(
                parse_token_request(bad.as_bytes()).unwrap_err().code,
                ProblemCode::BadRequest,
                "{bad}"
            );
        }
    }

    #[test]
    fn d04_updates_are_bounded_before_they_are_read() {
        assert!(check_update_size(1).is_ok() && check_update_size(MAX_UPDATE_BYTES).is_ok());
        assert_eq!(check_update_size(0).unwrap_err().status(), 422);
        assert_eq!(check_update_size(MAX_UPDATE_BYTES + 1).unwrap_err().status(), 413);
    }
}
