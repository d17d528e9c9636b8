//! Many seeds at once, and what is printed of them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::checks::Violation;
use crate::schedule::Schedule;
use crate::shrink::{outcome, shrink};

/// A seed whose world broke a promise.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The shrunk schedule.
    pub schedule: Schedule,
    /// The promise.
    pub violation: Violation,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "# {}\n{}", self.violation, self.schedule)
    }
}

/// What many worlds came to.
#[derive(Debug, Default)]
pub struct Report {
    /// How many worlds ran.
    pub worlds: u64,
    /// The failures, by seed.
    pub failures: BTreeMap<u64, Failure>,
    /// How much of each thing happened.
    pub counts: BTreeMap<&'static str, u64>,
}

/// Runs the worlds of some seeds on some threads, and shrinks what fails. After some failures the
/// rest is left.
#[must_use]
pub fn run(seeds: std::ops::Range<u64>, threads: usize) -> Report {
    let next = AtomicU64::new(seeds.start);
    let report = Mutex::new(Report::default());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || locked(&report).failures.len() >= MAX_FAILURES {
                return;
            }
            let schedule = Schedule::draw(seed);
            let result = outcome(&schedule);
            let failure = result.as_ref().err().map(|violation| {
                let (schedule, violation) = shrink(&schedule, violation);
                Failure { schedule, violation }
            });
            let mut report = locked(&report);
            report.worlds += 1;
            if let Ok(ledger) = result {
                for (what, count) in ledger.counts {
                    *report.counts.entry(what).or_insert(0) += count;
                }
            }
            if let Some(failure) = failure {
                report.failures.insert(seed, failure);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    report.into_inner().unwrap_or_default()
}

fn locked(report: &Mutex<Report>) -> std::sync::MutexGuard<'_, Report> {
    report.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Failures after which a run ends: the first ones say enough.
const MAX_FAILURES: usize = 3;
