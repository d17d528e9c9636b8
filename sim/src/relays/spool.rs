//! The spool of the Deno relay: a model of `relay-deno/spool.ts` (D6). Rooms gather for a moment, then
//! what they have is on the disk; a crash takes what has only gathered.

use crate::protocol::Timestamp;
use crate::room::Keep;

/// A row.
#[derive(Debug, Clone)]
pub struct Row {
    id: u64,
    run: u64,
    room: u64,
    kept: Keep,
}

/// Rows that one request can save.
#[derive(Debug, Clone)]
pub struct Group {
    /// The first and last row, for the key.
    pub key: String,
    /// The document.
    pub document: String,
    /// Its epoch.
    pub epoch: Option<u64>,
    /// The updates, in order.
    pub updates: Vec<Vec<u8>>,
    rows: Vec<u64>,
}

enum Step {
    Keep { room: u64, kept: Keep },
    Release { room: u64, document: String, through: u64 },
}

/// The rows on the disk, and what gathers.
#[derive(Default)]
pub struct Spool {
    rows: Vec<Row>,
    gathered: Vec<(Timestamp, Step)>,
    rows_ever: u64,
    /// Rooms of this run that ended without saving everything.
    abandoned: Vec<u64>,
}

impl Spool {
    /// Keeps an update.
    pub fn keep(&mut self, room: u64, kept: Keep, now: Timestamp) {
        self.gathered.push((now, Step::Keep { room, kept }));
    }

    /// Forgets a document's updates up to a number.
    pub fn release(&mut self, room: u64, document: &str, through: u64, now: Timestamp) {
        let document = document.to_owned();
        self.gathered.push((now, Step::Release { room, document, through }));
    }

    /// Writes what gathered before `SPOOL_BATCH`, or all of it.
    pub fn write(&mut self, run: u64, until: Timestamp) {
        for (at, step) in std::mem::take(&mut self.gathered) {
            match step {
                step if at > until => self.gathered.push((at, step)),
                Step::Keep { room, kept } => {
                    self.rows_ever += 1;
                    self.rows.push(Row { id: self.rows_ever, run, room, kept });
                }
                Step::Release { room, document, through } => self.rows.retain(|row| {
                    row.run != run
                        || row.room != room
                        || row.kept.document != document
                        || row.kept.number > through
                }),
            }
        }
    }

    /// The process was killed: what had not been written is gone.
    pub fn crash(&mut self, run: u64, now: Timestamp) {
        self.write(run, now.saturating_sub(SPOOL_BATCH_MS));
        self.gathered.clear();
        self.abandoned.clear();
    }

    /// Rows of earlier runs of one document, epoch and author; `run` is the one that asks.
    pub fn group(&self, run: u64) -> Option<Group> {
        let earlier = |row: &&Row| row.run != run || self.abandoned.contains(&row.room);
        let first = self.rows.iter().find(earlier)?;
        let alike = |row: &&Row| {
            row.run == first.run
                && row.room == first.room
                && row.kept.document == first.kept.document
                && row.kept.epoch == first.kept.epoch
                && row.kept.actor == first.kept.actor
        };
        let rows: Vec<&Row> = self.rows.iter().filter(alike).collect();
        let last = rows.last().map_or(first.id, |row| row.id);
        Some(Group {
            key: format!("spool-{}-{}-{last}", first.run, first.id),
            document: first.kept.document.clone(),
            epoch: first.kept.epoch,
            updates: rows.iter().map(|row| row.kept.update.to_vec()).collect(),
            rows: rows.iter().map(|row| row.id).collect(),
        })
    }

    /// Removes the rows of a group: they are saved, or refused for good and put aside.
    pub fn remove(&mut self, group: &Group) {
        self.rows.retain(|row| !group.rows.contains(&row.id));
    }

    /// Whether anything is kept.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && !self.gathered.iter().any(|(_, step)| matches!(step, Step::Keep { .. }))
    }
}

/// As `SPOOL_BATCH` of `relay-deno/limits.ts`.
pub const SPOOL_BATCH_MS: u64 = 1_000;
