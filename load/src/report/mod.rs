//! The result of a run: what the clients counted, what the relay's process says of itself, and what is
//! stored. [`summary`] puts several together.

pub mod compare;
mod numbers;
pub mod stored;
pub mod summary;
mod text;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::options::Options;
use crate::relay_process::RelayProcess;
use crate::run::Run;
use crate::tally::Tally;
use stored::Stored;

/// Everything that is reported of one run.
pub struct Report {
    /// The report.
    pub json: Value,
    /// Nothing is lost, and everybody converged.
    pub passed: bool,
}

/// What runs are given. Two reports are compared by it.
fn settings(options: &Options) -> Value {
    json!({
        "relay": options.label, "clients": options.clients, "documents": options.documents,
        "ratePerSecond": options.rate, "seconds": options.duration.as_secs(),
        "rampMs": options.ramp.as_millis() as u64,
    })
}

/// Sums up a run.
pub fn sum_up(run: &Run, tallies: &[Tally], process: &RelayProcess, stored: &Stored) -> Report {
    let total = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    let (online, disconnected) =
        (time(tallies, |tally| tally.online), time(tallies, |tally| tally.disconnected));
    let writes = total(|tally| tally.writes);
    let failures: Vec<Value> = tallies.iter().enumerate().filter_map(failure).collect();
    let passed = stored.is_complete(writes) && stored.apart.is_empty() && failures.is_empty() && writes > 0;
    let counted = json!({
        "workspace": run.workspace,
        "writes": writes, "expectedWrites": run.expected_writes(),
        "writtenOffline": total(|tally| tally.written_offline),
        "deliveries": {
            "live": total(|tally| tally.live), "bySync": total(|tally| tally.synced),
            "expected": expected_deliveries(run),
        },
        "awareness": {
            "sent": total(|tally| tally.awareness_sent), "received": total(|tally| tally.awareness_received),
        },
        "latencyMs": latency(tallies, total(|tally| tally.live)),
        "reconnects": merged(tallies, |tally| &tally.reconnects),
        "refusals": merged(tallies, |tally| &tally.refusals),
        "disconnectedSeconds": disconnected,
        "availability": if online > 0.0 { 1.0 - disconnected / online } else { 0.0 },
        "relayProcess": process.json(), "relayProcessNote": process.note(),
        "stored": stored.json(),
        "documentsApart": stored.apart, "failedClients": failures, "passed": passed,
    });
    let mut json = settings(&run.options);
    if let (Some(json), Value::Object(counted)) = (json.as_object_mut(), counted) {
        json.extend(counted);
    }
    Report { json, passed }
}

fn failure((client, tally): (usize, &Tally)) -> Option<Value> {
    tally.failure.as_ref().map(|why| json!({ "client": client, "why": why }))
}

fn time(tallies: &[Tally], of: fn(&Tally) -> Duration) -> f64 {
    tallies.iter().map(|tally| of(tally).as_secs_f64()).sum()
}

/// Each write reaches every other client of its document once.
fn expected_deliveries(run: &Run) -> u64 {
    (0..run.options.documents)
        .map(|document| run.markers(document).len() as u64 * (run.clients_of(document) as u64 - 1))
        .sum()
}

fn latency(tallies: &[Tally], live: u64) -> Value {
    let mut tallies = tallies.iter().map(|tally| &tally.latency);
    let Some(first) = tallies.next() else { return Value::Null };
    let all = tallies.fold(first.clone(), |mut all, latency| {
        all.add(latency);
        all
    });
    all.json(live)
}

fn merged(tallies: &[Tally], of: fn(&Tally) -> &BTreeMap<String, u64>) -> BTreeMap<&str, u64> {
    let mut counts = BTreeMap::new();
    for (cause, count) in tallies.iter().flat_map(of) {
        *counts.entry(cause.as_str()).or_default() += count;
    }
    counts
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::api::Api;
    use crate::options::tests::some_options;
    use crate::replica::{Marker, Replica};

    fn run() -> Run {
        Run::new(Arc::new(some_options()), "w".to_owned(), Api::new(""))
    }

    /// Two clients that wrote a marker each and have both; `stored` is what the database has.
    fn report(stored: &Replica) -> Report {
        let (run, replica) = (run(), Replica::new(9));
        let markers = [Marker { client: 0, number: 0 }, Marker { client: 1, number: 0 }];
        let mut tallies = vec![Tally::new().unwrap(), Tally::new().unwrap()];
        for (marker, tally) in markers.into_iter().zip(&mut tallies) {
            run.note_write(marker);
            let update = replica.write(marker);
            if stored.client_id() == u64::try_from(marker.client).unwrap() + 1 || stored.client_id() == 3 {
                stored.apply(&update).unwrap();
            }
            tally.writes = 1;
        }
        for tally in &mut tallies {
            tally.content = replica.content();
        }
        let mut found = Stored::default();
        found.compare(&run, 0, &stored.content(), &tallies);
        sum_up(&run, &tallies, &RelayProcess::default(), &found)
    }

    #[test]
    fn a_write_that_is_not_stored_fails_the_run() {
        let report = report(&Replica::new(1));
        assert!(!report.passed);
        assert_eq!(report.json["stored"]["found"], 1);
        assert_eq!(report.json["stored"]["missing"], 1);
        assert_eq!(report.json["stored"]["firstMissing"], "1.0");
        assert_eq!(report.json["documentsApart"], json!([0]));
        assert!(text::text(&report.json).contains("\nnot converged [0]"));
    }

    #[test]
    fn everything_stored_and_everybody_equal_passes() {
        let report = report(&Replica::new(3));
        assert!(report.passed, "{}", report.json);
        assert_eq!(report.json["stored"]["writers"], 2);
        assert_eq!(report.json["deliveries"]["expected"], 2);
    }

    #[test]
    fn a_write_that_nobody_made_fails_the_run() {
        let stored = Replica::new(3);
        drop(stored.write(Marker { client: 1, number: 7 }));
        let report = report(&stored);
        assert_eq!(report.json["stored"]["unexpected"], 1);
        assert!(!report.passed);
    }
}
