//! Load against a relay. Many clients type; in the end every write has to be in the stored documents, and
//! all replicas have to be equal. `cargo xtask load` runs it.

mod api;
mod client;
mod latency;
mod options;
mod relay_process;
mod replica;
mod report;
mod run;
mod sampler;
mod scrape;
mod socket;
mod tally;
mod tokens;

use std::fs;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use api::Api;
use options::{Options, USAGE};
use report::Report;
use report::compare::Earlier;
use report::stored::Stored;
use report::summary::{Summary, summarize};
use run::Run;
use sampler::Sampler;
use tally::Tally;

/// What stops a run: the cause, and the cure where there is one.
type Result<T = ()> = std::result::Result<T, String>;

/// Bad usage, or a stack that cannot be used.
const UNUSABLE: u8 = 2;

fn main() -> ExitCode {
    let mut args = pico_args::Arguments::from_env();
    if args.contains(["-h", "--help"]) {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match Options::take(args).and_then(load) {
        Ok(summary) => {
            println!("{}", summary.text);
            if summary.passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(message) => {
            eprintln!("load: {message}");
            ExitCode::from(UNUSABLE)
        }
    }
}

fn load(options: Options) -> Result<Summary> {
    let earlier = Earlier::read(&options)?;
    let options = Arc::new(options);
    let mut reports = Vec::with_capacity(options.runs);
    loop {
        reports.push(run_once(&options, reports.len())?);
        let summary = summarize(&options, &reports, earlier.as_ref());
        // After each run: one that cannot be made should not cost those before it.
        if let Some(path) = &options.json {
            let text = format!("{:#}\n", summary.json);
            fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        if reports.len() >= options.runs {
            return Ok(summary);
        }
    }
}

fn run_once(options: &Arc<Options>, number: usize) -> Result<Report> {
    let api = Api::new(&options.api);
    let workspace = match options.workspaces.get(number) {
        Some(workspace) => workspace.clone(),
        None => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
            let made = format!("load-{now}");
            api.create(&options.tokens.of_owner(&made)?, &made)?;
            made
        }
    };
    eprintln!("load: {} clients on {}, workspace {workspace}", options.clients, options.label);
    let sampler = Sampler::start(&options.metrics)?;
    let run = Arc::new(Run::new(Arc::clone(options), workspace, api));
    let tallies = run_clients(&run)?;
    let process = sampler.finish()?;
    Ok(report::sum_up(&run, &tallies, &process, &Stored::read(&run, &tallies)?))
}

fn run_clients(run: &Arc<Run>) -> Result<Vec<Tally>> {
    let threads: Vec<_> = (0..run.options.clients)
        .map(|number| {
            let run = Arc::clone(run);
            thread::Builder::new().name(format!("client-{number}")).spawn(move || client::run(number, run))
        })
        .collect();
    let mut tallies = Vec::with_capacity(threads.len());
    for thread in threads {
        let joined = thread.map_err(|error| format!("a thread does not start: {error}"))?.join();
        tallies.push(joined.map_err(|_| "a client panicked; its message is above".to_owned())??);
    }
    Ok(tallies)
}
