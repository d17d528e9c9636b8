//! What the relay's process says of itself during a run.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::scrape::{Scrape, Unread};

const MEBIBYTE: f64 = 1024.0 * 1024.0;
/// Counters, of which the report has the growth.
const COUNTERS: [&str; 4] = ["flush_errors_total", "api_errors_total", "rejected_total", "frames_total"];

/// The readings of a run, summed up.
#[derive(Default)]
pub struct RelayProcess {
    /// Readings, without the one before the run.
    samples: u64,
    failed: u64,
    /// Why there is nothing, or why the last reading failed.
    cause: Option<String>,
    resident: f64,
    /// The longest delay of the loop between two readings, in ms, of each.
    loop_delays: Vec<f64>,
    /// `None` of a relay that does not tell.
    queued: Option<f64>,
    counters: BTreeMap<&'static str, Growth>,
}

impl RelayProcess {
    /// Takes what counters are at before the run. Its gauges are of the time before.
    pub fn begin(&mut self, scrape: &Scrape) {
        for name in COUNTERS {
            self.counters.entry(name).or_default().see(scrape.counts(name));
        }
    }

    /// Takes a reading.
    pub fn take(&mut self, scrape: &Scrape) {
        self.begin(scrape);
        self.samples += 1;
        self.resident = self.resident.max(scrape.gauge("resident_bytes").unwrap_or(0.0));
        self.loop_delays.extend(scrape.gauge("loop_delay_seconds").map(|seconds| seconds * 1000.0));
        let queued = scrape.gauge("queued_bytes");
        self.queued = self.queued.into_iter().chain(queued).reduce(f64::max);
    }

    /// Counts a reading that did not work.
    pub fn fail(&mut self, unread: Unread) {
        let (Unread::Absent(cause) | Unread::Failed(cause)) = unread;
        self.failed += 1;
        self.cause = Some(cause);
    }

    /// For the report; null when nothing was read.
    pub fn json(&self) -> Value {
        if self.samples == 0 {
            return Value::Null;
        }
        let grown = |name: &str| self.counters.get(name).map(|counter| &counter.grown);
        let sum = |name: &str| grown(name).map_or(0, |grown| grown.values().sum::<u64>());
        let frames = |way: &str| grown("frames_total").and_then(|grown| grown.get(way)).copied().unwrap_or(0);
        json!({
            "samples": self.samples, "failedScrapes": self.failed,
            "peakResidentMiB": self.resident / MEBIBYTE,
            "loopDelayMs": { "longest": highest(&self.loop_delays, 1.0), "p99": highest(&self.loop_delays, 0.99) },
            "flushErrors": sum("flush_errors_total"), "apiErrors": grown("api_errors_total"),
            "rejected": grown("rejected_total"),
            "frames": { "in": frames("in"), "out": frames("out") },
            "highestQueuedBytes": self.queued.map(|bytes| bytes as u64),
        })
    }

    /// Why readings failed, or there is none at all.
    pub fn note(&self) -> Option<String> {
        let cause = self.cause.as_ref()?;
        Some(if self.failed > 1 {
            format!("{} scrapes failed, the last one: {cause}", self.failed)
        } else {
            cause.clone()
        })
    }
}

/// How much a counter grew, by label.
#[derive(Default)]
struct Growth {
    /// `None` before the first reading, from which growth counts.
    last: Option<BTreeMap<String, u64>>,
    grown: BTreeMap<String, u64>,
}

impl Growth {
    fn see(&mut self, counts: BTreeMap<String, u64>) {
        if let Some(last) = &self.last {
            for (label, count) in &counts {
                let before = last.get(label).copied().unwrap_or(0);
                // A counter that is lower is that of another process: it began anew.
                let more = count.checked_sub(before).unwrap_or(*count);
                if more > 0 {
                    *self.grown.entry(label.clone()).or_default() += more;
                }
            }
        }
        self.last = Some(counts);
    }
}

/// The value that so large a share is not above.
fn highest(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrape(text: &str) -> Scrape {
        Scrape::parse(text).unwrap()
    }

    #[test]
    fn counters_are_told_as_growth_and_gauges_by_their_highest() {
        let mut process = RelayProcess::default();
        process.begin(&scrape(
            "yrelay_frames_total{relay=\"d\",direction=\"in\"} 100\nyrelay_resident_bytes 9e9\n\
             yrelay_loop_delay_seconds 9\nyrelay_queued_bytes 999",
        ));
        process.take(&scrape(
            "yrelay_frames_total{relay=\"d\",direction=\"in\"} 107\nyrelay_resident_bytes 2097152\n\
             yrelay_loop_delay_seconds 0.02\nyrelay_queued_bytes 5\n\
             yrelay_rejected_total{relay=\"d\",code=\"forbidden\"} 2",
        ));
        process.fail(Unread::Failed("timeout".to_owned()));
        // The relay was started again.
        process.take(&scrape(
            "yrelay_frames_total{relay=\"d\",direction=\"in\"} 3\nyrelay_resident_bytes 1048576\n\
             yrelay_loop_delay_seconds 0.01\nyrelay_queued_bytes 0\nyrelay_flush_errors_total 1",
        ));
        let json = process.json();
        assert_eq!(json["frames"], json!({ "in": 10, "out": 0 }));
        assert_eq!([&json["samples"], &json["failedScrapes"], &json["flushErrors"]], [2, 1, 1]);
        assert_eq!(json["rejected"], json!({ "forbidden": 2 }));
        assert_eq!(json["peakResidentMiB"], 2.0);
        assert_eq!(json["loopDelayMs"], json!({ "longest": 20.0, "p99": 20.0 }));
        assert_eq!(json["highestQueuedBytes"], 5);
    }

    #[test]
    fn nothing_read_is_null_and_a_number_that_is_not_told_too() {
        let mut process = RelayProcess::default();
        process.fail(Unread::Absent("it answered 404".to_owned()));
        assert_eq!((process.json(), process.note().unwrap().as_str()), (Value::Null, "it answered 404"));
        process.fail(Unread::Failed("timeout".to_owned()));
        assert_eq!(process.note().unwrap(), "2 scrapes failed, the last one: timeout");
        process.take(&scrape("yrelay_resident_bytes 1048576"));
        assert_eq!(process.json()["highestQueuedBytes"], Value::Null);
    }

    #[test]
    fn a_share_of_the_samples() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!((highest(&values, 0.99), highest(&values, 1.0)), (Some(198.0), Some(200.0)));
        assert_eq!(highest(&[], 0.99), None);
    }
}
