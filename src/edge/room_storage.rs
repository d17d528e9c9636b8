//! What a room asks of D1, and the answer back into the room.

use std::rc::Rc;

use super::clock;
use super::compaction::{self, is_worthwhile};
use super::db::documents::{Append, AppendedUpdate};
use super::db::{Db, DbError};
use super::room_object::Shell;
use crate::room::{Action, Persist, Persisted, StoreError, Stored};

/// Does one storage action. Every one of them answers, also when D1 does not.
pub async fn run(shell: Rc<Shell>, action: Action) {
    match action {
        Action::Lease { until, seen } => {
            let written = write_lease(&shell, until, seen).await;
            shell.with(|core, now| core.handle_lease_written(written, now));
        }
        Action::Load { document, generation } => {
            let stored = read(&shell, &document, 0).await;
            shell.with(|core, now| core.handle_loaded(&document, generation, stored, now));
        }
        Action::Pull { document, after, generation } => {
            let stored = read(&shell, &document, after).await;
            shell.with(|core, now| core.handle_pulled(&document, generation, stored, now));
        }
        Action::Persist(flush) => save_all(shell, vec![flush]).await,
        Action::Attach { .. }
        | Action::Close { .. }
        | Action::Keep(_)
        | Action::Release { .. }
        | Action::SendBinary { .. }
        | Action::SendText { .. }
        | Action::Spool => {}
    }
}

async fn write_lease(shell: &Rc<Shell>, until: u64, seen: u64) -> Result<(), StoreError> {
    // Without a database there is nobody to tell.
    let Some(db) = &shell.db else { return Ok(()) };
    let written = match until {
        0 => db.clear_lease(&shell.workspace, seen).await.map(|()| true),
        until => db.extend_lease(&shell.workspace, until).await,
    };
    match written {
        Ok(true) => Ok(()),
        Ok(false) => Err(StoreError::Deleted),
        Err(error) => {
            shell.log("lease", &error);
            Err(StoreError::Unavailable)
        }
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

/// Does the flushes that a room asked for together, in one transaction. One that cannot be stored
/// takes none of the others down: then each goes alone.
pub async fn save_all(shell: Rc<Shell>, flushes: Vec<Persist>) {
    let Some(db) = shell.db.clone() else {
        for flush in flushes {
            shell.with(|core, now| {
                core.handle_persisted(&flush.document, flush.flush, Err(StoreError::Unavailable), now)
            });
        }
        return;
    };
    let at = clock::now();
    let appends: Vec<Append<'_>> = flushes.iter().map(|flush| append_of(&shell, flush, at)).collect();
    match db.append_updates(&appends).await {
        Ok(saved) => {
            // All receipts first: a compaction takes its time.
            let parts: Vec<u64> = saved.iter().map(|saved| saved.parts).collect();
            for (flush, saved) in flushes.iter().zip(saved) {
                done(&shell, flush, saved, at);
            }
            for (flush, parts) in flushes.iter().zip(parts) {
                compact(&db, &shell, &flush.document, parts).await;
            }
        }
        Err(error) if fails_again(&error, flushes.len()) => {
            shell.log("flush", &error);
            for flush in &flushes {
                failed(&shell, flush, StoreError::Unavailable);
            }
        }
        Err(_) => {
            for flush in &flushes {
                save(&db, &shell, flush, at).await;
            }
        }
    }
}

/// Whether trying each flush alone is of no use: the batch may have been committed, and each would wait
/// once more; or it is alone already. The room tries again later: what it has is nowhere else.
const fn fails_again(error: &DbError, flushes: usize) -> bool {
    match error {
        DbError::Unavailable(_) => true,
        DbError::Permanent(_) => flushes == 1,
        _ => false,
    }
}

async fn save(db: &Db, shell: &Rc<Shell>, flush: &Persist, at: u64) {
    match compaction::append(db, &append_of(shell, flush, at)).await {
        Ok(saved) => {
            let parts = saved.parts;
            done(shell, flush, saved, at);
            compact(db, shell, &flush.document, parts).await;
        }
        Err(DbError::NoWorkspace) => failed(shell, flush, StoreError::Deleted),
        Err(DbError::Precondition) => failed(shell, flush, StoreError::EpochChanged),
        Err(DbError::TooLarge) => failed(shell, flush, StoreError::TooLarge),
        Err(error) => {
            shell.log("flush", &error);
            failed(shell, flush, StoreError::Unavailable);
        }
    }
}

fn append_of<'a>(shell: &'a Shell, flush: &'a Persist, at: u64) -> Append<'a> {
    Append {
        workspace: &shell.workspace,
        path: &flush.document,
        update: &flush.update,
        epoch: flush.epoch,
        actor: &flush.actor,
        at,
        op: None,
        after: Some(flush.after),
        wants_lease: false,
        guard: None,
        replaces: false,
        vector: None,
    }
}

fn done(shell: &Rc<Shell>, flush: &Persist, saved: AppendedUpdate, at: u64) {
    let persisted = Persisted { clock: saved.clock, epoch: saved.epoch, at, missed: saved.missed };
    shell.with(|core, now| core.handle_persisted(&flush.document, flush.flush, Ok(persisted), now));
}

fn failed(shell: &Rc<Shell>, flush: &Persist, error: StoreError) {
    shell.with(|core, now| core.handle_persisted(&flush.document, flush.flush, Err(error), now));
}

/// Compaction follows a flush directly, so that it keeps the object awake for no time of its own.
async fn compact(db: &Db, shell: &Rc<Shell>, document: &str, parts: u64) {
    if !is_worthwhile(parts) {
        return;
    }
    match compaction::run(db, &shell.workspace, document).await {
        Ok(()) | Err(DbError::Stale) => {}
        Err(error) => shell.log("compaction", &error),
    }
}
