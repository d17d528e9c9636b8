//! The simulator finds bugs: each of those that can be planted, within a hundred worlds or, if it takes a
//! rare one, in that.
#![cfg(feature = "planted-bugs")]

use yrelay::planted::{Bug, plant};
use yrelay_sim::checks::Violation;
use yrelay_sim::schedule::Schedule;
use yrelay_sim::shrink::{outcome, shrink};

/// What finds each bug: the rule that its violation names.
const RULES: [(Bug, &[&str]); 10] = [
    (Bug::AwarenessRemovalOfOthers, &["W5"]),
    (Bug::CheckpointWithoutEpochCheck, &["D1", "D3", "W8", "W11"]),
    (Bug::ClockReuseAfterSweep, &["F1"]),
    (Bug::CursorMovedByHeartbeat, &["F3"]),
    (Bug::DeletesTakenForKnown, &["D1", "D3", "W8"]),
    (Bug::DoubleApplyOnRetry, &["R2"]),
    (Bug::LostTailOnFlushFailure, &["D1", "D3", "D5", "W8"]),
    (Bug::ReceiptBeforeCommit, &["W8"]),
    (Bug::SilentReplay, &["D3"]),
    (Bug::UpdateDroppedOnSlowConsumer, &["D3", "W9"]),
];

/// What it takes to find a rare one, as `cargo xtask sim` printed it: a commit that D1 answers too late, a
/// Worker that is gone by then, its request again, and somebody connected who hears nothing else.
const RARE: [(Bug, &str); 1] = [(Bug::SilentReplay, include_str!("data/silent_replay.txt"))];

const SEEDS: std::ops::RangeInclusive<u64> = 1..=100;

fn first_failure(bug: Bug) -> Option<(Schedule, Violation)> {
    let rare = RARE.iter().filter(|(of, _)| *of == bug);
    let rare = rare.map(|(_, trace)| Schedule::parse(trace).expect("a trace"));
    rare.chain(SEEDS.map(Schedule::draw))
        .find_map(|schedule| Some((schedule.clone(), outcome(&schedule).err()?)))
}

#[test]
fn every_planted_bug_is_found_by_the_rule_that_it_breaks() {
    for bug in Bug::ALL {
        plant(Some(bug));
        let found = first_failure(bug);
        plant(None);
        let Some((schedule, violation)) = found else { panic!("{bug:?} was not found") };
        println!("{bug:?}: seed {}, {violation}", schedule.seed);
        let rules = RULES.iter().find(|(of, _)| *of == bug).map(|(_, rules)| *rules).unwrap_or_default();
        assert!(rules.contains(&violation.rule), "{bug:?} was found as {violation}");
        assert!(outcome(&schedule).is_ok(), "the world of seed {} is right without {bug:?}", schedule.seed);
    }
}

#[test]
fn a_trace_is_shorter_and_replays() {
    plant(Some(Bug::ReceiptBeforeCommit));
    let (schedule, violation) = first_failure(Bug::ReceiptBeforeCommit).expect("a failure");
    let (short, found) = shrink(&schedule, &violation);
    let replayed = outcome(&Schedule::parse(&short.to_string()).expect("a trace")).err();
    plant(None);
    assert!(short.steps.len() < schedule.steps.len(), "{short}");
    assert_eq!((found.rule, replayed), (violation.rule, Some(found)));
}
