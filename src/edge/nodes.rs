//! Records over HTTP: read, list, write, and several writes as one.

use worker::{Request, Response};

use super::call::Call;
use super::clock;
use super::db::log::{Entry, Guard, Replay};
use super::db::nodes::{Committed, Node, NodeOp, Write};
use super::db::{Db, DbError};
use super::notify::notify;
use super::refusal;
use super::respond::{self, Answer, body, header, op_key, storage};
use super::workspaces::absent;
use crate::api::auth::Actor;
use crate::api::idempotency::body_hash;
use crate::api::limits::MAX_BODY_BYTES;
use crate::api::media::{JSON_TYPES, PATCH_TYPES, require_media};
use crate::api::op::{Op, OpAction, parse_ops};
use crate::api::path::{NodePath, WorkspaceId};
use crate::api::precondition::{Precondition, etag, not_modified};
use crate::api::problem::{Problem, ProblemCode};
use crate::api::resource;
use crate::api::role::Role;
use crate::protocol::change::Change;

/// `GET …/nodes/<path>`
pub async fn read(call: &Call<'_>, request: &Request, workspace: &WorkspaceId, path: &NodePath) -> Answer {
    call.authorize(workspace, Role::Viewer)?;
    let db = call.db()?;
    let node = match db.node(workspace.as_str(), path.as_str()).await.map_err(|error| storage(&error))? {
        None => return Err(absent(&db, workspace).await),
        Some(None) => return Err(Problem::new(ProblemCode::NodeNotFound)),
        Some(Some(node)) => node,
    };
    let (clock, head) = (node.clock, node.head.to_string());
    let response = if not_modified(header(request, "If-None-Match").as_deref(), clock) {
        worker::ResponseBuilder::new().with_status(304).empty()
    } else {
        respond::json(200, &resource(node))?
    };
    let response = respond::with_header(response, "Yrelay-Head", &head);
    Ok(respond::with_header(response, "ETag", &etag(clock)))
}

/// `GET …/nodes`
pub async fn list(call: &Call<'_>, workspace: &WorkspaceId) -> Answer {
    call.authorize(workspace, Role::Viewer)?;
    let db = call.db()?;
    let limit = call.query.limit()?;
    let prefix = call.query.path_text("prefix")?.map(|prefix| prefix.trim_end_matches('/'));
    let after = call.query.path_text("after")?.unwrap_or("");
    let listed = db.list(workspace.as_str(), prefix, after, limit).await.map_err(|error| storage(&error))?;
    let Some((nodes, head)) = listed else { return Err(absent(&db, workspace).await) };
    let next = (nodes.len() == limit as usize).then(|| nodes.last().map(|node| node.path.clone())).flatten();
    let nodes = nodes.into_iter().map(resource).collect();
    respond::json(200, &resource::NodeList { nodes, next, head })
}

/// `PUT`, `PATCH` and `DELETE …/nodes/<path>`
pub async fn write(
    call: &Call<'_>,
    request: &mut Request,
    workspace: &WorkspaceId,
    path: &NodePath,
    verb: Verb,
) -> Answer {
    let actor = call.authorize(workspace, Role::Editor)?;
    let precondition = Precondition::from_headers(
        header(request, "If-Match").as_deref(),
        header(request, "If-None-Match").as_deref(),
    )?;
    let content_type = header(request, "Content-Type");
    let (types, method): (&[&str], &str) = match verb {
        Verb::Put => (&JSON_TYPES, "PUT"),
        Verb::Patch => (&PATCH_TYPES, "PATCH"),
        Verb::Delete => (&[], "DELETE"),
    };
    if !types.is_empty() {
        require_media(content_type.as_deref(), types)?;
    }
    let bytes = body(request, MAX_BODY_BYTES).await?;
    let op = match verb {
        Verb::Put => Op::put(path.clone(), precondition, &bytes)?,
        Verb::Patch => Op::patch(path.clone(), precondition, &bytes)?,
        Verb::Delete => Op::delete(path.clone(), precondition),
    };
    let op_key = op_key(request, &actor, workspace, (method, path.as_str()))?;
    let mutation =
        Mutation { call, workspace, actor: &actor, ops: vec![op], op_key, hash: body_hash(&bytes) };
    let done = mutation.run().await?;
    let clock = done.first;
    let status = if done.created && verb == Verb::Put { 201 } else { 200 };
    let answer = resource::WriteAnswer { clock, path: path.as_str().to_owned() };
    let response = respond::with_header(respond::json(status, &answer)?, "ETag", &etag(clock));
    Ok(done.mark(response))
}

/// `POST …/ops`
pub async fn apply(call: &Call<'_>, request: &mut Request, workspace: &WorkspaceId) -> Answer {
    let actor = call.authorize(workspace, Role::Editor)?;
    require_media(header(request, "Content-Type").as_deref(), &JSON_TYPES)?;
    let bytes = body(request, MAX_BODY_BYTES).await?;
    let ops = parse_ops(&bytes)?;
    let op_key = op_key(request, &actor, workspace, ("POST", "ops"))?;
    let count = ops.len() as u64;
    let mutation = Mutation { call, workspace, actor: &actor, ops, op_key, hash: body_hash(&bytes) };
    let done = mutation.run().await?;
    let clocks: Vec<u64> = (done.first..done.first + count).collect();
    let clock = done.first + count - 1;
    Ok(done.mark(respond::json(200, &resource::OpsAnswer { clocks, clock })?))
}

/// The method of a single write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Writes a record whole.
    Put,
    /// Changes a record.
    Patch,
    /// Removes a node and what is below it.
    Delete,
}

/// Ops that are committed together.
struct Mutation<'a> {
    call: &'a Call<'a>,
    workspace: &'a WorkspaceId,
    actor: &'a Actor,
    ops: Vec<Op>,
    op_key: Option<String>,
    hash: String,
}

/// What came of a mutation, now or when its key was first used.
struct Done {
    first: u64,
    created: bool,
    replayed: bool,
}

impl Done {
    fn mark(&self, response: Response) -> Response {
        if self.replayed { respond::with_header(response, "Idempotency-Replayed", "true") } else { response }
    }
}

impl Mutation<'_> {
    async fn run(&self) -> Result<Done, Problem> {
        let db = self.call.db()?;
        let at = clock::now();
        let values: Vec<String> = self.ops.iter().map(|op| value_of(&op.action)).collect();
        let statements: Vec<NodeOp<'_>> = self
            .ops
            .iter()
            .zip(&values)
            .enumerate()
            .map(|(index, (op, value))| self.node_op(index, op, value, at))
            .collect();
        match db.keyed(self.op_key.is_some()).mutate(self.workspace.as_str(), &statements).await {
            Ok(committed) => self.committed(&db, &committed, at),
            // A retry does not find what the first request found: the precondition, which is
            // looked at before the key, fails because the request was carried out.
            Err(DbError::Duplicate | DbError::Precondition) => match self.replay().await? {
                Some(done) => Ok(done),
                None => Err(refusal::explain(&db, self.workspace, &self.ops).await),
            },
            Err(DbError::NoWorkspace) => Err(absent(&db, self.workspace).await),
            Err(DbError::TooLarge) => {
                Err(Problem::because(ProblemCode::PayloadTooLarge, "The patched value would be over 1.9 MB."))
            }
            Err(error) => Err(storage(&error)),
        }
    }

    fn node_op<'b>(&'b self, index: usize, op: &'b Op, value: &'b str, at: u64) -> NodeOp<'b> {
        let guards = Guard::of(op.precondition).into_iter().collect();
        let write = match op.action {
            OpAction::Delete => Write::Delete,
            OpAction::Patch(_) => Write::Patch(value),
            OpAction::Put(_) => Write::Put(value),
        };
        // The key stands in the first row; the rows of a batch follow one another.
        let op_key = self.op_key.as_deref().filter(|_| index == 0).map(|key| (key, self.hash.as_str()));
        let entry = Entry {
            workspace: self.workspace.as_str(),
            kind: op.kind(),
            path: op.path.as_str(),
            actor: &self.actor.sub,
            at,
            op: op_key,
            vector: None,
        };
        NodeOp::new(entry, guards, write)
    }

    fn committed(&self, db: &Db, committed: &Committed, at: u64) -> Result<Done, Problem> {
        let first = committed.appended.first().ok_or_else(|| Problem::new(ProblemCode::Internal))?;
        let changes = self
            .ops
            .iter()
            .zip(&committed.appended)
            .map(|(op, appended)| Change {
                clock: appended.clock,
                kind: op.kind(),
                path: op.path.as_str().to_owned(),
                actor: self.actor.sub.clone(),
                at,
            })
            .collect();
        notify(self.call.env, self.call.context, db, self.workspace.as_str(), committed.live_until, changes);
        Ok(Done { first: first.clock, created: first.created, replayed: false })
    }

    /// What the key did when it was first used, if it was.
    async fn replay(&self) -> Result<Option<Done>, Problem> {
        let key = self.op_key.as_deref();
        let replay = replay(self.call, self.workspace, key, &self.hash, self.ops.len() as u64).await?;
        Ok(replay.map(|replay| Done { first: replay.clock, created: replay.created, replayed: true }))
    }
}

/// Looks up the first answer to a key, of a request that makes `count` changes, and refuses another body
/// under it (I02). The room is told again: the first request may have been lost between its commit and its
/// notification, and whoever is connected would go without the change until the next one (R3).
pub async fn replay(
    call: &Call<'_>,
    workspace: &WorkspaceId,
    key: Option<&str>,
    hash: &str,
    count: u64,
) -> Result<Option<Replay>, Problem> {
    let Some(key) = key else { return Ok(None) };
    let db = call.db()?;
    match db.replay(workspace.as_str(), key, count).await.map_err(|error| storage(&error))? {
        Some(replay) if replay.op_hash != hash => Err(Problem::new(ProblemCode::IdempotencyKeyReused)),
        Some(mut replay) => {
            let changes = std::mem::take(&mut replay.changes);
            notify(call.env, call.context, &db, workspace.as_str(), replay.live_until, changes);
            Ok(Some(replay))
        }
        None => Ok(None),
    }
}

fn value_of(action: &OpAction) -> String {
    match action {
        OpAction::Delete => String::new(),
        OpAction::Patch(value) | OpAction::Put(value) => value.to_string(),
    }
}

fn resource(node: Node) -> resource::Node {
    let kind =
        if node.kind == "document" { resource::NodeKind::Document } else { resource::NodeKind::Record };
    let value = node.value.and_then(|text| serde_json::from_str(&text).ok());
    resource::Node { path: node.path, kind, clock: node.clock, value }
}
