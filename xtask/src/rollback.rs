//! `cargo xtask rollback --to REF`: an earlier release, this tree, the earlier release and this tree again, on
//! one database. The checks are those of `tests/e2e/rollback.test.mjs`; here two builds are made for them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use crate::args::Args;
use crate::build::{self, Mode};
use crate::{Result, output, process, provision, tools};

/// Digits of a commit that name its folder and its release in what is printed.
const SHORT: usize = 12;

/// Builds both releases, and runs one after the other.
pub fn run(args: &mut Args) -> Result<ExitStatus> {
    let to = args.value("--to")?.ok_or("--to needs a tag, a branch or a commit: the release before")?;
    args.finish()?;
    let commit = resolve(&to)?;
    let name: String = commit.chars().take(SHORT).collect();
    build::all(&provision::everything()?, Mode::Release)?;
    let folder = tools::root().join("target").join("rollback").join(&name);
    check_out(&folder, &commit)?;
    build_there(&folder)?;
    let mut node = tools::node();
    let program: PathBuf = ["tests", "e2e", "support", "rollback-run.mjs"].iter().collect();
    node.arg(program).arg(&folder).arg(if name.starts_with(&to) { name } else { format!("{to} ({name})") });
    process::status(&mut node)
}

fn git() -> Command {
    let mut git = Command::new("git");
    git.current_dir(tools::root());
    git
}

fn resolve(name: &str) -> Result<String> {
    process::output(
        git()
            .args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
            .arg(format!("{name}^{{commit}}")),
    )
    .map_err(|_| format!("git knows no commit `{name}`"))
}

/// A worktree of the commit. It stays, so that the next run does not build it anew.
fn check_out(folder: &Path, commit: &str) -> Result {
    if folder.join("xtask").is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
    }
    // `target` may have been deleted, and git still think that the worktree is there.
    process::run(git().args(["worktree", "prune"]))?;
    process::run(git().args(["worktree", "add", "--quiet", "--detach"]).arg(folder).arg(commit))
}

/// Lets the release build itself, with its own tools, into a `target` of its own.
fn build_there(folder: &Path) -> Result {
    output::say(format_args!("xtask: building {} (minutes, the first time)", folder.display()));
    let mut cargo = Command::new("cargo");
    cargo.current_dir(folder).args(["xtask", "build"]);
    // Its xtask would take the place of this one, which is running.
    cargo.env_remove("CARGO_TARGET_DIR");
    process::run(&mut cargo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_asked_for_and_has_to_be_there() {
        let run = |text: &str| run(&mut Args::new(text.split_whitespace().map(str::to_owned)));
        assert!(run("").unwrap_err().starts_with("--to needs"));
        assert_eq!(run("--to no-such-release").unwrap_err(), "git knows no commit `no-such-release`");
        assert!(run("--to HEAD --fast").unwrap_err().starts_with("`--fast`"));
    }
}
