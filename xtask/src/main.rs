//! The one tool of this repository. `cargo xtask` alone prints what it can do.

mod args;
mod build;
mod dev;
mod fingerprint;
mod gate;
mod hygiene;
mod layering;
mod member;
mod openapi_fuzz;
mod output;
mod process;
mod provision;
mod rollback;
mod source;
mod steps;
mod token;
mod tools;
mod wasm;
mod wasm_target;

use std::process::{Command, ExitCode, ExitStatus};

use args::Args;

/// What a step of this tool says when it cannot go on: the cause, and the cure where there is one.
pub type Result<T = ()> = std::result::Result<T, String>;

const USAGE: &str = "\
cargo xtask <command>

  provision           install what is missing to build and run: wasm target, worker-build,
                      wasm-bindgen, npm packages
  build [--dev]       build the Worker into build/ (release unless --dev)
  dev                 provision, build, and run everything on this machine
      --port N          port of the Worker, 8787
      --relay-port N    port of the Deno relay, 8788
      --no-relay        the Worker only
      --data DIR        state that survives restarts, .yrelay
      --origins O,…     origins of pages of your own, such as http://localhost:5173
      --host H          a loopback address, 127.0.0.1
      --ready-file F    written as JSON once everything is up, removed at the end
  token               print an API token for a stack that `dev` started
      --workspace W --sub S --kind human|agent|service --role owner|editor|viewer
                        required, all four; the workspace of `dev` is demo
      --data DIR        its data folder, .yrelay
      --ttl SECONDS     600
  test [--quick]      everything that CI runs; --quick only what needs no WASM build. Without Python
                      3.11 the requests made from the OpenAPI document are skipped, unless CI is set
  sim                 whole worlds with faults, from seeds (docs/RELIABILITY.md)
      --seeds N         how many, 2000
      --seed S          the first, 1; alone, that world only
      --trace FILE      what a failing run printed: replays it, and tells what happens
  bench [OPTIONS]     CPU, latency and wake-ups against a raw floor (bench/README.md), about 11 minutes
  load [OPTIONS]      many clients that type, and a count of every write; --help lists its options
  verify              whether a database is whole, document by document
      --data DIR        of a stack that `dev` started
      --file FILE       or an export: SQLite, or the SQL of `wrangler d1 export`
  rollback --to REF   whether REF, the release before, runs on the database of this tree: REF, this tree,
                      REF and this tree again on one folder. Builds REF in target/rollback

Tools are cached in the user's cache folder; YRELAY_TOOLS names another one.";

fn main() -> ExitCode {
    process::end_children_on_signal();
    let mut args = Args::new(std::env::args().skip(1));
    match run(&mut args) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &mut Args) -> Result<ExitCode> {
    match args.command().as_deref() {
        Some("provision") => {
            args.finish().and_then(|()| provision::everything().map(drop)).map(|()| ExitCode::SUCCESS)
        }
        Some("build") => {
            let mode = if args.flag("--dev") { build::Mode::Dev } else { build::Mode::Release };
            args.finish()?;
            build::all(&provision::everything()?, mode).map(|()| ExitCode::SUCCESS)
        }
        Some("dev") => dev::run(args).map(|()| ExitCode::SUCCESS),
        Some("token") => token::run(args).map(|()| ExitCode::SUCCESS),
        Some("test") => {
            let quick = args.flag("--quick");
            args.finish()?;
            gate::run(quick)
        }
        Some("sim") => {
            if args.flag("--help") {
                println!("{USAGE}");
                return Ok(ExitCode::SUCCESS);
            }
            let mut cargo = Command::new("cargo");
            cargo.args(["run", "--locked", "--quiet", "--package", "yrelay-sim", "--profile", "sim", "--"]);
            succeed(process::status(cargo.args(args.take_rest()))?)
        }
        Some("bench") => {
            build::all(&provision::everything()?, build::Mode::Release)?;
            let mut node = Command::new(tools::node_path());
            node.arg(tools::root().join("bench").join("run.mjs")).args(args.take_rest());
            succeed(process::status(&mut node)?)
        }
        Some("rollback") => succeed(rollback::run(args)?),
        Some(tool @ ("load" | "verify")) => succeed(member::run(tool, args)?),
        None | Some("help" | "--help" | "-h") => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        Some(other) => Err(format!("there is no command `{other}`\n\n{USAGE}")),
    }
}

/// The outcome of a command that has said itself what is wrong.
fn succeed(status: ExitStatus) -> Result<ExitCode> {
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
