//! Receipts of a person's edits (W8): the wishes of `receipts.ts`, and of clients that ask more often.

use serde_json::Value;

use crate::checks::{Receipt, Violation};
use crate::network::{ConnectionId, Data};
use crate::people::replica::{Extent, Replica};
use crate::protocol::Timestamp;
use crate::world::{Event, World};

/// What a person knows of what is saved.
#[derive(Debug, Default)]
pub struct Receipts {
    /// Edits so far, and how many of them are covered.
    edits: u64,
    saved: u64,
    /// Flushes that wait for their answers. One at most is the session's own.
    asked: Vec<Asked>,
    last_id: u64,
    linked: bool,
    refused: bool,
    failures: u32,
    since: Option<Timestamp>,
    /// The application waits for a receipt.
    is_wanted: bool,
    /// The newest timer.
    wish: u64,
}

/// A flush, and what its receipt says to be saved.
#[derive(Debug, Clone)]
struct Asked {
    id: u64,
    is_own: bool,
    edits: u64,
    marks: usize,
    extent: Extent,
}

impl Receipts {
    /// Of a new copy, which may hold edits of an earlier life.
    pub fn new() -> Self {
        Self { edits: 1, ..Self::default() }
    }

    /// Whether every edit is called saved, or no receipt will come.
    pub const fn is_at_rest(&self) -> bool {
        self.refused || self.saved == self.edits
    }

    fn waits(&self) -> bool {
        self.asked.iter().any(|asked| asked.is_own)
    }
}

impl World {
    /// `handleEdit`.
    pub fn note_edit(&mut self, human: usize) {
        self.humans[human].receipts.edits += 1;
        self.schedule_flush(human);
    }

    /// `handleSynced`.
    pub fn receipts_synced(&mut self, human: usize) {
        let receipts = &mut self.humans[human].receipts;
        (receipts.linked, receipts.refused, receipts.failures) = (true, false, 0);
        receipts.asked.clear();
        match receipts.is_wanted {
            true => self.ask_own(human),
            false => self.schedule_flush(human),
        }
    }

    /// `handleEnd`.
    pub fn receipts_ended(&mut self, human: usize) {
        let receipts = &mut self.humans[human].receipts;
        receipts.linked = false;
        receipts.asked.clear();
        receipts.wish = 0;
    }

    /// The application wants a receipt. Some clients ask although another answer is due.
    pub fn flush(&mut self, human: usize, asks_besides: bool) {
        let receipts = &mut self.humans[human].receipts;
        if asks_besides && receipts.linked {
            return self.ask(human, false);
        }
        receipts.is_wanted = true;
        if receipts.failures == 0 {
            self.ask_own(human);
        }
    }

    /// A timer is over.
    pub fn flush_due(&mut self, human: usize, wish: u64) {
        if self.humans[human].receipts.wish == wish {
            self.ask_own(human);
        }
    }

    fn ask_own(&mut self, human: usize) {
        let receipts = &mut self.humans[human].receipts;
        if receipts.linked && !receipts.waits() {
            (receipts.wish, receipts.since) = (0, None);
            self.ask(human, true);
        }
    }

    fn ask(&mut self, human: usize, is_own: bool) {
        let person = &mut self.humans[human];
        let Some(connection) = person.connection else { return };
        let marks = person.marks.len();
        // What was not sent over this connection, no receipt of it covers.
        let extent = if person.held_back { Replica::of(&[]).extent() } else { person.replica.extent() };
        let receipts = &mut person.receipts;
        receipts.last_id += 1;
        let (id, edits) = (receipts.last_id, receipts.edits);
        receipts.asked.push(Asked { id, is_own, edits, marks, extent });
        self.send_to_relay(connection, Data::Text(format!(r#"{{"type":"flush","id":{id}}}"#)));
    }

    /// Asks when edits have rested, or the first of them is old.
    fn schedule_flush(&mut self, human: usize) {
        let now = self.now;
        let receipts = &mut self.humans[human].receipts;
        if !receipts.linked || receipts.waits() || receipts.failures > 0 || receipts.is_at_rest() {
            return;
        }
        let oldest = *receipts.since.get_or_insert(now) + MAX_AGE_MS;
        self.flush_after(human, QUIET_MS.min(oldest.saturating_sub(now)));
    }

    fn flush_after(&mut self, human: usize, after: u64) {
        let wish = self.number();
        self.humans[human].receipts.wish = wish;
        self.at(self.now + after, Event::FlushDue(human, wish));
    }

    /// A text frame arrives at a person.
    pub fn human_is_told(&mut self, human: usize, text: &str) {
        let Some((told, asked)) = self.answer_to(human, text) else { return };
        self.humans[human].receipts.asked.retain(|other| other.id != asked.id);
        if told["type"] == "receipt" {
            self.note_saved(human, &asked, told["epoch"].as_u64().unwrap_or(0));
        } else {
            let epoch = told["epoch"].as_u64().filter(|epoch| *epoch > 0);
            let person = &mut self.humans[human];
            person.epoch = epoch.or(person.epoch);
            self.ledger.count("failed flushes");
        }
        match (asked.is_own, told["type"] == "receipt") {
            (true, true) => self.own_receipt(human, asked.edits),
            (true, false) => self.own_failure(human, told["reason"].as_str().unwrap_or_default()),
            (false, _) => {}
        }
    }

    fn note_saved(&mut self, human: usize, asked: &Asked, epoch: u64) {
        let person = &mut self.humans[human];
        if epoch > 0 {
            person.epoch = Some(epoch);
        }
        for mark in &person.marks[..asked.marks] {
            if let Some(known) = self.ledger.marks.get_mut(mark) {
                known.saved = Some(epoch).filter(|epoch| *epoch > 0);
            }
        }
        self.ledger.count(if asked.marks == 0 { "empty receipts" } else { "receipts" });
    }

    /// `handleReceipt`.
    fn own_receipt(&mut self, human: usize, edits: u64) {
        let receipts = &mut self.humans[human].receipts;
        (receipts.saved, receipts.failures) = (edits, 0);
        receipts.is_wanted &= edits < receipts.edits;
        match receipts.is_wanted {
            true => self.ask_own(human),
            false => self.schedule_flush(human),
        }
    }

    /// `handleFailure`.
    fn own_failure(&mut self, human: usize, reason: &str) {
        let receipts = &mut self.humans[human].receipts;
        if PERMANENT.contains(&reason) {
            (receipts.refused, receipts.is_wanted, receipts.wish) = (true, false, 0);
            return;
        }
        let ceiling = RETRY_CAP_MS.min(RETRY_BASE_MS << receipts.failures.min(5));
        receipts.failures += 1;
        let wait = RETRY_BASE_MS / 2 + self.random.below(ceiling);
        self.flush_after(human, wait);
    }

    /// W8: looks at a receipt when the relay gives it, since later the document may be another one.
    pub fn check_answer(&mut self, human: usize, id: ConnectionId, text: &str) -> Result<(), Violation> {
        if self.humans[human].connection != Some(id) {
            return Ok(());
        }
        let Some((told, asked)) = self.answer_to(human, text) else { return Ok(()) };
        if told["type"] != "receipt" {
            return Ok(());
        }
        if !self.connections.get(&id).is_some_and(|connection| connection.info.can_write) {
            return Err(Violation::new("W8", format!("person {human}, who may only read, gets a receipt")));
        }
        let number = |name: &str| told[name].as_u64().unwrap_or(0);
        let person = &self.humans[human];
        let receipt = Receipt {
            path: person.path,
            epoch: number("epoch"),
            clock: number("clock"),
            covered: person.marks[..asked.marks].to_vec(),
            extent: asked.extent,
        };
        self.ledger.check_receipt(&mut self.d1, receipt)
    }

    /// The answer to a flush that waits, with what it covers.
    fn answer_to(&self, human: usize, text: &str) -> Option<(Value, Asked)> {
        let told: Value = serde_json::from_str(text).ok()?;
        let is_answer = told["type"] == "receipt" || told["type"] == "flush_failed";
        let id = told["id"].as_u64().filter(|_| is_answer)?;
        let asked = self.humans[human].receipts.asked.iter().find(|asked| asked.id == id)?;
        Some((told, asked.clone()))
    }
}

/// As `receipts.ts`.
const QUIET_MS: u64 = 2_500;
const MAX_AGE_MS: u64 = 10_000;
const RETRY_BASE_MS: u64 = 1_000;
const RETRY_CAP_MS: u64 = 30_000;
const PERMANENT: [&str; 4] = ["forbidden", "deleted", "epoch_changed", "document_too_large"];
