//! Documents: `edge::documents`, and the part of `edge::edits` that replaces one.

use super::{Handler, Response};
use crate::bus::{Ask, Owner};
use crate::d1::WORKSPACE;
use crate::document::checkpoint;
use crate::edge::clock;
use crate::edge::compaction::{self, is_worthwhile};
use crate::edge::db::DbError;
use crate::edge::db::documents::{Append, AppendedUpdate};
use crate::protocol::change::ChangeKind;

impl Handler<'_> {
    pub(super) fn appending<'b>(
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
    pub(super) async fn append(&self, append: Append<'_>) -> Result<Response, DbError> {
        let saved = match compaction::append(&self.keyed(), &append).await {
            Ok(saved) => saved,
            Err(DbError::Duplicate | DbError::Precondition) => {
                let Some(first) = self.replay(1).await? else {
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
        self.told(&append, &saved);
        Ok(Response { epoch: Some(saved.epoch), missed: saved.missed, ..Response::ok(saved.clock) })
    }

    /// `edge::documents::read`.
    pub(super) async fn read(&self, path: &str, since: u64) -> Result<Response, DbError> {
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

    /// `edge::documents::announce`.
    pub(super) fn told(&self, append: &Append<'_>, saved: &AppendedUpdate) {
        let kind = match append.replaces && !saved.created {
            true => ChangeKind::Replace,
            false => ChangeKind::Update,
        };
        self.announce(vec![self.change(saved.clock, kind, append.path)], saved.live_until);
        if is_worthwhile(saved.parts) {
            self.compact_later(append.path);
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
