//! One workspace on the Deno relay.
//!
//! Events are calls. After each, `next` moves to the first action until it returns 0, and the
//! getters speak of that action: no object is made for it, and a frame that is forwarded as it came
//! crosses the border once.

use serde_json::Value;
use wasm_bindgen::prelude::*;

use super::config::read_config;
use super::{fault, integer};
use crate::protocol::change::Change;
use crate::room::{Action, Frame, Persisted, Refusal, Room as Core, SessionInfo, StoreError, Stored};

/// The room of a workspace.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Room {
    core: Core,
    action: Option<Action>,
    /// How many receivers of the action have been told.
    told: usize,
}

#[wasm_bindgen]
impl Room {
    /// An empty room. `config` is JSON with members of `RoomConfig`; the others have their defaults.
    ///
    /// # Errors
    /// For a member that there is not, or of another type.
    #[wasm_bindgen(constructor)]
    pub fn new(config: &str) -> Result<Room, JsError> {
        let config = read_config(config).map_err(|what| fault(&what))?;
        Ok(Self { core: Core::new(config), action: None, told: 0 })
    }

    /// Why a session is not let in, for people; undefined when it is.
    ///
    /// # Errors
    /// For a session that `Admission.accept` did not make.
    pub fn refuses(&self, session: &str) -> Result<Option<String>, JsError> {
        Ok(self.core.admits(&session_of(session)?).err().map(|refusal| {
            match refusal {
                Refusal::RoomFull => "The workspace has as many connections as it can have.",
                Refusal::TooManyConnections => "You have too many connections to this workspace; close some.",
            }
            .to_owned()
        }))
    }

    /// Lets a session in and numbers it.
    ///
    /// # Errors
    /// For a session that `Admission.accept` did not make.
    pub fn open(&mut self, session: &str, now: f64) -> Result<u32, JsError> {
        Ok(self.core.handle_open(session_of(session)?, integer(now)))
    }

    /// A binary frame. Moves to the first action, as `next` does: of most frames it is the only one.
    pub fn frame(&mut self, session: u32, bytes: &[u8], now: f64) -> u32 {
        self.core.handle_frame(session, bytes, integer(now));
        self.next()
    }

    /// A text frame.
    pub fn text(&mut self, session: u32, text: &str, now: f64) {
        self.core.handle_text(session, text, integer(now));
    }

    /// A connection is gone.
    pub fn close(&mut self, session: u32, now: f64) {
        self.core.handle_close(session, integer(now));
    }

    /// So many bytes wait for a connection to take them.
    pub fn queued(&mut self, session: u32, bytes: f64, now: f64) {
        self.core.handle_queued(session, integer(bytes), integer(now));
    }

    /// A change of the feed, as JSON. `false` when it is none.
    pub fn change(&mut self, change: &str, now: f64) -> bool {
        let value = serde_json::from_str::<Value>(change).ok();
        let Some(change) = value.as_ref().and_then(Change::from_json) else { return false };
        self.core.handle_change(&change, integer(now));
        true
    }

    /// The feed begins at this clock, or lost what came before it.
    pub fn reset(&mut self, head: f64, now: f64) {
        self.core.handle_reset(integer(head), integer(now));
    }

    /// A document was read. Without an epoch it does not exist.
    pub fn loaded(&mut self, document: &str, generation: f64, stored: StoredDocument, now: f64) {
        self.core.handle_loaded(document, integer(generation), Ok(stored.into()), integer(now));
    }

    /// A document could not be read.
    #[wasm_bindgen(js_name = loadFailed)]
    pub fn load_failed(&mut self, document: &str, generation: f64, error: &str, now: f64) {
        self.core.handle_loaded(document, integer(generation), Err(error_of(error)), integer(now));
    }

    /// What others appended to a document was read.
    pub fn pulled(&mut self, document: &str, generation: f64, stored: StoredDocument, now: f64) {
        self.core.handle_pulled(document, integer(generation), Ok(stored.into()), integer(now));
    }

    /// It could not be read.
    #[wasm_bindgen(js_name = pullFailed)]
    pub fn pull_failed(&mut self, document: &str, generation: f64, error: &str, now: f64) {
        self.core.handle_pulled(document, integer(generation), Err(error_of(error)), integer(now));
    }

    /// A flush is committed. `missed`: others appended something that the room does not have.
    pub fn persisted(&mut self, document: &str, flush: f64, clock: f64, epoch: f64, missed: bool, now: f64) {
        let persisted = Persisted { clock: integer(clock), epoch: integer(epoch), at: integer(now), missed };
        self.core.handle_persisted(document, integer(flush), Ok(persisted), integer(now));
    }

    /// A flush failed.
    #[wasm_bindgen(js_name = persistFailed)]
    pub fn persist_failed(&mut self, document: &str, flush: f64, error: &str, now: f64) {
        self.core.handle_persisted(document, integer(flush), Err(error_of(error)), integer(now));
    }

    /// What was due at `timeoutAt`.
    pub fn timeout(&mut self, now: f64) {
        self.core.handle_timeout(integer(now));
    }

    /// When to call `timeout`; infinity when nothing is due.
    #[wasm_bindgen(js_name = timeoutAt)]
    pub fn timeout_at(&self) -> f64 {
        self.core.poll_timeout().map_or(f64::INFINITY, |at| at as f64)
    }

    /// The spool takes what came in (D6): each is a `Keep`.
    pub fn spool(&mut self) {
        self.core.handle_spool();
    }

    /// Everything unsaved is due now.
    pub fn flush(&mut self, now: f64) {
        self.core.handle_flush(integer(now));
    }

    /// Sends everybody away, to come back here or elsewhere (1012).
    pub fn restart(&mut self, now: f64) {
        self.core.handle_restart(integer(now));
    }

    /// Connections.
    pub fn clients(&self) -> usize {
        self.core.clients()
    }

    /// Whether storage may lack something that the room was sent.
    #[wasm_bindgen(js_name = hasUnsaved)]
    pub fn has_unsaved(&self) -> bool {
        self.core.has_unsaved()
    }

    /// When the oldest of it came in.
    #[wasm_bindgen(js_name = unsavedSince)]
    pub fn unsaved_since(&self) -> Option<f64> {
        self.core.unsaved_since().map(|at| at as f64)
    }

    /// Whether nobody is connected and nothing is left to save.
    #[wasm_bindgen(js_name = isIdle)]
    pub fn is_idle(&self) -> bool {
        self.core.is_idle()
    }
}

/// The actions: `next`, then the getters that its number says.
#[wasm_bindgen]
impl Room {
    /// Moves to the next action and returns its number, see `relay-deno/action.ts`; 0 is none.
    #[allow(clippy::should_implement_trait, reason = "JavaScript calls it, with another meaning")]
    pub fn next(&mut self) -> u32 {
        self.told = 0;
        loop {
            self.action = self.core.poll_action();
            return match &self.action {
                None => 0,
                // A process has no hibernation to survive.
                Some(Action::Attach { .. }) => continue,
                Some(Action::SendBinary { frame: Frame::Input, .. }) => 1,
                Some(Action::SendBinary { frame: Frame::Bytes(_), .. }) => 2,
                Some(Action::SendText { .. }) => 3,
                Some(Action::Close { .. }) => 4,
                Some(Action::Load { .. }) => 5,
                Some(Action::Pull { .. }) => 6,
                Some(Action::Persist(_)) => 7,
                Some(Action::Lease { .. }) => {
                    // For this relay it says whether to follow the feed; there is nothing to write.
                    self.core.handle_lease_written(Ok(()), 0);
                    8
                }
                Some(Action::Keep(_)) => 9,
                Some(Action::Release { .. }) => 10,
                Some(Action::Spool) => 11,
            };
        }
    }

    /// The next receiver of a send, until it returns 0: no list is made for the few that there are.
    pub fn to(&mut self) -> u32 {
        let Some(Action::SendBinary { to, .. } | Action::SendText { to, .. }) = &self.action else {
            return 0;
        };
        let next = to.get(self.told).copied().unwrap_or(0);
        self.told += 1;
        next
    }

    /// The frame to send, or the update to save or keep.
    pub fn bytes(&self) -> Vec<u8> {
        match &self.action {
            Some(Action::SendBinary { frame: Frame::Bytes(bytes), .. }) => bytes.clone(),
            Some(Action::Persist(flush)) => flush.update.to_vec(),
            Some(Action::Keep(kept)) => kept.update.to_vec(),
            _ => Vec::new(),
        }
    }

    /// The text to send, the reason of a close, or the document's path.
    pub fn message(&self) -> String {
        match &self.action {
            Some(Action::SendText { text, .. }) => text.clone(),
            Some(Action::Close { reason, .. }) => (*reason).to_owned(),
            Some(
                Action::Load { document, .. }
                | Action::Pull { document, .. }
                | Action::Release { document, .. },
            ) => document.clone(),
            Some(Action::Persist(flush)) => flush.document.clone(),
            Some(Action::Keep(kept)) => kept.document.clone(),
            _ => String::new(),
        }
    }

    /// The connection to close.
    pub fn session(&self) -> u32 {
        if let Some(Action::Close { session, .. }) = &self.action { *session } else { 0 }
    }

    /// Its close code.
    pub fn code(&self) -> u16 {
        if let Some(Action::Close { code, .. }) = &self.action { code.number() } else { 0 }
    }

    /// The author of an update to save or keep.
    pub fn actor(&self) -> String {
        match &self.action {
            Some(Action::Persist(flush)) => flush.actor.clone(),
            Some(Action::Keep(kept)) => kept.actor.clone(),
            _ => String::new(),
        }
    }

    /// The epoch of an update to save or keep, once it is known.
    pub fn epoch(&self) -> Option<f64> {
        match &self.action {
            Some(Action::Persist(flush)) => flush.epoch,
            Some(Action::Keep(kept)) => kept.epoch,
            _ => None,
        }
        .map(|epoch| epoch as f64)
    }

    /// The number of the action's own: the generation of a read, the number of a flush or of a kept
    /// update, the last number to release, the end of a lease.
    pub fn number(&self) -> f64 {
        let number = match &self.action {
            Some(Action::Load { generation, .. } | Action::Pull { generation, .. }) => *generation,
            Some(Action::Persist(flush)) => flush.flush,
            Some(Action::Keep(kept)) => kept.number,
            Some(Action::Release { through, .. }) => *through,
            Some(Action::Lease { until, .. }) => *until,
            _ => 0,
        };
        number as f64
    }

    /// The clock that the room has, of a pull or a flush.
    pub fn after(&self) -> f64 {
        let after = match &self.action {
            Some(Action::Pull { after, .. }) => *after,
            Some(Action::Persist(flush)) => flush.after,
            _ => 0,
        };
        after as f64
    }
}

/// What storage has of a document.
#[wasm_bindgen]
#[derive(Debug)]
pub struct StoredDocument {
    stored: Stored,
}

#[wasm_bindgen]
impl StoredDocument {
    /// A document at a clock; without an epoch it does not exist.
    #[wasm_bindgen(constructor)]
    pub fn new(clock: f64, epoch: Option<f64>, update: Vec<u8>) -> Self {
        let updates = if update.is_empty() { Vec::new() } else { vec![update] };
        Self { stored: Stored { updates, clock: integer(clock), epoch: epoch.map(integer) } }
    }
}

impl From<StoredDocument> for Stored {
    fn from(document: StoredDocument) -> Self {
        document.stored
    }
}

fn session_of(session: &str) -> Result<SessionInfo, JsError> {
    let value = serde_json::from_str::<Value>(session).ok();
    value.as_ref().and_then(SessionInfo::from_json).ok_or_else(|| fault("this is no session"))
}

/// What is no error of ours counts as unavailable: it is tried again.
fn error_of(name: &str) -> StoreError {
    match name {
        "deleted" => StoreError::Deleted,
        "epoch_changed" => StoreError::EpochChanged,
        "too_large" => StoreError::TooLarge,
        _ => StoreError::Unavailable,
    }
}
