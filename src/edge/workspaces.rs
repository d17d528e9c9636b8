//! Workspaces and scope tokens.

use serde_json::json;
use worker::Request;

use super::call::Call;
use super::clock;
use super::db::log::Head;
use super::db::{Db, DbError};
use super::nodes::replay;
use super::notify::notify;
use super::respond::{self, Answer, body, header, op_key, storage};
use crate::api::idempotency::{IdempotencyKey, body_hash};
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
    let bytes = body(request, MAX_BODY_BYTES).await?;
    let id = parse_create_workspace(&bytes)?;
    actor.require_create(id.as_ref())?;
    let id = match id {
        Some(id) => id,
        None => WorkspaceId::parse(&random_id())?,
    };
    let key = IdempotencyKey::parse(header(request, "Idempotency-Key").as_deref())?;
    let (key, hash) = (key.map(|key| key.create_key(&actor.sub)), body_hash(&bytes));
    let (db, now) = (call.db()?, clock::now());
    let op = key.as_deref().map(|key| (key, hash.as_str()));
    match db.keyed(op.is_some()).create_workspace(id.as_str(), op, now).await {
        Ok(true) => created(id.as_str()),
        // The key is looked at only when the id is taken, or the key itself.
        Ok(false) | Err(DbError::Duplicate) => match first_id(&db, op).await? {
            Some(first) => Ok(respond::with_header(created(&first)?, "Idempotency-Replayed", "true")),
            None => Err(Problem::because(ProblemCode::Exists, "A workspace of this id exists, or existed.")),
        },
        Err(error) => Err(storage(&error)),
    }
}

fn created(id: &str) -> Answer {
    let response = respond::json(201, &resource::Workspace { id: id.to_owned(), head: 0, floor: 0 })?;
    Ok(respond::with_header(response, "Location", &format!("/api/workspaces/{id}")))
}

/// The id that the key created when it was first used, if it was.
async fn first_id(db: &Db, op: Option<(&str, &str)>) -> Result<Option<String>, Problem> {
    let Some((key, hash)) = op else { return Ok(None) };
    match db.created_under(key).await.map_err(|error| storage(&error))? {
        Some((_, first)) if first != hash => Err(Problem::new(ProblemCode::IdempotencyKeyReused)),
        found => Ok(found.map(|(id, _)| id)),
    }
}

/// `GET /api/workspaces/:id`
pub async fn read(call: &Call<'_>, workspace: &WorkspaceId) -> Answer {
    call.authorize(workspace, Role::Viewer)?;
    let head = living(call, workspace).await?;
    let id = workspace.as_str().to_owned();
    respond::json(200, &resource::Workspace { id, head: head.head, floor: head.floor })
}

/// `DELETE /api/workspaces/:id`: a soft delete. Sockets and streams end, writes are refused.
pub async fn delete(call: &Call<'_>, request: &mut Request, workspace: &WorkspaceId) -> Answer {
    let actor = call.authorize(workspace, Role::Owner)?;
    let hash = body_hash(&body(request, MAX_BODY_BYTES).await?);
    let key = op_key(request, &actor, workspace, ("DELETE", ""))?;
    let (db, now, id) = (call.db()?, clock::now(), workspace.as_str());
    let op = key.as_deref().map(|key| (key, hash.as_str()));
    match db.keyed(op.is_some()).delete_workspace(id, &actor.sub, op, now).await {
        Ok((clock, live_until)) => {
            let (kind, path) = (ChangeKind::DeleteWorkspace, String::new());
            let change = Change { clock, kind, path, actor: actor.sub, at: now };
            notify(call.env, call.context, &db, id, live_until, vec![change]);
            deleted(id, clock)
        }
        // The workspace is looked at before the key. Its newest change is kept, and the key with it.
        Err(DbError::NoWorkspace) => match replay(call, workspace, key.as_deref(), &hash, 1).await? {
            Some(first) => {
                Ok(respond::with_header(deleted(id, first.clock)?, "Idempotency-Replayed", "true"))
            }
            None => Err(absent(&db, workspace).await),
        },
        Err(error) => Err(storage(&error)),
    }
}

fn deleted(id: &str, clock: u64) -> Answer {
    respond::json(200, &json!({ "id": id, "clock": clock }))
}

/// `POST /api/workspaces/:id/tokens`
pub async fn mint(call: &Call<'_>, request: &mut Request, workspace: &WorkspaceId) -> Answer {
    let actor = call.authorize(workspace, Role::Viewer)?;
    let purpose = parse_token_request(&body(request, MAX_BODY_BYTES).await?)?;
    let claims = ScopeClaims::grant(&actor, workspace, purpose, clock::now_s())?;
    let token = call.config.mint_scope_token(&claims).await?;
    let peer_secret = claims.joins_peers().then(|| call.config.peer_secret(workspace)).transpose()?;
    let expires_at = claims.exp.saturating_mul(1000);
    respond::json(201, &resource::TokenAnswer { token, expires_at, peer_secret })
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
