//! What a document received and has not saved yet, and who waits for it to be saved.

use std::sync::Arc;

use serde_json::Value;

use crate::document::checkpoint;
use crate::planted::{Bug, planted};
use crate::protocol::Timestamp;

use super::config::RoomConfig;
use super::session::SessionId;

/// The pending tail of a document. Nothing leaves it before storage has said that it is there.
#[derive(Debug, Default)]
pub(super) struct Tail {
    pending: Vec<Arc<[u8]>>,
    pending_bytes: usize,
    writer: Writer,
    /// How many of the pending updates, from the first on, the spool has been given (D6).
    kept: usize,
    /// Who wrote the others.
    unkept_writer: Writer,
    /// When the first of the pending updates came in.
    since: Timestamp,
    /// When the pending updates have to be flushed (D1).
    due: Option<Timestamp>,
    flight: Option<Flight>,
    failures: u32,
    /// Updates received, and how many of them are saved.
    received: u64,
    saved: u64,
    waiting: Vec<Waiting>,
    flushes: u64,
}

/// Who wrote the pending updates.
#[derive(Debug, Default, PartialEq, Eq)]
enum Writer {
    #[default]
    Nobody,
    One(String),
    Several,
}

impl Writer {
    fn add(&mut self, writer: &str) {
        match self {
            Self::Nobody => *self = Self::One(writer.to_owned()),
            Self::One(first) if first != writer => *self = Self::Several,
            Self::One(_) | Self::Several => {}
        }
    }

    /// The author to name: what several wrote is the relay's.
    fn name(&self, config: &RoomConfig) -> String {
        match self {
            Self::One(writer) => writer.clone(),
            Self::Nobody | Self::Several => format!("relay:{}", config.label),
        }
    }
}

/// A flush on its way to storage. It keeps its bytes until storage has them, across retries.
#[derive(Debug)]
struct Flight {
    flush: u64,
    update: Arc<[u8]>,
    actor: String,
    through: u64,
    /// Whether the spool has been given all of it.
    is_kept: bool,
    since: Timestamp,
    state: FlightState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlightState {
    /// Handed to the shell; counts as failed at this time.
    Running(Timestamp),
    /// Failed; to be tried again at this time.
    Waiting(Timestamp),
}

/// A connection that asked for a receipt (W8).
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) session: SessionId,
    pub(super) id: Value,
    after: u64,
}

/// A flush to hand to the shell.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Flush {
    pub(super) flush: u64,
    pub(super) update: Arc<[u8]>,
    pub(super) actor: String,
}

impl Tail {
    /// A tail whose flushes and updates are numbered from `base`, so that none of them is taken for
    /// one of an earlier stay of the document.
    pub(super) fn numbered_from(base: u64) -> Self {
        Self { flushes: base, received: base, saved: base, ..Self::default() }
    }

    /// Takes an update in.
    pub(super) fn push(&mut self, update: Arc<[u8]>, writer: &str, now: Timestamp, config: &RoomConfig) {
        if self.pending.is_empty() {
            self.since = now;
        }
        self.pending_bytes += update.len();
        self.pending.push(update);
        self.received += 1;
        self.writer.add(writer);
        if config.spool {
            self.unkept_writer.add(writer);
        }
        self.due.get_or_insert(now + config.flush_after);
        if self.pending.len() >= MAX_PENDING {
            self.compact();
        }
    }

    /// What the spool has to be given: each update with who wrote it and the number of the last one in it. What is
    /// still pending is merged for it once, and stays merged for the flush.
    pub(super) fn take_unkept(&mut self, config: &RoomConfig) -> Vec<(Arc<[u8]>, String, u64)> {
        let mut unkept = Vec::new();
        if let Some(flight) = self.flight.as_mut().filter(|flight| !flight.is_kept) {
            flight.is_kept = true;
            unkept.push((Arc::clone(&flight.update), flight.actor.clone(), flight.through));
        }
        let writer = std::mem::take(&mut self.unkept_writer);
        for update in merge(self.pending.split_off(self.kept)) {
            unkept.push((Arc::clone(&update), writer.name(config), self.received));
            self.pending.push(update);
        }
        self.kept = self.pending.len();
        self.pending_bytes = self.pending.iter().map(|update| update.len()).sum();
        unkept
    }

    /// The number of the newest update that storage has.
    pub(super) const fn saved_through(&self) -> u64 {
        self.saved
    }

    /// When the oldest update came in that storage may not have.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        let pending = (!self.pending.is_empty()).then_some(self.since);
        self.flight.as_ref().map(|flight| flight.since).or(pending)
    }

    /// Whether storage is being asked to take something.
    pub(super) fn is_running(&self) -> bool {
        self.flight.as_ref().is_some_and(|flight| matches!(flight.state, FlightState::Running(_)))
    }

    /// Everything that storage may not have, oldest first.
    pub(super) fn updates(&self) -> impl Iterator<Item = &[u8]> {
        self.flight.iter().map(|flight| &flight.update).chain(&self.pending).map(AsRef::as_ref)
    }

    /// Bytes that storage may not have.
    pub(super) fn bytes(&self) -> usize {
        self.pending_bytes + self.flight.as_ref().map_or(0, |flight| flight.update.len())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.flight.is_none()
    }

    /// Asks for a flush without the delay.
    pub(super) fn urge(&mut self, now: Timestamp) {
        if !self.pending.is_empty() {
            self.due = Some(now);
        }
    }

    /// When something is to be done: a flush, a retry, or giving up on a running one.
    pub(super) fn timeout(&self) -> Option<Timestamp> {
        match self.flight.as_ref().map(|flight| flight.state) {
            Some(FlightState::Running(at) | FlightState::Waiting(at)) => Some(at),
            None => self.due,
        }
    }

    /// Starts or restarts a flush when it is time. One is on its way at most. With `early`, what is
    /// pending goes although it might wait: another document's flush goes anyway.
    pub(super) fn start(&mut self, now: Timestamp, early: bool, config: &RoomConfig) -> Option<Flush> {
        if let Some(flight) = &mut self.flight {
            if !matches!(flight.state, FlightState::Waiting(at) if at <= now) {
                return None;
            }
            flight.state = FlightState::Running(now + config.storage_timeout);
            return Some(Flush {
                flush: flight.flush,
                update: Arc::clone(&flight.update),
                actor: flight.actor.clone(),
            });
        }
        if self.due.is_none_or(|due| due > now && !early) {
            return None;
        }
        let is_kept = self.kept >= self.pending.len();
        self.compact();
        let actor = self.writer.name(config);
        // More than one pending update remains only where they cannot be merged; then one by one.
        let rest = if self.pending.len() > 1 { self.pending.split_off(1) } else { Vec::new() };
        let update = std::mem::replace(&mut self.pending, rest).pop()?;
        self.kept = if is_kept { self.pending.len() } else { 0 };
        self.pending_bytes = self.pending.iter().map(|update| update.len()).sum();
        self.flushes += 1;
        let through = if self.pending.is_empty() { self.received } else { self.saved };
        if self.pending.is_empty() {
            self.writer = Writer::Nobody;
            self.unkept_writer = Writer::Nobody;
            self.due = None;
        }
        let flight = Flight {
            flush: self.flushes,
            update: Arc::clone(&update),
            actor: actor.clone(),
            through,
            is_kept,
            since: self.since,
            state: FlightState::Running(now + config.storage_timeout),
        };
        self.flight = Some(flight);
        Some(Flush { flush: self.flushes, update, actor })
    }

    /// Storage has a flush. Returns the actor that it was saved for and whose receipts are due;
    /// `None` when it was an answer that had already come.
    pub(super) fn saved(&mut self, flush: u64) -> Option<(String, Vec<Waiting>)> {
        let flight = self.flight.take_if(|flight| flight.flush == flush)?;
        self.failures = 0;
        self.saved = self.saved.max(flight.through);
        Some((flight.actor, self.take_settled()))
    }

    /// A flush failed: everything stays, and who waited is told. `true` when it was the running one.
    pub(super) fn failed(&mut self, flush: u64, now: Timestamp, config: &RoomConfig) -> Option<Vec<Waiting>> {
        let flight = self.flight.as_mut().filter(|flight| flight.flush == flush)?;
        if !matches!(flight.state, FlightState::Running(_)) {
            return None;
        }
        let delay = config.backoff(self.failures);
        flight.state = FlightState::Waiting(now + delay);
        self.failures += 1;
        if planted(Bug::LostTailOnFlushFailure) {
            self.flight = None;
        }
        Some(std::mem::take(&mut self.waiting))
    }

    /// The flush that has been running for too long.
    pub(super) fn overdue(&self, now: Timestamp) -> Option<u64> {
        let flight = self.flight.as_ref()?;
        matches!(flight.state, FlightState::Running(deadline) if deadline <= now).then_some(flight.flush)
    }

    /// Registers a wish for a receipt; `true` when everything is saved already.
    pub(super) fn want_receipt(&mut self, session: SessionId, id: &Value, now: Timestamp) -> bool {
        if self.is_empty() {
            return true;
        }
        self.waiting.push(Waiting { session, id: id.clone(), after: self.received });
        self.urge(now);
        false
    }

    /// Registers a wish for a receipt of what is saved already, while its clock is not known.
    pub(super) fn wait(&mut self, session: SessionId, id: &Value) {
        self.waiting.push(Waiting { session, id: id.clone(), after: self.saved });
    }

    /// Takes the wishes that wait for nothing that is to be saved.
    pub(super) fn take_settled(&mut self) -> Vec<Waiting> {
        let (settled, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|wish| wish.after <= self.saved);
        self.waiting = waiting;
        settled
    }

    /// How many receipts a connection waits for.
    pub(super) fn wishes(&self, session: SessionId) -> usize {
        self.waiting.iter().filter(|waiting| waiting.session == session).count()
    }

    /// Drops everything: the document is gone or has another epoch.
    pub(super) fn clear(&mut self) {
        *self =
            Self { flushes: self.flushes, received: self.received, saved: self.received, ..Self::default() };
    }

    /// Merges the pending updates into one, which bounds their number and costs no order.
    pub(super) fn compact(&mut self) {
        let is_kept = self.kept >= self.pending.len();
        self.pending = merge(std::mem::take(&mut self.pending));
        // One that has something new in it is new to the spool.
        self.kept = if is_kept { self.pending.len() } else { 0 };
        self.pending_bytes = self.pending.iter().map(|update| update.len()).sum();
    }
}

/// One update in place of several, or the same several where they cannot be merged.
fn merge(updates: Vec<Arc<[u8]>>) -> Vec<Arc<[u8]>> {
    if updates.len() < 2 {
        return updates;
    }
    let parts: Vec<&[u8]> = updates.iter().map(AsRef::as_ref).collect();
    match checkpoint::merge(&parts) {
        Ok(merged) => vec![merged.into()],
        Err(_) => updates,
    }
}

/// Pending updates that are kept apart. Past it they are merged early, so that a long outage of
/// storage costs the document's size and not the number of keystrokes.
const MAX_PENDING: usize = 2_048;

#[cfg(test)]
mod tests {
    use super::*;

    const A: &[u8] = &[1, 1, 0x65, 0, 4, 1, 1, b't', 1, b'a', 0];
    const B: &[u8] = &[1, 1, 0x65, 1, 0x84, 0x65, 0, 1, b'b', 0];

    fn config() -> RoomConfig {
        RoomConfig::default()
    }

    fn spool() -> RoomConfig {
        RoomConfig { spool: true, ..config() }
    }

    #[test]
    fn d1_updates_are_flushed_two_seconds_after_the_first() {
        let mut tail = Tail::default();
        tail.push(A.into(), "ann", 1_000, &config());
        tail.push(B.into(), "ann", 2_500, &config());
        assert_eq!(tail.timeout(), Some(3_000));
        assert_eq!(tail.start(2_999, false, &config()), None);
        let flush = tail.start(3_000, false, &config()).unwrap();
        assert_eq!(flush.actor, "ann");
        assert_eq!(*flush.update, *checkpoint::merge(&[A, B]).unwrap());
        assert!(!tail.is_empty(), "kept until storage has it");
        assert!(tail.saved(flush.flush).is_some());
        assert!(tail.is_empty());
        assert_eq!(tail.timeout(), None);
    }

    #[test]
    fn several_writers_are_saved_as_the_relay() {
        let mut tail = Tail::default();
        tail.push(A.into(), "ann", 0, &config());
        tail.push(B.into(), "bob", 0, &config());
        assert_eq!(tail.start(5_000, false, &config()).unwrap().actor, "relay:relay");
    }

    #[test]
    fn a_failed_flush_is_kept_and_retried_with_backoff() {
        let mut tail = Tail::default();
        tail.push(A.into(), "ann", 0, &config());
        let first = tail.start(2_000, false, &config()).unwrap();
        let mut now = 2_000;
        let mut delays = Vec::new();
        for _ in 0..7 {
            assert!(tail.failed(first.flush, now, &config()).is_some());
            let at = tail.timeout().unwrap();
            delays.push(at - now);
            now = at;
            assert_eq!(tail.start(now, false, &config()).as_ref(), Some(&first), "the same bytes");
        }
        assert_eq!(delays, [500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
    }

    #[test]
    fn w8_a_receipt_waits_for_what_was_sent_before_it() {
        let mut tail = Tail::default();
        assert!(tail.want_receipt(1, &Value::from(0), 0), "nothing to save");
        tail.push(A.into(), "ann", 0, &config());
        let first = tail.start(2_000, false, &config()).unwrap();
        tail.push(B.into(), "ann", 2_100, &config());
        assert!(!tail.want_receipt(1, &Value::from(1), 2_200));
        assert!(tail.saved(first.flush).unwrap().1.is_empty(), "the second update is not saved yet");
        let second = tail.start(2_200, false, &config()).unwrap();
        assert_eq!(tail.saved(second.flush).unwrap().1.len(), 1);
        assert!(tail.saved(second.flush).is_none(), "an answer counts once");
    }

    #[test]
    fn a_late_success_of_a_flush_that_was_given_up_counts() {
        let mut tail = Tail::default();
        tail.push(A.into(), "ann", 0, &config());
        let flush = tail.start(2_000, false, &config()).unwrap().flush;
        assert_eq!(tail.overdue(12_000), Some(flush));
        assert!(tail.failed(flush, 12_000, &config()).is_some());
        assert!(tail.saved(flush).is_some());
        assert!(tail.is_empty());
    }

    #[test]
    fn d6_the_spool_is_given_everything_once() {
        let mut tail = Tail::default();
        tail.push(A.into(), "ann", 0, &spool());
        assert_eq!(tail.take_unkept(&spool()), [(A.into(), "ann".to_owned(), 1)]);
        tail.push(B.into(), "ann", 10, &spool());
        assert_eq!(tail.take_unkept(&spool()), [(B.into(), "ann".to_owned(), 2)]);
        assert_eq!(tail.take_unkept(&spool()), []);
        let flush = tail.start(2_000, false, &spool()).unwrap();
        assert_eq!(*flush.update, *checkpoint::merge(&[A, B]).unwrap());
        assert_eq!(tail.take_unkept(&spool()), [], "it has both parts");
    }

    #[test]
    fn d6_the_spool_is_told_who_wrote_what_it_is_given() {
        let config = spool();
        let mut tail = Tail::default();
        for (update, writer) in [(A, "ann"), (B, "bob")] {
            tail.push(update.into(), writer, 0, &config);
            assert_eq!(tail.take_unkept(&config)[0].1, writer);
        }
        assert_eq!(tail.start(5_000, false, &config).unwrap().actor, "relay:relay");
    }

    #[test]
    fn d6_the_spool_is_given_a_flush_that_has_something_new() {
        let mut tail = Tail::default();
        tail.push(A.into(), "ann", 0, &spool());
        tail.take_unkept(&spool());
        tail.push(B.into(), "bob", 10, &spool());
        let flush = tail.start(2_000, false, &spool()).unwrap();
        tail.push(A.into(), "ann", 2_010, &spool());
        let kept = [(flush.update, "relay:relay".to_owned(), 2), (A.into(), "ann".to_owned(), 3)];
        assert_eq!(tail.take_unkept(&spool()), kept);
        assert_eq!(tail.take_unkept(&spool()), []);
        tail.saved(flush.flush).unwrap();
        assert_eq!(tail.saved_through(), 2, "the third is still in the spool");
    }

    #[test]
    fn d6_what_is_merged_with_something_new_is_new_to_the_spool() {
        let mut tail = Tail::default();
        tail.push(A.into(), "ann", 0, &spool());
        tail.take_unkept(&spool());
        tail.push(B.into(), "ann", 0, &spool());
        tail.compact();
        let merged = checkpoint::merge(&[A, B]).unwrap();
        assert_eq!(tail.take_unkept(&spool()), [(merged.into(), "ann".to_owned(), 2)]);
    }

    #[test]
    fn a_long_outage_costs_the_size_of_the_document() {
        let mut tail = Tail::default();
        for _ in 0..10_000 {
            tail.push(A.into(), "ann", 0, &config());
        }
        assert!(tail.updates().count() < MAX_PENDING + 1);
    }
}
