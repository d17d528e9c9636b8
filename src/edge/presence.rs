//! `…/presence`: who is here. One batch in D1 for each call, and one question to the room while it
//! is live.

use std::time::Duration;

use futures_util::future::{Either, select};
use worker::{Delay, Request, Response, ResponseBuilder, console_error};

use super::call::Call;
use super::config::room_stub;
use super::db::Db;
use super::db::presence::{Presences, Present};
use super::respond::{self, Answer, body, header, storage};
use super::workspaces::absent;
use super::{clock, room_calls};
use crate::api::auth::{AUTHOR_HEADER, Actor};
use crate::api::limits::{MAX_PRESENCE_BYTES, MAX_PRESENCE_ROWS_PER_SUBJECT, MIN_PRESENCE_SECONDS};
use crate::api::media::{JSON_TYPES, require_media};
use crate::api::path::WorkspaceId;
use crate::api::presence::{PresenceRequest, list_presence, parse_presence, parse_session, socket_session};
use crate::api::problem::{Problem, ProblemCode};
use crate::api::resource::PresenceList;
use crate::api::role::{ActorKind, Role};

/// `GET …/presence`
pub async fn list(call: &Call<'_>, workspace: &WorkspaceId) -> Answer {
    let actor = call.authorize(workspace, Role::Viewer)?;
    let session = call.query.value("session")?.map(|text| parse_session(Some(text))).transpose()?;
    answered(present(call, workspace, &actor, session).await?)
}

fn answered((list, head): (PresenceList, u64)) -> Answer {
    Ok(respond::with_header(respond::json(200, &list)?, "Yrelay-Head", &head.to_string()))
}

/// Who is here, as `actor` sees it, and the head of the workspace.
pub async fn present(
    call: &Call<'_>,
    workspace: &WorkspaceId,
    actor: &Actor,
    session: Option<&str>,
) -> Result<(PresenceList, u64), Problem> {
    let db = call.db()?;
    let found = db.presence(workspace.as_str(), clock::now()).await.map_err(|error| storage(&error))?;
    let Some(found) = found else { return Err(absent(&db, workspace).await) };
    let people = people(call, workspace, found.live_until).await;
    Ok((list_presence(found.rows, people, actor, session), found.head))
}

/// `PUT …/presence`
pub async fn put(call: &Call<'_>, request: &mut Request, workspace: &WorkspaceId) -> Answer {
    let actor = call.authorize(workspace, Role::Viewer)?;
    let person = on_socket(&actor, request)?;
    require_media(header(request, "Content-Type").as_deref(), &JSON_TYPES)?;
    let mut wanted = parse_presence(&body(request, MAX_PRESENCE_BYTES).await?)?;
    let Some(person) = person else { return answered(announce(call, workspace, &actor, &wanted).await?) };
    // A relay does not ask who is here, so that no room is asked either.
    wanted.session = socket_session(&wanted.session);
    store(&call.db()?, workspace, &person, &wanted).await?;
    Ok(done())
}

/// Says that a session of `actor` is here.
pub async fn announce(
    call: &Call<'_>,
    workspace: &WorkspaceId,
    actor: &Actor,
    request: &PresenceRequest,
) -> Result<(PresenceList, u64), Problem> {
    let found = store(&call.db()?, workspace, actor, request).await?;
    let people = people(call, workspace, found.live_until).await;
    Ok((list_presence(found.rows, people, actor, Some(&request.session)), found.head))
}

async fn store(
    db: &Db,
    workspace: &WorkspaceId,
    actor: &Actor,
    request: &PresenceRequest,
) -> Result<Presences, Problem> {
    let stored = db.put_presence(whose(workspace, actor), request, clock::now()).await;
    match stored.map_err(|error| storage(&error))? {
        None => Err(absent(db, workspace).await),
        Some(found) if !found.stored => Err(full(&found, actor)),
        Some(found) => Ok(found),
    }
}

/// `DELETE …/presence?session=`
pub async fn delete(call: &Call<'_>, request: &Request, workspace: &WorkspaceId) -> Answer {
    let actor = call.authorize(workspace, Role::Viewer)?;
    let session = parse_session(call.query.value("session")?)?;
    let (actor, session) = match on_socket(&actor, request)? {
        Some(person) => (person, socket_session(session)),
        None => (actor, session.to_owned()),
    };
    let db = call.db()?;
    let lives = db.delete_presence(whose(workspace, &actor), &session).await;
    if lives.map_err(|error| storage(&error))? { Ok(done()) } else { Err(absent(&db, workspace).await) }
}

/// The person on a socket that the caller, a relay, speaks of.
fn on_socket(actor: &Actor, request: &Request) -> Result<Option<Actor>, Problem> {
    let Some(named) = header(request, AUTHOR_HEADER) else { return Ok(None) };
    let sub = actor.author(Some(&named))?;
    Ok(Some(Actor { sub, kind: ActorKind::Human, roles: Default::default(), exp: actor.exp }))
}

fn done() -> Response {
    ResponseBuilder::new()
        .with_status(204)
        .with_headers(respond::headers(&[("Cache-Control", "no-store")]))
        .empty()
}

fn whose<'a>(workspace: &'a WorkspaceId, actor: &'a Actor) -> Present<'a> {
    Present { workspace: workspace.as_str(), sub: &actor.sub, kind: actor.kind }
}

fn full(found: &Presences, actor: &Actor) -> Problem {
    let own = found.rows.iter().filter(|row| row.sub == actor.sub).count();
    let (limit, detail) = if own >= MAX_PRESENCE_ROWS_PER_SUBJECT {
        (own, "You are here with as many sessions as you can be; remove some, or let them expire.")
    } else {
        (found.rows.len(), "The workspace has as many sessions present as it can have.")
    };
    Problem::because(ProblemCode::RateLimited, detail)
        .with("limit", limit)
        .retry_after(MIN_PRESENCE_SECONDS as u32)
}

/// People who are connected to the room. A room that has no listeners is not asked, and not woken;
/// `None` when one that should have some does not answer in time.
async fn people(call: &Call<'_>, workspace: &WorkspaceId, live_until: u64) -> Option<Vec<String>> {
    if live_until <= clock::now() {
        return Some(Vec::new());
    }
    let stub = room_stub(call.env, workspace.as_str())?;
    let deadline = Delay::from(Duration::from_millis(ROOM_DEADLINE_MS));
    match select(Box::pin(room_calls::people(&stub)), deadline).await {
        Either::Left((Ok(people), _)) => Some(people),
        Either::Left((Err(error), _)) => {
            console_error!("workspace {workspace}: presence: {error}");
            None
        }
        Either::Right(_) => {
            console_error!("workspace {workspace}: presence: the room did not answer in time");
            None
        }
    }
}

/// How long the room may take: it answers from memory, and the rows are an answer without it.
const ROOM_DEADLINE_MS: u64 = 2_000;
