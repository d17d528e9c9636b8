//! `…/p2p/signal`: what peers need to tell each other to connect directly, with no WebSocket.

use worker::Request;

use super::call::Call;
use super::clock;
use super::db::signals::Sent;
use super::respond::{self, Answer, body, header, storage};
use super::workspaces::absent;
use crate::api::limits::{MAX_SIGNAL_BYTES, SIGNAL_MS};
use crate::api::media::{JSON_TYPES, require_media};
use crate::api::path::WorkspaceId;
use crate::api::problem::{Problem, ProblemCode};
use crate::api::resource::{SignalAnswer, SignalList};
use crate::api::role::Role;
use crate::api::signal::{parse_inbox, parse_signal};

/// `POST …/p2p/signal`
pub async fn send(call: &Call<'_>, request: &mut Request, workspace: &WorkspaceId) -> Answer {
    let actor = call.authorize(workspace, Role::Viewer)?;
    require_media(header(request, "Content-Type").as_deref(), &JSON_TYPES)?;
    let signal = parse_signal(&body(request, MAX_SIGNAL_BYTES).await?)?;
    let db = call.db()?;
    let sent = db.send_signal(workspace.as_str(), &actor.sub, &signal, clock::now()).await;
    match sent.map_err(|error| storage(&error))? {
        Some(Sent::Stored { id, expires_at }) => respond::json(201, &SignalAnswer { id, expires_at }),
        Some(Sent::Full) => {
            let detail =
                "As many signals wait for this peer, or in this workspace, as can; they live for a minute.";
            Err(Problem::because(ProblemCode::RateLimited, detail).retry_after((SIGNAL_MS / 1000) as u32))
        }
        None => Err(absent(&db, workspace).await),
    }
}

/// `GET …/p2p/signal?peer=&topic=&after=`
pub async fn list(call: &Call<'_>, workspace: &WorkspaceId) -> Answer {
    call.authorize(workspace, Role::Viewer)?;
    let inbox = parse_inbox(&call.query)?;
    let db = call.db()?;
    let found = db.signals(workspace.as_str(), inbox, clock::now()).await;
    match found.map_err(|error| storage(&error))? {
        Some(signals) => respond::json(200, &SignalList { signals }),
        None => Err(absent(&db, workspace).await),
    }
}
