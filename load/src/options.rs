//! The command line: what to load, how much, and with whose tokens.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::Result;
use crate::tokens::Tokens;

/// How it is used.
pub const USAGE: &str = "\
cargo xtask load [options]        people who type, and a count of every write at the end

  a stack of `cargo xtask dev`:
      --ready-file F    the file that `dev --ready-file F` wrote
      --data DIR        the stack's data folder, whose key signs a token for each client; .yrelay
      --relay LABEL     cf or deno, cf
  any other:
      --api URL --relay-url URL     such as https://api.example.com wss://relay.example.com/ws
      --tokens FILE     API tokens of editors, one a line; 64 clients at most share one
      --workspace W     that they may edit, and in which nobody ran a load before; with --runs one for
                        each run, separated by commas

      --clients N       100
      --documents N     25; the clients are spread over them
      --rate N          writes and awareness changes per second of each client, 1
      --seconds N       from the first client's start to the last write, 180
      --ramp MS         between the starts of two clients, 20
      --runs N          one after the other, each in a workspace of its own, 1; says median, lowest and
                        highest of each number
      --metrics URL     where the relay's own numbers are, beside its address: …/metrics
      --json FILE       the report as JSON
      --compare FILE    a report of --json, of which only one may be another: relay, clients, documents,
                        rate, seconds or ramp
      --max-ratio R     with --compare: p95 and p99 may be R times those of the other one

Exit code 0: every write is stored and all clients converged, in every run, and nothing is slower than
--max-ratio allows. 1: not. 2: bad usage.";

/// A relay admits so many connections of one subject to a room.
const CLIENTS_PER_TOKEN: usize = 64;
/// And so many connections in all.
const MAX_CLIENTS: usize = 512;
/// More than a client's thread can send on a small machine.
const MAX_RATE: f64 = 100.0;
/// A day.
const MAX_SECONDS: u64 = 86_400;
/// Enough for a spread; more would be a typing error.
const MAX_RUNS: usize = 100;

/// What a run is to do.
pub struct Options {
    /// The API's address, without a slash at the end.
    pub api: String,
    /// The relay's address, which ends in `/ws`.
    pub relay: String,
    /// Its name in the report.
    pub label: String,
    /// Whose tokens.
    pub tokens: Tokens,
    /// The workspaces to write to, one a run; empty to make them.
    pub workspaces: Vec<String>,
    /// How many clients.
    pub clients: usize,
    /// How many documents they are spread over.
    pub documents: usize,
    /// Writes per second of each client.
    pub rate: f64,
    /// From the first start to the last write.
    pub duration: Duration,
    /// Between the starts of two clients.
    pub ramp: Duration,
    /// How many runs.
    pub runs: usize,
    /// Where the relay's own numbers are.
    pub metrics: String,
    /// Where the report goes as JSON.
    pub json: Option<PathBuf>,
    /// The report to compare with.
    pub compare: Option<PathBuf>,
    /// How many times the p95 and the p99 of that may be reached.
    pub max_ratio: Option<f64>,
}

impl Options {
    /// Reads the arguments after the program's name.
    pub fn take(mut args: pico_args::Arguments) -> Result<Self> {
        let mut text = |name: &'static str| args.opt_value_from_str::<_, String>(name).map_err(said);
        let ready = text("--ready-file")?.map(|path| read_json(Path::new(&path))).transpose()?;
        let data = text("--data")?.unwrap_or_else(|| ".yrelay".to_owned());
        let wanted = text("--relay")?.unwrap_or_else(|| "cf".to_owned());
        let (api, relay_url) = (text("--api")?, text("--relay-url")?);
        let (list, workspace, metrics) = (text("--tokens")?, text("--workspace")?, text("--metrics")?);
        let (json, compare) = (text("--json")?, text("--compare")?);
        let (api, relay) = match (ready, api, relay_url) {
            (Some(ready), None, None) => addresses(&ready, &wanted)?,
            (None, Some(api), Some(relay)) => (api, relay),
            _ => return Err("either --ready-file, or both --api and --relay-url are needed".to_owned()),
        };
        let tokens = match &list {
            Some(_) if workspace.is_none() => return Err("--tokens needs --workspace".to_owned()),
            Some(path) => Tokens::listed(&read(Path::new(path))?)?,
            None => Tokens::signed(&read_json(&Path::new(&data).join("secrets.json"))?)?,
        };
        let options = Self {
            api: api.trim_end_matches('/').to_owned(),
            metrics: metrics.unwrap_or_else(|| metrics_of(&relay)),
            relay: relay.trim_end_matches('/').to_owned(),
            label: wanted,
            tokens,
            workspaces: workspace.map_or_else(Vec::new, |list| list.split(',').map(str::to_owned).collect()),
            clients: number(&mut args, "--clients", 100)?,
            documents: number(&mut args, "--documents", 25)?,
            rate: number(&mut args, "--rate", 1.0)?,
            duration: Duration::from_secs(number(&mut args, "--seconds", 180)?),
            ramp: Duration::from_millis(number(&mut args, "--ramp", 20)?),
            runs: number(&mut args, "--runs", 1)?,
            json: json.map(PathBuf::from),
            compare: compare.map(PathBuf::from),
            max_ratio: args.opt_value_from_str("--max-ratio").map_err(said)?,
        };
        match args.finish().first() {
            Some(arg) => Err(format!("`{}` is not understood", arg.to_string_lossy())),
            None => options.check(),
        }
    }

    fn check(self) -> Result<Self> {
        let started = self.ramp * u32::try_from(self.clients).unwrap_or(u32::MAX);
        let cause = if !(1..=MAX_CLIENTS).contains(&self.clients) {
            format!("--clients is 1 to {MAX_CLIENTS}: a room takes no more connections")
        } else if !(1..=self.clients).contains(&self.documents) {
            "--documents is 1 to the number of clients".to_owned()
        } else if !(self.rate > 0.0 && self.rate <= MAX_RATE) {
            format!("--rate is over 0, to {MAX_RATE}")
        } else if self.duration.as_secs() > MAX_SECONDS || started >= self.duration {
            format!("--seconds is at most {MAX_SECONDS}, and long enough that all clients start (--ramp)")
        } else if self.tokens.count().is_some_and(|count| count * CLIENTS_PER_TOKEN < self.clients) {
            format!("{CLIENTS_PER_TOKEN} clients at most share a token: --tokens has too few lines")
        } else {
            return self.check_report();
        };
        Err(cause)
    }

    fn check_report(self) -> Result<Self> {
        let own = self.workspaces.len();
        let distinct = self.workspaces.iter().collect::<BTreeSet<_>>().len();
        let cause = if !(1..=MAX_RUNS).contains(&self.runs) {
            format!("--runs is 1 to {MAX_RUNS}")
        } else if own > 0 && (own != self.runs || distinct != own) {
            format!(
                "--workspace names {distinct} workspaces, and each of the {} runs needs its own",
                self.runs
            )
        } else if self.max_ratio.is_some() && self.compare.is_none() {
            "--max-ratio needs --compare".to_owned()
        } else if self.max_ratio.is_some_and(|ratio| !(ratio > 0.0 && ratio.is_finite())) {
            "--max-ratio is over 0".to_owned()
        } else {
            return Ok(self);
        };
        Err(cause)
    }
}

/// Where a relay has its numbers: beside `/ws`.
fn metrics_of(relay: &str) -> String {
    let relay = relay.trim_end_matches('/');
    let base = relay.strip_suffix("/ws").unwrap_or(relay);
    // http for ws, https for wss.
    format!("{}/metrics", base.replacen("ws", "http", 1))
}

fn number<T: std::str::FromStr>(args: &mut pico_args::Arguments, name: &'static str, default: T) -> Result<T>
where
    T::Err: std::fmt::Display,
{
    Ok(args.opt_value_from_str(name).map_err(said)?.unwrap_or(default))
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// A file of JSON.
pub fn read_json(path: &Path) -> Result<Value> {
    serde_json::from_str(&read(path)?).map_err(|error| format!("{}: {error}", path.display()))
}

/// The addresses of the API and of a relay in a ready file.
fn addresses(ready: &Value, label: &str) -> Result<(String, String)> {
    let relays = ready["relays"].as_array().map(Vec::as_slice).unwrap_or_default();
    let relay = relays.iter().find(|relay| relay["label"] == label).and_then(|relay| relay["url"].as_str());
    let relay = relay.ok_or_else(|| format!("the stack has no relay `{label}`"))?;
    let api = ready["api"].as_str().ok_or("the ready file names no API")?;
    Ok((api.to_owned(), relay.to_owned()))
}

#[cfg(test)]
pub mod tests {
    use std::sync::{Arc, OnceLock};

    use super::*;
    use crate::api::Api;
    use crate::run::Run;

    fn take(line: &str) -> Result<Options> {
        static LIST: OnceLock<PathBuf> = OnceLock::new();
        // Once: tests run side by side.
        let list = LIST.get_or_init(|| {
            let list = std::env::temp_dir().join(format!("yrelay-load-{}", std::process::id()));
            fs::write(&list, "a\nb\n").unwrap();
            list
        });
        let args = line.replace("LIST", list.to_str().unwrap());
        Options::take(pico_args::Arguments::from_vec(args.split_whitespace().map(Into::into).collect()))
    }

    /// What a test changes.
    pub fn some_options() -> Options {
        Options {
            api: String::new(),
            relay: String::new(),
            label: "cf".to_owned(),
            tokens: Tokens::Listed(vec!["a".to_owned()]),
            workspaces: Vec::new(),
            clients: 2,
            documents: 1,
            rate: 1.0,
            duration: Duration::from_secs(10),
            ramp: Duration::ZERO,
            runs: 1,
            metrics: String::new(),
            json: None,
            compare: None,
            max_ratio: None,
        }
    }

    const OTHER: &str = "--api http://a/ --relay-url ws://r/ws --tokens LIST --workspace w";

    #[test]
    fn a61_the_standard_load_needs_no_option() {
        let options = take(OTHER).unwrap();
        assert_eq!((options.clients, options.documents, options.rate), (100, 25, 1.0));
        assert_eq!((options.duration, options.ramp), (Duration::from_secs(180), Duration::from_millis(20)));
        let run = Run::new(Arc::new(options), "w".to_owned(), Api::new(""));
        assert_eq!(run.expected_writes(), 17_902, "100 clients for 180 s, each of them 20 ms after another");
    }

    #[test]
    fn another_deployment_is_given_by_its_addresses_and_tokens() {
        let options = take(&format!("{OTHER} --rate=2.5 --seconds 60")).unwrap();
        assert_eq!((options.api.as_str(), options.rate, options.clients), ("http://a", 2.5, 100));
        assert_eq!(options.duration, Duration::from_secs(60));
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_the_reason() {
        for (more, cause) in [
            ("--clients 129", "too few lines"),
            ("--clients 513", "no more connections"),
            ("--clients 4 --documents 5", "--documents"),
            ("--rate 0", "--rate"),
            ("--seconds 2", "--ramp"),
            ("--bogus", "--bogus"),
            ("--runs 0", "--runs"),
            ("--runs 2", "each of the 2 runs needs its own"),
            ("--max-ratio 2", "needs --compare"),
            ("--compare f --max-ratio nan", "over 0"),
        ] {
            let error = take(&format!("{OTHER} {more}")).err().unwrap();
            assert!(error.contains(cause), "{error}");
        }
        assert!(take("--api http://a").is_err());
        assert!(take("--api http://a --relay-url ws://r/ws --tokens LIST").is_err());
    }

    #[test]
    fn each_run_has_a_workspace_of_its_own() {
        let other = OTHER.replace("--workspace w", "");
        assert_eq!(take(&format!("{other} --workspace v,w --runs 2")).unwrap().workspaces, ["v", "w"]);
        assert!(take(&format!("{other} --workspace v,v --runs 2")).is_err());
        assert!(take(&format!("{other} --workspace v,w")).is_err());
    }

    #[test]
    fn the_relay_s_own_numbers_are_beside_its_address_or_where_told() {
        assert_eq!(take(OTHER).unwrap().metrics, "http://r/metrics");
        assert_eq!(metrics_of("wss://news.example/ws/"), "https://news.example/metrics");
        assert_eq!(take(&format!("{OTHER} --metrics http://m:1/x")).unwrap().metrics, "http://m:1/x");
    }

    #[test]
    fn a_ready_file_names_the_relays_by_label() {
        let ready = serde_json::json!({"api": "http://a", "relays": [{"label": "deno", "url": "ws://d/ws"}]});
        assert_eq!(addresses(&ready, "deno"), Ok(("http://a".to_owned(), "ws://d/ws".to_owned())));
        assert!(addresses(&ready, "cf").is_err());
    }
}
