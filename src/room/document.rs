//! One document of a room: who is on it, what of it is not saved, what of it is loaded.

use std::sync::Arc;

use crate::protocol::Timestamp;
use crate::protocol::limits::MAX_DOCUMENT_BYTES;

use super::alone::Alone;
use super::awareness::AwarenessTable;
use super::config::RoomConfig;
use super::outbox::Outbox;
use super::session::SessionId;
use super::storage::{StoreError, Stored};
use super::tail::Tail;
use super::view::View;

/// A document that somebody is on, or that has something to save.
#[derive(Debug, Default)]
pub(super) struct Document {
    /// Connections that sent binary, in order of arrival. Only they are sent binary (W1).
    pub(super) members: Vec<SessionId>,
    pub(super) awareness: AwarenessTable,
    pub(super) outbox: Outbox,
    pub(super) tail: Tail,
    pub(super) view: View,
    /// Step 1s that wait for the load, with their state vectors (W2).
    pub(super) joining: Vec<(SessionId, Vec<u8>)>,
    /// Newest stored clock whose content the members have been sent.
    pub(super) clock: u64,
    /// Newest clock at which storage told what it has: all that members were sent or had saved is in D1
    /// then, also while `clock` is behind because they lack what others saved in between.
    pub(super) stored: u64,
    /// The room woke up and storage has told nothing since: `stored` may be too low.
    pub(super) is_unsure: bool,
    /// Newest clock that the room has heard of. While it is ahead of `clock`, members lack something.
    pub(super) announced: u64,
    /// What `announced` was when the running pull was asked.
    pub(super) asked: u64,
    /// How the document goes on while storage cannot be read.
    pub(super) alone: Alone,
    /// The stored epoch, once it is known.
    pub(super) epoch: Option<u64>,
    pub(super) pull: Pull,
    /// Another one each time that the room takes the document up.
    pub(super) generation: u64,
    /// When storage was last asked for what others appended.
    pub(super) checked: Timestamp,
}

/// Whether the room is fetching what others appended (D3).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pull {
    /// Nothing has been asked.
    #[default]
    Idle,
    /// Something is missing; ask at this time. Counts the failures so far.
    Wanted(Timestamp, u32),
    /// Asked; counts as failed at this time. Counts the failures so far.
    Running(Timestamp, u32),
}

impl Document {
    pub(super) fn is_unused(&self) -> bool {
        self.members.is_empty() && self.tail.is_empty() && self.joining.is_empty()
    }

    pub(super) fn needs_work(&self, now: Timestamp) -> bool {
        self.is_unused() || self.timeout().is_some_and(|at| at <= now) || self.lacks_something()
    }

    /// Whether storage has something that the members have not been sent, and nobody is asking for
    /// it. A flush that is on its way tells what was missed, so it is waited for: what was announced
    /// may be its own change.
    pub(super) fn lacks_something(&self) -> bool {
        self.pull == Pull::Idle
            && self.announced > self.clock
            && !self.members.is_empty()
            && !self.tail.is_running()
    }

    /// Whether somebody waits for something that only the room's memory knows of.
    pub(super) fn owes_something(&self) -> bool {
        let is_behind = self.pull != Pull::Idle || self.announced > self.clock;
        !self.tail.is_empty() || !self.joining.is_empty() || (is_behind && !self.members.is_empty())
    }

    /// The next time something has to be done for this document.
    pub(super) fn timeout(&self) -> Option<Timestamp> {
        let load = match self.view {
            View::Loading { until, .. } => Some(until),
            View::Absent | View::Loaded { .. } => None,
        };
        let pull = match self.pull {
            Pull::Idle => None,
            Pull::Wanted(at, _) | Pull::Running(at, _) => Some(at),
        };
        [load, pull, self.alone.timeout(), self.tail.timeout(), self.outbox.timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Makes the room look what others saved, at once or when the last look is that old.
    pub(super) fn want_look(&mut self, now: Timestamp, look_after: u64) {
        if self.pull == Pull::Idle && !self.members.is_empty() {
            self.pull = Pull::Wanted(now.max(self.checked + look_after), 0);
        }
    }

    /// Takes in an update from a connection; the sender's frame is the caller's to forward.
    pub(super) fn receive(&mut self, update: &[u8], writer: &str, now: Timestamp, config: &RoomConfig) {
        // One copy, for storage, the spool and who joins.
        let update: Arc<[u8]> = update.into();
        self.tail.push(Arc::clone(&update), writer, now, config);
        self.view.push(update);
        if self.members.is_empty() {
            self.tail.urge(now);
        }
    }

    /// Learns a clock at which storage told what it has.
    pub(super) fn learn_stored(&mut self, clock: u64) {
        self.stored = self.stored.max(clock);
        self.is_unsure = false;
    }

    /// Learns the epoch from a read of the document at a clock, and returns the one that was known
    /// before. A read that began before a commit shows the document as it was: it says nothing then.
    pub(super) fn learn_epoch(&mut self, clock: u64, epoch: Option<u64>) -> Option<u64> {
        let known = self.known_epoch();
        if clock >= self.clock {
            self.epoch = epoch;
        }
        known
    }

    /// The epoch that what people write belongs to: the stored one, or the one that they state while
    /// storage cannot be read.
    pub(super) fn known_epoch(&self) -> Option<u64> {
        self.epoch.or(self.alone.epoch)
    }

    /// The clock up to which the members have what is stored. One that moves to a path where nothing was brings
    /// rows that are older than what the room heard of meanwhile.
    pub(super) fn has_through(&self) -> u64 {
        if self.epoch.is_some() { self.clock } else { 0 }
    }

    /// What a pull found, if it is of the content that members have. A document that was stored when it was
    /// asked for, and is not there, was deleted, and nobody told. What is overtaken is to be asked for again.
    pub(super) fn judge(&self, found: Stored) -> Result<Stored, StoreError> {
        if found.epoch.is_none() && self.epoch.is_some() && self.stored <= self.asked {
            return Err(StoreError::Deleted);
        }
        if self.is_overtaken(found.clock, found.epoch) {
            return Err(StoreError::Unavailable);
        }
        Ok(found)
    }

    /// Whether a read of the document at a clock shows the content of an epoch that is over.
    pub(super) fn is_overtaken(&self, clock: u64, epoch: Option<u64>) -> bool {
        clock < self.clock && epoch.is_some() && self.epoch.is_some_and(|known| epoch != Some(known))
    }

    /// Whether the document may grow by so many bytes, as far as the room can tell without reading
    /// it. Clients repeat themselves, and what is not merged yet counts each time: so a document
    /// that looks full is merged before it is refused.
    pub(super) fn has_room_for(&mut self, more: usize) -> bool {
        if self.bytes() + more > MAX_DOCUMENT_BYTES
            && self.view.unmerged() + self.tail.bytes() >= MIN_MERGE_BYTES
        {
            self.tail.compact();
            // An error here is met again, and reported, by whoever joins.
            let _ = self.view.whole();
        }
        self.bytes() + more <= MAX_DOCUMENT_BYTES
    }

    fn bytes(&self) -> usize {
        self.view.bytes().max(self.tail.bytes())
    }
}

/// Bytes from which merging a full document is worth its cost. Less than that cannot make much room,
/// and a client at the limit must not cause a merge with every frame.
const MIN_MERGE_BYTES: usize = 1024 * 1024;
