//! An earlier report beside this one. Of two that differ in more than one factor nobody can say what a
//! number comes from, so those are refused.

use serde_json::{Map, Value, json};

use super::numbers::{NUMBERS, P95, P99, Spread};
use super::settings;
use super::text::rounded;
use crate::Result;
use crate::options::{Options, read_json};

/// What a run is given; the names in a report.
const FACTORS: [&str; 6] = ["relay", "clients", "documents", "ratePerSecond", "seconds", "rampMs"];

/// An earlier report.
pub struct Earlier {
    name: String,
    /// One that failed may be compared with, and is told as such.
    passed: bool,
    runs: Vec<Value>,
    /// What is another now, with both values.
    difference: Option<String>,
    max_ratio: Option<f64>,
}

/// What came out.
pub struct Comparison {
    /// For the report.
    pub json: Value,
    /// For a person.
    pub lines: Vec<String>,
    /// Why the runs fail for it.
    pub slower: Vec<String>,
}

impl Earlier {
    /// Reads what the options name, and refuses what cannot be compared: before a run, not after it.
    pub fn read(options: &Options) -> Result<Option<Self>> {
        let Some(path) = &options.compare else { return Ok(None) };
        let name = path.display().to_string();
        Self::new(name, &read_json(path)?, options).map(Some)
    }

    fn new(name: String, report: &Value, options: &Options) -> Result<Self> {
        let now = settings(options);
        if let Some(factor) = FACTORS.iter().find(|factor| report[**factor].is_null()) {
            return Err(format!("--compare: {name} is no report of --json: it has no `{factor}`"));
        }
        let differ = FACTORS.iter().filter(|factor| !is_same(&report[**factor], &now[**factor]));
        let differ: Vec<String> =
            differ.map(|factor| format!("{factor} ({} then, {} now)", report[factor], now[factor])).collect();
        if differ.len() > 1 {
            let differ = differ.join(", ");
            return Err(format!(
                "--compare: only one of the options may be another than in {name}: {differ}"
            ));
        }
        // One run is its own report.
        let runs = report["runs"].as_array().cloned().unwrap_or_else(|| vec![report.clone()]);
        let max_ratio = options.max_ratio;
        if max_ratio.is_some() && [P95, P99].iter().any(|name| Spread::of(&runs, name).is_none()) {
            return Err(format!("--max-ratio: {name} has no latencies"));
        }
        let passed = report["passed"] == true;
        Ok(Self { name, passed, runs, difference: differ.into_iter().next(), max_ratio })
    }

    /// Puts the medians side by side.
    pub fn compare(&self, runs: &[Value]) -> Comparison {
        let (mut numbers, mut slower) = (Map::new(), Vec::new());
        let what = self.difference.as_deref().unwrap_or("nothing");
        let verdict = if self.passed { "passed" } else { "FAILED" };
        let mut lines = vec![
            format!(
                "{} (runs: {}, {verdict}) beside runs now: {}; another is: {what}",
                self.name,
                self.runs.len(),
                runs.len()
            ),
            format!("{:<34}{:>12}{:>12}{:>12}", "medians", "then", "now", "ratio"),
        ];
        for name in NUMBERS {
            let [then, now] = [&self.runs, runs].map(|runs| Spread::of(runs, name).map(|all| all.median));
            if then.is_none() && now.is_none() {
                continue;
            }
            let ratio = then.zip(now).filter(|(then, _)| *then > 0.0).map(|(then, now)| now / then);
            let [shown_then, shown_now, shown] =
                [then, now, ratio].map(|n| n.map_or("-".to_owned(), rounded));
            lines.push(format!("{name:<34}{shown_then:>12}{shown_now:>12}{shown:>12}"));
            slower.extend(self.judge(name, ratio));
            numbers.insert(name.to_owned(), json!({ "then": then, "now": now, "ratio": ratio }));
        }
        let json = json!({
            "with": self.name, "passed": self.passed, "difference": self.difference, "maxRatio": self.max_ratio,
            "numbers": numbers, "slower": slower,
        });
        Comparison { json, lines, slower }
    }

    /// Why a number fails the runs.
    fn judge(&self, name: &str, ratio: Option<f64>) -> Option<String> {
        let most = self.max_ratio.filter(|_| [P95, P99].contains(&name))?;
        match ratio {
            Some(ratio) if ratio <= most => None,
            Some(ratio) => Some(format!("{name} is {} times the earlier one, over {most}", rounded(ratio))),
            None => Some(format!("{name} cannot be compared: there are no latencies now")),
        }
    }
}

/// 2 and 2.0 are the same rate.
fn is_same(then: &Value, now: &Value) -> bool {
    then == now || then.as_f64().zip(now.as_f64()).is_some_and(|(then, now)| then == now)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::options::tests::some_options;

    /// A report of a run with these settings.
    fn report(options: &Options, p95: f64, p99: f64) -> Value {
        let mut report = settings(options);
        report["latencyMs"] = json!({ "p95": p95, "p99": p99 });
        report
    }

    fn earlier(report: &Value, options: &Options) -> Result<Earlier> {
        Earlier::new("old.json".to_owned(), report, options)
    }

    #[test]
    fn two_factors_at_once_are_refused_by_name() {
        let old = report(&some_options(), 1.0, 1.0);
        let one = Options { clients: 3, ..some_options() };
        assert_eq!(earlier(&old, &one).unwrap().difference.unwrap(), "clients (2 then, 3 now)");
        let two = Options { clients: 3, duration: Duration::from_secs(11), ..some_options() };
        let error = earlier(&old, &two).err().unwrap();
        assert!(error.ends_with("clients (2 then, 3 now), seconds (10 then, 11 now)"), "{error}");
        assert!(earlier(&old, &some_options()).unwrap().difference.is_none());
        // What JavaScript wrote has whole numbers without a point.
        let whole: Value = serde_json::from_str(&old.to_string().replace("1.0", "1")).unwrap();
        assert!(earlier(&whole, &some_options()).unwrap().difference.is_none());
        assert!(earlier(&json!({ "clients": 2 }), &one).err().unwrap().contains("no `relay`"));
    }

    #[test]
    fn every_factor_counts() {
        let old = report(&some_options(), 1.0, 1.0);
        for other in [
            Options { label: "deno".to_owned(), ..some_options() },
            Options { documents: 2, ..some_options() },
            Options { rate: 2.0, ..some_options() },
            Options { ramp: Duration::from_millis(1), ..some_options() },
        ] {
            assert!(earlier(&old, &other).unwrap().difference.is_some());
            assert!(earlier(&old, &Options { clients: 9, ..other }).is_err());
        }
    }

    #[test]
    fn medians_over_the_ratio_are_told() {
        let options = Options { max_ratio: Some(1.5), ..some_options() };
        let mut old = settings(&options);
        old["runs"] =
            json!([report(&options, 10.0, 20.0), report(&options, 90.0, 90.0), report(&options, 1.0, 1.0)]);
        let compared = earlier(&old, &options).unwrap().compare(&[report(&options, 15.0, 31.0)]);
        assert_eq!(compared.json["numbers"][P95], json!({ "then": 10.0, "now": 15.0, "ratio": 1.5 }));
        assert_eq!(compared.slower, ["latencyMs.p99 is 1.55 times the earlier one, over 1.5"]);
        let without = earlier(&old, &options).unwrap().compare(&[settings(&options)]);
        assert_eq!(without.slower.len(), 2);
        let error = earlier(&settings(&options), &options).err().unwrap();
        assert!(error.contains("no latencies"), "{error}");
    }

    #[test]
    fn without_a_ratio_nothing_fails() {
        let old = report(&some_options(), 1.0, 0.0);
        let compared = earlier(&old, &some_options()).unwrap().compare(&[report(&some_options(), 9.0, 9.0)]);
        assert!(compared.slower.is_empty());
        assert_eq!(compared.json["numbers"][P99]["ratio"], Value::Null);
        assert!(
            compared.lines.iter().any(|line| line.ends_with(" 1           9           9")),
            "{:?}",
            compared.lines
        );
    }
}
