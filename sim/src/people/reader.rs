//! An agent's process that follows the feed (F3): every clock once and in order, or a reset.

use crate::checks::Violation;
use crate::feed::cursor::Start;
use crate::feed::filter::Filter;
use crate::protocol::change::{Change, is_within};
use crate::relays::stream::Listener;
use crate::sse;
use crate::world::{Event, World};

/// A reader.
pub struct Reader {
    /// The stream that it listens to.
    pub stream: Option<u64>,
    /// The last id that it was given.
    cursor: u64,
    /// Every clock up to here was given, held back by the filter, or covered by a reset.
    covered: u64,
    is_filtered: bool,
    /// Told that the workspace is deleted: it does not come again.
    has_ended: bool,
}

impl Reader {
    /// A reader of everything, or of records only.
    pub const fn new(is_filtered: bool) -> Self {
        Self { stream: None, cursor: 0, covered: 0, is_filtered, has_ended: false }
    }
}

impl World {
    /// A reader connects.
    pub fn open_reader(&mut self, reader: usize) {
        if self.readers[reader].stream.is_some() || self.readers[reader].has_ended {
            return;
        }
        if self.random.percent(self.faults.http) {
            return self.at(self.now + 1_000, Event::Read(reader));
        }
        if self.d1.is_deleted() {
            // 410: what came between its cursor and the end it does not learn any more.
            self.readers[reader].has_ended = true;
            return;
        }
        let Reader { cursor, is_filtered, .. } = self.readers[reader];
        let filter = match is_filtered {
            true => Filter::parse(Some(RECORDS), None).unwrap_or_default(),
            false => Filter::default(),
        };
        let stream = self.open_stream(Listener::Agent(reader), Start::After(cursor), filter);
        self.readers[reader].stream = Some(stream);
    }

    /// A reader's connection breaks, and it comes back after a while.
    pub fn cut_reader(&mut self, reader: usize, away: u64) {
        if let Some(stream) = self.readers[reader].stream.take() {
            self.drop_stream(stream);
            self.at(self.now + away, Event::Read(reader));
        }
    }

    /// Text arrives at a reader; nothing is the end.
    pub fn reader_hears(&mut self, reader: usize, text: Option<&str>) -> Result<(), Violation> {
        let Some(text) = text else {
            self.readers[reader].stream = None;
            let wait = self.random.below(2_000);
            self.at(self.now + wait, Event::Read(reader));
            return Ok(());
        };
        for event in sse::parse(text) {
            self.take_event(reader, &event)?;
            if let Some(id) = event.id {
                self.readers[reader].cursor = id;
            }
        }
        Ok(())
    }

    fn take_event(&mut self, reader: usize, event: &sse::Event) -> Result<(), Violation> {
        let covered = self.readers[reader].covered;
        let id = event.id.unwrap_or(0);
        match event.name.as_str() {
            "change" => {
                self.check_skipped(reader, id.saturating_sub(1))?;
                let value = serde_json::from_str(&event.data).unwrap_or_default();
                let change = Change::from_json(&value).filter(|change| change.clock == id);
                let is_there = change.is_some_and(|change| self.is_journalled(&change));
                if id != self.readers[reader].covered + 1 || !is_there {
                    let what = format!("reader {reader} has {covered} and is given {id}: {}", event.data);
                    return Err(Violation::new("F3", what));
                }
                self.ledger.count("changes read");
            }
            "reset" => {
                if covered >= self.d1.floor() {
                    let what = format!("reader {reader} has {covered} and is reset to {id} for nothing");
                    return Err(Violation::new("F3", what));
                }
                self.ledger.count("resets");
            }
            "head" => self.check_skipped(reader, id)?,
            "deleted" => return self.check_told_end(reader),
            _ => return Ok(()),
        }
        self.readers[reader].covered = id.max(self.readers[reader].covered);
        Ok(())
    }

    /// F7: whoever listens to the end was told everything before it, unless the log has it no longer.
    fn check_told_end(&mut self, reader: usize) -> Result<(), Violation> {
        self.readers[reader].has_ended = true;
        self.ledger.count("ends told");
        let head = self.d1.journal.len() as u64;
        let covered = self.readers[reader].covered;
        if !self.d1.is_deleted() || (covered != head && covered >= self.d1.floor()) {
            let what =
                format!("reader {reader} is told the end of the workspace, and has {covered} of {head}");
            return Err(Violation::new("F7", what));
        }
        Ok(())
    }

    /// Moves over clocks that were not given: each must be one that the filter holds back.
    fn check_skipped(&mut self, reader: usize, through: u64) -> Result<(), Violation> {
        let Reader { covered, is_filtered, .. } = self.readers[reader];
        for clock in covered + 1..=through {
            let change = self.d1.journal.get((clock - 1) as usize);
            let is_held = is_filtered && change.is_some_and(|change| !is_record(&change.path));
            if !is_held {
                return Err(Violation::new("F3", format!("reader {reader} is moved over clock {clock}")));
            }
            self.readers[reader].covered = clock;
        }
        Ok(())
    }

    fn is_journalled(&self, change: &Change) -> bool {
        let found = change.clock.checked_sub(1).and_then(|index| self.d1.journal.get(index as usize));
        found.is_some_and(|found| {
            found.kind == change.kind.as_str() && found.path == change.path && found.actor == change.actor
        })
    }

    /// F1 to F3: at the end every reader has everything.
    pub fn check_readers(&mut self) -> Result<(), Violation> {
        let head = self.d1.journal.len() as u64;
        for reader in 0..self.readers.len() {
            if self.d1.is_deleted() {
                match self.readers[reader].has_ended {
                    true => continue,
                    false => {
                        return Err(Violation::new("F7", format!("reader {reader} goes on without end")));
                    }
                }
            }
            self.check_skipped(reader, head.min(self.last_held(reader)))?;
            let covered = self.readers[reader].covered;
            if covered != head {
                return Err(Violation::new("F3", format!("reader {reader} ends at {covered} of {head}")));
            }
        }
        Ok(())
    }

    /// What a filtered reader need not have been told of yet.
    fn last_held(&self, reader: usize) -> u64 {
        if self.readers[reader].is_filtered { u64::MAX } else { 0 }
    }
}

fn is_record(path: &str) -> bool {
    is_within(path, RECORDS)
}

/// Where agents' records are.
pub const RECORDS: &str = "records";
