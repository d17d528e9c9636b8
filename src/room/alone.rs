//! A document whose storage cannot be read, on a relay that works without it (D4).
//!
//! Nobody is told that the document is complete (W2): step 2 waits for storage. What the room has
//! is sent as an update, and the room's own step 1 asks each joiner for what it has; both make the
//! people who are here converge, and the pending tail holds what they brought until storage is back.

use crate::document::checkpoint;
use crate::protocol::close::CloseCode;
use crate::protocol::{Timestamp, message};

use super::session::SessionId;
use super::view::View;
use super::{Frame, Room};

/// Where a document stands between a slow read and the next try.
#[derive(Debug, Default)]
pub(super) struct Alone {
    /// Joiners are served without storage.
    serving: bool,
    /// When that begins, while a read takes its time.
    begins: Option<Timestamp>,
    /// When storage is read again.
    again: Option<Timestamp>,
    failures: u32,
    /// The epoch that the people here say their copies have. What they write is saved for that one
    /// or not at all (W11).
    pub(super) epoch: Option<u64>,
}

impl Alone {
    pub(super) const fn is_serving(&self) -> bool {
        self.serving
    }

    /// Whether storage is going to be read by itself.
    pub(super) const fn reads_again(&self) -> bool {
        self.again.is_some()
    }

    pub(super) fn timeout(&self) -> Option<Timestamp> {
        self.begins.into_iter().chain(self.again).min()
    }

    /// A read has begun.
    pub(super) fn on_read(&mut self, now: Timestamp, patience: Option<u64>) {
        self.again = None;
        if !self.serving {
            self.begins = patience.map(|patience| now + patience);
        }
    }

    /// Storage answered: the document is whole again.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// Storage is there after all, as a flush shows: read at once.
    pub(super) fn hurry(&mut self, now: Timestamp) {
        if self.again.is_some() {
            self.again = Some(now);
        }
    }
}

impl Room {
    /// A read failed in a way that may pass. `false` on a relay that does not work without storage.
    pub(super) fn go_on_alone(&mut self, path: &str, now: Timestamp) -> bool {
        if self.config.alone_after.is_none() {
            return false;
        }
        let Some(document) = self.documents.get_mut(path) else { return false };
        let delay = self.config.backoff(document.alone.failures);
        document.view = View::Absent;
        document.alone.failures += 1;
        document.alone.again = Some(now + delay);
        self.serve_alone(path);
        true
    }

    /// Begins to serve whoever waits, when the time has come, and reads storage again.
    pub(super) fn work_alone(&mut self, path: &str, now: Timestamp) {
        let Some(document) = self.documents.get_mut(path) else { return };
        if document.alone.begins.is_some_and(|at| at <= now) {
            self.serve_alone(path);
        }
        let Some(document) = self.documents.get_mut(path) else { return };
        if document.alone.again.is_some_and(|at| at <= now) {
            document.alone.again = None;
            // Nobody waits: the next joiner makes the room look.
            if !document.joining.is_empty() {
                self.load(path, now);
            }
        }
    }

    fn serve_alone(&mut self, path: &str) {
        let Some(document) = self.documents.get_mut(path) else { return };
        document.alone.begins = None;
        if std::mem::replace(&mut document.alone.serving, true) {
            return;
        }
        let waiting: Vec<SessionId> = document.joining.iter().map(|(id, _)| *id).collect();
        for session in waiting {
            self.answer_alone(path, session);
        }
    }

    /// Sends a joiner what the room has and asks for what it lacks.
    pub(super) fn answer_alone(&mut self, path: &str, session: SessionId) {
        let Some(document) = self.documents.get_mut(path) else { return };
        document.tail.compact();
        let parts: Vec<&[u8]> = document.tail.updates().collect();
        // Updates that cannot be merged go one by one; each is good by itself.
        let (updates, vector) = match checkpoint::merge(&parts) {
            Ok(whole) => {
                let vector = checkpoint::state_vector(&whole).unwrap_or_else(|_| NOTHING.to_vec());
                (if parts.is_empty() { Vec::new() } else { vec![whole] }, vector)
            }
            Err(_) => (parts.iter().map(|part| part.to_vec()).collect(), NOTHING.to_vec()),
        };
        for update in &updates {
            self.send_binary(vec![session], Frame::Bytes(message::update(update)));
        }
        self.send_binary(vec![session], Frame::Bytes(message::sync_step_1(&vector)));
    }

    /// Notes the epoch that somebody says their copy has. `false` when others here have another. The
    /// first one counts, and sends away who waits here with another one and would be sent what it voids.
    pub(super) fn assume_epoch(&mut self, id: SessionId, now: Timestamp) -> bool {
        let Some(session) = self.sessions.get(&id) else { return false };
        let Some(stated) = session.info.epoch else { return true };
        let Some(document) = self.documents.get_mut(&session.info.document) else { return false };
        if !document.alone.serving || document.epoch.is_some() {
            return true;
        }
        if let Some(assumed) = document.alone.epoch {
            return assumed == stated;
        }
        document.alone.epoch = Some(stated);
        for member in document.members.clone() {
            let other = self.sessions.get(&member).and_then(|session| session.info.epoch);
            if other.is_some_and(|other| other != stated) {
                self.close(member, CloseCode::TryLater, OTHER_EPOCH, now);
            }
        }
        true
    }
}

/// Why somebody is sent away from a document whose stored epoch cannot be read.
pub(super) const OTHER_EPOCH: &str = "others here have another epoch; try again";

/// The state vector of who has nothing.
const NOTHING: &[u8] = &[0];
