//! Reads the relay's `/metrics` beside a run. What fails is counted, and ends no run.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::Result;
use crate::relay_process::RelayProcess;
use crate::scrape::{Scrape, Unread, agent};

/// Between two readings: often enough for a peak, and no load of its own.
const INTERVAL: Duration = Duration::from_secs(2);
/// A relay that is busy may take a while; the next reading should not be late for it by much.
const DEADLINE: Duration = Duration::from_secs(5);

/// Readings that go on until they are finished.
pub enum Sampler {
    /// There is nothing to read.
    Absent(RelayProcess),
    /// A thread reads.
    Running(Sender<()>, JoinHandle<RelayProcess>),
}

impl Sampler {
    /// Reads what counters are at, and goes on beside.
    pub fn start(url: &str) -> Result<Self> {
        let (agent, url) = (agent(DEADLINE), url.to_owned());
        let mut process = RelayProcess::default();
        match Scrape::read(&agent, &url) {
            Ok(scrape) => process.begin(&scrape),
            Err(absent @ Unread::Absent(_)) => {
                process.fail(absent);
                return Ok(Self::Absent(process));
            }
            Err(failed) => process.fail(failed),
        }
        let (stop, stopped) = mpsc::channel();
        let sample = move || sample(process, &stopped, INTERVAL, || Scrape::read(&agent, &url));
        let thread = thread::Builder::new().name("metrics".to_owned()).spawn(sample);
        Ok(Self::Running(stop, thread.map_err(|error| format!("a thread does not start: {error}"))?))
    }

    /// Reads once more, and gives what there is.
    pub fn finish(self) -> Result<RelayProcess> {
        match self {
            Self::Absent(process) => Ok(process),
            Self::Running(stop, thread) => {
                drop(stop);
                thread.join().map_err(|_| "the reader of /metrics panicked; its message is above".to_owned())
            }
        }
    }
}

/// Until the other end of the channel is gone, and then once more.
fn sample(
    mut process: RelayProcess,
    stopped: &Receiver<()>,
    interval: Duration,
    read: impl Fn() -> std::result::Result<Scrape, Unread>,
) -> RelayProcess {
    loop {
        let is_last = stopped.recv_timeout(interval) != Err(RecvTimeoutError::Timeout);
        match read() {
            Ok(scrape) => process.take(&scrape),
            Err(unread) => process.fail(unread),
        }
        if is_last {
            return process;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;
    use crate::scrape::tests::serve;

    #[test]
    fn a_relay_that_goes_away_is_counted_and_what_was_read_stays() {
        let (stop, stopped) = mpsc::channel::<()>();
        let (stop, asked) = (RefCell::new(Some(stop)), Cell::new(0));
        let read = || match asked.replace(asked.get() + 1) {
            0 | 1 => Ok(Scrape::parse("yrelay_resident_bytes 1048576").unwrap()),
            number => {
                if number == 3 {
                    stop.take();
                }
                Err(Unread::Failed("refused".to_owned()))
            }
        };
        let process = sample(RelayProcess::default(), &stopped, Duration::from_millis(1), read);
        let json = process.json();
        assert_eq!([&json["samples"], &json["failedScrapes"]], [2, 3], "the last one after the end");
        assert_eq!(json["peakResidentMiB"], 1.0);
        assert_eq!(process.note().unwrap(), "3 scrapes failed, the last one: refused");
    }

    #[test]
    fn a_run_has_a_reading_at_its_end() {
        let sampler = Sampler::start(&serve(200, "yrelay_resident_bytes 1048576\n", 2)).unwrap();
        assert_eq!(sampler.finish().unwrap().json()["samples"], 1);
    }

    #[test]
    fn without_metrics_nobody_asks_again() {
        let sampler = Sampler::start(&serve(404, "", 1)).unwrap();
        assert!(matches!(sampler, Sampler::Absent(_)));
        let process = sampler.finish().unwrap();
        assert!(process.json().is_null());
        assert!(process.note().unwrap().ends_with("answered 404"));
    }
}
