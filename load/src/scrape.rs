//! One reading of a relay's `/metrics`, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::time::Duration;

use ureq::Agent;

/// What every series of a relay begins with.
const PREFIX: &str = "yrelay_";
/// A relay's text has some KB.
const MAX_TEXT_BYTES: u64 = 1024 * 1024;

/// Why there is no reading.
#[derive(Debug, PartialEq)]
pub enum Unread {
    /// There is nothing to read at this address, now or later.
    Absent(String),
    /// It did not work this time.
    Failed(String),
}

/// Values by series, then by what its label says besides the relay; without one it is empty.
#[derive(Debug)]
pub struct Scrape(BTreeMap<String, BTreeMap<String, f64>>);

impl Scrape {
    /// Reads an address.
    pub fn read(agent: &Agent, url: &str) -> Result<Self, Unread> {
        let failed = |error: ureq::Error| Unread::Failed(error.to_string());
        let mut answer = agent.get(url).call().map_err(failed)?;
        let status = answer.status().as_u16();
        if status == 404 {
            return Err(Unread::Absent(format!("{url} answered 404")));
        }
        if status != 200 {
            return Err(Unread::Failed(format!("{url} answered {status}")));
        }
        let text = answer.body_mut().with_config().limit(MAX_TEXT_BYTES).read_to_string().map_err(failed)?;
        Self::parse(&text).ok_or_else(|| Unread::Absent(format!("{url} has no series of a relay")))
    }

    /// Reads a text; `None` when it is not that of a relay.
    pub fn parse(text: &str) -> Option<Self> {
        let mut series: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
        for (name, label, value) in text.lines().filter_map(parse_line) {
            series.entry(name.to_owned()).or_default().insert(label.to_owned(), value);
        }
        (!series.is_empty()).then_some(Self(series))
    }

    /// A gauge.
    pub fn gauge(&self, name: &str) -> Option<f64> {
        self.0.get(name)?.values().next().copied()
    }

    /// A counter, by label; a relay names a label only once it has something to count.
    pub fn counts(&self, name: &str) -> BTreeMap<String, u64> {
        let values = self.0.get(name).into_iter().flatten();
        values.map(|(label, value)| (label.clone(), *value as u64)).collect()
    }
}

/// A client that gives up after so long.
pub fn agent(deadline: Duration) -> Agent {
    Agent::config_builder().timeout_global(Some(deadline)).http_status_as_error(false).build().into()
}

/// `yrelay_name{relay="a",code="b"} 1` as (`name`, `b`, 1).
fn parse_line(line: &str) -> Option<(&str, &str, f64)> {
    let (series, value) = line.strip_prefix(PREFIX)?.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let mut others = labels.trim_end_matches('}').split(',').filter(|label| !label.starts_with("relay="));
    let label = others.next().and_then(|label| label.split_once('=')).map_or("", |(_, value)| value);
    let value: f64 = value.parse().ok()?;
    value.is_finite().then_some((name, label.trim_matches('"'), value))
}

#[cfg(test)]
pub mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Answers so many requests with one text, each on a connection of its own, and then refuses.
    pub fn serve(status: u16, body: &'static str, times: usize) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        thread::spawn(move || {
            for _ in 0..times {
                let (mut stream, _) = listener.accept().unwrap();
                assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
                let head =
                    format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}", body.len());
                stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
            }
        });
        url
    }

    fn read(url: &str) -> Result<Scrape, Unread> {
        Scrape::read(&agent(Duration::from_secs(5)), url)
    }

    #[test]
    fn series_are_read_with_the_label_that_is_not_the_relay() {
        let scrape = Scrape::parse(
            "# HELP yrelay_rooms Rooms.\n# TYPE yrelay_rooms gauge\nyrelay_rooms{relay=\"d\"} 2\n\
             yrelay_rejected_total{relay=\"d\",code=\"rate_limited\"} 3\n\
             yrelay_rejected_total{relay=\"d\",code=\"forbidden\"} 1\nprocess_open_fds 9\nyrelay_odd x\n",
        )
        .unwrap();
        assert_eq!(scrape.gauge("rooms"), Some(2.0));
        assert_eq!(scrape.gauge("odd"), None);
        let rejected = [("forbidden".to_owned(), 1), ("rate_limited".to_owned(), 3)];
        assert_eq!(scrape.counts("rejected_total"), BTreeMap::from(rejected));
        assert!(scrape.counts("unknown_total").is_empty());
    }

    #[test]
    fn an_address_without_metrics_is_told_from_one_that_fails() {
        assert!(matches!(read(&serve(404, "", 1)), Err(Unread::Absent(_))));
        assert!(matches!(read(&serve(200, "<html>", 1)), Err(Unread::Absent(_))));
        assert!(matches!(read(&serve(502, "", 1)), Err(Unread::Failed(_))));
        assert_eq!(read(&serve(200, "yrelay_rooms 1\n", 1)).unwrap().gauge("rooms"), Some(1.0));
    }

    #[test]
    fn a_relay_that_does_not_answer_is_given_up() {
        // It accepts by the kernel, and nobody reads.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        let answer = Scrape::read(&agent(Duration::from_millis(50)), &url);
        assert!(matches!(answer, Err(Unread::Failed(_))));
    }
}
