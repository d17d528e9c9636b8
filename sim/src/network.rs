//! WebSockets: in order within a connection and each way, at any pace between connections. A
//! connection may break without a word, and each side then learns of it when it does.

use std::collections::VecDeque;

use crate::checks::Violation;
use crate::protocol::Timestamp;
use crate::room::{SessionId, SessionInfo};
use crate::world::{Event, World};

/// Names a connection.
pub type ConnectionId = u64;

/// A relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relay {
    /// The Durable Object.
    Cloudflare,
    /// The relay on Deno.
    Deno,
}

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// A stream of the feed.
    Bridge(u64),
    /// A person.
    Human(usize),
}

/// What travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// A binary frame.
    Binary(Vec<u8>),
    /// The end, with its code.
    Close(u16),
    /// A text frame.
    Text(String),
}

impl Data {
    fn len(&self) -> u64 {
        match self {
            Self::Binary(bytes) => bytes.len() as u64,
            Self::Close(_) => 0,
            Self::Text(text) => text.len() as u64,
        }
    }
}

/// A connection, from its upgrade to its end.
#[derive(Debug)]
pub struct Connection {
    /// To which relay.
    pub relay: Relay,
    /// From whom.
    pub end: End,
    /// What the relay is told of it.
    pub info: SessionInfo,
    /// Its number in the room, while the room has it.
    pub session: Option<SessionId>,
    /// What hibernation leaves of it.
    pub attachment: Option<String>,
    /// The client has it open.
    pub client_open: bool,
    /// Nothing arrives any more, either way.
    pub broken: bool,
    /// The client takes nothing.
    pub stalled: bool,
    /// Whether the relay got binary, and text (W1).
    pub spoke: (bool, bool),
    /// Awareness client ids that the relay was told on it, and when.
    pub announced: Vec<(u64, Timestamp)>,
    held: VecDeque<Data>,
    /// Bytes that the client has not taken.
    queued: u64,
    /// The largest frame that it was sent.
    largest: u64,
    to_client_at: Timestamp,
    to_relay_at: Timestamp,
}

impl Connection {
    /// A connection that is being opened.
    pub fn new(relay: Relay, end: End, info: SessionInfo) -> Self {
        Self {
            relay,
            end,
            info,
            session: None,
            attachment: None,
            client_open: false,
            broken: false,
            stalled: false,
            spoke: (false, false),
            announced: Vec::new(),
            held: VecDeque::new(),
            queued: 0,
            largest: 0,
            to_client_at: 0,
            to_relay_at: 0,
        }
    }

    /// Frames come after the answer to the upgrade.
    pub fn says_nothing_before(&mut self, at: Timestamp) {
        self.to_client_at = self.to_client_at.max(at);
    }
}

impl World {
    /// A client sends.
    pub fn send_to_relay(&mut self, id: ConnectionId, data: Data) {
        let at = self.now + self.delay();
        let Some(connection) = self.connections.get_mut(&id).filter(|connection| !connection.broken) else {
            return;
        };
        connection.to_relay_at = connection.to_relay_at.max(at);
        let at = connection.to_relay_at;
        self.at(at, Event::ToRelay(id, data));
    }

    /// A relay sends. What a closing connection is sent is lost, as on the platforms.
    pub fn send_to_client(&mut self, id: ConnectionId, data: Data) -> Result<(), Violation> {
        let at = self.now + self.delay();
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        let (binary, text) = connection.spoke;
        let is_bridge = matches!(connection.end, End::Bridge(_));
        match data {
            Data::Binary(_) if !binary => {
                return Err(Violation::new("W1", format!("binary to connection {id}, which sent none")));
            }
            Data::Text(_) if !text && !is_bridge => {
                return Err(Violation::new("W1", format!("JSON to connection {id}, which sent none")));
            }
            _ => {}
        }
        connection.largest = connection.largest.max(data.len());
        connection.queued += data.len();
        let (queued, relay, session) = (connection.queued, connection.relay, connection.session);
        if !connection.broken {
            connection.to_client_at = connection.to_client_at.max(at);
            let at = connection.to_client_at;
            self.at(at, Event::ToClient(id, data));
        }
        if let Some(session) = session
            && queued > QUEUED_WORTH_TELLING
        {
            self.tell_queued(relay, session, queued);
        }
        Ok(())
    }

    /// W9: whoever is still connected has a bounded queue.
    pub fn check_queues(&self) -> Result<(), Violation> {
        let over = self.connections.iter().find(|(_, connection)| {
            connection.session.is_some() && connection.queued > MAX_QUEUED_BYTES + connection.largest
        });
        match over {
            None => Ok(()),
            Some((id, connection)) => {
                Err(Violation::new("W9", format!("{} bytes wait for connection {id}", connection.queued)))
            }
        }
    }

    /// A frame reached the client's side.
    pub fn arrive_at_client(&mut self, id: ConnectionId, data: Data) -> Result<(), Violation> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        if connection.broken {
            return Ok(());
        }
        if connection.stalled {
            connection.held.push_back(data);
            return Ok(());
        }
        crate::loud::tell(self.now, || format!("connection {id} gets {data:?}"));
        connection.queued -= data.len();
        let end = connection.end;
        match end {
            End::Bridge(stream) => self.bridge_hears(stream, id, data),
            End::Human(human) => return self.human_hears(human, id, data),
        }
        Ok(())
    }

    /// The client reads again, all that waited at once.
    pub fn resume(&mut self, id: ConnectionId) -> Result<(), Violation> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        connection.stalled = false;
        let held = std::mem::take(&mut connection.held);
        for data in held {
            self.arrive_at_client(id, data)?;
        }
        Ok(())
    }

    /// The network between both sides is gone. Each learns of it by itself.
    pub fn break_connection(&mut self, id: ConnectionId) {
        let (client, relay) = (self.random.below(4_000), self.random.below(20_000));
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.broken = true;
            self.at(self.now + client, Event::ClientLost(id));
            self.at(self.now + relay, Event::RelayLost(id));
        }
    }

    /// The client closes: the relay hears of it after what was sent before.
    pub fn close_by_client(&mut self, id: ConnectionId) {
        self.send_to_relay(id, Data::Close(1000));
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.client_open = false;
        }
    }

    /// How long something takes on its way.
    pub fn delay(&mut self) -> u64 {
        match self.random.below(20) {
            0 => 200 + self.random.below(2_000),
            1..4 => self.random.below(200),
            _ => 1 + self.random.below(20),
        }
    }
}

/// Queued bytes from which the room is told; 1 MiB in the shells, whose frames are larger.
const QUEUED_WORTH_TELLING: u64 = 100;

/// [`RoomConfig::max_queued_bytes`](crate::room::RoomConfig) in a world: a stall of seconds reaches it.
pub const MAX_QUEUED_BYTES: u64 = 400;
