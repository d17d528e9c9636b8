//! Is a database whole? `cargo xtask verify` runs it, on a local stack or on an export.

mod node;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use node::Yjs;
use verify::fact::Fact;
use verify::report::Report;
use verify::structure::Structure;
use verify::{Result, content};

const USAGE: &str = "\
cargo xtask verify --data DIR | --file FILE

  --data DIR    the database of a stack that `cargo xtask dev --data DIR` started
  --file FILE   a SQLite file, or the SQL that `wrangler d1 export` wrote

Exit code 0: no fault. 1: faults, each with its table and row. 2: it could not be read.";

const UNREADABLE: u8 = 2;

fn main() -> ExitCode {
    let mut args = pico_args::Arguments::from_env();
    if args.contains(["-h", "--help"]) {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match database(args).and_then(|file| verify(&file)) {
        Ok(report) => {
            println!("{}", report.text());
            if report.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(message) => {
            eprintln!("verify: {message}");
            ExitCode::from(UNREADABLE)
        }
    }
}

/// The file that the arguments name.
fn database(mut args: pico_args::Arguments) -> Result<PathBuf> {
    let mut path =
        |name: &'static str| args.opt_value_from_str::<_, PathBuf>(name).map_err(|error| error.to_string());
    let (data, file) = (path("--data")?, path("--file")?);
    if let Some(arg) = args.finish().first() {
        return Err(format!("`{}` is not understood\n\n{USAGE}", arg.to_string_lossy()));
    }
    let found = match (data, file) {
        (Some(data), None) => in_stack(&data)?,
        (None, Some(file)) => file,
        _ => return Err(format!("one of --data and --file is needed\n\n{USAGE}")),
    };
    // The reader runs elsewhere.
    std::path::absolute(&found).map_err(|error| format!("{}: {error}", found.display()))
}

/// The one database below the data folder of a local stack.
fn in_stack(data: &Path) -> Result<PathBuf> {
    let folder = data.join("v3").join("d1").join("miniflare-D1DatabaseObject");
    let entries =
        fs::read_dir(&folder).map_err(|error| format!("no local stack: {}: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| {
        path.extension().is_some_and(|extension| extension == "sqlite") && !path.ends_with("metadata.sqlite")
    });
    match files.as_slice() {
        [file] => Ok(file.clone()),
        _ => Err(format!("{} holds {} databases: name one with --file", folder.display(), files.len())),
    }
}

fn verify(file: &Path) -> Result<Report> {
    let mut report = Report::default();
    let mut structure = Structure::default();
    let mut yjs = Yjs::start()?;
    node::read(file, |fact| {
        let updates = structure.check(&fact, &mut report);
        match (&fact, updates) {
            (Fact::Node(node), Some(updates)) => {
                content::check(node, &updates, |request| yjs.fault(request), &mut report)
            }
            _ => Ok(()),
        }
    })?;
    Ok(report)
}
