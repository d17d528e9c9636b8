//! Workspaces and scope tokens.

use serde::Deserialize;
use serde_json::json;
use worker::Request;

use super::call::Call;
use super::clock;
use super::db::DbError;
use super::db::log::Head;
use super::notify::notify;
use super::respond::{self, Answer, body, storage};
use crate::api::limits::MAX_BODY_BYTES;
use crate::api::path::WorkspaceId;
use crate::api::problem::{Problem, ProblemCode};
use crate::api::role::Role;
use crate::api::token::{Purpose, ScopeClaims, mint_scope_token};
use crate::protocol::change::{Change, ChangeKind};

/// `POST /api/workspaces`
pub async fn create(call: &Call<'_>, request: &mut Request) -> Answer {
    #[derive(Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        id: Option<String>,
    }
    let actor = call.actor()?;
    let bytes = body(request, MAX_BODY_BYTES).await?;
    let asked: Asked = if bytes.is_empty() { Asked::default() } else { parse(&bytes)? };
    let id = asked.id.as_deref().map(WorkspaceId::parse).transpose()?;
    actor.require_create(id.as_ref())?;
    let id = match id {
        Some(id) => id,
        None => WorkspaceId::parse(&random_id())?,
    };
    if !call.db()?.create_workspace(id.as_str(), clock::now()).await.map_err(|error| storage(&error))? {
        return Err(Problem::because(ProblemCode::Conflict, "A workspace of this id exists, or existed."));
    }
    let response = respond::json(201, &json!({ "id": id.as_str(), "head": 0, "floor": 0 }))?;
    Ok(respond::with_header(response, "Location", &format!("/api/workspaces/{}", id.as_str())))
}

/// `GET /api/workspaces/:id`
pub async fn read(call: &Call<'_>, workspace: &WorkspaceId) -> Answer {
    call.authorize(workspace, Role::Viewer)?;
    let head = living(call, workspace).await?;
    respond::json(200, &json!({ "id": workspace.as_str(), "head": head.head, "floor": head.floor }))
}

/// `DELETE /api/workspaces/:id`: a soft delete. Sockets and streams end, writes are refused.
pub async fn delete(call: &Call<'_>, workspace: &WorkspaceId) -> Answer {
    let actor = call.authorize(workspace, Role::Owner)?;
    let head = living(call, workspace).await?;
    let (db, now) = (call.db()?, clock::now());
    match db.delete_workspace(workspace.as_str(), &actor.sub, now).await {
        Ok(clock) => {
            let change = Change { clock, kind: ChangeKind::DeleteWorkspace, path: String::new(), actor: actor.sub, at: now };
            notify(call.env, call.context, &db, workspace.as_str(), head.live_until, vec![change]);
            respond::json(200, &json!({ "id": workspace.as_str(), "clock": clock }))
        }
        Err(DbError::NoWorkspace) => Err(Problem::new(ProblemCode::WorkspaceDeleted)),
        Err(error) => Err(storage(&error)),
    }
}

/// `POST /api/workspaces/:id/tokens`
pub async fn mint(call: &Call<'_>, request: &mut Request, workspace: &WorkspaceId) -> Answer {
    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Wanted {
        Relay,
        Stream,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        purpose: Wanted,
    }
    let actor = call.authorize(workspace, Role::Viewer)?;
    let asked: Asked = parse(&body(request, MAX_BODY_BYTES).await?)?;
    let purpose = match asked.purpose {
        Wanted::Relay => Purpose::Relay,
        Wanted::Stream => Purpose::Stream,
    };
    let claims = ScopeClaims::grant(&actor, workspace, purpose, clock::now_s())?;
    let token = mint_scope_token(call.config.signing_key()?, &claims)?;
    respond::json(201, &json!({ "token": token, "expiresAt": claims.exp.saturating_mul(1000) }))
}

/// Where the log of a workspace stands, if the workspace lives.
pub async fn living(call: &Call<'_>, workspace: &WorkspaceId) -> Result<Head, Problem> {
    match call.db()?.head(workspace.as_str()).await.map_err(|error| storage(&error))? {
        Some(head) if head.deleted => Err(Problem::new(ProblemCode::WorkspaceDeleted)),
        Some(head) => Ok(head),
        None => Err(Problem::new(ProblemCode::WorkspaceNotFound)),
    }
}

fn parse<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes).map_err(|error| {
        let code = if error.is_data() { ProblemCode::BadRequest } else { ProblemCode::InvalidJson };
        Problem::because(code, error.to_string())
    })
}

/// A fresh id from the platform's random source: 22 characters of hexadecimal time and chance.
fn random_id() -> String {
    let random = |scale: f64| (js_sys::Math::random() * scale) as u64;
    format!("{:011x}{:07x}{:07x}", clock::now(), random(268_435_456.0), random(268_435_456.0))
}
