//! `cargo xtask token`: hands its options to tools/token.mjs, the one place that signs tokens.

use std::process::Command;

use crate::args::Args;
use crate::{Result, process, tools};

/// The data folder of `dev` and `token` when no `--data` is given: ignored by git.
pub const DEFAULT_DATA: &str = ".yrelay";

/// Prints an API token.
pub fn run(args: &mut Args) -> Result {
    let data = args.value("--data")?.unwrap_or_else(|| DEFAULT_DATA.to_owned());
    // Signing needs no npm package, so any Node will do when this repository's own is not installed.
    let own = tools::node_path();
    let mut node = Command::new(if own.is_file() { own.as_os_str() } else { "node".as_ref() });
    node.arg(tools::root().join("tools").join("token.mjs")).args(["--data", &data]).args(args.take_rest());
    let status = process::status(&mut node)?;
    // It has said what is wrong.
    if status.success() { Ok(()) } else { std::process::exit(status.code().unwrap_or(1)) }
}
