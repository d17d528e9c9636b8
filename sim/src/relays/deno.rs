//! The Deno relay: a process with a spool, storage over HTTP and the feed, after `relay-deno/*.ts`.

use std::rc::Rc;

use crate::bus::{Bus, Owner};
use crate::checks::Violation;
use crate::d1::WORKSPACE;
use crate::document::checkpoint;
use crate::edge::room_object::Shell;
use crate::feed::cursor::Start;
use crate::feed::filter::Filter;
use crate::network::{MAX_QUEUED_BYTES, Relay};
use crate::protocol::Timestamp;
use crate::protocol::change::{Change, ChangeKind};
use crate::relays::cloudflare::RESTART;
use crate::relays::spool::{Group, SPOOL_BATCH_MS, Spool};
use crate::relays::stream::Listener;
use crate::room::{Action, Persist, Persisted, Room, RoomConfig, StoreError, Stored};
use crate::sse;
use crate::worker::{Call, Request, Response};
use crate::world::{Event, World, call};

/// The process.
pub struct Deno {
    shell: Option<Rc<Shell>>,
    /// Which run of the process this is.
    run: u64,
    /// Which room of the run.
    number: u64,
    /// Whether it can be reached.
    pub up: bool,
    spool: Rc<std::cell::RefCell<Spool>>,
    feed: Option<Feed>,
    is_draining: bool,
}

/// Following the workspace, for as long as its room has listeners (D3).
struct Feed {
    wish: u64,
    stream: Option<u64>,
    cursor: Option<u64>,
    failures: u32,
}

impl Deno {
    /// A process without rooms.
    pub fn new() -> Self {
        Self {
            shell: None,
            run: 1,
            number: 0,
            up: true,
            spool: Rc::default(),
            feed: None,
            is_draining: false,
        }
    }

    /// The room's shell, while there is one.
    pub fn shell(&self) -> Option<Rc<Shell>> {
        self.shell.clone()
    }

    /// When the room's timer is due.
    pub fn timeout(&self) -> Option<Timestamp> {
        self.shell.as_ref().and_then(|shell| shell.core().poll_timeout())
    }

    /// Whether a stream is the one that the feed listens to.
    pub fn hears(&self, wish: u64, stream: u64) -> bool {
        self.feed.as_ref().is_some_and(|feed| feed.wish == wish && feed.stream == Some(stream))
    }

    /// Whether it has nothing: no room, and nothing in its spool.
    pub fn is_empty(&self, now: Timestamp) -> bool {
        self.spool.borrow_mut().write(self.run, now);
        self.shell.is_none() && self.spool.borrow().is_empty()
    }
}

impl World {
    /// The room, made if there is none.
    pub fn deno_room(&mut self) -> Rc<Shell> {
        if let Some(shell) = self.deno.shell() {
            return shell;
        }
        self.deno.number += 1;
        let config = RoomConfig {
            label: "deno".to_owned(),
            follows_feed: true,
            hibernates: false,
            spool: true,
            alone_after: Some(ALONE_AFTER_MS),
            max_queued_bytes: MAX_QUEUED_BYTES,
            ..RoomConfig::default()
        };
        let shell = Shell::new(WORKSPACE, None, Room::new(config));
        self.deno.shell = Some(Rc::clone(&shell));
        shell
    }

    /// Nobody is connected and nothing is left to save: the room goes.
    pub fn end_deno_room(&mut self) {
        self.deno.shell = None;
        self.follow(false);
    }

    /// The process is killed and started again at once.
    pub fn crash_deno(&mut self) {
        let now = self.now;
        self.deno.spool.borrow_mut().crash(self.deno.run, now);
        for id in self.connections_of(Relay::Deno) {
            self.forget_connection(id);
        }
        self.restart_deno();
    }

    /// The process is asked to stop: it saves, sends everybody away, ends, and is started again.
    pub fn drain_deno(&mut self) {
        if std::mem::replace(&mut self.deno.is_draining, true) {
            return;
        }
        if let Some(shell) = self.deno.shell() {
            shell.with(Room::handle_flush);
        }
        self.deno.up = false;
        self.at(self.now + DRAIN_FLUSH_WAIT_MS, Event::DenoStops(self.deno.run));
    }

    /// The spool takes what the room has for it, and writes.
    pub fn deno_spools(&mut self, run: u64) -> Result<(), Violation> {
        if run != self.deno.run {
            return Ok(());
        }
        if let Some(shell) = self.deno.shell() {
            shell.with(|core, _| core.handle_spool());
        }
        self.settle()?;
        let now = self.now;
        self.deno.spool.borrow_mut().write(run, now);
        Ok(())
    }

    /// The end of a drain.
    pub fn deno_stops(&mut self, run: u64) -> Result<(), Violation> {
        if run != self.deno.run {
            return Ok(());
        }
        if let Some(shell) = self.deno.shell() {
            shell.with(Room::handle_restart);
        }
        self.settle()?;
        self.deno_spools(run)?;
        for id in self.connections_of(Relay::Deno) {
            self.dismiss(id, RESTART);
        }
        self.restart_deno();
        self.deno.up = true;
        Ok(())
    }

    fn restart_deno(&mut self) {
        self.follow(false);
        self.cancel(Owner::Deno(self.deno.run));
        self.deno.shell = None;
        self.deno.run += 1;
        self.deno.number = 0;
        self.deno.is_draining = false;
        let (run, bus, spool) = (self.deno.run, Rc::clone(&self.bus), Rc::clone(&self.deno.spool));
        self.spawn(Owner::Deno(run), Box::pin(drain_spool(bus, spool, run)));
    }

    /// What a room asks of storage.
    pub fn store_for_deno(&mut self, action: Action) {
        let Some(shell) = self.deno.shell() else { return };
        let (bus, owner, now) = (Rc::clone(&self.bus), Owner::Deno(self.deno.run), self.now);
        match action {
            Action::Load { document, generation } => {
                self.spawn(owner, Box::pin(load(bus, shell, document, generation)));
            }
            Action::Pull { document, after, generation } => {
                self.spawn(owner, Box::pin(pull(bus, shell, document, after, generation)));
            }
            Action::Persist(flush) => {
                let key = format!("{}-{}-{}", self.deno.run, self.deno.number, flush.flush);
                self.spawn(owner, Box::pin(persist(bus, shell, flush, key)));
            }
            Action::Lease { until, .. } => {
                shell.with(|core, _| core.handle_lease_written(Ok(()), 0));
                self.follow(until > 0);
            }
            Action::Spool => self.at(now + SPOOL_BATCH_MS, Event::DenoSpools(self.deno.run)),
            Action::Keep(kept) => self.deno.spool.borrow_mut().keep(self.deno.number, kept, now),
            Action::Release { document, through } => {
                self.deno.spool.borrow_mut().release(self.deno.number, &document, through, now);
            }
            _ => {}
        }
    }

    /// Follows the workspace's changes, or no more.
    fn follow(&mut self, is_wanted: bool) {
        match (&self.deno.feed, is_wanted) {
            (Some(_), true) | (None, false) => {}
            (Some(feed), false) => {
                let stream = feed.stream;
                self.deno.feed = None;
                if let Some(stream) = stream {
                    self.drop_stream(stream);
                }
            }
            (None, true) => {
                let wish = self.number();
                self.deno.feed = Some(Feed { wish, stream: None, cursor: None, failures: 0 });
                self.at(self.now, Event::OpenFeed(wish));
            }
        }
    }

    /// Opens the feed's stream, or fails to.
    pub fn open_feed(&mut self, wish: u64) {
        let Some(feed) = self.deno.feed.as_ref().filter(|feed| feed.wish == wish && feed.stream.is_none())
        else {
            return;
        };
        let start = feed.cursor.map_or(Start::Now, Start::After);
        if self.random.percent(self.faults.http) {
            return self.feed_failed();
        }
        let stream = self.open_stream(Listener::Deno(wish), start, Filter::default());
        if let Some(feed) = &mut self.deno.feed {
            feed.stream = Some(stream);
        }
    }

    /// Tries again after a pause that grows.
    pub fn feed_failed(&mut self) {
        let Some(feed) = &mut self.deno.feed else { return };
        feed.stream = None;
        let (wish, wait) = (feed.wish, (500 << feed.failures.min(5)).min(10_000));
        feed.failures += 1;
        self.at(self.now + wait, Event::OpenFeed(wish));
    }

    /// The feed's stream breaks; silence tells it.
    pub fn cut_feed(&mut self) {
        if let Some(stream) = self.deno.feed.as_ref().and_then(|feed| feed.stream) {
            self.drop_stream(stream);
            self.feed_failed();
        }
    }

    /// Text of the feed's stream arrives.
    pub fn deno_hears(&mut self, id: u64, text: Option<&str>) {
        let Some(shell) = self.deno.shell() else { return };
        let Some(feed) = self.deno.feed.as_mut().filter(|feed| feed.stream == Some(id)) else { return };
        let Some(text) = text else { return self.feed_failed() };
        for event in sse::parse(text) {
            feed.failures = 0;
            let is_start = feed.cursor.is_none();
            feed.cursor = event.id.or(feed.cursor);
            let head = feed.cursor.unwrap_or(0);
            match event.name.as_str() {
                "change" => {
                    let value = serde_json::from_str(&event.data).unwrap_or_default();
                    if let Some(change) = Change::from_json(&value) {
                        shell.with(|core, now| core.handle_change(&change, now));
                    }
                }
                // The end of the stream that follows finds no feed.
                "deleted" => {
                    self.deno.feed = None;
                    let (kind, path, actor) = (ChangeKind::DeleteWorkspace, String::new(), String::new());
                    let end = Change { clock: head, kind, path, actor, at: self.now };
                    return shell.with(|core, now| core.handle_change(&end, now));
                }
                "reset" => shell.with(|core, now| core.handle_reset(head, now)),
                "head" if is_start => shell.with(|core, now| core.handle_reset(head, now)),
                _ => {}
            }
        }
    }
}

async fn load(bus: Rc<Bus>, shell: Rc<Shell>, document: String, generation: u64) {
    let stored = read(&bus, &document, None).await;
    shell.with(|core, now| core.handle_loaded(&document, generation, stored, now));
}

async fn pull(bus: Rc<Bus>, shell: Rc<Shell>, document: String, after: u64, generation: u64) {
    let stored = read(&bus, &document, Some(after)).await;
    shell.with(|core, now| core.handle_pulled(&document, generation, stored, now));
}

async fn read(bus: &Bus, document: &str, since: Option<u64>) -> Result<Stored, StoreError> {
    let read = Call::Read { path: document.to_owned(), since };
    let answer = call(bus, Request { actor: "deno".to_owned(), key: None, call: read }).await;
    match answer {
        Some(Response { status: 200, clock, epoch: Some(epoch), update, .. }) => {
            Ok(Stored { updates: vec![update], clock, epoch: Some(epoch) })
        }
        Some(answer) if answer.code == "node_not_found" => Ok(Stored::default()),
        answer => Err(error_of(answer.as_ref())),
    }
}

async fn persist(bus: Rc<Bus>, shell: Rc<Shell>, flush: Persist, key: String) {
    let (path, after) = (flush.document.clone(), Some(flush.after));
    let append = Call::Append { path, update: flush.update.to_vec(), epoch: flush.epoch, since: after };
    let answer = call(&bus, Request { actor: flush.actor, key: Some(key), call: append }).await;
    let result = match &answer {
        Some(Response { status: 200, clock, epoch: Some(epoch), missed, .. }) => {
            Ok((*clock, *epoch, *missed))
        }
        answer => Err(error_of(answer.as_ref())),
    };
    shell.with(|core, now| {
        let result = result.map(|(clock, epoch, missed)| Persisted { clock, epoch, at: now, missed });
        core.handle_persisted(&flush.document, flush.flush, result, now);
    });
}

/// `SpoolDrain`: what earlier runs left is sent; what is refused for good is put aside.
async fn drain_spool(bus: Rc<Bus>, spool: Rc<std::cell::RefCell<Spool>>, run: u64) {
    loop {
        let Some(group) = spool.borrow().group(run) else { return };
        if send_group(&bus, &group).await {
            spool.borrow_mut().remove(&group);
        } else {
            bus.ask(|waiter| crate::bus::Ask::Sleep(SPOOL_RETRY_MS, waiter)).await;
        }
    }
}

/// False when it has to be tried again.
async fn send_group(bus: &Bus, group: &Group) -> bool {
    let parts: Vec<&[u8]> = group.updates.iter().map(Vec::as_slice).collect();
    let Ok(update) = checkpoint::merge(&parts) else { return true };
    let append = Call::Append { path: group.document.clone(), update, epoch: group.epoch, since: None };
    let request = Request { actor: "spool".to_owned(), key: Some(group.key.clone()), call: append };
    match call(bus, request).await {
        Some(answer) => matches!(answer.status, 200 | 400 | 404 | 409 | 410 | 413 | 422),
        None => false,
    }
}

fn error_of(answer: Option<&Response>) -> StoreError {
    match answer {
        Some(answer) if answer.code == "epoch_changed" => StoreError::EpochChanged,
        Some(answer) if answer.status == 413 => StoreError::TooLarge,
        Some(answer) if matches!(answer.code, "workspace_deleted" | "workspace_not_found") => {
            StoreError::Deleted
        }
        _ => StoreError::Unavailable,
    }
}

/// As `relay-deno/limits.ts`.
const ALONE_AFTER_MS: u64 = 2_000;
const DRAIN_FLUSH_WAIT_MS: u64 = 600;
const SPOOL_RETRY_MS: u64 = 1_000;
