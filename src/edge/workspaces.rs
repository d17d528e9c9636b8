//! Workspaces and scope tokens.

use serde_json::json;
use worker::Request;

use super::call::Call;
use super::clock;
use super::db::log::Head;
use super::db::{Db, DbError};
use super::notify::notify;
use super::respond::{self, Answer, body, storage};
use crate::api::limits::MAX_BODY_BYTES;
use crate::api::path::WorkspaceId;
use crate::api::problem::{Problem, ProblemCode};
use crate::api::request::{parse_create_workspace, parse_token_request};
use crate::api::resource;
use crate::api::role::Role;
use crate::api::token::ScopeClaims;
use crate::protocol::change::{Change, ChangeKind};

/// `POST /api/workspaces`
pub async fn create(call: &Call<'_>, request: &mut Request) -> Answer {
    let actor = call.actor()?;
    let id = parse_create_workspace(&body(request, MAX_BODY_BYTES).await?)?;
    actor.require_create(id.as_ref())?;
    let id = match id {
        Some(id) => id,
        None => WorkspaceId::parse(&random_id())?,
    };
    if !call.db()?.create_workspace(id.as_str(), clock::now()).await.map_err(|error| storage(&error))? {
        return Err(Problem::because(ProblemCode::Exists, "A workspace of this id exists, or existed."));
    }
    let response =
        respond::json(201, &resource::Workspace { id: id.as_str().to_owned(), head: 0, floor: 0 })?;
    Ok(respond::with_header(response, "Location", &format!("/api/workspaces/{}", id.as_str())))
}

/// `GET /api/workspaces/:id`
pub async fn read(call: &Call<'_>, workspace: &WorkspaceId) -> Answer {
    call.authorize(workspace, Role::Viewer)?;
    let head = living(call, workspace).await?;
    let id = workspace.as_str().to_owned();
    respond::json(200, &resource::Workspace { id, head: head.head, floor: head.floor })
}

/// `DELETE /api/workspaces/:id`: a soft delete. Sockets and streams end, writes are refused.
pub async fn delete(call: &Call<'_>, workspace: &WorkspaceId) -> Answer {
    let actor = call.authorize(workspace, Role::Owner)?;
    let (db, now) = (call.db()?, clock::now());
    match db.delete_workspace(workspace.as_str(), &actor.sub, now).await {
        Ok((clock, live_until)) => {
            let change = Change {
                clock,
                kind: ChangeKind::DeleteWorkspace,
                path: String::new(),
                actor: actor.sub,
                at: now,
            };
            notify(call.env, call.context, &db, workspace.as_str(), live_until, vec![change]);
            respond::json(200, &json!({ "id": workspace.as_str(), "clock": clock }))
        }
        Err(DbError::NoWorkspace) => Err(absent(&db, workspace).await),
        Err(error) => Err(storage(&error)),
    }
}

/// `POST /api/workspaces/:id/tokens`
pub async fn mint(call: &Call<'_>, request: &mut Request, workspace: &WorkspaceId) -> Answer {
    let actor = call.authorize(workspace, Role::Viewer)?;
    let purpose = parse_token_request(&body(request, MAX_BODY_BYTES).await?)?;
    let claims = ScopeClaims::grant(&actor, workspace, purpose, clock::now_s())?;
    let token = call.config.mint_scope_token(&claims).await?;
    respond::json(201, &resource::TokenAnswer { token, expires_at: claims.exp.saturating_mul(1000) })
}

/// Where the log of a workspace stands, if the workspace lives.
pub async fn living(call: &Call<'_>, workspace: &WorkspaceId) -> Result<Head, Problem> {
    match call.db()?.head(workspace.as_str()).await.map_err(|error| storage(&error))? {
        Some(head) if head.deleted => Err(Problem::new(ProblemCode::WorkspaceDeleted)),
        Some(head) => Ok(head),
        None => Err(Problem::new(ProblemCode::WorkspaceNotFound)),
    }
}

/// Why a workspace is not there: deleted, or never made.
pub async fn absent(db: &Db, workspace: &WorkspaceId) -> Problem {
    match db.head(workspace.as_str()).await {
        Ok(Some(_)) => Problem::new(ProblemCode::WorkspaceDeleted),
        Ok(None) => Problem::new(ProblemCode::WorkspaceNotFound),
        Err(error) => storage(&error),
    }
}

/// A fresh id from the platform's random source: 22 characters of hexadecimal time and chance.
fn random_id() -> String {
    let random = |scale: f64| (js_sys::Math::random() * scale) as u64;
    format!("{:011x}{:07x}{:07x}", clock::now(), random(268_435_456.0), random(268_435_456.0))
}
