//! Documents over HTTP: read as update, text or JSON; append a Yjs update.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use worker::{Request, Response, ResponseBuilder};

use super::call::Call;
use super::compaction::{self, is_worthwhile};
use super::db::documents::{Append, AppendedUpdate};
use super::db::{Db, DbError};
use super::nodes::replay;
use super::notify::notify;
use super::respond::{self, Answer, body, header, headers, op_key, storage};
use super::workspaces::absent;
use super::{clock, lazy_module};
use crate::api::accept::{DocumentFormat, negotiate};
use crate::api::auth::AUTHOR_HEADER;
use crate::api::idempotency::body_hash;
use crate::api::limits::MAX_UPDATE_BYTES;
use crate::api::media::{UPDATE_TYPES, require_media};
use crate::api::path::{NodePath, WorkspaceId};
use crate::api::precondition::{etag, not_modified};
use crate::api::problem::{Problem, ProblemCode};
use crate::api::request::check_update_size;
use crate::api::resource::UpdateAnswer;
use crate::api::role::Role;
use crate::document::error::DocumentError;
use crate::document::{checkpoint, validate};
use crate::protocol::change::{Change, ChangeKind};

/// `GET …/docs/<path>`
pub async fn read(call: &Call<'_>, request: &Request, workspace: &WorkspaceId, path: &NodePath) -> Answer {
    call.authorize(workspace, Role::Viewer)?;
    let shown = negotiate(header(request, "Accept").as_deref())?;
    let vector =
        call.query.value("sv")?.filter(|text| !text.is_empty()).map(decode_state_vector).transpose()?;
    let since = call.query.since()?;
    if since.is_some() && (vector.is_some() || shown.format != DocumentFormat::Update) {
        return Err(Problem::because(
            ProblemCode::BadRequest,
            "`since` asks for stored updates: it goes with the Yjs format and without `sv`.",
        ));
    }
    let db = call.db()?;
    let after = since.unwrap_or(0);
    let stored = db.document_and_head(workspace.as_str(), path.as_str(), after).await;
    let Some((stored, head)) = stored.map_err(|error| storage(&error))? else {
        return Err(absent(&db, workspace).await);
    };
    let Some(epoch) = stored.epoch else {
        return Err(match db.node(workspace.as_str(), path.as_str()).await {
            // A document that is here now was made since: when it was read there was none.
            Ok(Some(Some(node))) if node.kind != "document" => Problem::new(ProblemCode::WrongNodeKind),
            _ => Problem::new(ProblemCode::NodeNotFound),
        });
    };
    let (clock, epoch, head) = (etag(stored.clock), epoch.to_string(), head.to_string());
    let fields = [
        ("Content-Type", shown.content_type),
        ("ETag", clock.as_str()),
        ("Yrelay-Epoch", epoch.as_str()),
        ("Yrelay-Head", head.as_str()),
        ("Cache-Control", "no-store"),
        ("Vary", "Accept"),
    ];
    if not_modified(header(request, "If-None-Match").as_deref(), stored.clock) {
        return Ok(ResponseBuilder::new().with_status(304).with_headers(headers(&fields)).empty());
    }
    let parts: Vec<&[u8]> = stored.updates.iter().map(Vec::as_slice).collect();
    let whole = checkpoint::merge(&parts).map_err(|error| unreadable(&error))?;
    let root = call.query.value("root")?;
    let bytes = match shown.format {
        DocumentFormat::Update => match &vector {
            Some(vector) => checkpoint::diff(&whole, vector).map_err(|error| unreadable(&error))?,
            None => whole,
        },
        DocumentFormat::Text => lazy_module::show_text(&whole, root)?,
        DocumentFormat::Json => lazy_module::show_json(&whole, root)?,
    };
    Ok(ResponseBuilder::new().with_headers(headers(&fields)).fixed(bytes))
}

/// `POST …/docs/<path>/updates`
pub async fn append(
    call: &Call<'_>,
    request: &mut Request,
    workspace: &WorkspaceId,
    path: &NodePath,
) -> Answer {
    let actor = call.authorize(workspace, Role::Editor)?;
    require_media(header(request, "Content-Type").as_deref(), &UPDATE_TYPES)?;
    let update = body(request, MAX_UPDATE_BYTES).await?;
    check_update_size(update.len())?;
    let info = validate::validate_update(&update).map_err(|error| {
        Problem::because(ProblemCode::InvalidUpdate, format!("The bytes are not a Yjs update: {error}."))
    })?;
    if info.is_empty() {
        return Err(Problem::because(ProblemCode::InvalidUpdate, "The update changes nothing."));
    }
    let epoch = call.query.epoch()?;
    let since = call.query.since()?;
    let author = actor.author(header(request, AUTHOR_HEADER).as_deref())?;
    let op_key = op_key(request, &actor, workspace, ("POST", &format!("{}/updates", path.as_str())))?;
    let hash = body_hash(&update);
    let (db, at) = (call.db()?, clock::now());
    let wanted = Append {
        workspace: workspace.as_str(),
        path: path.as_str(),
        update: &update,
        epoch,
        actor: &author,
        at,
        op: op_key.as_deref().map(|key| (key, hash.as_str())),
        after: since,
        wants_lease: true,
        guard: None,
        replaces: false,
        vector: None,
    };
    let saved = match store(&db, &wanted).await {
        Ok(saved) => saved,
        // The precondition is looked at before the key.
        Err(DbError::Duplicate | DbError::Precondition) => {
            let first = replay(call, workspace, op_key.as_deref(), &hash, 1).await?;
            let Some(first) = first else { return Err(refused(&db, workspace, path).await) };
            // What was missed then is not known now.
            let missed = since.map(|_| true);
            let answer = UpdateAnswer { clock: first.clock, epoch: first.epoch, missed };
            let response = answered(first.created, &answer)?;
            return Ok(respond::with_header(response, "Idempotency-Replayed", "true"));
        }
        Err(DbError::NoWorkspace) => return Err(absent(&db, workspace).await),
        Err(error) => return Err(storage(&error)),
    };
    announce(call, &db, (workspace, path), &saved, (ChangeKind::Update, &author))?;
    let missed = since.map(|_| saved.missed);
    answered(saved.created, &UpdateAnswer { clock: saved.clock, epoch: saved.epoch, missed })
}

/// Appends an update. One function for all who do that: each copy is some KB of code.
pub async fn store(db: &Db, append: &Append<'_>) -> Result<AppendedUpdate, DbError> {
    compaction::append(&db.keyed(append.op.is_some()), append).await
}

/// Tells the room of a document's new change, and has the document compacted if it is worth it.
pub fn announce(
    call: &Call<'_>,
    db: &Db,
    (workspace, path): (&WorkspaceId, &NodePath),
    saved: &AppendedUpdate,
    (kind, actor): (ChangeKind, &str),
) -> Result<(), Problem> {
    let (path_text, actor) = (path.as_str().to_owned(), actor.to_owned());
    let change = Change { clock: saved.clock, kind, path: path_text, actor, at: saved.at };
    notify(call.env, call.context, db, workspace.as_str(), saved.live_until, vec![change]);
    if is_worthwhile(saved.parts) {
        compact_later(call, workspace, path)?;
    }
    Ok(())
}

/// The answer to an update, and to a document that was written whole.
pub fn answered(created: bool, answer: &UpdateAnswer) -> Result<Response, Problem> {
    let response = respond::json(if created { 201 } else { 200 }, answer)?;
    let response = respond::with_header(response, "ETag", &etag(answer.clock));
    Ok(respond::with_header(response, "Yrelay-Epoch", &answer.epoch.to_string()))
}

/// Why an update was refused that belongs to an epoch, or a document of another kind.
pub async fn refused(db: &Db, workspace: &WorkspaceId, path: &NodePath) -> Problem {
    match db.node(workspace.as_str(), path.as_str()).await {
        Ok(Some(Some(node))) if node.kind == "document" => {
            Problem::new(ProblemCode::EpochChanged).with("epoch", node.epoch)
        }
        // Only a named epoch asks for a document that is there.
        Ok(Some(None)) => Problem::new(ProblemCode::EpochChanged),
        _ => Problem::new(ProblemCode::WrongNodeKind),
    }
}

fn compact_later(call: &Call<'_>, workspace: &WorkspaceId, path: &NodePath) -> Result<(), Problem> {
    let (db, workspace, path) = (call.db()?, workspace.as_str().to_owned(), path.as_str().to_owned());
    call.context.wait_until(async move {
        match compaction::run(&db, &workspace, &path).await {
            Ok(()) | Err(DbError::Stale) => {}
            Err(error) => worker::console_error!("workspace {workspace}: compaction: {error:?}"),
        }
    });
    Ok(())
}

/// A state vector in base64, of either alphabet, with or without padding.
fn decode_state_vector(text: &str) -> Result<Vec<u8>, Problem> {
    let bad = || Problem::because(ProblemCode::BadRequest, "`sv` is not a Yjs state vector in base64url.");
    let plain = text.trim_end_matches('=');
    let bytes = URL_SAFE_NO_PAD.decode(plain).or_else(|_| STANDARD.decode(text)).map_err(|_| bad())?;
    validate::validate_state_vector(&bytes).map_err(|_| bad())?;
    Ok(bytes)
}

/// A stored document that cannot be decoded, which validation excludes.
pub fn unreadable(error: &DocumentError) -> Problem {
    worker::console_error!("a stored document cannot be read: {error}");
    Problem::new(ProblemCode::Internal)
}
