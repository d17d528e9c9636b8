//! From a write to its arrival. No sample is dropped: a histogram has no cap, only a precision and an
//! upper bound. What is longer counts as the bound, and is told.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::Result;
use crate::run::micros;

/// The longest latency that is told apart from longer ones, in microseconds: as long as clients may
/// take to converge.
const MAX_LATENCY: u64 = 120_000_000;
/// Significant digits: 0.1 % is less than two runs differ by.
const DIGITS: u8 = 3;

/// Latencies of live deliveries.
#[derive(Clone)]
pub struct Latency {
    histogram: Histogram<u64>,
    above: u64,
    longest: u64,
}

impl Latency {
    /// None.
    pub fn new() -> Result<Self> {
        let histogram = Histogram::new_with_bounds(1, MAX_LATENCY, DIGITS);
        Ok(Self { histogram: histogram.map_err(|error| error.to_string())?, above: 0, longest: 0 })
    }

    /// One more.
    pub fn record(&mut self, latency: Duration) {
        let latency = micros(latency);
        self.above += u64::from(latency > MAX_LATENCY);
        self.longest = self.longest.max(latency);
        self.histogram.saturating_record(latency.min(MAX_LATENCY));
    }

    /// Those of another client as well.
    pub fn add(&mut self, other: &Self) {
        // All have the same bounds; what did not fit would show as dropped.
        let _fits = self.histogram.add(&other.histogram);
        self.above += other.above;
        self.longest = self.longest.max(other.longest);
    }

    /// The percentiles, and how many samples they are of; null without any. `arrivals` is how many
    /// there should be.
    pub fn json(&self, arrivals: u64) -> Value {
        let samples = self.histogram.len();
        if samples == 0 {
            return Value::Null;
        }
        let ms = |micros: u64| micros as f64 / 1000.0;
        let at = |quantile: f64| ms(self.histogram.value_at_quantile(quantile));
        json!({
            "p50": at(0.5), "p95": at(0.95), "p99": at(0.99), "max": ms(self.longest),
            "samples": samples, "dropped": arrivals.saturating_sub(samples),
            "digits": DIGITS, "boundMs": ms(MAX_LATENCY), "aboveBound": self.above,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_kept_past_a_million() {
        let (mut all, mut one) = (Latency::new().unwrap(), Latency::new().unwrap());
        for sample in 0..600_000 {
            all.record(Duration::from_micros(sample));
            one.record(Duration::from_micros(600_000 + sample));
        }
        all.add(&one);
        let json = all.json(1_200_001);
        assert_eq!(json["samples"], 1_200_000);
        assert_eq!(json["dropped"], 1, "an arrival without a sample is told");
        assert_eq!(json["max"], 1199.999);
        let p50 = json["p50"].as_f64().unwrap();
        assert!((p50 - 600.0).abs() / 600.0 < 1e-3, "three digits: {p50}");
    }

    #[test]
    fn what_is_over_the_bound_is_kept_and_told() {
        let mut latency = Latency::new().unwrap();
        assert_eq!(latency.json(0), Value::Null);
        latency.record(Duration::from_secs(120));
        latency.record(Duration::from_secs(130));
        let json = latency.json(2);
        assert_eq!([&json["samples"], &json["dropped"], &json["aboveBound"]], [2, 0, 1]);
        assert_eq!(json["boundMs"], 120_000.0);
        assert_eq!(json["max"], 130_000.0);
    }
}
