//! Tools that are members of the workspace of their own, so that `cargo xtask` alone compiles none of
//! what they need. They take their own options, and say themselves what is wrong.

use std::process::{Command, ExitStatus};

use crate::args::Args;
use crate::{Result, process, tools};

/// Compiles a member if need be, and runs it with the rest of the arguments.
pub fn run(package: &str, args: &mut Args) -> Result<ExitStatus> {
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--quiet", "--locked", "--package", package, "--manifest-path"]);
    cargo.arg(tools::root().join("Cargo.toml")).arg("--").args(args.take_rest());
    process::status(&mut cargo)
}
