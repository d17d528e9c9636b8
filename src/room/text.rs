//! Text frames: changes, receipts and signaling (W1, W7, W8).

use serde_json::Value;

use crate::planted::{Bug, planted};
use crate::protocol::Timestamp;
use crate::protocol::close::CloseCode;
use crate::protocol::control::{self, Control};
use crate::protocol::limits::MAX_TEXT_BYTES;

use super::session::SessionId;
use super::{Room, signaling};

impl Room {
    /// A text frame from a connection. What is not understood is answered, not relayed.
    pub fn handle_text(&mut self, id: SessionId, text: &str, now: Timestamp) {
        self.expire(now);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if text.len() > MAX_TEXT_BYTES {
            return self.close(id, CloseCode::FrameTooLarge, "a text frame may have 64 KiB", now);
        }
        if !std::mem::replace(&mut session.text, true) {
            self.attach(id);
        }
        self.renew_lease(now);
        match control::parse(text) {
            Ok(control) => self.on_control(id, control, now),
            Err(error) => self.send_text(vec![id], control::error("bad_message", &error.detail())),
        }
        self.work(now);
    }

    fn on_control(&mut self, id: SessionId, control: Control, now: Timestamp) {
        match control {
            Control::Change(message) => {
                let Some(session) = self.sessions.get(&id) else { return };
                if !session.info.can_write {
                    let detail = "this connection may read only; its hints are not forwarded";
                    return self.send_text(vec![id], control::error("forbidden", detail));
                }
                let text = control::hint(message, &session.info.sub);
                let listeners =
                    self.sessions.iter().filter(|(other, session)| session.changes && **other != id);
                let to = listeners.map(|(id, _)| *id).collect();
                self.send_text(to, text);
            }
            Control::Flush { id: wish } => self.on_flush(id, wish, now),
            Control::Hello { changes } => {
                if let Some(session) = self.sessions.get_mut(&id)
                    && session.changes != changes
                {
                    session.changes = changes;
                    self.attach(id);
                }
            }
            Control::Ping => self.send_text(vec![id], control::PONG.to_owned()),
            Control::Publish { topic, message } => self.on_publish(id, &topic, message),
            Control::Subscribe(topics) => {
                let Some(session) = self.sessions.get_mut(&id) else { return };
                let fits = signaling::subscribe(&mut session.topics, topics);
                self.attach(id);
                if !fits {
                    let detail = control::ControlError::TooManyTopics.detail();
                    self.send_text(vec![id], control::error("too_many_topics", &detail));
                }
            }
            Control::Unknown => {}
            Control::Unsubscribe(topics) => {
                let Some(session) = self.sessions.get_mut(&id) else { return };
                signaling::unsubscribe(&mut session.topics, &topics);
                self.attach(id);
            }
        }
    }

    /// W8: a receipt once everything that the connection sent before is in D1.
    fn on_flush(&mut self, id: SessionId, wish: Value, now: Timestamp) {
        let Some(session) = self.sessions.get(&id) else { return };
        if !session.info.can_write {
            // Whatever it sent was not kept.
            let document = self.documents.get(&session.info.document);
            let epoch = document.and_then(|document| document.epoch).unwrap_or(0);
            return self.send_text(vec![id], control::flush_forbidden(&wish, epoch));
        }
        let mut saved = (0, 0);
        if let Some(document) = self.documents.get_mut(&session.info.document) {
            if document.tail.wishes(id) >= MAX_WISHES {
                let text = control::flush_failed(&wish, "too many flushes are waiting; wait for an answer");
                return self.send_text(vec![id], text);
            }
            if !planted(Bug::ReceiptBeforeCommit) && !document.tail.want_receipt(id, &wish, now) {
                return;
            }
            if document.is_unsure {
                // Attachments may be older than the last save: storage tells the clock.
                document.tail.wait(id, &wish);
                return document.want_look(now, 0);
            }
            saved = (document.stored, document.epoch.unwrap_or(0));
        }
        let (clock, epoch) = saved;
        self.send_text(vec![id], control::receipt(&wish, clock, epoch));
    }

    /// Answers who waits for nothing but the clock, once storage has told it or did not.
    pub(super) fn answer_settled(&mut self, path: &str, is_known: bool) {
        let Some(document) = self.documents.get_mut(path) else { return };
        let (clock, epoch) = (document.stored, document.epoch.unwrap_or(0));
        let settled = document.tail.take_settled();
        self.answer_flush(settled, |wish| match is_known {
            true => control::receipt(&wish.id, clock, epoch),
            false => control::flush_failed(&wish.id, "storage_unavailable"),
        });
    }

    fn on_publish(&mut self, id: SessionId, topic: &str, message: serde_json::Map<String, Value>) {
        let on_topic = |topics: &[String]| topics.iter().any(|known| known == topic);
        let Some(sender) = self.sessions.get(&id).filter(|session| on_topic(&session.topics)) else {
            return;
        };
        let sub = sender.info.sub.clone();
        let subscribers = self.sessions.iter().filter(|(_, session)| on_topic(&session.topics));
        let to: Vec<SessionId> = subscribers.map(|(id, _)| *id).collect();
        let text = signaling::published(message, to.len(), &sub);
        self.send_text(to, text);
    }
}

/// Receipts that one connection may wait for.
const MAX_WISHES: usize = 64;
