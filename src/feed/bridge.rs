//! The bridge of a stream to its room: wanted while the room is live, never a loop.

use crate::protocol::Timestamp;

use super::limits::{BRIDGE_OPEN_TIMEOUT_MS, BRIDGE_RETRY_MAX_MS, BRIDGE_RETRY_MIN_MS, BRIDGE_STABLE_MS};

/// Whether a bridge exists, and when another may be tried.
#[derive(Debug)]
pub(super) struct Bridge {
    state: State,
    /// The pause after the next end.
    backoff: u64,
}

/// What the shell has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Close,
    Open,
}

impl Bridge {
    pub(super) const fn new() -> Self {
        Self { state: State::Closed { retry: 0 }, backoff: BRIDGE_RETRY_MIN_MS }
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// A page said whether the room is live. Only then is a bridge opened or given up: a closed
    /// one is tried again by the polling that replaces it, not by a timer of its own.
    #[must_use]
    pub(super) fn follow(&mut self, live: bool, now: Timestamp) -> Option<Command> {
        match (&self.state, live) {
            (State::Closed { retry }, true) if *retry <= now => {
                self.state = State::Opening { deadline: now.saturating_add(BRIDGE_OPEN_TIMEOUT_MS) };
                Some(Command::Open)
            }
            (State::Opening { .. } | State::Open { .. }, false) => self.close(now),
            (State::Closed { .. }, _) | (State::Opening { .. } | State::Open { .. }, true) => None,
        }
    }

    /// The shell opened it. One that was given up meanwhile is closed.
    #[must_use]
    pub(super) fn handle_open(&mut self, now: Timestamp) -> Option<Command> {
        match self.state {
            State::Closed { .. } => Some(Command::Close),
            State::Opening { .. } => {
                self.state = State::Open { since: now };
                None
            }
            State::Open { .. } => None,
        }
    }

    /// It closed, or could not be opened. False when there was none.
    pub(super) fn handle_closed(&mut self, now: Timestamp) -> bool {
        let existed = !matches!(self.state, State::Closed { .. });
        if existed {
            self.end(now);
        }
        existed
    }

    /// Gives up a bridge that does not open.
    #[must_use]
    pub(super) fn expire(&mut self, now: Timestamp) -> Option<Command> {
        match self.state {
            State::Opening { deadline } if deadline <= now => self.close(now),
            State::Opening { .. } | State::Closed { .. } | State::Open { .. } => None,
        }
    }

    /// When [`Self::expire`] has something to do.
    pub(super) const fn timeout(&self) -> Option<Timestamp> {
        match self.state {
            State::Opening { deadline } => Some(deadline),
            State::Closed { .. } | State::Open { .. } => None,
        }
    }

    /// Closes it if there is one.
    #[must_use]
    pub(super) fn close(&mut self, now: Timestamp) -> Option<Command> {
        self.handle_closed(now).then_some(Command::Close)
    }

    fn end(&mut self, now: Timestamp) {
        if matches!(self.state, State::Open { since } if now.saturating_sub(since) >= BRIDGE_STABLE_MS) {
            self.backoff = BRIDGE_RETRY_MIN_MS;
        }
        self.state = State::Closed { retry: now.saturating_add(self.backoff) };
        self.backoff = self.backoff.saturating_mul(2).min(BRIDGE_RETRY_MAX_MS);
    }
}

#[derive(Debug)]
enum State {
    Closed { retry: Timestamp },
    Opening { deadline: Timestamp },
    Open { since: Timestamp },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridge_that_does_not_last_is_tried_ever_more_rarely() {
        let mut bridge = Bridge::new();
        let mut now = 0;
        for pause in [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
            assert_eq!(bridge.follow(true, now), Some(Command::Open));
            assert_eq!(bridge.handle_open(now), None);
            assert!(bridge.is_open());
            assert!(bridge.handle_closed(now));
            assert_eq!(bridge.follow(true, now + pause - 1), None);
            now += pause;
        }
        assert_eq!(bridge.follow(true, now), Some(Command::Open));
        assert_eq!(bridge.handle_open(now), None);
        assert!(bridge.handle_closed(now + BRIDGE_STABLE_MS));
        assert_eq!(bridge.follow(true, now + BRIDGE_STABLE_MS + 1_000), Some(Command::Open), "it had worked");
    }

    #[test]
    fn the_transition_table_is_total() {
        let states: [fn() -> State; 3] =
            [|| State::Closed { retry: 5 }, || State::Opening { deadline: 10 }, || State::Open { since: 0 }];
        let run = |state: fn() -> State, input: fn(&mut Bridge) -> Option<Command>| {
            let mut bridge = Bridge { state: state(), backoff: BRIDGE_RETRY_MIN_MS };
            let command = input(&mut bridge);
            let name = match bridge.state {
                State::Closed { .. } => "closed",
                State::Opening { .. } => "opening",
                State::Open { .. } => "open",
            };
            (command, name)
        };
        let close = Some(Command::Close);
        type Row = (&'static str, fn(&mut Bridge) -> Option<Command>, [(Option<Command>, &'static str); 3]);
        let table: [Row; 8] = [
            ("live, early", |b| b.follow(true, 4), [(None, "closed"), (None, "opening"), (None, "open")]),
            (
                "live",
                |b| b.follow(true, 5),
                [(Some(Command::Open), "opening"), (None, "opening"), (None, "open")],
            ),
            ("not live", |b| b.follow(false, 5), [(None, "closed"), (close, "closed"), (close, "closed")]),
            ("opened", |b| b.handle_open(5), [(close, "closed"), (None, "open"), (None, "open")]),
            (
                "closed",
                |b| (!b.handle_closed(5)).then_some(Command::Open),
                [(Some(Command::Open), "closed"), (None, "closed"), (None, "closed")],
            ),
            ("early timeout", |b| b.expire(9), [(None, "closed"), (None, "opening"), (None, "open")]),
            ("timeout", |b| b.expire(10), [(None, "closed"), (close, "closed"), (None, "open")]),
            ("close", |b| b.close(5), [(None, "closed"), (close, "closed"), (close, "closed")]),
        ];
        for (name, input, expected) in table {
            assert_eq!(states.map(|state| run(state, input)), expected, "{name}");
        }
    }
}
