//! Who comes in and goes: upgrades, frames that reach a relay, connections that are lost.

use std::rc::Rc;

use crate::edge::room_object::Shell;
use crate::network::{ConnectionId, Data, End, Relay};
use crate::protocol::awareness;
use crate::protocol::message::{Message, decode_frame};
use crate::world::{Event, Faults, World};

impl World {
    /// An upgrade reaches its relay.
    pub fn let_in(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id) else { return };
        let (relay, info, end) = (connection.relay, connection.info.clone(), connection.end);
        let answered = self.now + self.delay();
        let is_valid = info.expires_at > self.now || matches!(end, End::Bridge(_));
        if !self.relay_is_up(relay) || !is_valid || self.is_refused(relay) {
            return self.at(answered, Event::Opened(id, false));
        }
        let shell = match relay {
            Relay::Cloudflare => self.object(),
            Relay::Deno => self.deno_room(),
        };
        if shell.core().admits(&info).is_err() {
            return self.at(answered, Event::Opened(id, false));
        }
        let session = shell.with(|core, now| core.handle_open(info, now));
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.session = Some(session);
            connection.says_nothing_before(answered);
        }
        self.at(answered, Event::Opened(id, true));
    }

    /// Whether the relay knows that the workspace is deleted (410). While D1 does not answer it lets people in, and
    /// so does the Deno relay where it has a room.
    fn is_refused(&mut self, relay: Relay) -> bool {
        let Faults { d1_before, d1_stall, http, .. } = self.faults;
        let asks = relay == Relay::Cloudflare || self.deno.shell().is_none();
        let fails = match relay {
            Relay::Cloudflare => d1_before + d1_stall,
            Relay::Deno => d1_before + d1_stall + http,
        };
        self.d1.is_deleted() && asks && !self.random.percent(fails.min(100))
    }

    /// The answer to an upgrade reaches the client.
    pub fn connection_opened(&mut self, id: ConnectionId, is_let_in: bool) {
        let Some(connection) = self.connections.get_mut(&id).filter(|connection| !connection.broken) else {
            return;
        };
        connection.client_open = is_let_in;
        match connection.end {
            End::Bridge(stream) => self.bridge_opened(stream, id, is_let_in),
            End::Human(human) => self.human_connected(human, id, is_let_in),
        }
    }

    /// A frame reaches a relay. What comes for a connection that the relay closed is not heard.
    pub fn arrive_at_relay(&mut self, id: ConnectionId, data: Data) {
        let connection = self.connections.get(&id).filter(|connection| !connection.broken);
        let Some((relay, session)) = connection.and_then(|found| Some((found.relay, found.session?))) else {
            return;
        };
        // A socket that closes is among those from which an object that slept is rebuilt.
        let Some(shell) = self.shell_of(relay) else { return };
        let Some(connection) = self.connections.get_mut(&id) else { return };
        crate::loud::tell(self.now, || format!("connection {id} session {session} sends {data:?}"));
        match &data {
            Data::Binary(bytes) => {
                connection.spoke.0 = true;
                self.note_awareness(id, relay, bytes);
            }
            Data::Text(_) => connection.spoke.1 = true,
            Data::Close(_) => {
                connection.session = None;
                connection.attachment = None;
            }
        }
        match data {
            Data::Binary(bytes) => {
                shell.receive(|core, now| core.handle_frame(session, &bytes, now), &bytes);
            }
            Data::Text(text) => shell.with(|core, now| core.handle_text(session, &text, now)),
            Data::Close(_) => shell.with(|core, now| core.handle_close(session, now)),
        }
    }

    /// A relay notices that a connection is gone.
    pub fn relay_loses(&mut self, id: ConnectionId) {
        let connection = self.connections.get(&id);
        let Some((relay, session)) = connection.and_then(|found| Some((found.relay, found.session?))) else {
            return;
        };
        let shell = self.shell_of(relay);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.session = None;
            connection.attachment = None;
        }
        if let Some(shell) = shell {
            shell.with(|core, now| core.handle_close(session, now));
        }
    }

    /// A client notices that its connection is gone.
    pub fn client_loses(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let was_open = std::mem::replace(&mut connection.client_open, false);
        match connection.end {
            End::Bridge(stream) => self.bridge_lost(stream, id),
            End::Human(human) => self.human_lost(human, id, was_open, ABNORMAL),
        }
    }

    /// Keeps track of which awareness ids a connection has told of, and took back. A later connection
    /// of the same person takes an id over (W5).
    fn note_awareness(&mut self, id: ConnectionId, relay: Relay, frame: &[u8]) {
        let now = self.now;
        for message in decode_frame(frame).unwrap_or_default() {
            let Message::Awareness(payload) = message else { continue };
            for entry in awareness::decode(payload).unwrap_or_default() {
                let here = self.connections.values_mut().filter(|connection| connection.relay == relay);
                here.for_each(|connection| {
                    connection.announced.retain(|(client, _)| *client != entry.client)
                });
                if let Some(connection) = self.connections.get_mut(&id).filter(|_| !entry.is_gone()) {
                    connection.announced.push((entry.client, now));
                }
            }
        }
    }

    fn shell_of(&mut self, relay: Relay) -> Option<Rc<Shell>> {
        match relay {
            Relay::Cloudflare => Some(self.object()),
            Relay::Deno => self.deno.shell(),
        }
    }
}

/// What a browser reports of a connection that broke.
const ABNORMAL: u16 = 1006;
