//! The Worker's HTTP handlers, as far as a world needs them: a model of `edge::{nodes, documents,
//! edits, notify}` around the real statements. Order of checks, retries and replays are theirs.

use std::rc::Rc;

use crate::api::precondition::Precondition;
use crate::bus::{Ask, Bus, Owner};
use crate::d1::WORKSPACE;
use crate::document::checkpoint;
use crate::edge::clock;
use crate::edge::compaction::{self, is_worthwhile};
use crate::edge::db::documents::Append;
use crate::edge::db::log::{Entry, Guard, Replay};
use crate::edge::db::nodes::{NodeOp, Write};
use crate::edge::db::{Db, DbError};
use crate::protocol::change::{Change, ChangeKind};

/// A request, as far as handlers look at it.
#[derive(Debug, Clone)]
pub struct Request {
    /// Who asks.
    pub actor: String,
    /// Its idempotency key.
    pub key: Option<String>,
    /// What it asks.
    pub call: Call,
}

/// What can be asked.
#[derive(Debug, Clone)]
pub enum Call {
    /// `POST …/docs/<path>/updates`
    Append { path: String, update: Vec<u8>, epoch: Option<u64>, since: Option<u64> },
    /// `DELETE …/nodes/<path>`
    Delete { path: String },
    /// `PUT …/nodes/<path>`
    Put { path: String, value: String, precondition: Precondition },
    /// `GET …/docs/<path>`, as an update
    Read { path: String, since: Option<u64> },
    /// `GET …/nodes/<path>`
    ReadNode { path: String },
    /// `PUT …/docs/<path>`
    Replace { path: String, update: Vec<u8> },
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The problem's code.
    pub code: &'static str,
    /// The `ETag`.
    pub clock: u64,
    /// `Yrelay-Epoch`.
    pub epoch: Option<u64>,
    /// The body of a read.
    pub update: Vec<u8>,
    /// The body of a node.
    pub value: String,
    /// `missed` in the answer to an update.
    pub missed: bool,
}

impl Response {
    fn ok(clock: u64) -> Self {
        Self { status: 200, clock, ..Self::problem(200, "") }
    }

    fn problem(status: u16, code: &'static str) -> Self {
        Self { status, code, clock: 0, epoch: None, update: Vec::new(), value: String::new(), missed: false }
    }
}

/// Answers a request.
pub async fn answer(bus: Rc<Bus>, request: Request) -> Response {
    let db = Db::new(Rc::clone(&bus));
    let Request { actor, key, call } = request;
    let call = Handler { bus: &bus, db: &db, actor: &actor, key, hash: body_hash(&call) }.run(&call).await;
    call.unwrap_or_else(|error| match error {
        DbError::NoWorkspace => Response::problem(404, "workspace_not_found"),
        DbError::TooLarge => Response::problem(413, "payload_too_large"),
        DbError::Permanent(_) => Response::problem(500, "internal"),
        _ => Response::problem(503, "storage_unavailable"),
    })
}

/// What `edge` hashes: the body alone. A relay that retries may know more by then, and says so in the
/// query.
fn body_hash(call: &Call) -> String {
    match call {
        Call::Append { update, .. } | Call::Replace { update, .. } => format!("{update:?}"),
        Call::Put { value, .. } => value.clone(),
        Call::Delete { .. } | Call::Read { .. } | Call::ReadNode { .. } => String::new(),
    }
}

struct Handler<'a> {
    bus: &'a Rc<Bus>,
    db: &'a Db,
    actor: &'a str,
    key: Option<String>,
    hash: String,
}

impl Handler<'_> {
    async fn run(&self, call: &Call) -> Result<Response, DbError> {
        match call {
            Call::Append { path, update, epoch, since } => {
                self.append(self.appending(path, update, *epoch, *since, false)).await
            }
            Call::Delete { path } => self.mutate(path, Write::Delete, Precondition::None).await,
            Call::Put { path, value, precondition } => {
                self.mutate(path, Write::Put(value), *precondition).await
            }
            Call::Read { path, since } => self.read(path, since.unwrap_or(0)).await,
            Call::ReadNode { path } => self.read_node(path).await,
            Call::Replace { path, update } => {
                self.append(self.appending(path, update, None, None, true)).await
            }
        }
    }

    fn op(&self) -> Option<(&str, &str)> {
        self.key.as_deref().map(|key| (key, self.hash.as_str()))
    }

    fn appending<'b>(
        &'b self,
        path: &'b str,
        update: &'b [u8],
        epoch: Option<u64>,
        after: Option<u64>,
        replaces: bool,
    ) -> Append<'b> {
        Append {
            workspace: WORKSPACE,
            path,
            update,
            epoch,
            actor: self.actor,
            at: clock::now(),
            op: self.op(),
            after,
            wants_lease: true,
            guard: None,
            replaces,
            vector: None,
        }
    }

    /// `edge::documents::append` and `edge::edits::replace_document`.
    async fn append(&self, append: Append<'_>) -> Result<Response, DbError> {
        let saved = match compaction::append(&self.keyed(), &append).await {
            Ok(saved) => saved,
            Err(DbError::Duplicate | DbError::Precondition) => {
                let Some(first) = self.replay().await? else {
                    return Ok(Response::problem(409, "epoch_changed"));
                };
                if first.op_hash != self.hash {
                    return Ok(Response::problem(422, "idempotency_key_reused"));
                }
                let epoch = if append.replaces { first.clock } else { first.epoch };
                return Ok(Response { epoch: Some(epoch), missed: true, ..Response::ok(first.clock) });
            }
            Err(error) => return Err(error),
        };
        let kind = match append.replaces && !saved.created {
            true => ChangeKind::Replace,
            false => ChangeKind::Update,
        };
        self.announce(vec![self.change(saved.clock, kind, append.path)], saved.live_until);
        if is_worthwhile(saved.parts) {
            self.compact_later(append.path);
        }
        Ok(Response { epoch: Some(saved.epoch), missed: saved.missed, ..Response::ok(saved.clock) })
    }

    /// `edge::nodes::write`.
    async fn mutate(
        &self,
        path: &str,
        write: Write<'_>,
        precondition: Precondition,
    ) -> Result<Response, DbError> {
        let (kind, at) = (ChangeKind::Put, clock::now());
        let entry =
            Entry { workspace: WORKSPACE, kind, path, actor: self.actor, at, op: self.op(), vector: None };
        let op = NodeOp::new(entry, Guard::of(precondition).into_iter().collect(), write);
        let kind = op.entry.kind;
        match self.keyed().mutate(WORKSPACE, std::slice::from_ref(&op)).await {
            Ok(committed) => {
                let clock = committed.appended.first().map_or(0, |appended| appended.clock);
                self.announce(vec![self.change(clock, kind, path)], committed.live_until);
                Ok(Response::ok(clock))
            }
            Err(DbError::Duplicate | DbError::Precondition) => match self.replay().await? {
                Some(first) if first.op_hash == self.hash => Ok(Response::ok(first.clock)),
                Some(_) => Ok(Response::problem(422, "idempotency_key_reused")),
                None => Ok(Response::problem(412, "precondition_failed")),
            },
            Err(error) => Err(error),
        }
    }

    /// `edge::documents::read`.
    async fn read(&self, path: &str, since: u64) -> Result<Response, DbError> {
        let Some(stored) = self.db.document(WORKSPACE, path, since).await? else {
            return Err(DbError::NoWorkspace);
        };
        if stored.epoch.is_none() {
            return Ok(Response::problem(404, "node_not_found"));
        }
        let parts: Vec<&[u8]> = stored.updates.iter().map(Vec::as_slice).collect();
        let Ok(update) = checkpoint::merge(&parts) else { return Ok(Response::problem(500, "internal")) };
        Ok(Response { epoch: stored.epoch, update, ..Response::ok(stored.clock) })
    }

    async fn read_node(&self, path: &str) -> Result<Response, DbError> {
        match self.db.node(WORKSPACE, path).await? {
            Some(Some(node)) => {
                Ok(Response { value: node.value.unwrap_or_default(), ..Response::ok(node.clock) })
            }
            Some(None) => Ok(Response::problem(404, "node_not_found")),
            None => Err(DbError::NoWorkspace),
        }
    }

    /// `edge::nodes::replay`: the room is told again.
    async fn replay(&self) -> Result<Option<Replay>, DbError> {
        let Some(key) = &self.key else { return Ok(None) };
        let found = self.db.replay(WORKSPACE, key, 1).await?;
        if let Some(first) = found.as_ref().filter(|first| first.op_hash == self.hash) {
            self.announce(first.changes.clone(), first.live_until);
        }
        Ok(found)
    }

    fn keyed(&self) -> Db {
        self.db.keyed(self.key.is_some())
    }

    fn change(&self, clock: u64, kind: ChangeKind, path: &str) -> Change {
        Change { clock, kind, path: path.to_owned(), actor: self.actor.to_owned(), at: clock::now() }
    }

    /// `edge::notify::notify`.
    fn announce(&self, changes: Vec<Change>, live_until: u64) {
        if live_until > clock::now() {
            for change in changes {
                self.bus.say(Ask::Tell(change, live_until));
            }
        }
    }

    fn compact_later(&self, path: &str) {
        let (db, path) = (self.db.clone(), path.to_owned());
        let work = async move {
            // Stale, or a failure that the next one cures.
            let _ = compaction::run(&db, WORKSPACE, &path).await;
        };
        self.bus.say(Ask::Spawn(Owner::Worker, Box::pin(work)));
    }
}
