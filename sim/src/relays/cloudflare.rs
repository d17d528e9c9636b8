//! The Durable Object: hibernation, resets and losses of its memory (D1a, D1b), after
//! `src/edge/room_object.rs`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::bus::{Bus, Owner};
use crate::d1::WORKSPACE;
use crate::edge::clock;
use crate::edge::db::Db;
use crate::edge::room_object::Shell;
use crate::network::{ConnectionId, Data, MAX_QUEUED_BYTES, Relay};
use crate::protocol::Timestamp;
use crate::protocol::change::Change;
use crate::room::{Attachment, Room, RoomConfig, SessionId};
use crate::world::{Event, World};

/// The object of the workspace.
pub struct Cloudflare {
    shell: Rc<Shell>,
    /// Another one after each reset or loss: work of an older one never answers.
    pub incarnation: u64,
    /// Whether it can be reached.
    pub up: bool,
    asleep: Cell<bool>,
    /// When an event last reached it.
    touched: Timestamp,
    /// Whether a look at whether it may hibernate is arranged.
    looks: bool,
}

impl Cloudflare {
    /// An object that nobody has reached yet.
    pub fn new(bus: &Rc<Bus>) -> Self {
        let shell = Shell::new(WORKSPACE, Some(Db::new(Rc::clone(bus))), Room::new(config()));
        Self { shell, incarnation: 1, up: true, asleep: Cell::new(false), touched: 0, looks: false }
    }

    /// The shell, of an object that is awake.
    pub fn shell(&self) -> Rc<Shell> {
        Rc::clone(&self.shell)
    }

    /// When its timer is due; a hibernating one has none.
    pub fn timeout(&self) -> Option<Timestamp> {
        if self.asleep.get() { None } else { self.shell.core().poll_timeout() }
    }

    /// Whose its work is.
    pub const fn owner(&self) -> Owner {
        Owner::Cloudflare(self.incarnation)
    }
}

impl World {
    /// The shell for an event, woken up if it hibernates.
    pub fn object(&mut self) -> Rc<Shell> {
        self.cloudflare.touched = self.now;
        if self.cloudflare.asleep.replace(false) {
            self.ledger.count("wake-ups");
            self.rebuild();
        }
        if !self.cloudflare.looks {
            self.cloudflare.looks = true;
            self.at(self.now + HIBERNATES_AFTER_MS, Event::Hibernate);
        }
        self.cloudflare.shell()
    }

    /// The platform lets an object hibernate when nothing reached it for 10 s and nothing waits.
    pub fn hibernate(&mut self) {
        self.cloudflare.looks = false;
        if self.cloudflare.asleep.get() {
            return;
        }
        let due = self.cloudflare.touched + HIBERNATES_AFTER_MS;
        let is_busy = self.cloudflare.timeout().is_some() || self.works(self.cloudflare.owner());
        if due > self.now || is_busy {
            self.cloudflare.looks = true;
            let again = if due > self.now { due } else { self.now + HIBERNATES_AFTER_MS };
            return self.at(again, Event::Hibernate);
        }
        self.cloudflare.asleep.set(true);
    }

    /// The WASM instance is reset under the object. If the room owed somebody something, all are sent away (D1b).
    pub fn reset_object(&mut self) {
        if self.cloudflare.asleep.get() {
            return;
        }
        let was_busy = self.cloudflare.shell.core().owes_something();
        self.cancel(self.cloudflare.owner());
        self.cloudflare.incarnation += 1;
        if was_busy {
            for id in self.connections_of(Relay::Cloudflare) {
                self.dismiss(id, RESTART);
            }
        }
        self.rebuild();
    }

    /// The machine of the object is gone, with its sockets.
    pub fn lose_object(&mut self) {
        self.cancel(self.cloudflare.owner());
        self.cloudflare.incarnation += 1;
        for id in self.connections_of(Relay::Cloudflare) {
            self.forget_connection(id);
        }
        self.cloudflare.asleep.set(false);
        self.rebuild();
    }

    /// Tells the room of a change, as `notify` does (R3).
    pub fn tell_room(&mut self, change: Change, lease: u64, attempt: u32) {
        if !self.cloudflare.up || self.random.percent(self.faults.tell) {
            if attempt < TELL_ATTEMPTS {
                let at = self.now + self.delay();
                return self.at(at, Event::Tell(change, lease, attempt + 1));
            }
            self.ledger.lost_tell = true;
            return;
        }
        let shell = self.object();
        shell.with(|core, now| core.handle_change(&change, now));
        if shell.core().clients() == 0 {
            let db = Db::new(Rc::clone(&self.bus));
            let work = async move {
                // Logged and left: the next change finds the same.
                let _ = db.clear_lease(WORKSPACE, lease).await;
            };
            self.spawn(Owner::Worker, Box::pin(work));
        }
    }

    /// The room again, from what its open sockets have attached.
    fn rebuild(&mut self) {
        let attached = self
            .connections
            .values_mut()
            .filter(|connection| connection.relay == Relay::Cloudflare && connection.session.is_some());
        let mut attachments = Vec::new();
        for connection in attached {
            let Some(attachment) = connection.attachment.as_deref().and_then(Attachment::decode) else {
                continue;
            };
            connection.announced.clear();
            attachments.push(attachment);
        }
        self.note_claims(&attachments);
        let core = Room::restore(config(), attachments, clock::now());
        self.cloudflare.shell = Shell::new(WORKSPACE, Some(Db::new(Rc::clone(&self.bus))), core);
    }

    /// Who has told of which awareness id. After a reset some claims are two seconds old, since awareness is
    /// not durable: of two for one id the newer counts.
    fn note_claims(&mut self, attachments: &[Attachment]) {
        let mut newest: BTreeMap<u64, (u32, SessionId)> = BTreeMap::new();
        for attachment in attachments {
            for entry in &attachment.owned {
                let claim = newest.entry(entry.client).or_default();
                *claim = (*claim).max((entry.clock, attachment.id));
            }
        }
        let here = self.connections.values_mut().filter(|connection| connection.relay == Relay::Cloudflare);
        for connection in here {
            let own = newest.iter().filter(|(_, (_, session))| connection.session == Some(*session));
            connection.announced.extend(own.map(|(client, _)| (*client, 0)));
        }
    }

    /// Closes a connection from the relay's side, without the room.
    pub fn dismiss(&mut self, id: ConnectionId, code: u16) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.session = None;
            connection.attachment = None;
            // A close is no frame: it is sent to everybody.
            let _ = self.send_to_client(id, Data::Close(code));
        }
    }

    /// The relay's side of a connection is gone without a word.
    pub fn forget_connection(&mut self, id: ConnectionId) {
        let lost = self.random.below(5_000);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.session = None;
            connection.attachment = None;
            connection.broken = true;
            self.at(self.now + lost, Event::ClientLost(id));
        }
    }

    /// Connections that a relay has.
    pub fn connections_of(&self, relay: Relay) -> Vec<ConnectionId> {
        self.connections
            .iter()
            .filter(|(_, connection)| connection.relay == relay && connection.session.is_some())
            .map(|(id, _)| *id)
            .collect()
    }
}

fn config() -> RoomConfig {
    RoomConfig { label: "cf".to_owned(), max_queued_bytes: MAX_QUEUED_BYTES, ..RoomConfig::default() }
}

/// The close code for a relay that restarts.
pub const RESTART: u16 = 1012;

/// How long nothing has to reach an object before it hibernates.
const HIBERNATES_AFTER_MS: u64 = 10_000;

/// As `edge::notify::ATTEMPTS`.
const TELL_ATTEMPTS: u32 = 2;
