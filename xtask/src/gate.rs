//! `cargo xtask test`: the one gate, here and in CI. Every step runs, also after a failure; a tool
//! that is missing fails its step, since a skipped check is not a passed one. Only Python may be missing,
//! outside CI: nothing installs it, and the end says that its step was skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::build::{self, Artefact, Mode};
use crate::provision::{self, Toolchain};
use crate::{Result, hygiene, layering, openapi_fuzz, process, tools, wasm};

/// No single end-to-end test may hang the gate; the slowest waits for a hibernation. In ms.
const TEST_TIMEOUT: &str = "--test-timeout=180000";

/// Files that run at once. They wait more than they compute: for timers, hibernation and closes.
const TEST_CONCURRENCY: &str = "--test-concurrency=3";

/// The sources that keep the rules of our own plugin (eslint.config.mjs).
const LINTED: [&str; 2] = ["client-sdk", "examples"];

/// The package of the simulator.
const SIMULATOR: &str = "yrelay-sim";

/// Asks for the tests in a browser.
const BROWSER_TESTS: &str = "YRELAY_BROWSER_TESTS";

/// Runs the gate; the last line of output is the count of steps.
pub fn run(quick: bool) -> Result<ExitCode> {
    let mut report = Report::default();
    native(&mut report)?;
    if !quick {
        built(&mut report)?;
    }
    Ok(report.print())
}

fn native(report: &mut Report) -> Result {
    report.step("format", || process::run(&mut cargo(&["fmt", "--all", "--check"])))?;
    report.step("layering", || {
        check_files(|path| path.starts_with("src/") && path.ends_with(".rs"), layering::check)
    })?;
    report.step("hygiene", || check_files(|_| true, hygiene::check))?;
    // Everything at once. What only some feature leaves unused is an error of the release builds (`src/lib.rs`).
    let clippy: [(&str, &[&str]); 3] = [
        ("clippy", &["--workspace", "--all-targets"]),
        ("clippy, all features", &["--package", "yrelay", "--all-features", "--all-targets"]),
        ("clippy, planted bugs", &["--package", SIMULATOR, "--features", "planted-bugs", "--all-targets"]),
    ];
    for (name, selection) in clippy {
        let mut command = cargo(&["clippy", "--locked"]);
        command.args(selection).args(["--", "--deny", "warnings"]);
        report.step(name, || process::run(&mut command))?;
    }
    report.step("cargo test", || {
        process::run(cargo(&["test", "--locked", "--workspace"]).args(["--exclude", SIMULATOR]))
    })?;
    // Compiled once, with the bugs that it has to find: in the worlds where nothing may be wrong none is active.
    report.step("simulator", || {
        let tests = ["--package", SIMULATOR, "--features", "planted-bugs"];
        process::run(cargo(&["test", "--locked"]).args(tests))
    })
}

fn built(report: &mut Report) -> Result {
    let mut toolchain = Err("the tools are not there".to_owned());
    report.step("provision", || {
        toolchain = provision::everything();
        toolchain.as_ref().map(drop).map_err(Clone::clone)
    })?;
    let toolchain: Result<Toolchain> =
        toolchain.map_err(|_| "needs the tools that did not install".to_owned());
    let with_tools =
        |work: &dyn Fn(&Toolchain) -> Result| toolchain.as_ref().map_err(Clone::clone).and_then(work);
    let artefacts = [
        ("release build", Artefact::Worker),
        ("lazy build", Artefact::Lazy),
        ("relay build", Artefact::Relay),
    ];
    for (name, artefact) in artefacts {
        report.step(name, || {
            with_tools(&|toolchain| {
                build::run(toolchain, artefact, Mode::Release)?;
                check_imports(artefact)
            })
        })?;
    }
    report.step("demo build", || with_tools(&|_| build::demo()))?;
    report.step("wrangler.toml", || {
        with_tools(&|_| process::run(tools::node().arg("tools/wrangler-config.mjs")))
    })?;
    // Its build command is the step above, which finds nothing to do.
    let bundle = "target/xtask/bundle";
    report.step("wrangler deploy --dry-run", || {
        with_tools(&|_| process::run(tools::wrangler().args(["deploy", "--dry-run", "--outdir", bundle])))
    })?;
    report.step("tools/", || with_tools(&|_| node_tests("tools")))?;
    report.step("relay-deno/", || {
        with_tools(&|_| {
            process::run(tools::deno().current_dir(tools::root().join("relay-deno")).args(["task", "ok"]))
        })
    })?;
    report.step("client-sdk/", || {
        with_tools(&|_| {
            for project in ["client-sdk", "client-sdk/demo"] {
                process::run(tools::tsc().args(["--noEmit", "--project", project]))?;
            }
            node_tests("client-sdk/src")?;
            node_tests("client-sdk/demo")
        })
    })?;
    report.step("lint", || with_tools(&|_| process::run(tools::eslint().args(LINTED))))?;
    report.step("client-sdk, packed", || {
        with_tools(&|_| {
            remove_folder("client-sdk/dist")?;
            process::run(tools::tsc().args(["--project", "client-sdk/tsconfig.build.json"]))?;
            node_tests("client-sdk/checks")
        })
    })?;
    for folder in ["bench", "tests/yjs", "tests/e2e"] {
        report.step(folder, || with_tools(&|_| node_tests(folder)))?;
    }
    // A browser that gets no processor is late for what a page promises in seconds.
    if std::env::var_os(BROWSER_TESTS).is_some() {
        report.step("tests/browser", || with_tools(&|_| node_tests("tests/browser")))?;
    } else {
        report.skip(
            "tests/browser",
            format!("set {BROWSER_TESTS}=1 on a machine with Chromium and nothing else to do"),
        );
    }
    match openapi_fuzz::python() {
        Err(cause) if !openapi_fuzz::is_required() => {
            report.skip("tests/openapi", cause);
            Ok(())
        }
        python => report.step("tests/openapi", || with_tools(&|_| openapi_fuzz::run(python.clone()?))),
    }
}

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(tools::root()).args(args);
    command
}

fn check_imports(artefact: Artefact) -> Result {
    let path = artefact.wasm_path();
    let module = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    eprintln!("{} imports, none from `env`", wasm::check_imports(&module)?);
    Ok(())
}

/// Runs a checker over the files of the repository: those git knows and those it would add.
fn check_files(wanted: impl Fn(&str) -> bool, check: impl Fn(&str, &str) -> Vec<String>) -> Result {
    let mut git = Command::new("git");
    git.current_dir(tools::root()).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = process::output(&mut git)?;
    let mut problems = Vec::new();
    let mut count = 0;
    for path in listed.split('\0').filter(|path| !path.is_empty() && wanted(path)) {
        // Not text, or deleted and not yet committed: nothing to read.
        let Ok(text) = fs::read_to_string(tools::root().join(path)) else { continue };
        count += 1;
        problems.extend(check(path, &text));
    }
    for problem in &problems {
        eprintln!("{problem}");
    }
    match (count, problems.len()) {
        (0, _) => Err("found no file to check".to_owned()),
        (_, 0) => Ok(()),
        (_, found) => Err(format!("{found} problems")),
    }
}

/// Before it is built anew: what a source that is gone has left there would be packed, too.
fn remove_folder(folder: &str) -> Result {
    match fs::remove_dir_all(tools::root().join(folder)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(format!("{folder}: {error}")),
        _ => Ok(()),
    }
}

/// Runs the Node tests below a folder; a folder without one is a mistake.
fn node_tests(folder: &str) -> Result {
    let mut files = Vec::new();
    find_tests(&tools::root().join(folder), &mut files).map_err(|error| format!("{folder}: {error}"))?;
    if files.is_empty() {
        return Err(format!("{folder} holds no tests"));
    }
    files.sort();
    // Twice: for who watches, and for the end of a run in which a test failed.
    let kept = tools::root().join("target/xtask");
    fs::create_dir_all(&kept).map_err(|error| format!("{}: {error}", kept.display()))?;
    let kept = kept.join(format!("{}.txt", folder.replace('/', "-")));
    let to = |file: &str| ["--test-reporter=spec".to_owned(), format!("--test-reporter-destination={file}")];
    let reporters = [to("stdout"), to(&kept.to_string_lossy())].concat();
    process::run(tools::node().args(["--test", TEST_TIMEOUT, TEST_CONCURRENCY]).args(reporters).args(files))
        .map_err(|error| {
            let output = fs::read_to_string(&kept).unwrap_or_default();
            format!("{error}\n{}", failures(&output))
        })
}

/// What Node's reporter says of the tests that failed, which is the last part of its output.
fn failures(output: &str) -> &str {
    output.find(FAILURES).map_or("", |at| output.get(at..).unwrap_or_default())
}

/// How that part begins.
const FAILURES: &str = "✖ failing tests:";

fn find_tests(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find_tests(&path, files)?;
        } else if [".test.mjs", ".test.ts"].iter().any(|end| path.to_string_lossy().ends_with(end)) {
            files.push(path);
        }
    }
    Ok(())
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[derive(Default)]
struct Report {
    steps: Vec<(String, Duration, Result)>,
    skipped: Vec<(String, String)>,
}

impl Report {
    /// Runs one step. An error only when the user asked to stop.
    fn step(&mut self, name: &str, work: impl FnOnce() -> Result) -> Result {
        eprintln!("\n== {name}");
        let start = Instant::now();
        let result = work();
        if process::stop_requested() {
            return Err("stopped".to_owned());
        }
        if let Err(error) = &result {
            eprintln!("xtask: {name}: {}", first_line(error));
        }
        self.steps.push((name.to_owned(), start.elapsed(), result));
        Ok(())
    }

    /// Notes a step that this machine cannot run, and why.
    fn skip(&mut self, name: &str, cause: String) {
        eprintln!("\n== {name}\nxtask: {name}: SKIPPED: {cause}");
        self.skipped.push((name.to_owned(), cause));
    }

    fn print(&self) -> ExitCode {
        println!();
        for (name, took, result) in &self.steps {
            let state = if result.is_ok() { "ok    " } else { "FAILED" };
            let cause = result.as_ref().err().map_or("", |error| first_line(error));
            println!("{state} {:>7.1} s  {name}  {cause}", took.as_secs_f64());
        }
        let failed = self.steps.iter().filter(|(_, _, result)| result.is_err()).count();
        for (name, error) in
            self.steps.iter().filter_map(|(name, _, result)| Some((name, result.as_ref().err()?)))
        {
            if let Some((_, details)) = error.split_once('\n') {
                println!("\n== {name}\n{details}");
            }
        }
        for (name, cause) in &self.skipped {
            println!("SKIPPED          {name}  {cause}");
        }
        let skipped = match self.skipped.len() {
            0 => String::new(),
            count => format!(", {count} SKIPPED"),
        };
        println!("{} passed, {failed} failed{skipped}", self.steps.len() - failed);
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_runs_after_a_failure_and_the_gate_fails() {
        let mut report = Report::default();
        report.step("one", || Err("broken\nmore".to_owned())).unwrap();
        report.step("two", || Ok(())).unwrap();
        assert_eq!(report.steps.len(), 2);
        assert_eq!(report.print(), ExitCode::FAILURE);
        report.steps.retain(|(_, _, result)| result.is_ok());
        report.skip("three", "no tool".to_owned());
        assert_eq!(report.print(), ExitCode::SUCCESS);
        assert_eq!(report.skipped, [("three".to_owned(), "no tool".to_owned())]);
    }

    #[test]
    fn what_failed_is_the_end_of_the_output() {
        assert_eq!(
            failures("✔ one\n✖ two\n\n✖ failing tests:\n\ntwo: 1 !== 2"),
            "✖ failing tests:\n\ntwo: 1 !== 2"
        );
        assert_eq!(failures("✔ one"), "");
    }

    #[test]
    fn the_files_of_the_repository_are_found_and_their_problems_fail_the_step() {
        assert_eq!(check_files(|path| path == "Cargo.toml", |_, _| Vec::new()), Ok(()));
        let one_problem = |_: &str, _: &str| vec!["problem".to_owned()];
        assert_eq!(check_files(|path| path == "Cargo.toml", one_problem), Err("1 problems".to_owned()));
        assert!(check_files(|_| false, |_, _| Vec::new()).is_err());
    }
}
