//! `cargo xtask sim` runs this.

use std::process::ExitCode;

use yrelay_sim::run::run;
use yrelay_sim::schedule::Schedule;
use yrelay_sim::shrink::outcome;

fn main() -> ExitCode {
    match start(std::env::args().skip(1).collect()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("sim: {message}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: Vec<String>) -> Result<bool, String> {
    let (mut seeds, mut first, mut trace) = (None, None, None);
    for pair in args.chunks(2) {
        let [name, value] = pair else { return Err(format!("`{}` needs a value", pair.join(" "))) };
        let number = || value.parse::<u64>().map_err(|_| format!("{name} does not take `{value}`"));
        match name.as_str() {
            "--seeds" => seeds = Some(number()?),
            "--seed" => first = Some(number()?),
            "--trace" => trace = Some(value.clone()),
            _ => return Err(format!("`{name}` is not understood; there are --seeds, --seed and --trace")),
        }
    }
    if let Some(file) = trace {
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
        return Ok(replay(&Schedule::parse(&text)?));
    }
    // A seed alone is one to look at.
    let seeds = seeds.unwrap_or(if first.is_some() { 1 } else { SEEDS });
    let first = first.unwrap_or(1);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let report = run(first..first + seeds, threads);
    for failure in report.failures.values() {
        println!("{failure}");
    }
    let counts: Vec<String> = report.counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
    println!("{}", counts.join(", "));
    println!("{} worlds, {} failed", report.worlds, report.failures.len());
    Ok(report.failures.is_empty())
}

fn replay(schedule: &Schedule) -> bool {
    yrelay_sim::loud::set(true);
    match outcome(schedule) {
        Ok(_) => {
            println!("nothing is wrong in this world");
            true
        }
        Err(violation) => {
            println!("{violation}");
            false
        }
    }
}

/// Worlds of a run, unless told otherwise: minutes.
const SEEDS: u64 = 2_000;
