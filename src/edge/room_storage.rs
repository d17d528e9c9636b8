//! What a room asks of D1, and the answer back into the room.

use std::rc::Rc;

use super::clock;
use super::compaction::{self, is_worthwhile};
use super::db::documents::Append;
use super::db::{Db, DbError};
use super::room_object::Shell;
use crate::room::{Action, Persist, Persisted, StoreError, Stored};

/// Does one storage action. Every one of them answers, also when D1 does not.
pub async fn run(shell: Rc<Shell>, action: Action) {
    match action {
        Action::Lease { until } => {
            if let Some(db) = &shell.db
                && let Err(error) = db.set_lease(&shell.workspace, until).await
            {
                shell.log("lease", &error);
            }
        }
        Action::Load { document } => {
            let stored = read(&shell, &document, 0).await;
            shell.with(|core, now| core.handle_loaded(&document, stored, now));
        }
        Action::Pull { document, after } => {
            let stored = read(&shell, &document, after).await;
            shell.with(|core, now| core.handle_pulled(&document, stored, now));
        }
        Action::Persist(persist) => save(&shell, persist).await,
        Action::Attach { .. }
        | Action::Close { .. }
        | Action::SendBinary { .. }
        | Action::SendText { .. } => {}
    }
}

async fn read(shell: &Rc<Shell>, document: &str, after: u64) -> Result<Stored, StoreError> {
    let db = shell.db.as_ref().ok_or(StoreError::Unavailable)?;
    match db.document(&shell.workspace, document, after).await {
        Ok(stored) => stored.ok_or(StoreError::Deleted),
        Err(error) => {
            shell.log("load", &error);
            Err(StoreError::Unavailable)
        }
    }
}

async fn save(shell: &Rc<Shell>, persist: Persist) {
    let Persist { document, epoch, update, actor, flush, after } = persist;
    let at = clock::now();
    let Some(db) = shell.db.clone() else {
        return shell
            .with(|core, now| core.handle_persisted(&document, flush, Err(StoreError::Unavailable), now));
    };
    let append = Append {
        workspace: &shell.workspace,
        path: &document,
        update: &update,
        epoch,
        actor: &actor,
        at,
        op: None,
        after: Some(after),
    };
    match db.append_update(&append).await {
        Ok(saved) => {
            let parts = saved.parts;
            let persisted = Persisted { clock: saved.clock, epoch: saved.epoch, at, missed: saved.missed };
            shell.with(|core, now| core.handle_persisted(&document, flush, Ok(persisted), now));
            if is_worthwhile(parts) {
                compact(&db, shell, &document).await;
            }
        }
        Err(error) => {
            let reason = match error {
                DbError::NoWorkspace => StoreError::Deleted,
                DbError::Precondition => StoreError::EpochChanged,
                DbError::TooLarge => StoreError::TooLarge,
                DbError::Duplicate | DbError::Stale | DbError::Unavailable(_) => {
                    shell.log("flush", &error);
                    StoreError::Unavailable
                }
            };
            shell.with(|core, now| core.handle_persisted(&document, flush, Err(reason), now));
        }
    }
}

/// Compaction follows a flush directly, so that it keeps the object awake for no time of its own.
async fn compact(db: &Db, shell: &Rc<Shell>, document: &str) {
    match compaction::run(db, &shell.workspace, document).await {
        Ok(()) | Err(DbError::Stale) => {}
        Err(error) => shell.log("compaction", &error),
    }
}
