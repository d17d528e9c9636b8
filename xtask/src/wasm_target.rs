//! The standard library for `wasm32-unknown-unknown`: there already, added by rustup, or built from
//! Debian's own Rust sources where rustup is absent or cannot download.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::output;
use crate::process;
use crate::{Result, tools};

const TARGET: &str = "wasm32-unknown-unknown";
/// Debian's compiler that knows WASM, its cargo, the matching sources of std, and the linker.
const DEBIAN_PACKAGES: [&str; 5] = ["rustc-web", "cargo-web", "rust-web-src", "rust-web-llvm", "lld-22"];
const DEBIAN_BIN: &str = "/usr/bin";

/// The compiler that owns the target.
pub enum Compiler {
    /// The one in PATH.
    Default,
    /// Another one, whose folder must come first in PATH.
    In(PathBuf),
}

impl Compiler {
    /// Makes a command use this compiler.
    pub fn apply<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let Self::In(dir) = self else { return command };
        let paths = env::var_os("PATH").unwrap_or_default();
        let dirs = std::iter::once(dir.clone()).chain(env::split_paths(&paths));
        // Set by rustup's cargo, which may be our parent: Debian's would be asked for a file that rustup has.
        for name in ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC"] {
            command.env_remove(name);
        }
        command.env("PATH", env::join_paths(dirs).unwrap_or(paths))
    }
}

/// Finds the target, or installs it.
pub fn provide() -> Result<Compiler> {
    if has_target(Path::new("rustc")) {
        return Ok(Compiler::Default);
    }
    if process::output(Command::new("rustup").arg("--version")).is_ok() {
        output::say(format_args!("xtask: rustup target add {TARGET}"));
        let added = process::run(Command::new("rustup").args(["target", "add", TARGET]));
        if added.is_ok() && has_target(Path::new("rustc")) {
            return Ok(Compiler::Default);
        }
        output::say("xtask: rustup could not add it");
    }
    let debian = Path::new(DEBIAN_BIN);
    if !has_target(&debian.join("rustc")) {
        if !Path::new("/etc/debian_version").is_file() {
            return Err(format!(
                "the Rust target {TARGET} is missing: install it with `rustup target add {TARGET}`"
            ));
        }
        install_from_debian(debian)?;
    }
    Ok(Compiler::In(debian.to_owned()))
}

fn has_target(rustc: &Path) -> bool {
    let mut command = Command::new(rustc);
    let Ok(dir) = process::output(command.args(["--print", "target-libdir", "--target", TARGET])) else {
        return false;
    };
    let Ok(entries) = fs::read_dir(dir) else { return false };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with("libstd-") && name.to_string_lossy().ends_with(".rlib")
    })
}

fn install_from_debian(bin: &Path) -> Result {
    output::say(format_args!("xtask: installing with apt-get: {}", DEBIAN_PACKAGES.join(" ")));
    process::run(as_root("apt-get").args(["update", "-qq"]))?;
    let mut install = as_root("apt-get");
    process::run(install.args(["install", "-y", "-qq", "--no-install-recommends"]).args(DEBIAN_PACKAGES))?;
    output::say(format_args!(
        "xtask: building std for {TARGET} into Debian's compiler (once, a minute or a few)"
    ));
    let seed = tools::root().join("target").join("xtask").join("std-seed");
    let built = build_std(&seed, bin)?;
    let mut query = Command::new(bin.join("rustc"));
    let libdir = process::output(query.args(["--print", "target-libdir", "--target", TARGET]))?;
    process::run(as_root("mkdir").args(["-p", &libdir]))?;
    process::run(as_root("cp").args(built).arg(format!("{libdir}/")))?;
    if has_target(&bin.join("rustc")) { Ok(()) } else { Err(format!("{libdir} has no std after the build")) }
}

/// Builds std through an empty crate and returns the libraries.
fn build_std(seed: &Path, bin: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error: std::io::Error| format!("{}: {error}", seed.display());
    fs::create_dir_all(seed.join("src")).map_err(failed)?;
    let manifest = "[package]\nname = \"std-seed\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[workspace]\n\n\
                    [profile.release]\npanic = \"abort\"\n";
    fs::write(seed.join("Cargo.toml"), manifest).map_err(failed)?;
    fs::write(seed.join("src").join("lib.rs"), "#![no_std]\n").map_err(failed)?;
    let mut cargo = Command::new(bin.join("cargo"));
    Compiler::In(bin.to_owned()).apply(cargo.current_dir(seed));
    cargo
        .args(["build", "--release", "--target", TARGET, "-Zbuild-std=std,panic_abort"])
        // -Z needs it on a stable compiler; without bitcode a release build with LTO cannot use this std.
        .envs([("RUSTC_BOOTSTRAP", "1"), ("RUSTFLAGS", "-Cembed-bitcode=yes")])
        .env("CARGO_TARGET_DIR", seed.join("target"));
    process::run(&mut cargo)?;
    let deps = seed.join("target").join(TARGET).join("release").join("deps");
    let libraries = fs::read_dir(deps).map_err(failed)?.flatten().map(|entry| entry.path());
    Ok(libraries.filter(|path| path.extension().is_some_and(|ext| ext == "rlib")).collect())
}

/// With sudo when this user is not root.
fn as_root(program: &str) -> Command {
    let root = process::output(Command::new("id").arg("-u")).is_ok_and(|id| id == "0");
    if root {
        return Command::new(program);
    }
    let mut command = Command::new("sudo");
    command.arg(program);
    command
}
