//! The state machine of one workspace on one relay.
//!
//! A room owns its connections, the pending tail of each document in use, and nothing that D1,
//! the attachments or the clients cannot rebuild. It must not do I/O, read a clock, draw a random
//! number or decode a document to forward an update.
//!
//! # How to drive it
//!
//! - Events: `handle_open`, `handle_frame`, `handle_text`, `handle_close`, `handle_change`,
//!   `handle_loaded`, `handle_pulled`, `handle_persisted`, `handle_lease_written`,
//!   `handle_timeout`; of a relay that follows the feed also `handle_reset`, with a spool
//!   `handle_spool`; before a stop `handle_flush`, `handle_restart`. Each takes `now`, in milliseconds. None fails because of what
//!   a peer sent: it queues [`Action::Close`].
//! - Outputs: after every event call [`Room::poll_action`] until it returns `None`, do what each
//!   says in that order, then call [`Room::poll_timeout`] and arrange for `handle_timeout` then.
//! - Rebuild: [`Room::restore`] makes the room again from the attachments after hibernation.
//! - Getters: [`Room::clients`], [`Room::is_idle`].

mod action;
mod alone;
mod awareness;
mod config;
mod document;
mod frames;
mod lease;
mod outbox;
mod restore;
mod session;
mod signaling;
mod storage;
mod tail;
mod text;
mod view;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

pub use action::{Action, Frame, Keep, Persist};
pub use config::RoomConfig;
pub use session::{Attachment, SessionId, SessionInfo, SessionKind};
pub use storage::{Persisted, StoreError, Stored};

use crate::planted::{Bug, planted};
use crate::protocol::awareness::{self as wire, AwarenessEntry, GONE};
use crate::protocol::change::{Change, ChangeKind, is_within};
use crate::protocol::close::CloseCode;
use crate::protocol::sorted::SortedMap;
use crate::protocol::{Timestamp, control, message};
use document::Document;
use lease::Lease;
use session::Session;
use tail::{Tail, Waiting};
use view::View;

/// One workspace on one relay. See the module for how to drive it.
#[derive(Debug)]
pub struct Room {
    config: RoomConfig,
    sessions: SortedMap<SessionId, Session>,
    documents: SortedMap<String, Document>,
    actions: VecDeque<Action>,
    next_session: SessionId,
    /// No session ends before this time.
    next_expiry: Timestamp,
    lease: Lease,
    /// Bytes that wait to be saved, or more than that: `work` counts them, updates only add.
    pending_bytes: usize,
    /// Whether the shell has been asked to call `handle_spool`.
    spools: bool,
    /// Nothing is due before this time. A lower bound: frames only ever lower it, so that they need
    /// not look at every document, and `handle_timeout` works it out anew.
    due: Option<Timestamp>,
    generations: u64,
}

/// Why a connection is not let in. The upgrade is answered with 429.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The room is full.
    RoomFull,
    /// This person or program has too many connections in the room.
    TooManyConnections,
}

impl Room {
    /// An empty room.
    #[must_use]
    pub fn new(config: RoomConfig) -> Self {
        Self {
            config,
            sessions: SortedMap::default(),
            documents: SortedMap::default(),
            actions: VecDeque::new(),
            next_session: 1,
            next_expiry: Timestamp::MAX,
            lease: Lease::default(),
            pending_bytes: 0,
            spools: false,
            due: None,
            generations: 0,
        }
    }

    /// Whether a connection would be let in.
    pub fn admits(&self, info: &SessionInfo) -> Result<(), Refusal> {
        // Streams must not keep people out, nor the reverse.
        let alike = self.sessions.values().filter(|session| session.info.kind == info.kind).count();
        if alike >= self.config.max_sessions {
            return Err(Refusal::RoomFull);
        }
        let same = self.sessions.values().filter(|session| session.info.sub == info.sub).count();
        if same >= self.config.max_sessions_per_subject && info.kind == SessionKind::Client {
            return Err(Refusal::TooManyConnections);
        }
        Ok(())
    }

    /// Lets a connection in; the shell asks [`Room::admits`] before it upgrades.
    pub fn handle_open(&mut self, info: SessionInfo, now: Timestamp) -> SessionId {
        self.expire(now);
        let id = self.next_session;
        // 0 is nobody.
        self.next_session = self.next_session.checked_add(1).unwrap_or(1);
        self.next_expiry = self.next_expiry.min(info.expires_at);
        self.sessions.insert(id, Session::new(info));
        self.renew_lease(now);
        self.attach(id);
        id
    }

    /// A connection is gone, for whatever reason. Unknown ones are ignored.
    pub fn handle_close(&mut self, session: SessionId, now: Timestamp) {
        self.forget(session, now);
        self.expire(now);
    }

    /// A change that is committed in D1, told by the Worker or read from the feed (W7, D3).
    pub fn handle_change(&mut self, change: &Change, now: Timestamp) {
        self.expire(now);
        self.announce(change);
        match change.kind {
            ChangeKind::Update => {
                if let Some(document) = self.documents.get_mut(&change.path) {
                    document.announced = document.announced.max(change.clock);
                }
            }
            ChangeKind::Delete => self.delete_documents(&change.path, change.clock, now),
            ChangeKind::Move => {
                for (path, document) in self.documents.iter_mut() {
                    if is_within(path, &change.path) {
                        document.announced = document.announced.max(change.clock);
                    }
                }
            }
            ChangeKind::Replace => self.replace_document(&change.path, change.clock, now),
            ChangeKind::DeleteWorkspace => self.delete_workspace(now),
            ChangeKind::Patch | ChangeKind::Put => {}
        }
        self.work(now);
    }

    /// The feed cannot say what happened up to this clock: every document may have changed (F3, D3).
    pub fn handle_reset(&mut self, head: u64, now: Timestamp) {
        self.expire(now);
        for document in self.documents.values_mut() {
            document.announced = document.announced.max(head);
        }
        self.work(now);
    }

    /// The relay is about to stop: what is not saved is due now.
    pub fn handle_flush(&mut self, now: Timestamp) {
        for document in self.documents.values_mut() {
            document.tail.urge(now);
        }
        self.work(now);
    }

    /// The relay stops: everybody is to come back, here or elsewhere.
    pub fn handle_restart(&mut self, now: Timestamp) {
        let everybody: Vec<SessionId> = self.sessions.keys().copied().collect();
        for session in everybody {
            self.close(session, CloseCode::Restart, "the relay restarts; connect again", now);
        }
    }

    /// So many bytes are queued for a connection after a send. Past the bound it is closed: it does
    /// not keep up, and skipping a frame would break its copy (W9).
    pub fn handle_queued(&mut self, session: SessionId, bytes: u64, now: Timestamp) {
        let largest = self.sessions.get(&session).map_or(0, |session| session.largest);
        if bytes > self.config.max_queued_bytes + largest {
            if planted(Bug::UpdateDroppedOnSlowConsumer) {
                for document in self.documents.values_mut() {
                    document.members.retain(|member| *member != session);
                }
                return;
            }
            self.close(
                session,
                CloseCode::TryLater,
                "the connection does not keep up; reconnect to catch up",
                now,
            );
        }
    }

    /// Does what is due. Calling it early or twice does no harm.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.expire(now);
        let stale: Vec<SessionId> = self
            .sessions
            .iter()
            .filter(|(_, session)| {
                session.stale.is_some_and(|changed| changed + self.config.flush_after <= now)
            })
            .map(|(id, _)| *id)
            .collect();
        for session in stale {
            self.attach(session);
        }
        if self.lease.timeout().is_some_and(|at| at <= now) {
            self.renew_lease(now);
        }
        self.work(now);
    }

    /// The next thing for the shell to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to call `handle_timeout`; `None` lets a Durable Object hibernate (D1a).
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.due
    }

    /// Connections that are not bridges.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.sessions.values().filter(|session| session.is_client()).count()
    }

    /// Whether storage may lack something that the room was sent.
    #[must_use]
    pub fn has_unsaved(&self) -> bool {
        self.documents.values().any(|document| !document.tail.is_empty())
    }

    /// Whether somebody would wait for ever if the room's memory were lost now: for an update to be
    /// saved, for the answer to a step 1, for what another relay saved, or for writers to hear of the
    /// room.
    #[must_use]
    pub fn owes_something(&self) -> bool {
        self.lease.is_being_written() || self.documents.values().any(Document::owes_something)
    }

    /// When the oldest update came in that storage may lack.
    #[must_use]
    pub fn unsaved_since(&self) -> Option<Timestamp> {
        self.documents.values().filter_map(|document| document.tail.oldest()).min()
    }

    /// Whether nothing is connected and nothing is left to save.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.sessions.is_empty() && self.documents.is_empty()
    }

    // --- connections ---

    /// Closes connections whose token has ended. Lazy: an idle room is not woken for it (W6).
    fn expire(&mut self, now: Timestamp) {
        if now < self.next_expiry {
            return;
        }
        let ended: Vec<SessionId> = self
            .sessions
            .iter()
            .filter(|(_, session)| session.info.expires_at <= now)
            .map(|(id, _)| *id)
            .collect();
        for session in ended {
            self.close(session, CloseCode::TokenExpired, "the token expired; connect with a fresh one", now);
        }
        self.next_expiry =
            self.sessions.values().map(|session| session.info.expires_at).min().unwrap_or(Timestamp::MAX);
    }

    fn close(&mut self, session: SessionId, code: CloseCode, reason: &'static str, now: Timestamp) {
        if self.sessions.contains_key(&session) {
            self.actions.push_back(Action::Close { session, code, reason });
            self.forget(session, now);
        }
    }

    /// Forgets a connection: the others learn that its awareness is gone, and the last one out
    /// makes the room save.
    fn forget(&mut self, session: SessionId, now: Timestamp) {
        let Some(gone) = self.sessions.remove(&session) else { return };
        if let Some(document) = self.documents.get_mut(&gone.info.document) {
            document.members.retain(|member| *member != session);
            document.joining.retain(|(joining, _)| *joining != session);
            let removed = document.awareness.remove(session);
            document.outbox.forget(&removed);
            if document.members.is_empty() {
                document.tail.urge(now);
            }
            if !removed.is_empty() {
                let entries: Vec<AwarenessEntry<'_>> = removed
                    .iter()
                    .map(|(client, clock)| AwarenessEntry { client: *client, clock: *clock, state: GONE })
                    .collect();
                let to = document.members.clone();
                self.send_binary(to, Frame::Bytes(message::awareness(&wire::encode(&entries))));
            }
        }
        if gone.is_client() && self.clients() == 0 {
            // Streams go back to polling, so that an empty room costs nothing (F5).
            let bridges: Vec<SessionId> = self.sessions.keys().copied().collect();
            for bridge in bridges {
                self.close(bridge, CloseCode::Done, "nobody is here any more", now);
            }
            let write = self.lease.end();
            self.actions.extend(write);
        }
        self.work(now);
    }

    /// The document at a path, taken up if the room does not have it.
    fn take_up(&mut self, path: &str) -> Option<&mut Document> {
        if !self.documents.contains_key(path) {
            self.generations += 1;
            let generation = self.generations;
            let tail = Tail::numbered_from(generation << 32);
            self.documents.insert(path.to_owned(), Document { generation, tail, ..Document::default() });
        }
        self.documents.get_mut(path)
    }

    /// The lease is written, or not: then the next event tries again (R3). A workspace that turns out
    /// to be deleted was deleted while its first connection came in, and nobody told the room.
    pub fn handle_lease_written(&mut self, result: Result<(), StoreError>, now: Timestamp) {
        let write = self.lease.written(result.is_ok());
        self.actions.extend(write);
        match result {
            Ok(()) => self.look_again(now),
            Err(StoreError::Deleted) => self.delete_workspace(now),
            // No attachment may go on claiming it.
            Err(_) => {
                let everybody: Vec<SessionId> = self.sessions.keys().copied().collect();
                for session in everybody {
                    self.attach(session);
                }
                if self.clients() > 0 {
                    self.lease.retry(now, |failures| self.config.backoff(failures));
                }
                self.work(now);
            }
        }
    }

    /// What others saved between a read and the beginning of the lease, nobody told. A relay that
    /// follows the feed is told by it.
    fn look_again(&mut self, now: Timestamp) {
        if !self.lease.has_begun() || self.config.follows_feed {
            return;
        }
        for document in self.documents.values_mut() {
            document.want_look(now, self.config.flush_after);
        }
        self.work(now);
    }

    /// Extends the listener lease while somebody listens (R3).
    fn renew_lease(&mut self, now: Timestamp) {
        // Nearly always fresh: a frame must not cost a look at every connection.
        if self.lease.is_fresh(now, self.config.lease) {
            return;
        }
        if self.clients() > 0 {
            let write = self.lease.renew(now, self.config.lease);
            self.actions.extend(write);
        }
    }

    fn attach(&mut self, id: SessionId) {
        if !self.config.hibernates {
            return;
        }
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.stale = None;
        let document = self.documents.get(&session.info.document);
        let attachment = Attachment {
            id,
            info: session.info.clone(),
            binary: session.binary,
            text: session.text,
            changes: session.changes,
            owned: document.map(|document| document.awareness.owned_entries(id)).unwrap_or_default(),
            topics: session.topics.clone(),
            clock: document.map_or(0, |document| document.clock),
            epoch: document.and_then(|document| document.epoch),
            lease_until: self.lease.until(),
        };
        self.actions.push_back(Action::Attach { session: id, attachment: attachment.encode() });
    }

    // --- sending ---

    fn send_binary(&mut self, to: Vec<SessionId>, frame: Frame) {
        if !to.is_empty() {
            self.actions.push_back(Action::SendBinary { to, frame });
        }
    }

    fn send_text(&mut self, to: Vec<SessionId>, text: String) {
        if !to.is_empty() {
            self.actions.push_back(Action::SendText { to, text });
        }
    }

    /// Notes who hears of others: it needs no echo of its own awareness (W5).
    fn relayed(&mut self, to: &[SessionId], now: Timestamp) {
        for id in to {
            if let Some(session) = self.sessions.get_mut(id) {
                session.last_relayed = now;
            }
        }
    }

    /// Tells a change to everybody who asked for changes.
    fn announce(&mut self, change: &Change) {
        let to = self.sessions.iter().filter(|(_, session)| session.changes).map(|(id, _)| *id).collect();
        self.send_text(to, control::change(change));
    }

    fn answer_flush(&mut self, waiting: Vec<Waiting>, text: impl Fn(&Waiting) -> String) {
        for waiting in waiting {
            if self.sessions.contains_key(&waiting.session) {
                self.send_text(vec![waiting.session], text(&waiting));
            }
        }
    }

    // --- deletion ---

    fn delete_workspace(&mut self, now: Timestamp) {
        // Nothing is left to save it to.
        let paths: Vec<String> = self.documents.keys().cloned().collect();
        for path in paths {
            self.discard(&path);
        }
        let everybody: Vec<SessionId> = self.sessions.keys().copied().collect();
        for session in everybody {
            self.close(session, CloseCode::Deleted, "the workspace was deleted", now);
        }
    }

    fn delete_documents(&mut self, root: &str, clock: u64, now: Timestamp) {
        let mut deleted = Vec::new();
        for (path, document) in self.documents.iter_mut().filter(|(path, _)| is_within(path, root)) {
            // A document that was made after the delete, or is not stored at all, is another one. Whether it is
            // stored, a flush or a load may be about to tell: then storage is asked whether it still is.
            let is_another = match document.epoch {
                Some(epoch) => epoch > clock,
                None => !matches!(document.view, View::Absent),
            };
            document.announced = document.announced.max(clock);
            if !is_another {
                deleted.push(path.clone());
            }
        }
        for path in deleted {
            self.discard(&path);
            self.close_members(&path, CloseCode::Deleted, "the document was deleted", now);
        }
    }
}
