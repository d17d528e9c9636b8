//! Time for timers.

use crate::protocol::Timestamp;

/// Wall time that never goes back: a machine's clock that is set back by an hour must not silence
/// the heartbeat for an hour.
#[derive(Debug)]
pub(super) struct SteadyTime {
    latest: Timestamp,
    /// How far wall time is behind the time used here.
    behind: u64,
}

impl SteadyTime {
    pub(super) const fn new(now: Timestamp) -> Self {
        Self { latest: now, behind: 0 }
    }

    /// The time here, at this wall time.
    pub(super) const fn at(&mut self, wall: Timestamp) -> Timestamp {
        let time = wall.saturating_add(self.behind);
        if time < self.latest {
            self.behind = self.latest.saturating_sub(wall);
        } else {
            self.latest = time;
        }
        self.latest
    }

    /// The wall time, as it runs now, of a time here.
    pub(super) const fn to_wall(&self, time: Timestamp) -> Timestamp {
        time.saturating_sub(self.behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_set_back_stands_still_once_and_then_goes_on() {
        let mut time = SteadyTime::new(1_000);
        assert_eq!(time.at(1_500), 1_500);
        assert_eq!(time.at(200), 1_500);
        assert_eq!(time.at(300), 1_600);
        assert_eq!(time.to_wall(1_700), 400);
        assert_eq!(time.at(2_000), 3_300, "a jump ahead is taken as it is");
    }
}
