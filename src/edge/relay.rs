//! `GET /ws/<workspace>[/<document>]`: checks an upgrade and hands it to the room.
//!
//! Everything is refused before a room exists: credentials, workspace, origin (section 3).

use worker::{Request, Response};

use super::call::Call;
use super::config::room_stub;
use super::respond::{Answer, header};
use super::{clock, room_calls};
use crate::api::path::{NodePath, WorkspaceId};
use crate::api::problem::{Problem, ProblemCode};
use crate::api::token::{Purpose, open_scope_token, refuse_upgrade};
use crate::api::upgrade::Upgrade;
use crate::room::{SessionInfo, SessionKind};

/// How long an upgrade waits to learn whether the workspace is there. A client takes a relay that is
/// silent for 10 s for a dead one.
const LOOKUP_DEADLINE_MS: u64 = 2_000;

/// Answers an upgrade.
pub async fn upgrade(
    call: &Call<'_>,
    request: &Request,
    workspace: &WorkspaceId,
    document: Option<&NodePath>,
) -> Answer {
    let upgrade = Upgrade::read(
        header(request, "Upgrade").as_deref(),
        header(request, "Sec-WebSocket-Protocol").as_deref(),
        &call.query,
        (workspace, document),
    )?;
    let (text, now_s) = (&upgrade.credentials.token, clock::now_s());
    let claims = match open_scope_token(text, Purpose::Relay, now_s) {
        Ok(token) => call.config.verify_scope_token(token).await,
        Err(error) => Err(error.into()),
    };
    let claims = match claims {
        Ok(claims) => claims,
        Err(refusal) if refusal.code == ProblemCode::Unauthorized => {
            let holder = call.config.verify_api_token(text, now_s).await.ok();
            return Err(refuse_upgrade(refusal, holder.map(|actor| actor.kind)));
        }
        Err(refusal) => return Err(refusal),
    };
    let admission = upgrade.admit(claims)?;
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
    let is_person = admission.is_person;
    let info = SessionInfo {
        sub: admission.sub,
        kind: SessionKind::Client,
        can_write: admission.can_write,
        expires_at: admission.expires_at,
        document: admission.document,
        epoch: admission.epoch,
    };
    let unavailable =
        || Problem::because(ProblemCode::StorageUnavailable, "The relay is not available; use the next one.");
    let stub = room_stub(call.env, workspace.as_str()).ok_or_else(unavailable)?;
    let response: Result<Response, _> =
        room_calls::connect(&stub, &info, is_person, upgrade.credentials.echo).await;
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
