//! What rooms and streams ask for, done one after another.

use crate::checks::Violation;
use crate::edge::room_storage;
use crate::network::{Connection, ConnectionId, Data, End, Relay};
use crate::protocol::awareness;
use crate::protocol::close::CloseCode;
use crate::protocol::message::{Message, decode_frame};
use crate::room::{Action, Frame, Persist, SessionId};
use crate::world::World;

impl World {
    /// Does what one room or stream asked for after one event. False when nobody asked.
    pub fn perform_next(&mut self) -> Result<bool, Violation> {
        if let Some(actions) = self.cloudflare.shell().next_actions() {
            self.perform(Relay::Cloudflare, actions)?;
            return Ok(true);
        }
        let deno = self.deno.shell();
        if let Some(shell) = &deno
            && let Some(actions) = shell.next_actions()
        {
            self.perform(Relay::Deno, actions)?;
            return Ok(true);
        }
        if deno.is_some_and(|shell| shell.core().is_idle()) {
            self.end_deno_room();
            return Ok(true);
        }
        Ok(self.perform_stream())
    }

    fn perform(&mut self, relay: Relay, actions: Vec<Action>) -> Result<(), Violation> {
        let mut flushes = Vec::new();
        for action in actions {
            crate::loud::tell(self.now, || format!("{relay:?} {action:?}"));
            match action {
                Action::Attach { session, attachment } => {
                    if let Some((_, connection)) = self.find(relay, session) {
                        connection.attachment = Some(attachment);
                    }
                }
                Action::Close { session, code, .. } => {
                    if let Some((id, _)) = self.find(relay, session) {
                        self.ledger.count(close_name(code.number()));
                        if code == CloseCode::Deleted {
                            self.check_deleted(id)?;
                        }
                        self.dismiss(id, code.number());
                    }
                }
                Action::SendBinary { to, frame: Frame::Bytes(bytes) } => {
                    self.check_receivers(relay, &to, &bytes)?;
                    for session in to {
                        self.send_binary(relay, session, bytes.clone())?;
                    }
                }
                Action::SendBinary { frame: Frame::Input, .. } => {
                    return Err(Violation::new(
                        "W3",
                        "a frame is to be sent that did not come in".to_owned(),
                    ));
                }
                Action::SendText { to, text } => {
                    for session in to {
                        self.send_text(relay, session, &text)?;
                    }
                }
                Action::Persist(flush) if relay == Relay::Cloudflare => flushes.push(flush),
                action if relay == Relay::Cloudflare => self.store_for_object(action),
                action => self.store_for_deno(action),
            }
        }
        self.flush_for_object(&flushes);
        Ok(())
    }

    fn find(&mut self, relay: Relay, session: SessionId) -> Option<(ConnectionId, &mut Connection)> {
        self.connections
            .iter_mut()
            .find(|(_, connection)| connection.relay == relay && connection.session == Some(session))
            .map(|(id, connection)| (*id, connection))
    }

    fn send_binary(&mut self, relay: Relay, session: SessionId, bytes: Vec<u8>) -> Result<(), Violation> {
        let Some((id, _)) = self.find(relay, session) else { return Ok(()) };
        self.check_removals(relay, id, &bytes)?;
        self.send_to_client(id, Data::Binary(bytes))
    }

    fn send_text(&mut self, relay: Relay, session: SessionId, text: &str) -> Result<(), Violation> {
        let Some((id, connection)) = self.find(relay, session) else { return Ok(()) };
        if let End::Human(human) = connection.end {
            self.check_answer(human, id, text)?;
        }
        self.send_to_client(id, Data::Text(text.to_owned()))
    }

    /// W9: an update goes to everybody on the document but its sender. A relay that works without
    /// storage also sends one to a joiner alone.
    fn check_receivers(&self, relay: Relay, to: &[SessionId], bytes: &[u8]) -> Result<(), Violation> {
        let is_update =
            decode_frame(bytes).is_ok_and(|messages| matches!(messages[..], [Message::Update(_)]));
        if relay != Relay::Cloudflare || !is_update {
            return Ok(());
        }
        let here =
            || self.connections.values().filter(|c| c.relay == relay && c.spoke.0 && c.session.is_some());
        let is_receiver = |connection: &Connection| connection.session.is_some_and(|id| to.contains(&id));
        let Some(path) = here().find(|c| is_receiver(c)).map(|c| c.info.document.as_str()) else {
            return Ok(());
        };
        match here().filter(|c| c.info.document == path && !is_receiver(c)).count() {
            0 | 1 => Ok(()),
            left_out => Err(Violation::new("W9", format!("{left_out} connections miss an update of {path}"))),
        }
    }

    /// W5: nobody is told that a client is gone who is connected there and said so.
    fn check_removals(&self, relay: Relay, to: ConnectionId, bytes: &[u8]) -> Result<(), Violation> {
        let Ok(messages) = decode_frame(bytes) else {
            return Err(Violation::new("W4", format!("connection {to} is sent bytes that are no frame")));
        };
        for message in messages {
            let Message::Awareness(payload) = message else { continue };
            let entries = awareness::decode(payload).unwrap_or_default();
            for entry in entries.iter().filter(|entry| entry.is_gone()) {
                let here = |(id, connection): (&ConnectionId, &Connection)| {
                    *id != to
                        && connection.relay == relay
                        && connection.session.is_some()
                        // Told in the same event, it may have come after this.
                        && connection.announced.iter().any(|(id, at)| *id == entry.client && *at < self.now)
                };
                if self.connections.iter().any(here) {
                    let client = entry.client;
                    return Err(Violation::new("W5", format!("client {client} is called gone and is here")));
                }
            }
        }
        Ok(())
    }

    /// The Durable Object's storage actions: the Worker's own code.
    fn store_for_object(&mut self, action: Action) {
        if matches!(action, Action::Lease { .. } | Action::Load { .. } | Action::Pull { .. }) {
            let work = room_storage::run(self.cloudflare.shell(), action);
            self.spawn(self.cloudflare.owner(), Box::pin(work));
        }
    }

    fn flush_for_object(&mut self, flushes: &[Persist]) {
        for together in flushes.chunks(FLUSHED_TOGETHER) {
            let work = room_storage::save_all(self.cloudflare.shell(), together.to_vec());
            self.spawn(self.cloudflare.owner(), Box::pin(work));
        }
    }

    /// So many bytes wait for a connection, the shell tells the room.
    pub fn tell_queued(&mut self, relay: Relay, session: SessionId, bytes: u64) {
        match relay {
            Relay::Cloudflare => {
                self.cloudflare.shell().with(|core, now| core.handle_queued(session, bytes, now));
            }
            Relay::Deno => {
                if let Some(shell) = self.deno.shell() {
                    shell.with(|core, now| core.handle_queued(session, bytes, now));
                }
            }
        }
    }
}

fn close_name(code: u16) -> &'static str {
    match code {
        1000 => "closed 1000",
        1012 => "closed 1012",
        1013 => "closed 1013",
        4401 => "closed 4401",
        4404 => "closed 4404",
        4409 => "closed 4409",
        _ => "closed with another code",
    }
}

/// As `room_object::FLUSHED_TOGETHER`.
const FLUSHED_TOGETHER: usize = 20;
