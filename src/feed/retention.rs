//! Which rows of the log may go (F6).
//!
//! A sweep removes a *prefix* of a workspace's log, never a row from its middle: the floor would
//! not tell of the hole, and a reader would wait for it. Times of neighbouring rows come from
//! different machines and may be out of order, so the time alone must not choose the rows. And the
//! newest row stays however old it is, because the next clock is `MAX(clock) + 1` (F1, R1).
//!
//! The statement that this implies, one per workspace and batch:
//!
//! ```sql
//! DELETE FROM change_log WHERE workspace = ?1 AND clock <= ?through AND clock < COALESCE(
//!   (SELECT MIN(clock) FROM change_log WHERE workspace = ?1 AND clock <= ?through AND at >= ?before),
//!   ?through + 1)
//! ```

use crate::planted::{Bug, planted};
use crate::protocol::Timestamp;

use super::limits::RETENTION_MS;

/// What one batch of the sweep may remove: the rows from the oldest on that satisfy both bounds,
/// up to the first that does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cutoff {
    /// Rows committed at or after this time stay.
    pub before: Timestamp,
    /// Rows with a larger clock stay.
    pub through: u64,
}

/// The next batch for a log that holds `floor + 1 ..= head`, or nothing when only the newest row
/// is left. `batch` bounds the rows of one statement.
#[must_use]
pub fn cutoff(now: Timestamp, head: u64, floor: u64, batch: u32) -> Option<Cutoff> {
    let newest_kept = if planted(Bug::ClockReuseAfterSweep) { 0 } else { 1 };
    let through = head.saturating_sub(newest_kept).min(floor.saturating_add(u64::from(batch)));
    (through > floor).then(|| Cutoff { before: now.saturating_sub(RETENTION_MS), through })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the statement in the module's text does to rows of (clock, at).
    fn sweep(rows: &mut Vec<(u64, u64)>, cutoff: Cutoff) -> usize {
        let first_kept = rows
            .iter()
            .filter(|(clock, at)| *clock <= cutoff.through && *at >= cutoff.before)
            .map(|(clock, _)| *clock)
            .min()
            .unwrap_or(cutoff.through + 1);
        let before = rows.len();
        rows.retain(|(clock, _)| !(*clock <= cutoff.through && *clock < first_kept));
        before - rows.len()
    }

    #[test]
    fn f06_the_newest_row_stays_however_old_it_is() {
        let mut rows: Vec<_> = (1..=10).map(|clock| (clock, clock)).collect();
        let now = 100 * RETENTION_MS;
        let mut batches = 0;
        while let Some(cutoff) = cutoff(now, 10, rows[0].0 - 1, 4) {
            assert!((1..=4).contains(&sweep(&mut rows, cutoff)));
            batches += 1;
        }
        assert_eq!((rows, batches), (vec![(10, 10)], 3));
        assert_eq!(cutoff(now, 0, 0, 4), None, "an empty log");
        assert_eq!(cutoff(now, 1, 0, 4), None, "one row");
    }

    #[test]
    fn f06_rows_younger_than_seven_days_stay() {
        let now = RETENTION_MS + 50;
        let mut rows: Vec<_> = (1..=100).map(|clock| (clock, clock)).collect();
        sweep(&mut rows, cutoff(now, 100, 0, 1000).unwrap());
        assert_eq!(rows[0], (50, 50), "at == now - 7 days stays");
        assert_eq!(sweep(&mut rows, cutoff(now, 100, 49, 1000).unwrap()), 0);
    }

    #[test]
    fn f01_times_out_of_order_never_make_a_hole() {
        let mut rows = vec![(1, 10), (2, 90), (3, 11), (4, 12), (5, 95)];
        sweep(&mut rows, cutoff(RETENTION_MS + 50, 5, 0, 1000).unwrap());
        assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), [2, 3, 4, 5]);
    }

    #[test]
    fn extreme_numbers_do_not_wrap() {
        assert_eq!(cutoff(0, u64::MAX, u64::MAX - 3, u32::MAX).unwrap().through, u64::MAX - 1);
        assert_eq!(cutoff(0, 5, u64::MAX, 1), None);
        assert_eq!(cutoff(5, 5, 0, 0), None, "an empty batch removes nothing");
    }
}
