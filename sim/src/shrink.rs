//! The smallest schedule that still breaks the same promise: steps are left out in ever smaller groups.

use crate::checks::Violation;
use crate::schedule::Schedule;
use crate::world::World;

/// Runs the world of a schedule.
///
/// # Errors
/// The promise that was broken. A panic in the core counts as one.
pub fn outcome(schedule: &Schedule) -> Result<crate::checks::Ledger, Violation> {
    let run = std::panic::AssertUnwindSafe(|| World::new(schedule.seed).run(schedule));
    std::panic::catch_unwind(run).unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<String>().cloned();
        let text = text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Violation::new("P8", format!("a panic: {}", text.unwrap_or_default())))
    })
}

/// Leaves out what the violation does not need.
#[must_use]
pub fn shrink(schedule: &Schedule, violation: &Violation) -> (Schedule, Violation) {
    let (mut best, mut found) = (schedule.clone(), violation.clone());
    let mut size = best.steps.len().div_ceil(2);
    let mut runs = 0;
    while size > 0 {
        let mut start = 0;
        let mut shrunk = false;
        while start < best.steps.len() && runs < MAX_RUNS {
            let mut shorter = best.clone();
            let end = (start + size).min(best.steps.len());
            let left_out = shorter.steps.drain(start..end).map(|step| step.wait).sum::<u64>();
            // Time goes on as before.
            if let Some(next) = shorter.steps.get_mut(start) {
                next.wait += left_out;
            }
            runs += 1;
            match outcome(&shorter) {
                Err(violation) if violation.rule == found.rule => {
                    (best, found, shrunk) = (shorter, violation, true);
                }
                _ => start = end,
            }
        }
        size = if shrunk && size == 1 { 1 } else { size / 2 };
        if runs >= MAX_RUNS {
            break;
        }
    }
    (best, found)
}

/// Worlds that are tried for one trace: seconds.
const MAX_RUNS: u32 = 400;
