//! What must be true: what was promised to whom, and whether it was kept (DESIGN section 12).

use std::collections::BTreeMap;
use std::fmt;

use crate::d1::{D1, StoredDocument};
use crate::people::records::Planned;
use crate::people::replica::{Extent, Replica};
use crate::people::walker::Phase;
use crate::world::World;

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule of the design.
    pub rule: &'static str,
    /// What happened.
    pub what: String,
}

impl Violation {
    /// A broken promise.
    pub const fn new(rule: &'static str, what: String) -> Self {
        Self { rule, what }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// Something that was written into a document once.
#[derive(Debug, Clone, Default)]
pub struct Mark {
    /// The document.
    pub path: String,
    /// The epoch that its writer's copy was of, if the writer knew it.
    pub epoch: Option<u64>,
    /// Whether a copy that did not know its epoch carried it on: then it may turn up in any (W11).
    pub stray: bool,
    /// Whether somebody removed it again.
    pub erased: bool,
    /// Whether somebody removed it who may not write, and so only from a copy.
    pub hidden: bool,
    /// Whether it was written by somebody who may not write: nobody else has it.
    pub forbidden: bool,
    /// The epoch of which somebody was told that it is saved there.
    pub saved: Option<u64>,
}

/// What a receipt says.
#[derive(Debug)]
pub struct Receipt {
    /// The document.
    pub path: &'static str,
    /// Its epoch; 0 for one that the relay does not know.
    pub epoch: u64,
    /// The clock at which all is stored.
    pub clock: u64,
    /// The marks that it covers.
    pub covered: Vec<String>,
    /// The copy that it covers.
    pub extent: Extent,
}

/// What an agent asked for, under an actor's name of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The answer was never heard.
    Unknown,
    /// It was answered that it is done.
    Done,
    /// It was answered that it is not.
    Refused,
}

/// What was promised in a world.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Everything that was ever written into a document.
    pub marks: BTreeMap<String, Mark>,
    /// What agents asked for, by actor.
    pub ops: BTreeMap<String, Outcome>,
    /// The clocks that they were answered.
    pub answers: BTreeMap<String, Vec<u64>>,
    /// What they wanted of nodes, by actor: all of it or nothing is done.
    pub plans: BTreeMap<String, Vec<Planned>>,
    /// Counts of the record that agents count up: those answered, and those that may have been done.
    pub increments: (u64, u64),
    /// Whether what the Worker told the room got lost for good (R3).
    pub lost_tell: bool,
    /// How often somebody's role changed.
    pub role_changes: u64,
    /// What receipts said to be saved: the epoch of a document, and how much of it.
    pub promises: Vec<(u64, Extent)>,
    /// How much of each thing happened: a world in which nothing does checks nothing.
    pub counts: BTreeMap<&'static str, u64>,
}

impl Ledger {
    /// Notes that something happened.
    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_insert(0) += 1;
    }

    /// W8: all that a receipt covers is stored now and at the clock that it names, each delete included, or
    /// the document is gone or another one by now.
    pub fn check_receipt(&mut self, d1: &mut D1, receipt: Receipt) -> Result<(), Violation> {
        let Receipt { path, epoch, clock, covered, extent } = receipt;
        let wrong = |what: String| Err(Violation::new("W8", format!("a receipt for {what} in {path}")));
        let stored = if epoch == 0 { d1.document(path) } else { d1.document_of(epoch) };
        if let Some(stored) = &stored {
            let there = stored.replica.counts();
            let lost = |mark: &&String| !self.is_erased(mark) && !there.contains_key(*mark);
            if let Some(mark) = covered.iter().find(lost) {
                return wrong(format!("{mark}, which is not stored,"));
            }
            if !stored.replica.extent().includes(&extent) {
                return wrong(format!("{extent:?}, which is not all stored,"));
            }
        }
        // Of a document that is gone, the receipt may come later than the end; of none it may not come.
        let then = d1.extent_at(stored.map_or(epoch, |stored| stored.epoch), clock);
        if !then.is_some_and(|then| then.includes(&extent)) && !extent.is_empty() {
            return wrong(format!("what was not stored at clock {clock}"));
        }
        self.promises.push((epoch, extent));
        Ok(())
    }

    /// Whether the room was not told of some change for good: the telling was lost, or the request was given up or
    /// refused and carried out all the same.
    pub fn has_untold(&self, d1: &D1) -> bool {
        let is_open = |actor: &String| self.ops.get(actor).is_some_and(|outcome| *outcome != Outcome::Done);
        self.lost_tell || d1.journal.iter().any(|change| is_open(&change.actor))
    }

    fn is_erased(&self, mark: &str) -> bool {
        self.marks.get(mark).is_none_or(|mark| mark.erased)
    }

    /// R2: what was asked once was done at most once, and at least once if that was the answer.
    fn check_ops(&self, d1: &D1) -> Result<(), Violation> {
        let mut done: BTreeMap<&str, u64> = BTreeMap::new();
        for change in &d1.journal {
            *done.entry(change.actor.as_str()).or_insert(0) += 1;
        }
        for (actor, outcome) in &self.ops {
            let times = done.get(actor.as_str()).copied().unwrap_or(0);
            let once = self.plans.get(actor).map_or(1, |plan| plan.len() as u64);
            let wrong = match outcome {
                Outcome::Unknown => times != 0 && times != once,
                Outcome::Done => times != once,
                Outcome::Refused => times != 0,
            };
            if wrong {
                return Err(Violation::new(
                    "R2",
                    format!("{actor}, {outcome:?}, was carried out {times} times"),
                ));
            }
        }
        for (actor, clocks) in &self.answers {
            let is_own = |clock: &u64| {
                let change = clock.checked_sub(1).and_then(|index| d1.journal.get(index as usize));
                change.is_some_and(|change| change.actor == *actor)
            };
            if !clocks.iter().all(is_own) {
                return Err(Violation::new(
                    "R2",
                    format!("{actor} was answered {clocks:?}, which others made"),
                ));
            }
        }
        let (least, may_be) = self.increments;
        let value = d1.number(COUNTER).unwrap_or(0);
        if value < least || value > least + may_be {
            return Err(Violation::new(
                "R1",
                format!("counted to {value}, with {least} to {} answers", least + may_be),
            ));
        }
        Ok(())
    }

    /// D1, W11: a stored document has what was saved in its epoch, wherever it was then, once, and nothing of
    /// another. So what was deleted does not come back in a document that is made later.
    fn check_document(&self, d1: &mut D1, path: &str) -> Result<(), Violation> {
        let Some(StoredDocument { epoch, replica }) = d1.document(path) else { return Ok(()) };
        let there = replica.counts();
        if replica.has_hole() {
            return Err(Violation::new("D5", format!("{path} lacks something that it depends on")));
        }
        if let Some((mark, times)) = there.iter().find(|(_, times)| **times != 1) {
            return Err(Violation::new("R2", format!("{mark} is in {path} {times} times")));
        }
        let has = replica.extent();
        let mut promised = self.promises.iter().filter(|(of, _)| *of == epoch);
        if let Some((_, extent)) = promised.find(|(_, extent)| !has.includes(extent)) {
            return Err(Violation::new("D1", format!("of {extent:?}, saved in {path}, something is lost")));
        }
        for (mark, known) in &self.marks {
            let is_there = there.contains_key(mark);
            if known.saved == Some(epoch) && !known.erased && !is_there {
                return Err(Violation::new("D1", format!("{mark} was saved in {path} and is lost")));
            }
            if is_there && known.forbidden {
                return Err(Violation::new("S3", format!("{mark} is in {path}: its writer may only read")));
            }
            let of = known.epoch.or(known.saved);
            if is_there && !known.stray && of.is_some_and(|of| of != epoch) {
                return Err(Violation::new(
                    "W11",
                    format!("{mark} of epoch {of:?} is in {path} of epoch {epoch}"),
                ));
            }
        }
        Ok(())
    }
}

impl World {
    /// Everything, once the network is whole and nobody writes any more.
    pub fn check_end(&mut self) -> Result<(), Violation> {
        self.d1.check_log()?;
        self.ledger.check_ops(&self.d1)?;
        self.ledger.check_nodes(&self.d1)?;
        for path in self.d1.documents().into_keys() {
            self.ledger.check_document(&mut self.d1, &path)?;
        }
        self.check_humans()?;
        self.check_readers()
    }

    /// Something was committed later than its relay waited. If it was the first that was saved of a document, with
    /// no epoch and no key to say which, and that was deleted meanwhile, it makes another one.
    pub fn note_late(&mut self, before: usize) {
        let head = self.d1.journal.len();
        let late = self.d1.journal[before..].iter().filter(|change| change.kind == "update");
        for path in late.map(|change| change.path.clone()).collect::<Vec<_>>() {
            let made = self.d1.document(&path).filter(|stored| stored.epoch == head as u64);
            for mark in made.map(|stored| stored.replica.counts()).unwrap_or_default().into_keys() {
                if let Some(known) = self.ledger.marks.get_mut(&mark) {
                    known.stray = true;
                }
            }
        }
    }

    /// What is left to be true after everybody left.
    pub fn check_end_of_feed(&mut self) -> Result<(), Violation> {
        self.d1.check_log()?;
        self.ledger.check_ops(&self.d1)?;
        self.ledger.check_nodes(&self.d1)?;
        self.check_readers()
    }

    /// S1, D3: every person is connected and has what is stored, or stopped for a stated reason.
    fn check_humans(&mut self) -> Result<(), Violation> {
        for index in 0..self.humans.len() {
            let human = &self.humans[index];
            if let Phase::Stopped(_) = human.walker.phase {
                continue;
            }
            if self.d1.is_deleted() {
                if human.is_connected() {
                    let what = format!("person {index} is still connected to a deleted workspace");
                    return Err(Violation::new("F7", what));
                }
                // Each upgrade is refused with 410, which a browser does not tell.
                continue;
            }
            if !human.is_settled() {
                let phase = human.walker.phase;
                return Err(Violation::new("S1", format!("person {index} is still {phase:?}")));
            }
            if human.replica.has_hole() {
                return Err(Violation::new("D5", format!("the copy of person {index} has a hole")));
            }
            let is_strict =
                human.access.is_writer() || (self.ledger.role_changes == 0 && !human.access.is_tainted());
            if !is_strict {
                self.check_reader_copy(index)?;
                continue;
            }
            if human.access.is_writer() && !human.receipts.is_at_rest() {
                return Err(Violation::new(
                    "W8",
                    format!("person {index} has edits that nobody calls saved"),
                ));
            }
            self.check_copy(index)?;
        }
        Ok(())
    }

    /// D3: a copy is what is stored, and so are its deletes.
    fn check_copy(&mut self, index: usize) -> Result<(), Violation> {
        let human = &self.humans[index];
        let stored = self.d1.document(human.path).map(|stored| stored.replica);
        let stored = stored.unwrap_or_else(|| Replica::of(&[]));
        let (has, known) = (human.replica.extent(), stored.extent());
        if human.replica.content() == stored.content() && has.includes(&known) && known.includes(&has) {
            return Ok(());
        }
        let only = |a: &Replica, b: &Replica| {
            let (a, b) = (a.counts(), b.counts());
            a.into_keys().filter(|mark| !b.contains_key(mark)).collect::<Vec<_>>()
        };
        let (extra, lacks) = (only(&human.replica, &stored), only(&stored, &human.replica));
        let what = format!(
            "person {index}, at {}: only there {extra:?}, only stored {lacks:?}; {} against {}; {has:?} against {known:?}",
            human.path,
            human.replica.content(),
            stored.content()
        );
        Err(Violation::new("D3", what))
    }
}

/// The documents of a world.
pub const DOCUMENTS: [&str; 2] = ["docs/a", "docs/b"];

/// The record that agents count up.
pub const COUNTER: &str = "counter";
