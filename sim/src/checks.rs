//! What must be true: what was promised to whom, and whether it was kept (DESIGN section 12).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::d1::D1;
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
    /// The epoch of which somebody was told that it is saved there.
    pub saved: Option<u64>,
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
    /// Counts of the record that agents count up: those answered, and those that may have been done.
    pub increments: (u64, u64),
    /// How much of each thing happened: a world in which nothing does checks nothing.
    pub counts: BTreeMap<&'static str, u64>,
}

impl Ledger {
    /// Notes that something happened.
    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_insert(0) += 1;
    }

    /// W8: all that a receipt covers is stored now, or the document is another one by now.
    pub fn check_receipt(
        &self,
        d1: &mut D1,
        path: &str,
        epoch: u64,
        covered: &[String],
    ) -> Result<(), Violation> {
        let Some(stored) = d1.document(path) else { return Ok(()) };
        if epoch != 0 && stored.epoch != epoch {
            return Ok(());
        }
        let there = stored.replica.counts();
        let lost = covered.iter().find(|mark| !self.is_erased(mark) && !there.contains_key(*mark));
        match lost {
            None => Ok(()),
            Some(mark) => {
                Err(Violation::new("W8", format!("a receipt for {mark} in {path}, which is not stored")))
            }
        }
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
            let wrong = match outcome {
                Outcome::Unknown => times > 1,
                Outcome::Done => times != 1,
                Outcome::Refused => times != 0,
            };
            if wrong {
                return Err(Violation::new(
                    "R2",
                    format!("{actor}, {outcome:?}, was carried out {times} times"),
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

    /// D1, W11: a stored document has what was saved in its epoch, once, and nothing of another.
    fn check_document(&self, d1: &mut D1, path: &str) -> Result<(), Violation> {
        let stored = d1.document(path);
        let (epoch, there) = match &stored {
            Some(stored) => (stored.epoch, stored.replica.counts()),
            None => (0, BTreeMap::new()),
        };
        if stored.as_ref().is_some_and(|stored| stored.replica.has_hole()) {
            return Err(Violation::new("D5", format!("{path} lacks something that it depends on")));
        }
        if let Some((mark, times)) = there.iter().find(|(_, times)| **times != 1) {
            return Err(Violation::new("R2", format!("{mark} is in {path} {times} times")));
        }
        for (mark, known) in self.marks.iter().filter(|(_, known)| known.path == path) {
            let is_there = there.contains_key(mark);
            if known.saved == Some(epoch) && !known.erased && !is_there {
                return Err(Violation::new("D1", format!("{mark} was saved in {path} and is lost")));
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
        for path in DOCUMENTS {
            self.ledger.check_document(&mut self.d1, path)?;
        }
        self.check_humans()?;
        self.check_readers()
    }

    /// What is left to be true after everybody left.
    pub fn check_end_of_feed(&mut self) -> Result<(), Violation> {
        self.d1.check_log()?;
        self.ledger.check_ops(&self.d1)?;
        self.check_readers()
    }

    /// S1, D3: every person is connected and has what is stored, or stopped for a stated reason.
    fn check_humans(&mut self) -> Result<(), Violation> {
        for index in 0..self.humans.len() {
            let human = &self.humans[index];
            if let Phase::Stopped(_) = human.walker.phase {
                continue;
            }
            if !human.is_settled() {
                let phase = human.walker.phase;
                return Err(Violation::new("S1", format!("person {index} is still {phase:?}")));
            }
            let (path, marks) = (human.path, human.replica.marks());
            if human.replica.has_hole() {
                return Err(Violation::new("D5", format!("the copy of person {index} has a hole")));
            }
            let stored = self.d1.document(path).map(|stored| stored.replica.marks()).unwrap_or_default();
            if marks != stored {
                let (has, stored): (BTreeSet<_>, BTreeSet<_>) =
                    (marks.iter().collect(), stored.iter().collect());
                let only = |a: &BTreeSet<&String>, b: &BTreeSet<&String>| {
                    a.difference(b).map(|mark| (*mark).clone()).collect::<Vec<_>>()
                };
                let (extra, lacks) = (only(&has, &stored), only(&stored, &has));
                let what = format!("person {index}, at {path}: only there {extra:?}, only stored {lacks:?}");
                return Err(Violation::new("D3", what));
            }
        }
        Ok(())
    }
}

/// The documents of a world.
pub const DOCUMENTS: [&str; 2] = ["docs/a", "docs/b"];

/// The record that agents count up.
pub const COUNTER: &str = "counter";
