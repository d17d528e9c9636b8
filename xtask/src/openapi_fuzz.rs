//! Requests made from the OpenAPI document (`tests/openapi`), by Schemathesis, which is written in
//! Python. It gets an environment of its own below `target/`, with the packages of
//! `requirements.txt`. Python itself is not installed from here: every system has its own way.

use std::env;
use std::env::consts::{EXE_SUFFIX, OS};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, fingerprint, output, process, tools};

const REQUIREMENTS: &str = "tests/openapi/requirements.txt";
const NAMES: [&str; 2] = ["python3", "python"];
/// The pinned Schemathesis needs Python 3.11; pip comes into a new environment by `ensurepip`, which
/// Debian packages apart.
const CHECK: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";

/// A Python that can make an environment.
pub fn python() -> Result<&'static str> {
    let works = |name: &&str| process::output(Command::new(name).args(["-c", CHECK])).is_ok();
    NAMES.into_iter().find(works).ok_or_else(|| {
        "needs Python 3.11 or newer with venv (on Debian: python3 and python3-venv)".to_owned()
    })
}

/// Whether a missing Python is a failure: CI has all tools, a person's machine need not.
pub fn is_required() -> bool {
    is_set(env::var_os("CI").as_deref())
}

fn is_set(value: Option<&OsStr>) -> bool {
    value.is_some_and(|value| !["", "0", "false"].iter().any(|off| value == *off))
}

/// Runs it against the built Worker.
pub fn run(python: &str) -> Result {
    let schemathesis = environment(python)?;
    process::run(tools::node().arg("tests/openapi/run.mjs").arg(schemathesis))
}

/// The program, in an environment that is made anew when the packages or the Python change.
fn environment(python: &str) -> Result<PathBuf> {
    let folder = tools::root().join("target").join("xtask").join("openapi-venv");
    let bin = folder.join(if OS == "windows" { "Scripts" } else { "bin" });
    let program = |name: &str| bin.join(format!("{name}{EXE_SUFFIX}"));
    let requirements = tools::root().join(REQUIREMENTS);
    let packages = fs::read(&requirements).map_err(|error| at(&requirements, &error))?;
    let version = process::output(Command::new(python).arg("--version"))?;
    // The path: programs in an environment name its Python by it, so a copy of the folder is none.
    let wanted = fingerprint::of(&[&packages, version.as_bytes(), folder.as_os_str().as_encoded_bytes()]);
    let stamp = folder.join("yrelay-stamp");
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(program("schemathesis"));
    }
    output::say(format_args!("xtask: {python} -m venv, pip install: Schemathesis into target/"));
    process::run(Command::new(python).args(["-m", "venv", "--clear"]).arg(&folder))?;
    process::run(
        Command::new(program("python"))
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
            .arg(&requirements),
    )?;
    fs::write(&stamp, wanted).map_err(|error| at(&stamp, &error))?;
    Ok(program("schemathesis"))
}

fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ci_is_told_from_a_machine_that_has_the_variable_empty_or_off() {
        for on in ["true", "1"] {
            assert!(is_set(Some(OsStr::new(on))));
        }
        for off in [None, Some(OsStr::new("")), Some(OsStr::new("false")), Some(OsStr::new("0"))] {
            assert!(!is_set(off));
        }
    }

    #[test]
    fn every_package_has_one_version() {
        let text = fs::read_to_string(tools::root().join(REQUIREMENTS)).unwrap();
        let packages: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(packages.iter().any(|line| line.starts_with("schemathesis==")));
        assert!(
            packages.iter().all(|line| line.split_once("==").is_some_and(|(_, version)| !version.is_empty()))
        );
    }
}
