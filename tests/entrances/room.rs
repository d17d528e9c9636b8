//! Frames and text frames, into a room with other people and a storage.

use yrelay::document::validate::validate_update;
use yrelay::protocol::awareness;
use yrelay::protocol::control;
use yrelay::protocol::limits::{MAX_FRAME_BYTES, MAX_TEXT_BYTES};
use yrelay::protocol::message::{self, Message, decode_frame};
use yrelay::room::{
    Action, Frame, Persisted, Room, RoomConfig, SessionId, SessionInfo, SessionKind, StoreError, Stored,
};

/// Any time will do.
const START: u64 = 1_796_000_000_000;
/// Actions that one input may ask for, at most: a loop that never ends is a defect, too.
const MAX_ACTIONS: usize = 10_000;
/// What the relay may send for a byte that came, to each connection, and what it may send anyway: its own
/// step 1, awareness of the others, errors.
const MAX_GROWTH: usize = 8;
const MAX_UNASKED: usize = 64 * 1024;
/// More inputs in one session show nothing new.
const MAX_STEPS: usize = 64;

/// Two people in a document, and a storage that answers at once.
struct World {
    room: Room,
    now: u64,
    people: Vec<SessionId>,
    closed: Vec<SessionId>,
    clock: u64,
    stored: Vec<Vec<u8>>,
    storage_fails: bool,
    received: usize,
    sent: usize,
}

impl World {
    fn new() -> Self {
        let room = Room::new(RoomConfig::default());
        let (people, closed, stored) = (Vec::new(), Vec::new(), Vec::new());
        let mut world = Self {
            room,
            now: START,
            people,
            closed,
            clock: 0,
            stored,
            storage_fails: false,
            received: 0,
            sent: 0,
        };
        for (sub, can_write) in [("ann", true), ("ben", true), ("vic", false)] {
            world.join(sub, can_write);
        }
        world
    }

    fn join(&mut self, sub: &str, can_write: bool) {
        let info = SessionInfo {
            sub: sub.to_owned(),
            kind: SessionKind::Client,
            can_write,
            expires_at: START + 600_000,
            document: "d".to_owned(),
            epoch: None,
        };
        let person = self.room.handle_open(info, self.now);
        self.people.push(person);
        self.room.handle_frame(person, &message::sync_step_1(&[0]), self.now);
        self.drain(&[]);
    }

    fn frame(&mut self, person: SessionId, frame: &[u8]) {
        self.received += frame.len();
        self.room.handle_frame(person, frame, self.now);
        self.drain(frame);
    }

    fn text(&mut self, person: SessionId, text: &str) {
        self.received += text.len();
        self.room.handle_text(person, text, self.now);
        self.drain(&[]);
    }

    fn wait(&mut self, ms: u64) {
        self.now += ms;
        while let Some(at) = self.room.poll_timeout().filter(|at| *at <= self.now) {
            self.room.handle_timeout(at.max(START));
            self.drain(&[]);
            assert!(self.room.poll_timeout().is_none_or(|next| next > at), "a timer comes again at once");
        }
    }

    /// Does what the room asks for, and looks at it.
    fn drain(&mut self, input: &[u8]) {
        for count in 0.. {
            assert!(count < MAX_ACTIONS, "the room asks without end");
            let Some(action) = self.room.poll_action() else { break };
            self.perform(action, input);
        }
        let people = self.people.len();
        let allowed = (self.received * MAX_GROWTH + MAX_UNASKED) * people;
        assert!(self.sent <= allowed, "{} bytes sent for {} received", self.sent, self.received);
    }

    fn perform(&mut self, action: Action, input: &[u8]) {
        match action {
            Action::SendBinary { to, frame } => {
                let bytes = match &frame {
                    Frame::Input => input,
                    Frame::Bytes(bytes) => bytes,
                };
                self.sent += bytes.len() * to.len();
                check_sent(bytes);
            }
            Action::SendText { to, text } => {
                self.sent += text.len() * to.len();
                serde_json::from_str::<serde_json::Value>(&text).expect("a text frame of ours is JSON");
            }
            Action::Close { session, .. } => self.closed.push(session),
            Action::Load { document, generation } => {
                let result = self.read();
                self.room.handle_loaded(&document, generation, result, self.now);
            }
            Action::Pull { document, generation, .. } => {
                let result = self.read();
                self.room.handle_pulled(&document, generation, result, self.now);
            }
            Action::Persist(persist) => {
                validate_update(&persist.update).expect("what is to be stored is valid");
                let result = if self.storage_fails {
                    Err(StoreError::Unavailable)
                } else {
                    self.clock += 1;
                    self.stored.push(persist.update.to_vec());
                    Ok(Persisted { clock: self.clock, epoch: 1, at: self.now, missed: false })
                };
                self.room.handle_persisted(&persist.document, persist.flush, result, self.now);
            }
            Action::Lease { .. } => self.room.handle_lease_written(Ok(()), self.now),
            _ => {}
        }
    }

    fn read(&self) -> Result<Stored, StoreError> {
        if self.storage_fails {
            return Err(StoreError::Unavailable);
        }
        let epoch = (!self.stored.is_empty()).then_some(1);
        Ok(Stored { updates: self.stored.clone(), clock: self.clock, epoch })
    }

    /// All that waits is saved, and whoever is still there can go on.
    fn end(mut self) {
        self.storage_fails = false;
        // Longer than any backoff and any window.
        self.wait(60_000);
        assert!(!self.room.has_unsaved(), "something is never saved");
        for person in std::mem::take(&mut self.people) {
            self.room.handle_close(person, self.now);
            self.drain_after_close();
        }
    }

    fn drain_after_close(&mut self) {
        while let Some(action) = self.room.poll_action() {
            self.perform(action, &[]);
        }
    }
}

/// What goes to others is what a stock client can read, whole.
fn check_sent(frame: &[u8]) {
    for message in decode_frame(frame).expect("the relay sends frames that decode") {
        match message {
            Message::SyncStep2(update) | Message::Update(update) => {
                validate_update(update).expect("the relay sends valid updates");
            }
            Message::Awareness(payload) => {
                awareness::decode(payload).expect("the relay sends valid awareness");
            }
            _ => {}
        }
    }
}

/// A binary frame of somebody who may write, then the same of somebody who may not.
pub fn frame(data: &[u8]) -> bool {
    if data.len() > MAX_FRAME_BYTES {
        return false;
    }
    let is_whole = decode_frame(data).is_ok();
    let mut world = World::new();
    let (ann, vic) = (world.people[0], world.people[2]);
    world.frame(ann, data);
    let is_closed = world.closed.contains(&ann);
    assert!(is_whole || is_closed, "a frame that does not decode closes its sender");
    assert!(world.closed.iter().all(|closed| *closed == ann), "only the sender is closed");
    let stored = world.stored.len();
    world.frame(vic, data);
    assert_eq!(world.stored.len(), stored, "who may not write stores nothing");
    world.end();
    !is_closed
}

/// A text frame.
pub fn control(data: &[u8]) -> bool {
    let Some(text) = std::str::from_utf8(data).ok().filter(|text| text.len() <= MAX_TEXT_BYTES) else {
        return false;
    };
    let is_taken = control::parse(text).is_ok();
    let mut world = World::new();
    for person in world.people.clone() {
        world.text(person, r#"{"type":"hello","changes":true}"#);
        world.text(person, r#"{"type":"subscribe","topics":["t"]}"#);
    }
    world.text(world.people[0], text);
    assert!(world.closed.is_empty(), "a text frame within the limits closes nobody");
    world.end();
    is_taken
}

/// Several frames of several people, with time, failures and joins between: `kind • length • bytes`, again
/// and again.
pub fn session(data: &[u8]) -> bool {
    let mut world = World::new();
    let mut rest = data;
    for _ in 0..MAX_STEPS {
        let [kind, length, after @ ..] = rest else { break };
        let (payload, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        let person = world.people[usize::from(kind >> 4) % world.people.len()];
        match kind & 7 {
            0..=2 if !world.closed.contains(&person) => world.frame(person, payload),
            3 if !world.closed.contains(&person) => {
                if let Ok(text) = std::str::from_utf8(payload) {
                    world.text(person, text);
                }
            }
            4 => world.wait(u64::from(*length) * 20),
            5 => world.storage_fails = !world.storage_fails,
            6 if world.people.len() < 8 => world.join("eve", true),
            7 => {
                world.room.handle_close(person, world.now);
                world.closed.push(person);
                world.drain(&[]);
            }
            _ => {}
        }
    }
    let is_quiet = world.closed.is_empty();
    world.end();
    is_quiet
}
