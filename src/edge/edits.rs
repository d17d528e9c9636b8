//! Documents over HTTP without Yjs: edits by quoted text, and whole new contents.

use worker::{Request, Response};

use super::call::Call;
use super::clock;
use super::db::documents::{Append, AppendedUpdate};
use super::db::log::{Guard, Replay};
use super::db::{Db, DbError};
use super::documents::{announce, answered, refused, store};
use super::lazy_module::{self, Edited};
use super::nodes::replay;
use super::respond::{self, Answer, body, header, op_key, storage};
use super::workspaces::absent;
use crate::api::edit::encode_vector;
use crate::api::idempotency::body_hash;
use crate::api::limits::{MAX_BODY_BYTES, MAX_UPDATE_BYTES};
use crate::api::media::{CONTENT_TYPES, JSON_TYPES, require_media};
use crate::api::path::{NodePath, WorkspaceId};
use crate::api::precondition::{Precondition, etag};
use crate::api::problem::{Problem, ProblemCode};
use crate::api::resource::{EditAnswer, UpdateAnswer};
use crate::api::role::Role;
use crate::protocol::change::ChangeKind;
use crate::room::Stored;

/// `POST …/docs/<path>/edits`
pub async fn edit_document(
    call: &Call<'_>,
    request: &mut Request,
    workspace: &WorkspaceId,
    path: &NodePath,
) -> Answer {
    let actor = call.authorize(workspace, Role::Editor)?;
    require_media(header(request, "Content-Type").as_deref(), &JSON_TYPES)?;
    let bytes = body(request, MAX_BODY_BYTES).await?;
    lazy_module::check_edits(&bytes)?;
    let key = op_key(request, &actor, workspace, ("POST", &format!("{}/edits", path.as_str())))?;
    let edits = Edits {
        call,
        db: call.db()?,
        workspace,
        path,
        epoch: call.query.epoch()?,
        actor: &actor.sub,
        key,
        hash: body_hash(&bytes),
        body: bytes,
    };
    edits.run().await
}

/// One request for edits.
struct Edits<'a> {
    call: &'a Call<'a>,
    db: Db,
    workspace: &'a WorkspaceId,
    path: &'a NodePath,
    body: Vec<u8>,
    epoch: Option<u64>,
    actor: &'a str,
    key: Option<String>,
    hash: String,
}

impl Edits<'_> {
    /// Reads, edits and appends on the condition that nothing came in between; again if it did.
    async fn run(&self) -> Answer {
        for attempt in 0..MAX_ATTEMPTS {
            let stored = self.read().await?;
            let edited = match self.make(&stored) {
                Ok(edited) => edited,
                // A retry does not find what the first request found.
                Err(problem) => return self.replayed().await?.ok_or(problem),
            };
            if edited.update.is_empty() {
                return match self.replayed().await? {
                    Some(answer) => Ok(answer),
                    None => self.unchanged(&stored, &edited),
                };
            }
            match self.append(&stored, &edited).await {
                Ok(saved) => return self.saved(saved, &edited),
                Err(DbError::Duplicate) => {
                    return self.replayed().await?.ok_or_else(|| ProblemCode::Internal.into());
                }
                Err(DbError::NoWorkspace) => return Err(absent(&self.db, self.workspace).await),
                Err(DbError::Precondition) => {
                    if let Some(answer) = self.replayed().await? {
                        return Ok(answer);
                    }
                    let wait = js_sys::Math::random() * f64::from(20 << attempt);
                    worker::Delay::from(std::time::Duration::from_millis(wait as u64)).await;
                }
                Err(error) => return Err(storage(&error)),
            }
        }
        Err(Problem::because(
            ProblemCode::StorageUnavailable,
            "The document changed at every try. Nothing was written.",
        ))
    }

    async fn read(&self) -> Result<Stored, Problem> {
        let (workspace, path) = (self.workspace.as_str(), self.path.as_str());
        let stored = self.db.document(workspace, path, 0).await.map_err(|error| storage(&error))?;
        let Some(stored) = stored else { return Err(absent(&self.db, self.workspace).await) };
        if stored.epoch.is_none()
            && let Ok(Some(Some(node))) = self.db.node(workspace, path).await
            && node.kind != "document"
        {
            return Err(Problem::new(ProblemCode::WrongNodeKind));
        }
        Ok(stored)
    }

    /// Makes the edits on what was read.
    fn make(&self, stored: &Stored) -> Result<Edited, Problem> {
        if self.epoch.is_some() && self.epoch != stored.epoch {
            let problem = Problem::new(ProblemCode::EpochChanged);
            return Err(stored.epoch.map_or(problem.clone(), |epoch| problem.with("epoch", epoch)));
        }
        let parts: Vec<&[u8]> = stored.updates.iter().map(Vec::as_slice).collect();
        let client = (js_sys::Math::random() * 4_294_967_296.0) as u64;
        // A base that is not met is told with the epoch, too.
        lazy_module::edit(&self.body, &parts, stored.clock, client).map_err(|problem| match problem.code {
            ProblemCode::StaleBase => problem.with("epoch", stored.epoch),
            _ => problem,
        })
    }

    async fn append(&self, stored: &Stored, edited: &Edited) -> Result<AppendedUpdate, DbError> {
        // Text at the end merges with whatever came in between.
        let merges = edited.only_appends;
        let guard = match stored.epoch {
            _ if merges => None,
            Some(_) => Some(Guard::Clock(stored.clock)),
            None => Some(Guard::Missing),
        };
        let vector = encode_vector(&edited.vector);
        let append = Append {
            workspace: self.workspace.as_str(),
            path: self.path.as_str(),
            update: &edited.update,
            epoch: stored.epoch,
            actor: self.actor,
            at: clock::now(),
            op: self.key.as_deref().map(|key| (key, self.hash.as_str())),
            after: None,
            wants_lease: true,
            guard,
            replaces: false,
            vector: Some(&vector),
        };
        store(&self.db, &append).await
    }

    fn saved(&self, saved: AppendedUpdate, edited: &Edited) -> Answer {
        announce(self.call, &self.db, (self.workspace, self.path), &saved, (ChangeKind::Update, self.actor))?;
        let state_vector = encode_vector(&edited.vector);
        edits_answered(saved.created, &EditAnswer { clock: saved.clock, epoch: saved.epoch, state_vector })
    }

    /// The answer to edits that change nothing: the document as it is.
    fn unchanged(&self, stored: &Stored, edited: &Edited) -> Answer {
        let Some(epoch) = stored.epoch else {
            return Err(Problem::because(
                ProblemCode::InvalidEdit,
                "The edits change nothing, and there is no document.",
            ));
        };
        let state_vector = encode_vector(&edited.vector);
        edits_answered(false, &EditAnswer { clock: stored.clock, epoch, state_vector })
    }

    /// The first answer to the key, if it was used.
    async fn replayed(&self) -> Result<Option<Response>, Problem> {
        let first = replay(self.call, self.workspace, self.key.as_deref(), &self.hash, 1).await?;
        let Some(Replay { clock, created, epoch, vector, .. }) = first else { return Ok(None) };
        let answer = EditAnswer { clock, epoch, state_vector: vector.unwrap_or_default() };
        let response = edits_answered(created, &answer)?;
        Ok(Some(respond::with_header(response, "Idempotency-Replayed", "true")))
    }
}

fn edits_answered(created: bool, answer: &EditAnswer) -> Answer {
    let response = respond::json(if created { 201 } else { 200 }, answer)?;
    let response = respond::with_header(response, "ETag", &etag(answer.clock));
    Ok(respond::with_header(response, "Yrelay-Epoch", &answer.epoch.to_string()))
}

/// `PUT …/docs/<path>`
pub async fn replace_document(
    call: &Call<'_>,
    request: &mut Request,
    workspace: &WorkspaceId,
    path: &NodePath,
) -> Answer {
    let actor = call.authorize(workspace, Role::Editor)?;
    let precondition = Precondition::from_headers(
        header(request, "If-Match").as_deref(),
        header(request, "If-None-Match").as_deref(),
    )?;
    let content_type = header(request, "Content-Type");
    require_media(content_type.as_deref(), &CONTENT_TYPES)?;
    let bytes = body(request, MAX_UPDATE_BYTES).await?;
    let hash = body_hash(&bytes);
    let client = (js_sys::Math::random() * 4_294_967_296.0) as u64;
    let root = call.query.value("root")?;
    let update = lazy_module::replacement(content_type.as_deref(), &bytes, root, client)?;
    let epoch = call.query.epoch()?;
    // The same text for another root is another request. No path has a line break in it.
    let scope = format!("docs/{}\n{}", path.as_str(), root.unwrap_or_default());
    let key = op_key(request, &actor, workspace, ("PUT", &scope))?;
    let db = call.db()?;
    let append = Append {
        workspace: workspace.as_str(),
        path: path.as_str(),
        update: &update,
        epoch,
        actor: &actor.sub,
        at: clock::now(),
        op: key.as_deref().map(|key| (key, hash.as_str())),
        after: None,
        wants_lease: true,
        guard: Guard::of(precondition),
        replaces: true,
        vector: None,
    };
    match store(&db, &append).await {
        Ok(saved) => {
            let kind = if saved.created { ChangeKind::Update } else { ChangeKind::Replace };
            announce(call, &db, (workspace, path), &saved, (kind, &actor.sub))?;
            answered(saved.created, &UpdateAnswer { clock: saved.clock, epoch: saved.epoch, missed: None })
        }
        Err(DbError::Duplicate | DbError::Precondition) => {
            let Some(first) = replay(call, workspace, key.as_deref(), &hash, 1).await? else {
                return Err(not_replaced(&db, workspace, path, precondition).await);
            };
            let answer = UpdateAnswer { clock: first.clock, epoch: first.clock, missed: None };
            let response = answered(first.created, &answer)?;
            Ok(respond::with_header(response, "Idempotency-Replayed", "true"))
        }
        Err(DbError::NoWorkspace) => Err(absent(&db, workspace).await),
        Err(error) => Err(storage(&error)),
    }
}

/// Why a document was not replaced: the precondition before the epoch.
async fn not_replaced(
    db: &Db,
    workspace: &WorkspaceId,
    path: &NodePath,
    precondition: Precondition,
) -> Problem {
    let node = match db.node(workspace.as_str(), path.as_str()).await {
        Ok(node) => node.flatten(),
        Err(error) => return storage(&error),
    };
    let clock = node.map(|node| node.clock);
    if precondition.holds(clock) {
        refused(db, workspace, path).await
    } else {
        Problem::precondition_failed(clock, None)
    }
}

/// Times that edits are worked out on a document that changes meanwhile. The waits between them add up
/// to about a second.
const MAX_ATTEMPTS: u32 = 6;
