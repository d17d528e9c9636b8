//! Nodes over HTTP: renamed with everything below them.

use worker::Request;

use super::call::Call;
use super::clock;
use super::db::log::{Entry, Guard};
use super::db::{Db, DbError};
use super::nodes::replay;
use super::notify::notify;
use super::respond::{self, Answer, body, header, op_key, storage};
use super::workspaces::absent;
use crate::api::idempotency::body_hash;
use crate::api::limits::MAX_BODY_BYTES;
use crate::api::media::{JSON_TYPES, require_media};
use crate::api::path::{NodePath, WorkspaceId};
use crate::api::precondition::{Precondition, etag};
use crate::api::problem::{Problem, ProblemCode};
use crate::api::request::parse_move;
use crate::api::resource::WriteAnswer;
use crate::api::role::Role;
use crate::protocol::change::{Change, ChangeKind};

/// `POST …/nodes/<path>/move`
pub async fn move_node(
    call: &Call<'_>,
    request: &mut Request,
    workspace: &WorkspaceId,
    from: &NodePath,
) -> Answer {
    let actor = call.authorize(workspace, Role::Editor)?;
    require_media(header(request, "Content-Type").as_deref(), &JSON_TYPES)?;
    let precondition = Precondition::from_headers(header(request, "If-Match").as_deref(), None)?;
    let bytes = body(request, MAX_BODY_BYTES).await?;
    let to = parse_move(&bytes, from)?;
    let key = op_key(request, &actor, workspace, ("POST", &format!("{}/move", from.as_str())))?;
    let (hash, db, at) = (body_hash(&bytes), call.db()?, clock::now());
    let entry = Entry {
        workspace: workspace.as_str(),
        kind: ChangeKind::Move,
        path: from.as_str(),
        actor: &actor.sub,
        at,
        op: key.as_deref().map(|key| (key, hash.as_str())),
        vector: None,
    };
    let guard = Guard::of(precondition);
    match db.keyed(key.is_some()).rename(entry, to.as_str(), guard).await {
        Ok((clock, live_until)) => {
            let change = |clock, kind, path: &NodePath| {
                let (path, actor) = (path.as_str().to_owned(), actor.sub.clone());
                Change { clock, kind, path, actor, at }
            };
            let changes =
                vec![change(clock - 1, ChangeKind::Delete, from), change(clock, ChangeKind::Move, &to)];
            notify(call.env, call.context, &db, workspace.as_str(), live_until, changes);
            answered(clock, &to)
        }
        Err(DbError::Duplicate | DbError::Precondition) => {
            let Some(first) = replay(call, workspace, key.as_deref(), &hash, 2).await? else {
                return Err(refused(&db, workspace, (from, &to), precondition).await);
            };
            // The key stands with the first of the two changes.
            let response = answered(first.clock + 1, &to)?;
            Ok(respond::with_header(response, "Idempotency-Replayed", "true"))
        }
        Err(DbError::NoWorkspace) => Err(absent(&db, workspace).await),
        Err(error) => Err(storage(&error)),
    }
}

fn answered(clock: u64, to: &NodePath) -> Answer {
    let answer = WriteAnswer { clock, path: to.as_str().to_owned() };
    Ok(respond::with_header(respond::json(200, &answer)?, "ETag", &etag(clock)))
}

/// Why nothing moved: the node, its clock, the target, and what is left is the length of a path.
async fn refused(
    db: &Db,
    workspace: &WorkspaceId,
    (from, to): (&NodePath, &NodePath),
    precondition: Precondition,
) -> Problem {
    let found = match db.found(workspace.as_str(), &[from.as_str(), to.as_str()]).await {
        Ok(found) => found,
        Err(error) => return storage(&error),
    };
    let (source, target) =
        (found.first().copied().unwrap_or_default(), found.get(1).copied().unwrap_or_default());
    if source.clock.is_none() && !source.has_children {
        Problem::new(ProblemCode::NodeNotFound)
    } else if !precondition.holds(source.clock) {
        Problem::precondition_failed(source.clock, None)
    } else if target.clock.is_some() || target.has_children {
        Problem::new(ProblemCode::Exists)
    } else {
        Problem::because(ProblemCode::InvalidPath, "A node below would get a path that is too long.")
    }
}
