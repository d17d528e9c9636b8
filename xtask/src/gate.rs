//! `cargo xtask test`: the one gate, here and in CI. Every step runs, also after a failure; a tool
//! that is missing fails its step, since a skipped check is not a passed one. Only Python may be missing,
//! outside CI: nothing installs it, and the end says that its step was skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::build::{self, Artefact, Mode};
use crate::provision::{self, Toolchain};
use crate::steps::Report;
use crate::{Result, hygiene, layering, openapi_fuzz, output, process, tools, wasm};

/// No single end-to-end test may hang the gate; the slowest waits for a hibernation. In ms.
const TEST_TIMEOUT: &str = "--test-timeout=180000";

/// Files that run at once. They wait more than they compute: for timers, hibernation and closes.
const TEST_CONCURRENCY: &str = "--test-concurrency=3";

/// The sources that keep the rules of our own plugin (eslint.config.mjs).
const LINTED: [&str; 2] = ["client-sdk", "examples"];

/// The package of the simulator, which has a step of its own.
const SIMULATOR: &str = "yrelay-sim";

/// The others. Each is tested on its own, as it is compiled when a person or a test runs its program: together
/// they would ask their dependencies for other features, and all of it would be compiled once more.
const PACKAGES: [&str; 4] = ["yrelay", "load", "verify", "xtask"];

/// Asks for the tests in a browser.
const BROWSER_TESTS: &str = "YRELAY_BROWSER_TESTS";

/// Runs the gate; the last line of output is the count of steps.
pub fn run(quick: bool) -> Result<ExitCode> {
    let mut report = Report::default();
    if quick {
        native(&mut report)?;
        return Ok(report.print());
    }
    let mut toolchain = None;
    // A release build keeps one core busy, and each of the two lanes has compiled files of its own.
    report.beside(native, |report| modules(report, &mut toolchain))?;
    built(&mut report, WithTools(toolchain.as_ref()))?;
    Ok(report.print())
}

fn native(report: &mut Report) -> Result {
    report.step("format", || process::run(&mut cargo(&["fmt", "--all", "--check"])))?;
    report.step("layering", || {
        check_files(|path| path.starts_with("src/") && path.ends_with(".rs"), layering::check)
    })?;
    report.step("hygiene", || check_files(|_| true, hygiene::check))?;
    // What only some feature leaves unused is an error of the release builds (`src/lib.rs`).
    let clippy: [(&str, &[&str]); 2] = [
        ("clippy, all features", &["--workspace", "--all-features"]),
        ("clippy, no features", &["--package", SIMULATOR]),
    ];
    for (name, selection) in clippy {
        let mut command = cargo(&["clippy", "--locked", "--all-targets"]);
        command.args(selection).args(["--", "--deny", "warnings"]);
        report.step(name, || process::run(&mut command))?;
    }
    for package in PACKAGES {
        report.step(&format!("cargo test, {package}"), || test(&["--package", package]))?;
    }
    // Compiled once, with the bugs that it has to find: in the worlds where nothing may be wrong none is active.
    report.step("simulator", || test(&["--package", SIMULATOR, "--features", "planted-bugs"]))
}

/// The tools, and the WASM modules that they build.
fn modules(report: &mut Report, toolchain: &mut Option<Toolchain>) -> Result {
    report.step("provision", || {
        *toolchain = Some(provision::everything()?);
        Ok(())
    })?;
    let artefacts = [
        ("release build", Artefact::Worker),
        ("lazy build", Artefact::Lazy),
        ("relay build", Artefact::Relay),
    ];
    for (name, artefact) in artefacts {
        report.step(name, || {
            build::run(provided(toolchain.as_ref())?, artefact, Mode::Release)?;
            check_imports(artefact)
        })?;
    }
    Ok(())
}

/// The tools, or why a step that needs them fails.
fn provided(toolchain: Option<&Toolchain>) -> Result<&Toolchain> {
    toolchain.ok_or_else(|| "needs the tools that did not install".to_owned())
}

/// Steps that need the tools.
#[derive(Clone, Copy)]
struct WithTools<'a>(Option<&'a Toolchain>);

impl WithTools<'_> {
    fn step(self, report: &mut Report, name: &str, work: impl FnOnce() -> Result) -> Result {
        report.step(name, || provided(self.0).and_then(|_| work()))
    }

    fn tests(self, report: &mut Report, folder: &str) -> Result {
        self.step(report, folder, || node_tests(folder))
    }
}

/// What is made of the modules, and asked of it.
fn built(report: &mut Report, with_tools: WithTools<'_>) -> Result {
    with_tools.step(report, "demo build", build::demo)?;
    with_tools
        .step(report, "wrangler.toml", || process::run(tools::node().arg("tools/wrangler-config.mjs")))?;
    // Its build command is the step above, which finds nothing to do.
    with_tools.step(report, "wrangler deploy --dry-run", || {
        process::run(tools::wrangler().args(["deploy", "--dry-run", "--outdir", "target/xtask/bundle"]))
    })?;
    with_tools.tests(report, "tools")?;
    with_tools.step(report, "lint", || process::run(tools::eslint().args(LINTED)))?;
    with_tools.tests(report, "bench")?;
    // Much of their time is waiting.
    report.beside(|report| clients(report, with_tools), |report| outsiders(report, with_tools))?;
    // Alone: many of them look at memory, at wakes, or at what a relay does under load.
    with_tools.tests(report, "tests/e2e")?;
    // A browser that gets no processor is late for what a page promises in seconds.
    if std::env::var_os(BROWSER_TESTS).is_some() {
        return with_tools.tests(report, "tests/browser");
    }
    let cause = format!("set {BROWSER_TESTS}=1 on a machine with Chromium and nothing else to do");
    report.skip("tests/browser", cause);
    Ok(())
}

/// The parts in TypeScript.
fn clients(report: &mut Report, with_tools: WithTools<'_>) -> Result {
    with_tools.step(report, "relay-deno", || {
        process::run(tools::deno().current_dir(tools::root().join("relay-deno")).args(["task", "ok"]))
    })?;
    with_tools.step(report, "client-sdk", || {
        for project in ["client-sdk", "client-sdk/demo"] {
            process::run(tools::tsc().args(["--noEmit", "--project", project]))?;
        }
        node_tests("client-sdk/src")?;
        node_tests("client-sdk/demo")
    })?;
    with_tools.step(report, "client-sdk, packed", || {
        remove_folder("client-sdk/dist")?;
        process::run(tools::tsc().args(["--project", "client-sdk/tsconfig.build.json"]))?;
        node_tests("client-sdk/checks")
    })
}

/// What is not our own: stock Yjs, and requests that Schemathesis makes.
fn outsiders(report: &mut Report, with_tools: WithTools<'_>) -> Result {
    with_tools.tests(report, "tests/yjs")?;
    match openapi_fuzz::python() {
        Err(cause) if !openapi_fuzz::is_required() => {
            report.skip("tests/openapi", cause);
            Ok(())
        }
        python => with_tools.step(report, "tests/openapi", || openapi_fuzz::run(python?)),
    }
}

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(tools::root()).args(args);
    command
}

fn test(selection: &[&str]) -> Result {
    process::run(cargo(&["test", "--locked"]).args(selection))
}

fn check_imports(artefact: Artefact) -> Result {
    let path = artefact.wasm_path();
    let module = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    output::say(format_args!("{} imports, none from `env`", wasm::check_imports(&module)?));
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
        output::say(problem);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_the_end_of_the_output() {
        assert_eq!(
            failures("✔ one\n✖ two\n\n✖ failing tests:\n\ntwo: 1 !== 2"),
            "✖ failing tests:\n\ntwo: 1 !== 2"
        );
        assert_eq!(failures("✔ one"), "");
    }

    #[test]
    fn every_member_of_the_workspace_is_tested() {
        let listed =
            process::output(&mut cargo(&["tree", "--locked", "--workspace", "--depth=0", "--prefix=none"]));
        let listed = listed.unwrap();
        let mut members: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
        members.retain(|member| !member.is_empty() && *member != SIMULATOR);
        members.sort_unstable();
        let mut tested = PACKAGES;
        tested.sort_unstable();
        assert_eq!(members, tested);
    }

    #[test]
    fn the_files_of_the_repository_are_found_and_their_problems_fail_the_step() {
        assert_eq!(check_files(|path| path == "Cargo.toml", |_, _| Vec::new()), Ok(()));
        let one_problem = |_: &str, _: &str| vec!["problem".to_owned()];
        assert_eq!(check_files(|path| path == "Cargo.toml", one_problem), Err("1 problems".to_owned()));
        assert!(check_files(|_| false, |_, _| Vec::new()).is_err());
    }
}
