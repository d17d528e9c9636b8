//! Binary frames: sync and awareness of one document (W1-W5).

use crate::document::{checkpoint, validate};
use crate::planted::{Bug, planted};
use crate::protocol::Timestamp;
use crate::protocol::awareness::{self as wire, AwarenessEntry, GONE};
use crate::protocol::close::CloseCode;
use crate::protocol::error::DecodeError;
use crate::protocol::limits::MAX_FRAME_BYTES;
use crate::protocol::message::{self, Message};

use super::alone::OTHER_EPOCH;
use super::document::Document;
use super::session::SessionId;
use super::view::View;
use super::{Action, Frame, Room};

impl Room {
    /// A binary frame from a connection. Everything in it is checked before anything of it is used.
    pub fn handle_frame(&mut self, id: SessionId, frame: &[u8], now: Timestamp) {
        self.expire(now);
        if !self.sessions.contains_key(&id) {
            return;
        }
        if frame.len() > MAX_FRAME_BYTES {
            return self.close(
                id,
                CloseCode::FrameTooLarge,
                "a frame may have 1 MiB; send larger updates by REST",
                now,
            );
        }
        let checked = match check(frame) {
            Ok(checked) => checked,
            Err(error) => return self.close(id, CloseCode::ProtocolViolation, reason(error), now),
        };
        self.renew_lease(now);
        self.join(id);
        let writes = |message: &Checked<'_>| matches!(message, Checked::Step2(_) | Checked::Update(_));
        if let Some((code, reason)) = self.refused_epoch(id, checked.iter().any(writes)) {
            return self.close(id, code, reason, now);
        }
        if !self.assume_epoch(id, now) {
            return self.close(id, CloseCode::TryLater, OTHER_EPOCH, now);
        }
        // The usual frame is one message; it can be forwarded as it is, without a copy (W3).
        let whole = checked.len() == 1;
        // Questions are answered once, however often a frame asks: answers are large, frames small.
        let (mut step_1, mut query) = (None, false);
        for message in checked {
            match message {
                Checked::Awareness(entries) => self.on_awareness(id, &entries, whole, now),
                Checked::Nothing => {}
                Checked::Query => query = true,
                Checked::Step1(state_vector) => step_1 = Some(state_vector),
                Checked::Update(update) => self.on_update(id, update, whole, now),
                Checked::Step2(update) if self.is_known(id, update) => {}
                Checked::Step2(update) => self.on_update(id, update, false, now),
            }
        }
        match step_1 {
            Some(state_vector) => self.on_step_1(id, state_vector, now),
            None if query => self.send_awareness(id),
            None => {}
        }
        self.touch(id);
    }

    /// The first binary frame makes a connection a member of its document (W1).
    fn join(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.binary {
            return;
        }
        session.binary = true;
        let path = session.info.document.clone();
        if let Some(document) = self.take_up(&path) {
            document.members.push(id);
        }
        self.attach(id);
    }

    /// Why a connection that states an epoch may not go on: it is another one, or it writes before
    /// the document's is known (W11).
    fn refused_epoch(&self, id: SessionId, writes: bool) -> Option<(CloseCode, &'static str)> {
        let info = &self.sessions.get(&id)?.info;
        let stated = info.epoch?;
        let document = self.documents.get(&info.document)?;
        match document.epoch {
            Some(epoch) if epoch == stated => None,
            None if document.alone.is_serving() => None,
            None if !document.view.is_loaded() => {
                writes.then_some((CloseCode::TryLater, "the document is being read; sync first, then write"))
            }
            Some(_) | None => Some((CloseCode::EpochChanged, "the document was replaced; load it again")),
        }
    }

    fn on_step_1(&mut self, id: SessionId, state_vector: &[u8], now: Timestamp) {
        let look_after = self.config.flush_after;
        let Some((path, document)) = self.document_of(id) else { return };
        document.joining.retain(|(joining, _)| *joining != id);
        document.joining.push((id, state_vector.to_vec()));
        match document.view {
            View::Absent if document.alone.is_serving() => {
                let reads = document.alone.reads_again();
                self.answer_alone(&path, id);
                if !reads {
                    self.load(&path, now);
                }
            }
            View::Absent => self.load(&path, now),
            View::Loading { .. } if document.alone.is_serving() => self.answer_alone(&path, id),
            View::Loading { .. } => {}
            View::Loaded { .. } => {
                // The view may lack what others appended if the room was not told of it, so a joiner
                // makes the room look, at once or when the last look is two seconds old: one query
                // for a whole storm of joiners, and what it brings goes to everybody.
                document.want_look(now, look_after);
                self.answer_joining(&path, now);
                self.work_on(&path, now);
            }
        }
        self.send_awareness(id);
    }

    /// Whether a step 2 only repeats deletes that the document has. Every stock client that joins
    /// sends all of them: to save that would be a row for each reader, and to deny it would tell a
    /// viewer that something is lost. Without a loaded document it counts as new.
    fn is_known(&mut self, id: SessionId, update: &[u8]) -> bool {
        let [0, deletes @ ..] = update else { return false };
        if planted(Bug::DeletesTakenForKnown) {
            return true;
        }
        let Some((_, document)) = self.document_of(id) else { return false };
        let Some(Ok(whole)) = document.view.whole() else { return false };
        checkpoint::has_deletes(whole.deletes, deletes).unwrap_or(false)
    }

    fn on_update(&mut self, id: SessionId, update: &[u8], whole: bool, now: Timestamp) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if !session.info.can_write {
            // Silence would read as success. Once is enough: a stock client logs each one.
            if !std::mem::replace(&mut session.denied, true) {
                let frame =
                    message::permission_denied("this connection may read only; its edits are not kept");
                self.send_binary(vec![id], Frame::Bytes(frame));
            }
            return;
        }
        if self.pending_bytes + update.len() > self.config.max_pending_bytes {
            // It may be less by now.
            self.work(now);
        }
        self.pending_bytes += update.len();
        if self.pending_bytes > self.config.max_pending_bytes {
            return self.close(id, CloseCode::TryLater, "too much waits to be saved; try again", now);
        }
        let Some(session) = self.sessions.get(&id) else { return };
        let Some(document) = self.documents.get_mut(&session.info.document) else { return };
        if !document.has_room_for(update.len()) {
            return self.close(id, CloseCode::DocumentTooLarge, "the document would be over 16 MiB", now);
        }
        document.receive(update, &session.info.sub, now, &self.config);
        if self.config.spool && !std::mem::replace(&mut self.spools, true) {
            self.actions.push_back(Action::Spool);
        }
        let hot = document.outbox.is_hot(document.members.len(), now, &self.config);
        if hot || document.outbox.has_updates() {
            document.outbox.push_update(id, update, now, &self.config);
            return;
        }
        let to: Vec<SessionId> = document.members.iter().copied().filter(|member| *member != id).collect();
        let frame = if whole { Frame::Input } else { Frame::Bytes(message::update(update)) };
        self.relayed(&to, now);
        self.send_binary(to, frame);
    }

    fn on_awareness(&mut self, id: SessionId, message: &[AwarenessEntry<'_>], whole: bool, now: Timestamp) {
        let Some(session) = self.sessions.get(&id) else { return };
        let Some(document) = self.documents.get_mut(&session.info.document) else { return };
        let is_same_person =
            |other| self.sessions.get(&other).is_some_and(|s| s.info.sub == session.info.sub);
        let applied = document.awareness.apply(id, message, is_same_person);
        for deprived in &applied.deprived {
            if let Some(session) = self.sessions.get_mut(deprived) {
                session.mark_stale(now, &self.config);
            }
        }
        let bounced: Vec<AwarenessEntry<'_>> = applied
            .bounced
            .iter()
            .map(|(client, clock)| AwarenessEntry { client: *client, clock: *clock, state: GONE })
            .collect();
        if applied.accepted.is_empty() && bounced.is_empty() {
            return;
        }
        let hot = document.outbox.is_hot(document.members.len(), now, &self.config);
        let members = document.members.clone();
        if !applied.accepted.is_empty() {
            if hot {
                document.outbox.push_awareness(&applied.accepted, now, &self.config);
            } else {
                let frame = if whole && applied.accepted.len() == message.len() {
                    Frame::Input
                } else {
                    Frame::Bytes(message::awareness(&wire::encode(&applied.accepted)))
                };
                self.relay_awareness(id, members, frame, now);
            }
            if let Some(session) = self.sessions.get_mut(&id) {
                session.mark_stale(now, &self.config);
            }
        }
        if !bounced.is_empty() {
            self.send_binary(vec![id], Frame::Bytes(message::awareness(&wire::encode(&bounced))));
        }
    }

    /// Forwards awareness to the others, and back to a sender that has heard nobody else for a
    /// while: a lone stock client reconnects when it hears nothing (W5).
    fn relay_awareness(&mut self, from: SessionId, mut to: Vec<SessionId>, frame: Frame, now: Timestamp) {
        let heard = self.sessions.get(&from).map_or(0, |session| session.last_relayed);
        to.retain(|member| *member != from);
        self.relayed(&to, now);
        if heard + ECHO_AFTER <= now {
            to.push(from);
        }
        self.send_binary(to, frame);
    }

    /// Sends the awareness of everybody else on the document, if there is any.
    fn send_awareness(&mut self, id: SessionId) {
        let Some((_, document)) = self.document_of(id) else { return };
        let others = document.awareness.others(id);
        if !others.is_empty() {
            let frame = message::awareness(&wire::encode(&others));
            self.send_binary(vec![id], Frame::Bytes(frame));
        }
    }

    fn document_of(&mut self, id: SessionId) -> Option<(String, &mut Document)> {
        let path = self.sessions.get(&id)?.info.document.clone();
        let document = self.documents.get_mut(&path)?;
        Some((path, document))
    }
}

/// A message whose content has been checked.
enum Checked<'a> {
    Awareness(Vec<AwarenessEntry<'a>>),
    /// A type that is skipped, or an update that changes nothing.
    Nothing,
    Query,
    Step1(&'a [u8]),
    Step2(&'a [u8]),
    Update(&'a [u8]),
}

/// Checks every message of a frame, or refuses the frame (W4).
fn check(frame: &[u8]) -> Result<Vec<Checked<'_>>, DecodeError> {
    message::messages(frame).map(|message| message.and_then(check_message)).collect()
}

fn check_message(message: Message<'_>) -> Result<Checked<'_>, DecodeError> {
    match message {
        Message::Awareness(payload) => wire::decode(payload).map(Checked::Awareness),
        Message::QueryAwareness => Ok(Checked::Query),
        Message::SyncStep1(state_vector) => {
            validate::validate_state_vector(state_vector).map(|()| Checked::Step1(state_vector))
        }
        Message::SyncStep2(update) => {
            changes_something(update).map(|update| update.map_or(Checked::Nothing, Checked::Step2))
        }
        Message::Update(update) => {
            changes_something(update).map(|update| update.map_or(Checked::Nothing, Checked::Update))
        }
        Message::Unknown(_) => Ok(Checked::Nothing),
    }
}

fn changes_something(update: &[u8]) -> Result<Option<&[u8]>, DecodeError> {
    validate::validate_update(update).map(|info| (!info.is_empty()).then_some(update))
}

fn reason(error: DecodeError) -> &'static str {
    match error {
        DecodeError::Truncated => "malformed frame: it ends too early",
        DecodeError::VarintTooLarge => "malformed frame: an integer is over 2^53 - 1",
        DecodeError::TooLarge => "a length, count or nesting depth is over its limit",
        DecodeError::TrailingBytes => "malformed frame: bytes after the end",
        DecodeError::NotUtf8 => "malformed frame: text is not UTF-8",
        DecodeError::NotJson => "malformed frame: text is not JSON",
        DecodeError::Unknown => "malformed frame: an unknown tag",
    }
}

/// A sender that heard nobody else for this long gets its own awareness back. Stock clients
/// announce every 15 s and give up after 30 s of silence.
const ECHO_AFTER: u64 = 10_000;
