//! The result of a run: what the clients counted, and what is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::Result;
use crate::replica::{Content, Replica};
use crate::run::Run;
use crate::tally::Tally;

/// So many failed clients are shown one by one.
const SHOWN_FAILURES: usize = 10;

/// What is stored, compared with what was written.
#[derive(Default)]
pub struct Stored {
    found: u64,
    missing: Vec<String>,
    writers: BTreeSet<usize>,
    unexpected: u64,
    /// Documents whose replicas, or whose stored content, differ.
    apart: BTreeSet<usize>,
}

impl Stored {
    /// Reads every document and looks for every write; compares the replicas with it.
    pub fn read(run: &Run, tallies: &[Tally]) -> Result<Self> {
        let mut stored = Self::default();
        let token = run.options.tokens.of_owner(&run.workspace)?;
        for document in 0..run.options.documents {
            let replica = Replica::new(1);
            if let Some(update) = run.api.document(&token, &run.workspace, &Run::path(document))? {
                replica.apply(&update)?;
            }
            stored.compare(run, document, &replica.content(), tallies);
        }
        Ok(stored)
    }

    fn compare(&mut self, run: &Run, document: usize, content: &Content, tallies: &[Tally]) {
        let markers = run.markers(document);
        for marker in &markers {
            if content.has(*marker) {
                self.found += 1;
                self.writers.insert(marker.client);
            } else {
                self.missing.push(format!("{}.{}", marker.client, marker.number));
            }
        }
        self.unexpected += (content.markers.len() as u64).saturating_sub(markers.len() as u64);
        let replicas = tallies.iter().enumerate().filter(|(client, _)| run.document_of(*client) == document);
        if replicas.into_iter().any(|(_, tally)| tally.content != *content) {
            self.apart.insert(document);
        }
    }
}

/// Everything that is reported.
pub struct Report {
    /// The report.
    pub json: Value,
    /// Nothing is lost, and everybody converged.
    pub passed: bool,
}

/// Sums up.
pub fn sum_up(run: &Run, tallies: &[Tally], stored: &Stored) -> Report {
    let total = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    let (online, disconnected) =
        (time(tallies, |tally| tally.online), time(tallies, |tally| tally.disconnected));
    let writes = total(|tally| tally.writes);
    let failures: Vec<Value> = tallies.iter().enumerate().filter_map(failure).collect();
    let is_complete = stored.missing.is_empty() && stored.unexpected == 0 && stored.found == writes;
    let passed = is_complete && stored.apart.is_empty() && failures.is_empty() && writes > 0;
    let json = json!({
        "relay": run.options.label, "workspace": run.workspace,
        "clients": run.options.clients, "documents": run.options.documents, "ratePerSecond": run.options.rate,
        "seconds": run.options.duration.as_secs(), "rampMs": run.options.ramp.as_millis() as u64,
        "writes": writes, "expectedWrites": run.expected_writes(),
        "writtenOffline": total(|tally| tally.written_offline),
        "deliveries": {
            "live": total(|tally| tally.live), "bySync": total(|tally| tally.synced),
            "expected": expected_deliveries(run),
        },
        "awareness": {
            "sent": total(|tally| tally.awareness_sent), "received": total(|tally| tally.awareness_received),
        },
        "latencyMs": latency(tallies),
        "reconnects": merged(tallies, |tally| &tally.reconnects),
        "refusals": merged(tallies, |tally| &tally.refusals),
        "disconnectedSeconds": disconnected,
        "availability": if online > 0.0 { 1.0 - disconnected / online } else { 0.0 },
        "stored": {
            "found": stored.found, "missing": stored.missing.len(), "unexpected": stored.unexpected,
            "writers": stored.writers.len(), "firstMissing": stored.missing.first(),
        },
        "documentsApart": stored.apart, "failedClients": failures, "passed": passed,
    });
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

fn latency(tallies: &[Tally]) -> Value {
    let mut all: Option<Histogram<u64>> = None;
    for tally in tallies {
        match &mut all {
            None => all = Some(tally.latency.clone()),
            // The same bounds everywhere.
            Some(all) => drop(all.add(&tally.latency)),
        }
    }
    let Some(all) = all.filter(|all| !all.is_empty()) else { return Value::Null };
    let ms = |quantile: f64| all.value_at_quantile(quantile) as f64 / 1000.0;
    json!({ "p50": ms(0.5), "p95": ms(0.95), "p99": ms(0.99), "max": all.max() as f64 / 1000.0, "samples": all.len() })
}

fn merged(tallies: &[Tally], of: fn(&Tally) -> &BTreeMap<String, u64>) -> BTreeMap<&str, u64> {
    let mut counts = BTreeMap::new();
    for (cause, count) in tallies.iter().flat_map(of) {
        *counts.entry(cause.as_str()).or_default() += count;
    }
    counts
}

impl Report {
    /// The report for a person.
    pub fn text(&self) -> String {
        let json = &self.json;
        let n = |path: &str| json.pointer(path).cloned().unwrap_or_default();
        let mut lines = vec![
            format!(
                "{} clients, {} documents, {} s at {}/s each, relay {}",
                n("/clients"),
                n("/documents"),
                n("/seconds"),
                n("/ratePerSecond"),
                n("/relay")
            ),
            format!(
                "writes        {} of {} ({} while not in sync)",
                n("/writes"),
                n("/expectedWrites"),
                n("/writtenOffline")
            ),
            format!(
                "deliveries    {} live, {} by sync, of {}",
                n("/deliveries/live"),
                n("/deliveries/bySync"),
                n("/deliveries/expected")
            ),
            format!("awareness     {} sent, {} received", n("/awareness/sent"), n("/awareness/received")),
            format!(
                "latency       p50 {} ms, p95 {} ms, p99 {} ms, max {} ms ({} samples)",
                n("/latencyMs/p50"),
                n("/latencyMs/p95"),
                n("/latencyMs/p99"),
                n("/latencyMs/max"),
                n("/latencyMs/samples")
            ),
            format!("reconnects    {} by close code; refused: {}", n("/reconnects"), n("/refusals")),
            format!(
                "disconnected  {} s in all, availability {}",
                n("/disconnectedSeconds"),
                n("/availability")
            ),
            format!(
                "stored        {} found, {} missing, {} unexpected, of {} writers",
                n("/stored/found"),
                n("/stored/missing"),
                n("/stored/unexpected"),
                n("/stored/writers")
            ),
            format!("not converged {}", n("/documentsApart")),
        ];
        let failures = json["failedClients"].as_array().map(Vec::as_slice).unwrap_or_default();
        lines.extend(
            failures
                .iter()
                .take(SHOWN_FAILURES)
                .map(|one| format!("client {}: {}", one["client"], one["why"])),
        );
        lines.push(if self.passed { "passed" } else { "FAILED" }.to_owned());
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Api;
    use crate::options::Options;
    use crate::replica::Marker;
    use crate::tokens::Tokens;

    fn run() -> Run {
        let options = Options {
            api: String::new(),
            relay: String::new(),
            label: "cf".to_owned(),
            tokens: Tokens::Listed(vec!["a".to_owned()]),
            workspace: None,
            clients: 2,
            documents: 1,
            rate: 1.0,
            duration: Duration::from_secs(10),
            ramp: Duration::ZERO,
            json: None,
        };
        Run::new(options, "w".to_owned(), Api::new(""))
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
        sum_up(&run, &tallies, &found)
    }

    #[test]
    fn a_write_that_is_not_stored_fails_the_run() {
        let report = report(&Replica::new(1));
        assert!(!report.passed);
        assert_eq!(report.json["stored"]["found"], 1);
        assert_eq!(report.json["stored"]["missing"], 1);
        assert_eq!(report.json["stored"]["firstMissing"], "1.0");
        assert_eq!(report.json["documentsApart"], json!([0]));
        assert!(report.text().ends_with("FAILED"));
    }

    #[test]
    fn everything_stored_and_everybody_equal_passes() {
        let report = report(&Replica::new(3));
        assert!(report.passed, "{}", report.text());
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
