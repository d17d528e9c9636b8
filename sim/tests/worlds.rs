//! Nothing is wrong in the first worlds, and they are worth looking at.

use yrelay_sim::run::run;

#[test]
fn a_hundred_worlds_keep_every_promise() {
    let report = run(1..101, 2);
    for failure in report.failures.values() {
        println!("{failure}");
    }
    assert!(report.failures.is_empty(), "replay with `cargo xtask sim --seed N`");
    // A world in which nothing goes wrong shows nothing.
    for what in [
        "advances",
        "changes read",
        "closed 1012",
        "closed 1013",
        "closed 4401",
        "closed 4409",
        "cycles",
        "edits",
        "failed flushes",
        "ops done",
        "ops refused",
        "receipts",
        "reloads",
        "resets",
        "role changes",
        "stops",
        "struck",
        "tree requests",
        "wake-ups",
    ] {
        assert!(report.counts.contains_key(what), "no {what} in a hundred worlds: {:?}", report.counts);
    }
}

#[test]
fn the_same_seed_is_the_same_world() {
    let counts = |seeds| run(seeds, 1).counts;
    assert_eq!(counts(7..12), counts(7..12));
}
