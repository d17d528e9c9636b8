//! All runs together, and the verdict.

use serde_json::{Value, json};

use super::compare::Earlier;
use super::numbers::{spread, spread_text};
use super::{Report, settings, text};
use crate::options::Options;

/// What is said at the end.
pub struct Summary {
    /// The report.
    pub json: Value,
    /// The report for a person.
    pub text: String,
    /// Every run passed, and none is slower than it may be.
    pub passed: bool,
}

/// Sums up the runs that there are so far.
pub fn summarize(options: &Options, reports: &[Report], earlier: Option<&Earlier>) -> Summary {
    let runs: Vec<Value> = reports.iter().map(|report| report.json.clone()).collect();
    let compared = earlier.map(|earlier| earlier.compare(&runs));
    let slower = compared.as_ref().map(|compared| compared.slower.clone()).unwrap_or_default();
    let passed =
        reports.len() == options.runs && reports.iter().all(|report| report.passed) && slower.is_empty();
    let mut json = match runs.as_slice() {
        // One run is its own report.
        [run] if options.runs == 1 => run.clone(),
        _ => {
            let mut json = settings(options);
            json["runs"] = json!(runs);
            json["spread"] = spread(&runs);
            json
        }
    };
    json["passed"] = json!(passed);
    json["comparison"] = json!(compared.as_ref().map(|compared| &compared.json));
    let mut lines = runs_text(options, reports);
    lines.extend(compared.into_iter().flat_map(|compared| compared.lines));
    lines.extend(slower);
    lines.push(if passed { "passed" } else { "FAILED" }.to_owned());
    Summary { json, text: lines.join("\n"), passed }
}

fn runs_text(options: &Options, reports: &[Report]) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, report) in (1..).zip(reports) {
        if options.runs > 1 {
            let verdict = if report.passed { "passed" } else { "FAILED" };
            lines.push(format!("run {number} of {}: {verdict}", options.runs));
        }
        lines.push(text::text(&report.json));
    }
    if options.runs > 1 {
        let runs: Vec<Value> = reports.iter().map(|report| report.json.clone()).collect();
        lines.extend(spread_text(&runs));
    } else {
        lines.push("one run is no capacity: --runs 3 or more has the spread".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::some_options;

    fn report(p99: f64, passed: bool) -> Report {
        let mut json = settings(&some_options());
        json["latencyMs"] = json!({ "p95": 1.0, "p99": p99 });
        json["passed"] = json!(passed);
        Report { json, passed }
    }

    #[test]
    fn one_run_is_its_own_report_and_says_what_it_is_not() {
        let summary = summarize(&some_options(), &[report(2.0, true)], None);
        assert!(summary.passed);
        assert_eq!(summary.json["latencyMs"]["p99"], 2.0);
        assert!(summary.json["runs"].is_null());
        assert!(summary.text.contains("one run is no capacity"));
        assert!(summary.text.ends_with("passed"));
    }

    #[test]
    fn several_runs_have_a_spread_and_pass_together_alone() {
        let options = Options { runs: 3, ..some_options() };
        let mut reports = vec![report(2.0, true), report(4.0, true)];
        assert!(!summarize(&options, &reports, None).passed, "one is still to come");
        reports.push(report(9.0, true));
        let summary = summarize(&options, &reports, None);
        assert!(summary.passed);
        assert_eq!(summary.json["runs"].as_array().unwrap().len(), 3);
        assert_eq!(summary.json["spread"]["latencyMs.p99"]["median"], 4.0);
        assert_eq!(summary.json["clients"], 2);
        assert!(!summary.text.contains("no capacity"));
        reports[1].passed = false;
        let summary = summarize(&options, &reports, None);
        assert!(!summary.passed && summary.text.contains("run 2 of 3: FAILED"));
    }
}
