//! When a stream reads the log: pace, failures, and the one read that is under way.

use crate::protocol::Timestamp;

use super::limits::{READ_RETRY_MAX_MS, READ_RETRY_MIN_MS, READ_TIMEOUT_MS, SAFETY_READ_MS};

/// The reads of one stream.
#[derive(Debug)]
pub(super) struct Reads {
    poll_min: u64,
    poll_max: u64,
    /// The pause after the next page without news.
    interval: u64,
    /// When the next read goes out, unless one is under way.
    due: Timestamp,
    /// Requests do not go out before this: it keeps failures and false alarms from making a loop.
    earliest: Timestamp,
    under_way: Option<UnderWay>,
    /// The read that was given up last, as long as no other was sent: its answer is still good.
    overdue: Option<Asked>,
    /// A request that the read under way may be too old to serve: the next page must reach this
    /// clock, or another read follows.
    wanted: u64,
    failures: u32,
    sent: u32,
}

/// What a read asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The changes after this clock.
    After(u64),
    /// Only the head.
    Head,
}

/// What a page meant for the position of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The page moved it, and the log has more.
    More,
    /// The page moved it to the head.
    Moved,
    /// There was nothing new.
    Quiet,
    /// The log claims more than the page has, but nothing that follows the position.
    Stuck,
}

impl Reads {
    /// The first read is due at once.
    pub(super) fn new(poll_min: u64, poll_max: u64, now: Timestamp) -> Self {
        Self {
            poll_min,
            poll_max,
            interval: poll_min,
            due: now,
            earliest: now,
            under_way: None,
            overdue: None,
            wanted: 0,
            failures: 0,
            sent: 0,
        }
    }

    /// How many reads went out.
    pub(super) const fn sent(&self) -> u32 {
        self.sent
    }

    /// Asks for a read as soon as it may go out. `until` is the clock that makes it unneeded;
    /// `u64::MAX` asks for a read that starts after this call.
    pub(super) fn request(&mut self, until: u64, now: Timestamp) {
        if self.under_way.is_some() {
            self.wanted = self.wanted.max(until);
        } else {
            self.due = self.due.min(now.max(self.earliest));
        }
    }

    /// Something happens here: polling starts again with the short pause.
    pub(super) const fn quicken(&mut self) {
        self.interval = self.poll_min;
    }

    pub(super) const fn is_due(&self, now: Timestamp) -> bool {
        self.under_way.is_none() && self.due <= now
    }

    /// A read goes out. It replaces one that was given up.
    pub(super) fn start(&mut self, asked: Asked, now: Timestamp) {
        self.under_way = Some(UnderWay { asked, deadline: now.saturating_add(READ_TIMEOUT_MS) });
        self.overdue = None;
        self.sent = self.sent.saturating_add(1);
    }

    /// The read that a page answers: the one under way, or the one given up last. Nothing when no
    /// answer is awaited.
    pub(super) fn take_answered(&mut self) -> Option<Asked> {
        let under_way = self.under_way.take().map(|read| read.asked);
        let overdue = self.overdue.take();
        under_way.or(overdue)
    }

    /// Sets the pause after a page. `position` is the last clock of the stream now.
    pub(super) fn settle(&mut self, outcome: Outcome, position: u64, bridged: bool, now: Timestamp) {
        match outcome {
            Outcome::Stuck => return self.back_off(now),
            Outcome::More => {
                self.interval = self.poll_min;
                (self.earliest, self.due) = (now, now);
            }
            Outcome::Moved => {
                self.interval = self.poll_min;
                self.earliest = now;
                self.due = now.saturating_add(if bridged { SAFETY_READ_MS } else { self.interval });
            }
            Outcome::Quiet => {
                self.earliest = now.saturating_add(self.poll_min);
                self.due = now.saturating_add(if bridged { SAFETY_READ_MS } else { self.interval });
                self.interval = (self.interval.saturating_mul(3) / 2).min(self.poll_max);
            }
        }
        self.failures = 0;
        if std::mem::take(&mut self.wanted) > position {
            self.request(u64::MAX, now);
        }
    }

    /// The read under way failed. A failure that nobody waits for changes nothing.
    pub(super) fn fail(&mut self, now: Timestamp) {
        if self.under_way.take().is_some() {
            self.back_off(now);
        }
    }

    /// Gives up a read that has no answer after [`READ_TIMEOUT_MS`].
    pub(super) fn expire(&mut self, now: Timestamp) {
        if let Some(read) = self.under_way.take_if(|read| read.deadline <= now) {
            self.overdue = Some(read.asked);
            self.back_off(now);
        }
    }

    /// When [`Self::is_due`] or [`Self::expire`] has something to do.
    pub(super) fn timeout(&self) -> Timestamp {
        self.under_way.as_ref().map_or(self.due, |read| read.deadline)
    }

    fn back_off(&mut self, now: Timestamp) {
        let doubled = READ_RETRY_MIN_MS.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        self.earliest = now.saturating_add(doubled.min(READ_RETRY_MAX_MS));
        // The read that follows is younger than every request so far.
        self.wanted = 0;
        self.due = self.earliest;
    }
}

#[derive(Debug)]
struct UnderWay {
    asked: Asked,
    deadline: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(reads: &mut Reads, outcome: Outcome, now: Timestamp) -> Timestamp {
        assert!(reads.is_due(now));
        reads.start(Asked::After(0), now);
        assert_eq!(reads.take_answered(), Some(Asked::After(0)));
        reads.settle(outcome, 0, false, now);
        reads.timeout() - now
    }

    #[test]
    fn f05_the_pause_grows_by_half_up_to_the_maximum_and_starts_again_after_news() {
        let mut reads = Reads::new(250, 5_000, 0);
        let mut now = 0;
        let mut pauses = Vec::new();
        for _ in 0..10 {
            let pause = answered(&mut reads, Outcome::Quiet, now);
            pauses.push(pause);
            now += pause;
        }
        assert_eq!(pauses, [250, 375, 562, 843, 1264, 1896, 2844, 4266, 5000, 5000]);
        assert_eq!(answered(&mut reads, Outcome::Moved, now), 250);
        assert_eq!(answered(&mut reads, Outcome::More, now + 250), 0);
    }

    #[test]
    fn failures_double_the_pause_and_requests_do_not_jump_it() {
        let mut reads = Reads::new(250, 5_000, 0);
        let mut now = 0;
        for pause in [500, 1000, 2000, 4000, 8000, 10_000, 10_000] {
            reads.start(Asked::Head, now);
            reads.fail(now);
            reads.request(u64::MAX, now);
            assert_eq!(reads.timeout(), now + pause);
            now += pause;
        }
        assert_eq!(answered(&mut reads, Outcome::Quiet, now), 250, "a page ends the series");
        reads.fail(now);
        assert_eq!(reads.timeout(), now + 250, "a failure of no read");
    }

    #[test]
    fn a_request_during_a_read_makes_another_only_when_the_page_falls_short() {
        let mut reads = Reads::new(250, 5_000, 0);
        reads.start(Asked::After(5), 0);
        reads.request(8, 10);
        assert!(!reads.is_due(10), "one read at a time");
        assert!(reads.take_answered().is_some());
        reads.settle(Outcome::Moved, 8, false, 20);
        assert_eq!(reads.timeout(), 270, "the page reached 8");
        let mut now = 270;
        for _ in 0..8 {
            now += answered(&mut reads, Outcome::Quiet, now);
        }
        reads.start(Asked::After(8), now);
        reads.request(9, now + 10);
        assert!(reads.take_answered().is_some());
        reads.settle(Outcome::Quiet, 8, false, now + 20);
        assert_eq!(reads.timeout(), now + 270, "soon, but not in a loop");
    }

    #[test]
    fn an_answer_counts_after_its_timeout_but_only_until_the_next_read() {
        let mut reads = Reads::new(250, 5_000, 0);
        reads.start(Asked::After(3), 0);
        reads.expire(READ_TIMEOUT_MS - 1);
        assert!(reads.overdue.is_none());
        reads.expire(READ_TIMEOUT_MS);
        assert_eq!(reads.take_answered(), Some(Asked::After(3)));
        assert_eq!(reads.take_answered(), None);
        reads.start(Asked::After(4), 20_000);
        reads.expire(30_000);
        reads.start(Asked::After(5), 40_000);
        assert_eq!(reads.take_answered(), Some(Asked::After(5)));
        assert_eq!(reads.take_answered(), None);
        reads.start(Asked::After(6), 50_000);
        reads.expire(60_000);
        reads.start(Asked::After(7), 70_000);
        reads.fail(70_001);
        assert_eq!(reads.take_answered(), None, "the read before the failed one was replaced");
    }
}
