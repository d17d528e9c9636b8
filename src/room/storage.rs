//! Loads, pulls and flushes: what the room asks of D1, and what it does with the answers (D1-D3).

use crate::document::checkpoint;
use crate::protocol::change::{Change, ChangeKind};
use crate::protocol::close::CloseCode;
use crate::protocol::{Timestamp, control, message};

use super::action::{Keep, Persist};
use super::document::{Document, Pull};
use super::session::SessionId;
use super::view::{Since, View};
use super::{Action, Frame, Room};

/// What storage has of a document. A document that does not exist has no updates and clock 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored {
    /// Stored updates: all of them for a load, those past the asked clock for a pull.
    pub updates: Vec<Vec<u8>>,
    /// Newest clock of the document.
    pub clock: u64,
    /// Its epoch; `None` for a document that does not exist.
    pub epoch: Option<u64>,
}

/// A flush that is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Persisted {
    /// Clock of its change.
    pub clock: u64,
    /// The document's epoch.
    pub epoch: u64,
    /// When it was committed.
    pub at: Timestamp,
    /// Whether others appended something between the clock that the room knew and this one. The room
    /// pulls it then.
    pub missed: bool,
}

/// Why storage did not do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// The workspace or the document is gone.
    Deleted,
    /// The document has another epoch (W11).
    EpochChanged,
    /// The document is over its limit.
    TooLarge,
    /// Storage failed or did not answer; trying again may help.
    Unavailable,
}

impl Room {
    /// The answer to [`Action::Load`].
    pub fn handle_loaded(
        &mut self,
        path: &str,
        generation: u64,
        result: Result<Stored, StoreError>,
        now: Timestamp,
    ) {
        self.expire(now);
        if let Some(document) =
            self.documents.get_mut(path).filter(|document| document.generation == generation)
        {
            match result {
                // It began before the content was replaced, which the room knows by now: mixed with
                // what came since, it would be a document that nobody ever had (W11).
                Ok(stored) if document.is_overtaken(stored.clock, stored.epoch) => self.load(path, now),
                Ok(stored) => {
                    // Members that are not joining have seen the document up to `clock` only, so
                    // what is newer has to be fetched for them.
                    let joining = |member: &SessionId| document.joining.iter().any(|(id, _)| id == member);
                    if document.members.iter().all(joining) {
                        document.clock = document.clock.max(stored.clock);
                    }
                    document.announced = document.announced.max(stored.clock);
                    document.learn_stored(stored.clock);
                    let known = document.learn_epoch(stored.clock, stored.epoch);
                    let epoch = document.epoch;
                    self.attach_epoch(path, known);
                    let Some(document) = self.documents.get_mut(path) else { return };
                    if document.view.load(&stored.updates, document.tail.updates()).is_ok() {
                        document.alone.end();
                        self.check_epochs(path, known, epoch, now);
                        self.answer_joining(path, now);
                    } else {
                        self.fail_joining(path, StoreError::Unavailable, now);
                    }
                }
                Err(error) => self.fail_joining(path, error, now),
            }
        }
        self.work(now);
    }

    /// The answer to [`Action::Pull`].
    pub fn handle_pulled(
        &mut self,
        path: &str,
        generation: u64,
        result: Result<Stored, StoreError>,
        now: Timestamp,
    ) {
        self.expire(now);
        if let Some(document) =
            self.documents.get_mut(path).filter(|document| document.generation == generation)
        {
            let failures = match document.pull {
                Pull::Running(_, failures) | Pull::Wanted(_, failures) => failures,
                Pull::Idle => 0,
            };
            match result.and_then(|stored| document.judge(stored)) {
                Ok(stored) => {
                    document.pull = Pull::Idle;
                    let known = document.learn_epoch(stored.clock, stored.epoch);
                    document.learn_stored(stored.clock);
                    // Also when it is behind what was announced: a clock that the document no longer
                    // has must not be asked for again and again.
                    document.clock = document.clock.max(stored.clock).max(document.asked);
                    let epoch = document.epoch;
                    self.attach_epoch(path, known);
                    self.check_epochs(path, known, epoch, now);
                    self.deliver(path, &stored.updates, now);
                    self.answer_settled(path, true);
                }
                Err(error) if final_close(error).is_some() => {
                    document.pull = Pull::Idle;
                    self.discard(path);
                    if let Some((code, reason)) = final_close(error) {
                        self.close_members(path, code, reason, now);
                    }
                }
                Err(_) => {
                    let delay = self.config.backoff(failures);
                    document.pull = Pull::Wanted(now + delay, failures + 1);
                    self.answer_settled(path, false);
                }
            }
        }
        self.work(now);
    }

    /// The answer to [`Action::Persist`].
    pub fn handle_persisted(
        &mut self,
        path: &str,
        flush: u64,
        result: Result<Persisted, StoreError>,
        now: Timestamp,
    ) {
        self.expire(now);
        match result {
            Ok(persisted) => self.on_persisted(path, flush, &persisted, now),
            Err(error) => self.on_persist_failed(path, flush, error, now),
        }
        self.work(now);
    }

    fn on_persisted(&mut self, path: &str, flush: u64, persisted: &Persisted, now: Timestamp) {
        let Some(document) = self.documents.get_mut(path) else { return };
        document.announced = document.announced.max(persisted.clock);
        document.learn_stored(persisted.clock);
        let clock = document.stored;
        if !persisted.missed {
            document.clock = document.clock.max(persisted.clock);
        }
        // An answer that a newer epoch overtook says nothing of it.
        let known = document.epoch;
        let is_over = known > Some(persisted.epoch);
        document.epoch = document.epoch.max(Some(persisted.epoch));
        let epoch = document.epoch;
        document.alone.hurry(now);
        let saved = document.tail.saved(flush);
        let through = document.tail.saved_through();
        for member in &document.members {
            if let Some(session) = self.sessions.get_mut(member) {
                session.mark_stale(now, &self.config);
            }
        }
        self.attach_epoch(path, known);
        if let Some((actor, receipts)) = saved {
            self.release(path, through);
            self.answer_flush(receipts, |wish| control::receipt(&wish.id, clock, persisted.epoch));
            if !self.config.follows_feed {
                let (clock, kind, path) = (persisted.clock, ChangeKind::Update, path.to_owned());
                self.announce(&Change { clock, kind, path, actor, at: persisted.at });
            }
            // It was saved into content that has been replaced since: those copies are void as well.
            if is_over {
                self.check_epochs(path, Some(persisted.epoch), epoch, now);
            }
        }
    }

    fn on_persist_failed(&mut self, path: &str, flush: u64, error: StoreError, now: Timestamp) {
        let Some(document) = self.documents.get_mut(path) else { return };
        let Some(wishes) = document.tail.failed(flush, now, &self.config) else { return };
        let reason = match error {
            StoreError::Deleted => "deleted",
            StoreError::EpochChanged => "epoch_changed",
            StoreError::TooLarge => "document_too_large",
            StoreError::Unavailable => "storage_unavailable",
        };
        self.answer_flush(wishes, |wish| control::flush_failed(&wish.id, reason));
        if let Some((code, reason)) = final_close(error) {
            self.discard(path);
            self.close_members(path, code, reason, now);
        }
    }

    /// Gives up what a document has pending: there is nothing to save it to.
    pub(super) fn discard(&mut self, path: &str) {
        let Some(document) = self.documents.get_mut(path) else { return };
        if !document.tail.is_empty() {
            document.tail.clear();
            let through = document.tail.saved_through();
            self.release(path, through);
        }
    }

    /// The spool takes what came in since it last did (D6). One row a document, however fast people type.
    pub fn handle_spool(&mut self) {
        self.spools = false;
        for (path, document) in self.documents.iter_mut() {
            let epoch = document.known_epoch();
            for (update, actor, number) in document.tail.take_unkept(&self.config) {
                let document = path.clone();
                self.actions.push_back(Action::Keep(Keep { document, epoch, update, actor, number }));
            }
        }
    }

    fn release(&mut self, path: &str, through: u64) {
        if self.config.spool {
            self.actions.push_back(Action::Release { document: path.to_owned(), through });
        }
    }

    /// Forwards what storage had and the members lack.
    fn deliver(&mut self, path: &str, updates: &[Vec<u8>], now: Timestamp) {
        let Some(document) = self.documents.get_mut(path) else { return };
        for update in updates {
            document.view.push(update.as_slice().into());
        }
        let members = document.members.clone();
        for update in updates {
            self.relayed(&members, now);
            self.send_binary(members.clone(), Frame::Bytes(message::update(update)));
        }
    }

    /// Asks for what others appended.
    fn pull(&mut self, path: &str, failures: u32, now: Timestamp) {
        if let Some(document) = self.documents.get_mut(path) {
            document.pull = Pull::Running(now + self.config.storage_timeout, failures);
            document.asked = document.announced.max(document.stored);
            document.checked = now;
            let after = document.has_through();
            let generation = document.generation;
            self.actions.push_back(Action::Pull { document: path.to_owned(), after, generation });
        }
    }

    /// Starts reading a document's checkpoint.
    pub(super) fn load(&mut self, path: &str, now: Timestamp) {
        if let Some(document) = self.documents.get_mut(path) {
            let mut since = Since::default();
            for update in document.tail.updates() {
                since.push(update.into());
            }
            document.checked = now;
            document.alone.on_read(now, self.config.alone_after);
            document.view = View::Loading { until: now + self.config.storage_timeout, since };
            let generation = document.generation;
            self.actions.push_back(Action::Load { document: path.to_owned(), generation });
        }
    }

    /// Answers every step 1 that waits, with step 2 and then our own step 1 (W2).
    pub(super) fn answer_joining(&mut self, path: &str, now: Timestamp) {
        let Some(document) = self.documents.get_mut(path) else { return };
        let joining = std::mem::take(&mut document.joining);
        if joining.is_empty() {
            return;
        }
        let mut frames = Vec::new();
        let mut failed = Vec::new();
        if let Some(Ok(whole)) = document.view.whole() {
            for (session, theirs) in joining {
                // Who has nothing gets everything: no need to look into it, or to copy it twice.
                let step_2 = if matches!(theirs.as_slice(), [] | [0]) {
                    Ok(message::sync_step_2(whole.update))
                } else {
                    checkpoint::diff(whole.update, &theirs).map(|lacking| message::sync_step_2(&lacking))
                };
                match step_2 {
                    Ok(step_2) => frames.push((session, step_2, message::sync_step_1(whole.vector))),
                    Err(_) => failed.push(session),
                }
            }
        } else {
            failed.extend(joining.into_iter().map(|(session, _)| session));
        }
        for (session, step_2, step_1) in frames {
            if let Some(joiner) = self.sessions.get_mut(&session) {
                joiner.largest = joiner.largest.max(step_2.len() as u64);
            }
            self.send_binary(vec![session], Frame::Bytes(step_2));
            self.send_binary(vec![session], Frame::Bytes(step_1));
        }
        for session in failed {
            self.close(session, CloseCode::TryLater, UNAVAILABLE, now);
        }
        self.trim_views(path);
    }

    /// A failed load closes, or people go on without storage (D4); it never serves an empty document in place of a stored one (W2).
    fn fail_joining(&mut self, path: &str, error: StoreError, now: Timestamp) {
        if error == StoreError::Unavailable && self.go_on_alone(path, now) {
            return;
        }
        let Some(document) = self.documents.get_mut(path) else { return };
        document.view = View::Absent;
        let joining = std::mem::take(&mut document.joining);
        let (code, reason) = final_close(error).unwrap_or((CloseCode::TryLater, UNAVAILABLE));
        for (session, _) in joining {
            self.close(session, code, reason, now);
        }
    }

    /// Keeps an epoch that was just learnt with the connections: a room that wakes up without it would
    /// merge what they write into any content (W11).
    fn attach_epoch(&mut self, path: &str, known: Option<u64>) {
        let Some(document) = self.documents.get(path) else { return };
        if document.epoch != known {
            for member in document.members.clone() {
                self.attach(member);
            }
        }
    }

    /// Closes members whose copy comes from another epoch (W11): those that stated one, or all of
    /// them when the document changed its epoch while the room had it.
    fn check_epochs(&mut self, path: &str, known: Option<u64>, epoch: Option<u64>, now: Timestamp) {
        let Some(document) = self.documents.get_mut(path) else { return };
        let replaced = known.is_some() && known != epoch;
        let members = document.members.clone();
        if replaced {
            self.discard(path);
        }
        for session in members {
            let stated = self.sessions.get(&session).and_then(|session| session.info.epoch);
            if replaced || (stated.is_some() && stated != epoch) {
                self.close(session, CloseCode::EpochChanged, EPOCH_CHANGED, now);
            }
        }
    }

    /// The content of a document began anew at a clock (W11). What the room has of it is void, unless it
    /// comes from that content or from nothing stored at all.
    pub(super) fn replace_document(&mut self, path: &str, clock: u64, now: Timestamp) {
        let Some(document) = self.documents.get_mut(path) else { return };
        document.announced = document.announced.max(clock);
        if let Some(known) = document.epoch.filter(|known| *known < clock) {
            document.epoch = Some(clock);
            document.view = View::Absent;
            self.check_epochs(path, Some(known), Some(clock), now);
        }
    }

    pub(super) fn close_members(
        &mut self,
        path: &str,
        code: CloseCode,
        reason: &'static str,
        now: Timestamp,
    ) {
        let members = self.documents.get(path).map(|document| document.members.clone()).unwrap_or_default();
        for session in members {
            self.close(session, code, reason, now);
        }
    }

    /// Starts what is due in every document, drops documents that nobody needs, and works out when
    /// something is due next.
    pub(super) fn work(&mut self, now: Timestamp) {
        self.pending_bytes = self.documents.values().map(|document| document.tail.bytes()).sum();
        let due: Vec<String> = self
            .documents
            .iter()
            .filter(|(_, document)| document.needs_work(now))
            .map(|(path, _)| path.clone())
            .collect();
        for path in due {
            self.work_on(&path, now);
        }
        // A flush costs a round trip to D1: what other documents have pending goes along.
        if self.actions.iter().any(|action| matches!(action, Action::Persist(_))) {
            let pending: Vec<String> = self
                .documents
                .iter()
                .filter(|(_, document)| !document.tail.is_empty())
                .map(|(path, _)| path.clone())
                .collect();
            for path in pending {
                self.flush(&path, true, now);
            }
        }
        let documents = self.documents.values().filter_map(Document::timeout);
        let stale = self.sessions.values().filter_map(|session| session.stale);
        let stale = stale.map(|since| since + self.config.flush_after);
        self.due = documents.chain(stale).chain(self.lease.timeout()).min();
    }

    /// Notes that something of this document or connection is due. Enough after a frame.
    pub(super) fn touch(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else { return };
        let document = self.documents.get(&session.info.document).and_then(Document::timeout);
        let stale = session.stale.map(|since| since + self.config.flush_after);
        self.due = [self.due, document, stale].into_iter().flatten().min();
    }

    pub(super) fn work_on(&mut self, path: &str, now: Timestamp) {
        let Some(document) = self.documents.get_mut(path) else { return };
        if document.is_unused() {
            self.documents.remove(path);
            return;
        }
        if let Some(flush) = document.tail.overdue(now) {
            self.on_persist_failed(path, flush, StoreError::Unavailable, now);
        }
        self.flush(path, false, now);
        self.work_alone(path, now);
        let Some(document) = self.documents.get_mut(path) else { return };
        match document.pull {
            Pull::Idle if document.lacks_something() => self.pull(path, 0, now),
            Pull::Wanted(at, failures) if at <= now => self.pull(path, failures, now),
            Pull::Running(deadline, failures) if deadline <= now => {
                document.pull = Pull::Wanted(now + self.config.retry_max, failures + 1);
            }
            Pull::Idle | Pull::Wanted(..) | Pull::Running(..) => {}
        }
        let Some(document) = self.documents.get_mut(path) else { return };
        let members = document.members.clone();
        for delivery in document.outbox.take_due(&members, now) {
            self.relayed(&delivery.to, now);
            self.send_binary(delivery.to, Frame::Bytes(delivery.frame));
        }
        let overdue = self
            .documents
            .get(path)
            .is_some_and(|document| matches!(document.view, View::Loading { until, .. } if until <= now));
        if overdue {
            self.fail_joining(path, StoreError::Unavailable, now);
        }
    }

    fn flush(&mut self, path: &str, early: bool, now: Timestamp) {
        let Some(document) = self.documents.get_mut(path) else { return };
        if let Some(flush) = document.tail.start(now, early, &self.config) {
            self.actions.push_back(Action::Persist(Persist {
                document: path.to_owned(),
                epoch: document.known_epoch(),
                update: flush.update,
                actor: flush.actor,
                flush: flush.flush,
                after: document.has_through(),
            }));
        }
    }

    /// Keeps the loaded checkpoints within their bound; the one just used goes last.
    fn trim_views(&mut self, keep: &str) {
        let mut held: usize = self.documents.values().map(|document| document.view.bytes()).sum();
        for (path, document) in self.documents.iter_mut() {
            if held <= self.config.max_cached_bytes {
                return;
            }
            if path != keep && document.view.is_loaded() {
                held -= document.view.bytes();
                document.view = View::Absent;
            }
        }
    }
}

/// The close for an error that trying again does not cure.
fn final_close(error: StoreError) -> Option<(CloseCode, &'static str)> {
    match error {
        StoreError::Deleted => Some((CloseCode::Deleted, "the document or its workspace was deleted")),
        StoreError::EpochChanged => Some((CloseCode::EpochChanged, EPOCH_CHANGED)),
        StoreError::TooLarge => Some((CloseCode::DocumentTooLarge, "the document is over 16 MiB")),
        StoreError::Unavailable => None,
    }
}

const UNAVAILABLE: &str = "the document cannot be read now; try again";
const EPOCH_CHANGED: &str = "the document was replaced; load it again";
