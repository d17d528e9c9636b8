//! Load against a relay. Many clients type; in the end every write has to be in the stored documents, and
//! all replicas have to be equal. `cargo xtask load` runs it.

mod api;
mod client;
mod options;
mod replica;
mod report;
mod run;
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
use report::{Report, Stored};
use run::Run;

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
        Ok(report) => {
            println!("{}", report.text());
            if report.passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(message) => {
            eprintln!("load: {message}");
            ExitCode::from(UNUSABLE)
        }
    }
}

fn load(options: Options) -> Result<Report> {
    let api = Api::new(&options.api);
    let workspace = match &options.workspace {
        Some(workspace) => workspace.clone(),
        None => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
            let made = format!("load-{now}");
            api.create(&options.tokens.of_owner(&made)?, &made)?;
            made
        }
    };
    eprintln!("load: {} clients on {}, workspace {workspace}", options.clients, options.label);
    let run = Arc::new(Run::new(options, workspace, api));
    let threads: Vec<_> = (0..run.options.clients)
        .map(|number| {
            let run = Arc::clone(&run);
            thread::Builder::new().name(format!("client-{number}")).spawn(move || client::run(number, run))
        })
        .collect();
    let mut tallies = Vec::with_capacity(threads.len());
    for thread in threads {
        let joined = thread.map_err(|error| format!("a thread does not start: {error}"))?.join();
        tallies.push(joined.map_err(|_| "a client panicked; its message is above".to_owned())??);
    }
    let report = report::sum_up(&run, &tallies, &Stored::read(&run, &tallies)?);
    if let Some(path) = &run.options.json {
        let text = format!("{:#}\n", report.json);
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(report)
}
