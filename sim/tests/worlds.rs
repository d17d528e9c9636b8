//! Nothing is wrong in a hundred worlds, and they are worth looking at.

use yrelay_sim::run::run;

#[test]
fn a_hundred_worlds_keep_every_promise() {
    // Such a hundred that the rarest of what follows is among it.
    let report = run(301..401, 2);
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
        "closed 4404",
        "closed 4409",
        "cycles",
        "deletes asked",
        "edits",
        "ends told",
        "failed flushes",
        "moves asked",
        "ops done",
        "ops refused",
        "receipts",
        "reloads",
        "resets",
        "role changes",
        "sent away",
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
