//! The Worker's HTTP handlers, as far as a world needs them: a model of `edge::{nodes, moves, documents,
//! edits, notify}` around the real statements. Order of checks, retries and replays are theirs.

mod documents;
mod edits;
mod nodes;

use std::rc::Rc;

use crate::api::op::Op;
use crate::api::precondition::Precondition;
use crate::bus::{Ask, Bus};
use crate::d1::WORKSPACE;
use crate::edge::clock;
use crate::edge::db::log::Replay;
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
    /// `DELETE /api/workspaces/:id`
    DeleteWorkspace,
    /// `POST …/docs/<path>/edits`
    Edit { path: String, body: String },
    /// `POST …/nodes/<path>/move`
    Move { from: String, to: String, precondition: Precondition },
    /// `PUT`, `PATCH` and `DELETE …/nodes/<path>` for one op, `POST …/ops` for several
    Ops(Vec<Op>),
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
    /// The clocks of a batch.
    pub clocks: Vec<u64>,
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
        Self {
            status,
            code,
            clock: 0,
            clocks: Vec::new(),
            epoch: None,
            update: Vec::new(),
            value: String::new(),
            missed: false,
        }
    }
}

/// Answers a request.
pub async fn answer(bus: Rc<Bus>, request: Request) -> Response {
    let db = Db::new(Rc::clone(&bus));
    let Request { actor, key, call } = request;
    let call = Handler { bus: &bus, db: &db, actor: &actor, key, hash: body_hash(&call) }.run(&call).await;
    let call = match call {
        Err(DbError::NoWorkspace) => absent(&db).await,
        call => call,
    };
    call.unwrap_or_else(|error| match error {
        DbError::TooLarge => Response::problem(413, "payload_too_large"),
        DbError::Permanent(_) => Response::problem(500, "internal"),
        _ => Response::problem(503, "storage_unavailable"),
    })
}

/// `edge::workspaces::absent`: deleted, or never made.
async fn absent(db: &Db) -> Result<Response, DbError> {
    Ok(match db.head(WORKSPACE).await? {
        Some(_) => Response::problem(410, "workspace_deleted"),
        None => Response::problem(404, "workspace_not_found"),
    })
}

/// What `edge` hashes: the body alone. A relay that retries may know more by then, and says so in the
/// query.
fn body_hash(call: &Call) -> String {
    match call {
        Call::Append { update, .. } | Call::Replace { update, .. } => format!("{update:?}"),
        Call::Edit { body, .. } => body.clone(),
        Call::Move { to, .. } => to.clone(),
        Call::Ops(ops) => ops.iter().map(|op| format!("{:?}", op.action)).collect(),
        Call::DeleteWorkspace | Call::Read { .. } | Call::ReadNode { .. } => String::new(),
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
            Call::DeleteWorkspace => self.delete_workspace().await,
            Call::Edit { path, body } => self.edit(path, body).await,
            Call::Move { from, to, precondition } => self.rename(from, to, *precondition).await,
            Call::Ops(ops) => self.mutate(ops).await,
            Call::Read { path, since } => self.read(path, since.unwrap_or(0)).await,
            Call::ReadNode { path } => self.read_node(path).await,
            Call::Replace { path, update } => {
                self.append(self.appending(path, update, None, None, true)).await
            }
        }
    }

    /// `edge::workspaces::delete`. The workspace is looked at before the key.
    async fn delete_workspace(&self) -> Result<Response, DbError> {
        match self.keyed().delete_workspace(WORKSPACE, self.actor, self.op(), clock::now()).await {
            Ok((clock, live_until)) => {
                self.announce(vec![self.change(clock, ChangeKind::DeleteWorkspace, "")], live_until);
                Ok(Response::ok(clock))
            }
            Err(DbError::NoWorkspace) => match self.replay(1).await? {
                Some(first) => Ok(Response::ok(first.clock)),
                None => Err(DbError::NoWorkspace),
            },
            Err(error) => Err(error),
        }
    }

    fn op(&self) -> Option<(&str, &str)> {
        self.key.as_deref().map(|key| (key, self.hash.as_str()))
    }

    /// `edge::nodes::replay`: the room is told again.
    async fn replay(&self, count: u64) -> Result<Option<Replay>, DbError> {
        let Some(key) = &self.key else { return Ok(None) };
        let found = self.db.replay(WORKSPACE, key, count).await?;
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
}
