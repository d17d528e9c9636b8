//! The numbers of a run that are put side by side, and what they are over several runs.

use serde_json::{Map, Value, json};

use super::text::rounded;

/// Paths in the report of a run. Counts by cause are summed.
pub const NUMBERS: [&str; 20] = [
    "writes",
    "deliveries.live",
    "deliveries.bySync",
    "latencyMs.p50",
    P95,
    P99,
    "latencyMs.max",
    "reconnects",
    "refusals",
    "disconnectedSeconds",
    "availability",
    "relayProcess.peakResidentMiB",
    "relayProcess.loopDelayMs.longest",
    "relayProcess.loopDelayMs.p99",
    "relayProcess.flushErrors",
    "relayProcess.apiErrors",
    "relayProcess.rejected",
    "relayProcess.frames.in",
    "relayProcess.frames.out",
    "relayProcess.highestQueuedBytes",
];
/// The two that have a threshold.
pub const P95: &str = "latencyMs.p95";
/// See [`P95`].
pub const P99: &str = "latencyMs.p99";

/// A number over several runs.
pub struct Spread {
    /// The middle one, or the mean of both.
    pub median: f64,
    lowest: f64,
    highest: f64,
    /// How many runs have it: a relay may have no numbers of its own.
    runs: usize,
}

impl Spread {
    /// A number of these runs; `None` when none of them has it.
    pub fn of(runs: &[Value], name: &str) -> Option<Self> {
        let mut values: Vec<f64> = runs.iter().filter_map(|run| number(run, name)).collect();
        values.sort_by(f64::total_cmp);
        let (lowest, highest) = (*values.first()?, *values.last()?);
        let upper = *values.get(values.len() / 2)?;
        let lower = *values.get((values.len() - 1) / 2)?;
        Some(Self { median: f64::midpoint(lower, upper), lowest, highest, runs: values.len() })
    }
}

fn number(run: &Value, name: &str) -> Option<f64> {
    match run.pointer(&format!("/{}", name.replace('.', "/")))? {
        Value::Object(counts) => Some(counts.values().filter_map(Value::as_u64).sum::<u64>() as f64),
        value => value.as_f64(),
    }
}

/// Every number that some run has, by its path.
pub fn spread(runs: &[Value]) -> Value {
    let mut all = Map::new();
    for (name, spread) in NUMBERS.iter().filter_map(|name| Some((name, Spread::of(runs, name)?))) {
        let Spread { median, lowest, highest, runs } = spread;
        let told = json!({ "median": median, "lowest": lowest, "highest": highest, "runs": runs });
        all.insert((*name).to_owned(), told);
    }
    Value::Object(all)
}

/// The same for a person.
pub fn spread_text(runs: &[Value]) -> Vec<String> {
    let mut lines = vec![format!("{:<34}{:>12}{:>12}{:>12}", "", "median", "lowest", "highest")];
    lines.extend(NUMBERS.iter().filter_map(|name| {
        let Spread { median, lowest, highest, .. } = Spread::of(runs, name)?;
        Some(format!("{name:<34}{:>12}{:>12}{:>12}", rounded(median), rounded(lowest), rounded(highest)))
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one_or_the_mean_of_both() {
        let runs: Vec<Value> = [5, 1, 9, 2].iter().map(|writes| json!({ "writes": writes })).collect();
        assert_eq!(Spread::of(&runs, "writes").unwrap().median, 3.5);
        assert_eq!(Spread::of(&runs[..3], "writes").unwrap().median, 5.0);
        let told = json!({ "median": 3.5, "lowest": 1.0, "highest": 9.0, "runs": 4 });
        assert_eq!(spread(&runs), json!({ "writes": told }));
        assert_eq!(spread_text(&runs).len(), 2);
    }

    #[test]
    fn counts_are_summed_and_what_no_run_has_is_left_out() {
        let runs = [
            json!({ "reconnects": { "1006": 2, "1012": 3 }, "relayProcess": null }),
            json!({ "reconnects": {}, "relayProcess": { "flushErrors": 1 } }),
        ];
        assert_eq!(Spread::of(&runs, "reconnects").unwrap().highest, 5.0);
        assert_eq!(rounded(Spread::of(&runs, "reconnects").unwrap().lowest), "0");
        assert_eq!(Spread::of(&runs, "relayProcess.flushErrors").unwrap().runs, 1);
        assert!(Spread::of(&runs, "writes").is_none());
    }
}
