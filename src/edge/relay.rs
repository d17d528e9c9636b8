//! `GET /ws/<workspace>[/<document>]`: checks an upgrade and hands it to the room.
//!
//! Everything is refused before a room exists: credentials, workspace, origin (section 3).

use worker::{Request, Response};

use super::call::Call;
use super::config::room_stub;
use super::respond::{Answer, header};
use super::{clock, room_calls};
use crate::api::credentials::upgrade_credentials;
use crate::api::path::{NodePath, WorkspaceId};
use crate::api::problem::{Problem, ProblemCode};
use crate::api::role::Role;
use crate::api::token::{Purpose, open_scope_token, refuse_upgrade};
use crate::room::{SessionInfo, SessionKind};

/// How long an upgrade waits to learn whether the workspace is there. A client takes a relay that is
/// silent for 10 s for a dead one.
const LOOKUP_DEADLINE_MS: u64 = 2_000;

/// The document that binary frames on the workspace channel belong to.
const DEFAULT_DOCUMENT: &str = "main";

/// Answers an upgrade.
pub async fn upgrade(
    call: &Call<'_>,
    request: &Request,
    workspace: &WorkspaceId,
    document: Option<&NodePath>,
) -> Answer {
    if header(request, "Upgrade").is_none_or(|upgrade| !upgrade.eq_ignore_ascii_case("websocket")) {
        return Err(Problem::new(ProblemCode::UpgradeRequired));
    }
    let protocols = header(request, "Sec-WebSocket-Protocol");
    let credentials = upgrade_credentials(&call.query, protocols.as_deref()).map_err(Problem::from)?;
    let now_s = clock::now_s();
    let token = match open_scope_token(&credentials.token, Purpose::Relay, now_s) {
        Ok(token) => token,
        Err(error) => {
            return Err(refuse_upgrade(error, &credentials.token, call.config.api_secret()?, now_s));
        }
    };
    let claims = call.config.verify_scope_token(token).await?;
    claims.require_workspace(workspace).map_err(Problem::from)?;
    let epoch = call.query.epoch()?;
    // With D1 down a relay still works: clients refill the room (D4).
    if let Ok(db) = call.db()
        && let Ok(head) = db.within(LOOKUP_DEADLINE_MS).head(workspace.as_str()).await
    {
        match head {
            Some(head) if !head.deleted => {}
            Some(_) => return Err(Problem::new(ProblemCode::WorkspaceDeleted)),
            None => return Err(Problem::new(ProblemCode::WorkspaceNotFound)),
        }
    }
    let info = SessionInfo {
        sub: claims.sub,
        kind: SessionKind::Client,
        can_write: claims.role >= Role::Editor,
        expires_at: claims.exp.saturating_mul(1000),
        document: document.map_or(DEFAULT_DOCUMENT, NodePath::as_str).to_owned(),
        epoch,
    };
    let unavailable =
        || Problem::because(ProblemCode::StorageUnavailable, "The relay is not available; use the next one.");
    let stub = room_stub(call.env, workspace.as_str()).ok_or_else(unavailable)?;
    let response: Result<Response, _> = room_calls::connect(&stub, &info, credentials.echo).await;
    response.map_err(|error| {
        worker::console_error!("workspace {}: upgrade: {error}", workspace.as_str());
        unavailable()
    })
}

/// The development routes about a room: look into it, or make it panic.
pub async fn inspect(call: &Call<'_>, workspace: &str, panic: bool) -> Answer {
    let stub = room_stub(call.env, workspace).ok_or_else(|| Problem::new(ProblemCode::NotFound))?;
    let failed = |error: worker::Error| Problem::because(ProblemCode::Internal, error.to_string());
    if panic {
        return room_calls::panic(&stub).await.map_err(failed);
    }
    room_calls::inspect(&stub).await.map_err(failed)
}
