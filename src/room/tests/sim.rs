//! A room with connections, a storage that can fail and be slow, and a clock that the test moves.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::document::checkpoint;
use crate::protocol::Timestamp;
use crate::protocol::change::{Change, ChangeKind};
use crate::protocol::close::CloseCode;
use crate::protocol::message::{self, Message, decode_frame};
use crate::room::{
    Action, Attachment, Frame, Persisted, Room, RoomConfig, SessionId, SessionInfo, SessionKind, StoreError,
    Stored,
};

/// What a connection has received.
#[derive(Debug, Default)]
pub struct Inbox {
    pub binary: Vec<Vec<u8>>,
    pub text: Vec<Value>,
    pub closed: Option<CloseCode>,
    pub attachment: Option<Attachment>,
}

impl Inbox {
    /// The Yjs updates among the binary frames, in order.
    pub fn updates(&self) -> Vec<Vec<u8>> {
        self.messages(|message| match message {
            Message::Update(update) | Message::SyncStep2(update) => Some(update.to_vec()),
            _ => None,
        })
    }

    pub fn awareness(&self) -> Vec<Vec<u8>> {
        self.messages(|message| match message {
            Message::Awareness(payload) => Some(payload.to_vec()),
            _ => None,
        })
    }

    pub fn messages<T>(&self, pick: impl Fn(Message<'_>) -> Option<T>) -> Vec<T> {
        self.binary.iter().flat_map(|frame| decode_frame(frame).unwrap()).filter_map(pick).collect()
    }
}

/// D1 as a room sees it: rows of updates with clocks.
#[derive(Debug, Default)]
pub struct Storage {
    pub head: u64,
    pub epoch: u64,
    pub rows: BTreeMap<String, Vec<(u64, Vec<u8>)>>,
    /// What the next calls answer instead of working.
    pub error: Option<StoreError>,
    /// Commit, then answer with the error (an ambiguous failure).
    pub commits_before_error: bool,
    /// Do not answer at all.
    pub silent: bool,
    pub loads: usize,
    pub pulls: usize,
    pub persists: usize,
}

impl Storage {
    pub fn append(&mut self, path: &str, update: &[u8]) -> Change {
        self.head += 1;
        self.rows.entry(path.to_owned()).or_default().push((self.head, update.to_vec()));
        Change {
            clock: self.head,
            kind: ChangeKind::Update,
            path: path.to_owned(),
            actor: "rest".into(),
            at: 0,
        }
    }

    pub fn whole(&self, path: &str) -> Vec<u8> {
        let rows = self.rows.get(path).map(Vec::as_slice).unwrap_or_default();
        checkpoint::merge(&rows.iter().map(|(_, update)| update.as_slice()).collect::<Vec<_>>()).unwrap()
    }

    fn after(&self, path: &str, after: u64) -> Stored {
        let rows = self.rows.get(path).map(Vec::as_slice).unwrap_or_default();
        Stored {
            updates: rows
                .iter()
                .filter(|(clock, _)| *clock > after)
                .map(|(_, update)| update.clone())
                .collect(),
            clock: rows.last().map_or(0, |(clock, _)| *clock),
            epoch: (!rows.is_empty()).then_some(self.epoch),
        }
    }
}

/// The simulated world.
#[derive(Debug)]
pub struct Sim {
    pub room: Room,
    pub now: Timestamp,
    pub inboxes: BTreeMap<SessionId, Inbox>,
    pub storage: Storage,
    pub lease: u64,
    /// How many attachments were written.
    pub attached: usize,
    /// What the spool has: document, number, update (D6).
    pub spool: Vec<(String, u64, Vec<u8>)>,
    /// Whether the test itself lets the spool take what came in.
    pub spool_waits: bool,
    /// Flushes that were asked for together, each time.
    pub batches: Vec<usize>,
}

impl Sim {
    pub fn new() -> Self {
        Self::with(RoomConfig::default())
    }

    pub fn with(config: RoomConfig) -> Self {
        Self {
            room: Room::new(config),
            now: 1_000_000,
            inboxes: BTreeMap::new(),
            storage: Storage::default(),
            lease: 0,
            attached: 0,
            spool: Vec::new(),
            spool_waits: false,
            batches: Vec::new(),
        }
    }

    pub fn info(sub: &str) -> SessionInfo {
        SessionInfo {
            sub: sub.to_owned(),
            kind: SessionKind::Client,
            can_write: true,
            expires_at: Timestamp::MAX,
            document: "doc".to_owned(),
            epoch: None,
        }
    }

    pub fn open(&mut self, info: SessionInfo) -> SessionId {
        let id = self.room.handle_open(info, self.now);
        self.inboxes.insert(id, Inbox::default());
        self.drain(None);
        id
    }

    /// Opens a connection and syncs it, as a stock client does.
    pub fn join(&mut self, sub: &str) -> SessionId {
        let id = self.open(Self::info(sub));
        self.frame(id, &message::sync_step_1(&[0]));
        id
    }

    pub fn frame(&mut self, id: SessionId, frame: &[u8]) {
        self.room.handle_frame(id, frame, self.now);
        self.drain(Some(frame));
    }

    pub fn text(&mut self, id: SessionId, text: &Value) {
        self.room.handle_text(id, &text.to_string(), self.now);
        self.drain(None);
    }

    /// The connection goes away, as seen from the client's side.
    pub fn close(&mut self, id: SessionId) {
        self.room.handle_close(id, self.now);
        self.drain(None);
        self.inboxes.get_mut(&id).unwrap().closed.get_or_insert(CloseCode::Done);
    }

    /// The shell says how much is queued for a connection.
    pub fn queued(&mut self, id: SessionId, bytes: u64) {
        self.room.handle_queued(id, bytes, self.now);
        self.drain(None);
    }

    pub fn change(&mut self, change: &Change) {
        self.room.handle_change(change, self.now);
        self.drain(None);
    }

    /// Moves the clock, firing the room's timer whenever it is due.
    pub fn advance(&mut self, by: u64) {
        let end = self.now + by;
        while let Some(at) = self.room.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.room.handle_timeout(self.now);
            self.drain(None);
        }
        self.now = end;
    }

    /// Hibernation: only what the attachments hold comes back.
    pub fn hibernate(&mut self) {
        assert_eq!(self.room.poll_timeout(), None, "a room with a timer does not hibernate");
        let attachments = self
            .inboxes
            .values()
            .filter(|inbox| inbox.closed.is_none())
            .filter_map(|inbox| inbox.attachment.clone())
            .collect();
        self.room = Room::restore(RoomConfig::default(), attachments, self.now);
        self.drain(None);
    }

    pub fn take(&mut self, id: SessionId) -> Inbox {
        let inbox = self.inboxes.get_mut(&id).unwrap();
        let attachment = inbox.attachment.clone();
        std::mem::replace(inbox, Inbox { attachment, closed: inbox.closed, ..Inbox::default() })
    }

    pub fn drain(&mut self, input: Option<&[u8]>) {
        let mut flushes = 0;
        while let Some(action) = self.room.poll_action() {
            flushes += usize::from(matches!(action, Action::Persist(_)));
            self.act(action, input);
        }
        if flushes > 0 {
            self.batches.push(flushes);
        }
    }

    fn act(&mut self, action: Action, input: Option<&[u8]>) {
        match action {
            Action::Attach { session, attachment } => {
                self.attached += 1;
                let read = Attachment::decode(&attachment).expect("its own attachment");
                self.inboxes.get_mut(&session).unwrap().attachment = Some(read);
            }
            Action::Close { session, code, .. } => {
                let inbox = self.inboxes.get_mut(&session).unwrap();
                assert_eq!(inbox.closed.replace(code), None, "closed once");
            }
            Action::Lease { until, seen } => {
                match until {
                    0 if self.lease > seen => {}
                    until => self.lease = until,
                }
                self.room.handle_lease_written(Ok(()), self.now);
            }
            Action::Load { document, generation } => {
                self.storage.loads += 1;
                if !self.storage.silent {
                    let answer = match self.storage.error {
                        Some(error) => Err(error),
                        None => Ok(self.storage.after(&document, 0)),
                    };
                    self.room.handle_loaded(&document, generation, answer, self.now);
                }
            }
            Action::Pull { document, after, generation } => {
                self.storage.pulls += 1;
                if !self.storage.silent {
                    let answer = match self.storage.error {
                        Some(error) => Err(error),
                        None => Ok(self.storage.after(&document, after)),
                    };
                    self.room.handle_pulled(&document, generation, answer, self.now);
                }
            }
            Action::Persist(persist) => {
                self.storage.persists += 1;
                if self.storage.silent {
                    return;
                }
                let failing = self.storage.error;
                let missed = !self.storage.after(&persist.document, persist.after).updates.is_empty();
                if failing.is_none() || self.storage.commits_before_error {
                    self.storage.append(&persist.document, &persist.update);
                }
                let answer = match failing {
                    Some(error) => Err(error),
                    None => Ok(Persisted {
                        clock: self.storage.head,
                        epoch: self.storage.epoch,
                        at: self.now,
                        missed,
                    }),
                };
                self.room.handle_persisted(&persist.document, persist.flush, answer, self.now);
            }
            Action::Spool if self.spool_waits => {}
            Action::Spool => self.room.handle_spool(),
            Action::Keep(kept) => self.spool.push((kept.document, kept.number, kept.update.to_vec())),
            Action::Release { document, through } => {
                self.spool.retain(|(path, number, _)| *path != document || *number > through);
            }
            Action::SendBinary { to, frame } => {
                let bytes = match frame {
                    Frame::Input => input.expect("there is an input").to_vec(),
                    Frame::Bytes(bytes) => bytes,
                };
                for id in to {
                    let inbox = self.inboxes.get_mut(&id).unwrap();
                    if inbox.closed.is_none() {
                        inbox.binary.push(bytes.clone());
                    }
                }
            }
            Action::SendText { to, text } => {
                for id in to {
                    let inbox = self.inboxes.get_mut(&id).unwrap();
                    if inbox.closed.is_none() {
                        inbox.text.push(serde_json::from_str(&text).unwrap());
                    }
                }
            }
        }
    }
}

pub fn flush(id: u64) -> Value {
    json!({ "type": "flush", "id": id })
}
