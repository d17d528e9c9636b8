//! The listener lease of a room (R3): until when storage tells writers that somebody listens.
//!
//! Two writes on their way at once could land in either order, and an old "nobody listens" on top
//! of a new lease would leave people without changes. So one write is on its way at a time, the
//! newest wish follows it, and each write says what it may replace: a write that was given up and
//! lands late does no harm either.

use crate::protocol::Timestamp;

use super::action::Action;

/// What the room wants storage to say, and the write on its way.
#[derive(Debug, Default)]
pub(super) struct Lease {
    /// When it ends: what is wished while a write is on its way, and what is confirmed after one that
    /// failed, so that the next event tries again; 0 while nobody listens.
    until: Timestamp,
    /// The latest end that storage is known to have. A renewal without an answer leaves it as it is: whether it
    /// landed or not, storage has this end or a later one. 0 once an end was asked for, which may have landed.
    confirmed: Timestamp,
    /// The latest end that storage was told. The next is later, so that each lease is another value.
    latest: Timestamp,
    writing: Option<Timestamp>,
    /// No lease stood when the one that is being written was asked for.
    begins: bool,
    /// When a write that failed is tried again, and how many have.
    again: Option<Timestamp>,
    failures: u32,
}

impl Lease {
    /// A lease that was written before, as the attachments say.
    pub(super) fn known(until: Timestamp) -> Self {
        Self { until, confirmed: until, latest: until, ..Self::default() }
    }

    /// When it ends, as far as the room knows.
    pub(super) fn until(&self) -> Timestamp {
        self.until
    }

    /// Whether half of it is left, or more, and no try is due.
    pub(super) fn is_fresh(&self, now: Timestamp, length: u64) -> bool {
        self.again.is_none() && self.until >= now + length / 2
    }

    /// When there is something to do.
    pub(super) const fn timeout(&self) -> Option<Timestamp> {
        self.again
    }

    /// A write failed. Nothing may happen in the room for hours, so it tries again by itself.
    pub(super) fn retry(&mut self, now: Timestamp, backoff: impl FnOnce(u32) -> u64) {
        self.again = Some(now + backoff(self.failures));
        self.failures += 1;
    }

    /// Whether writers did not hear of the room until now: what they did meanwhile, nobody told it.
    pub(super) fn has_begun(&mut self) -> bool {
        self.writing.is_none() && self.until > 0 && std::mem::take(&mut self.begins)
    }

    /// Whether storage has not answered the last write yet.
    pub(super) fn is_being_written(&self) -> bool {
        self.writing.is_some()
    }

    /// Extends it when less than half of it is left.
    #[must_use]
    pub(super) fn renew(&mut self, now: Timestamp, length: u64) -> Option<Action> {
        self.again = None;
        if self.is_fresh(now, length) {
            return None;
        }
        self.begins |= self.until <= now;
        self.until = (now + length).max(self.latest + 1);
        self.write()
    }

    /// Nobody listens any more.
    #[must_use]
    pub(super) fn end(&mut self) -> Option<Action> {
        (self.until, self.again) = (0, None);
        self.write()
    }

    /// The write is done, or has failed.
    #[must_use]
    pub(super) fn written(&mut self, stored: bool) -> Option<Action> {
        let wrote = self.writing.take()?;
        if stored {
            self.confirmed = wrote;
        }
        if self.until != wrote {
            return self.write();
        }
        if stored {
            self.failures = 0;
        } else {
            self.until = self.confirmed;
        }
        None
    }

    fn write(&mut self) -> Option<Action> {
        if self.writing.is_some() {
            return None;
        }
        if self.until == 0 {
            self.confirmed = 0;
        }
        let seen = self.latest;
        self.latest = self.latest.max(self.until);
        self.writing = Some(self.until);
        Some(Action::Lease { until: self.until, seen })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LENGTH: u64 = 1_000;

    fn lease(until: Timestamp, seen: Timestamp) -> Option<Action> {
        Some(Action::Lease { until, seen })
    }

    #[test]
    fn r3_one_write_is_on_its_way_and_the_newest_wish_follows_it() {
        let mut room = Lease::default();
        assert_eq!(room.renew(10, LENGTH), lease(1_010, 0));
        assert_eq!((room.end(), room.renew(10, LENGTH), room.end()), (None, None, None));
        assert_eq!(room.written(true), lease(0, 1_010));
        assert_eq!(room.renew(10, LENGTH), None);
        assert_eq!(room.written(true), lease(1_011, 1_010), "another value than the one before");
        assert_eq!((room.written(true), room.written(true)), (None, None));
        assert_eq!((room.renew(500, LENGTH), room.renew(512, LENGTH)), (None, lease(1_512, 1_011)));
    }

    #[test]
    fn r3_a_failed_write_is_tried_again_at_the_next_event_and_not_before() {
        let mut room = Lease::default();
        assert!(room.renew(10, LENGTH).is_some());
        assert_eq!((room.written(false), room.until()), (None, 0));
        assert_eq!(room.renew(11, LENGTH), lease(1_011, 1_010));
        assert!(room.written(true).is_none() && room.end().is_some());
        assert_eq!(room.written(false), None, "an empty room does not try for ever");
    }

    #[test]
    fn a12_a_renewal_that_fails_leaves_the_deadline_that_storage_is_known_to_have() {
        let mut room = Lease::default();
        assert!(room.renew(10, LENGTH).is_some() && room.written(true).is_none() && room.has_begun());
        for (now, wish) in [(600, 1_600), (700, 1_700), (1_000, 2_000)] {
            let seen = room.latest;
            assert_eq!(room.renew(now, LENGTH), lease(wish, seen));
            assert_eq!((room.written(false), room.until()), (None, 1_010), "it neither grows nor ends");
        }
        assert!(!room.has_begun(), "who wrote meanwhile knew of the room");
        // The last of them landed or not: either way nothing is claimed past the old deadline.
        assert_eq!(room.renew(1_020, LENGTH), lease(2_020, 2_000));
        assert_eq!((room.written(true), room.until()), (None, 2_020));
        assert!(room.has_begun(), "between both nobody told the room of anything");
    }

    #[test]
    fn a13_an_end_without_an_answer_leaves_no_deadline() {
        let mut room = Lease::default();
        assert!(room.renew(10, LENGTH).is_some() && room.written(true).is_none());
        assert_eq!(room.end(), lease(0, 1_010));
        assert_eq!((room.written(false), room.until()), (None, 0));
        assert_eq!(room.renew(20, LENGTH), lease(1_020, 1_010));
        assert_eq!((room.written(false), room.until()), (None, 0), "the end may have landed last");
    }

    /// What the database does with a write.
    fn land(stored: &mut Timestamp, action: &Action) {
        let Action::Lease { until, seen } = *action else { panic!("no lease: {action:?}") };
        match until {
            0 if *stored <= seen => *stored = 0,
            0 => {}
            until => *stored = until.max(*stored),
        }
    }

    proptest! {
        /// Each step: somebody comes or the last one leaves; or the write on its way is answered, or
        /// given up; or one that was given up lands after all.
        #[test]
        fn r3_the_later_wish_wins_whatever_the_order_of_arrival(steps in proptest::collection::vec(0..5_u8, 0..40)) {
            let (mut room, mut stored, mut given_up) = (Lease::default(), 0, false);
            let (mut current, mut late): (Option<Action>, Vec<Action>) = (None, Vec::new());
            for (now, step) in steps.into_iter().enumerate() {
                let asked = match (step, current.take()) {
                    (2, Some(write)) => {
                        land(&mut stored, &write);
                        room.written(true)
                    }
                    (3, Some(write)) => {
                        late.push(write);
                        given_up = true;
                        room.written(false)
                    }
                    (step, write) => {
                        current = write;
                        match step {
                            0 => room.renew(now as u64, LENGTH),
                            1 => room.end(),
                            _ => {
                                late.pop().iter().for_each(|write| land(&mut stored, write));
                                None
                            }
                        }
                    }
                };
                if asked.is_some() {
                    prop_assert!(current.is_none(), "two writes on their way");
                    current = asked;
                }
            }
            while let Some(write) = current.take() {
                land(&mut stored, &write);
                current = room.written(true);
            }
            late.iter().for_each(|write| land(&mut stored, write));
            // A late write may leave a lease to an empty room, which the next notify clears; it
            // never takes one from people.
            if room.until() != 0 || !given_up {
                prop_assert!(stored >= room.until() && (stored == 0) == (room.until() == 0), "{stored} {room:?}");
            }
        }
    }
}
