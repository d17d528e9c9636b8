//! Telling a live room of a committed change (R3).

use worker::{Context, Env, console_error};

use super::config::room_stub;
use super::db::Db;
use super::{clock, room_calls};
use crate::protocol::change::Change;

/// Tells the room after the answer is on its way, if the room has listeners. A failure is logged
/// and changes nothing: the feed has the change (P5).
pub fn notify(env: &Env, context: &Context, db: &Db, workspace: &str, live_until: u64, changes: Vec<Change>) {
    if live_until <= clock::now() || changes.is_empty() {
        return;
    }
    let (env, db, workspace) = (env.clone(), db.clone(), workspace.to_owned());
    context.wait_until(async move {
        for _attempt in 0..ATTEMPTS {
            let Some(stub) = room_stub(&env, &workspace) else { return };
            match room_calls::tell(&stub, &changes).await {
                Ok(true) => return,
                // The lease outlived its sockets, as it does when a room dies without a close.
                Ok(false) => {
                    if let Err(error) = db.clear_lease(&workspace, live_until).await {
                        console_error!("workspace {workspace}: lease: {error:?}");
                    }
                    return;
                }
                Err(error) => console_error!("workspace {workspace}: notify: {error}"),
            }
        }
    });
}

/// A room that was just updated or overloaded fails once (O04); a stub does not survive that.
const ATTEMPTS: usize = 2;
