//! Finds what building and running needs, and installs what is missing: says first what it does,
//! then shows the tool's own output. It relies on Rust, Node with npm, and a C toolchain only.

use std::env::consts::{ARCH, OS};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::output;
use crate::process;
use crate::tools::{self, CargoTool};
use crate::wasm_target::{self, Compiler};
use crate::{Result, fingerprint};

/// The packages whose programs are put in place by their install scripts.
const SCRIPTED: &str = "node deno esbuild workerd";

/// What a build needs to know about the tools.
pub struct Toolchain {
    /// The compiler that owns the wasm target.
    pub compiler: Compiler,
    /// worker-build.
    pub worker_build: PathBuf,
    /// The wasm-bindgen CLI.
    pub wasm_bindgen: PathBuf,
}

/// Everything for `build` and `dev`.
pub fn everything() -> Result<Toolchain> {
    npm_packages()?;
    let compiler = wasm_target::provide()?;
    let worker_build = cargo_tool(&tools::WORKER_BUILD)?;
    let wasm_bindgen = cargo_tool(&tools::WASM_BINDGEN)?;
    Ok(Toolchain { compiler, worker_build, wasm_bindgen })
}

/// The npm packages of package-lock.json, in node_modules; every program of theirs is tried once.
pub fn npm_packages() -> Result {
    let lock_file = tools::root().join("package-lock.json");
    let lock = fs::read(&lock_file).map_err(|error| format!("{}: {error}", lock_file.display()))?;
    let wanted = fingerprint::of(&[&lock, OS.as_bytes(), ARCH.as_bytes()]);
    let stamp = tools::package(&[".yrelay-lock"]);
    let is_done = || fs::read_to_string(&stamp).is_ok_and(|found| found == wanted);
    if is_done() {
        return Ok(());
    }
    let _lock = exclusive("npm")?;
    if is_done() {
        return Ok(());
    }
    // Installed by hand since the lock file changed: good enough if its programs run.
    if !is_newer(&tools::package(&[".package-lock.json"]), &lock_file) || try_programs().is_err() {
        output::say("xtask: npm ci: Node, wrangler, workerd, Deno, esbuild, binaryen into node_modules/");
        let mut npm = tools::npm();
        npm.args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
        process::run(&mut npm).map_err(|error| {
            format!("{error}\n  npm is needed: it comes with Node (any maintained version), see nodejs.org")
        })?;
        try_programs()?;
    }
    fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))
}

fn is_newer(file: &Path, than: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
    matches!((modified(file), modified(than)), (Ok(file), Ok(than)) if file >= than)
}

/// npm may be set not to run install scripts; then a package is there and its program is not.
fn try_programs() -> Result {
    let version = |mut command: Command| {
        command.arg("--version");
        command
    };
    let programs = [
        ("node", version(Command::new(tools::node_path()))),
        ("esbuild", version(Command::new(tools::esbuild_path()))),
        ("deno", version(tools::deno())),
        ("workerd", tools::workerd()),
        ("binaryen", version(tools::wasm_opt())),
        ("wrangler", version(tools::wrangler())),
    ];
    for (package, mut program) in programs {
        let found = process::output(&mut program).map_err(|error| {
            format!(
                "{error}\n  The package `{package}` is installed but its program does not run. If npm is set not to \
                 run install scripts, run\n    npm rebuild --ignore-scripts=false {SCRIPTED}\n  and start again"
            )
        })?;
        let first_line = found.lines().next().unwrap_or_default();
        output::say(format_args!(
            "xtask:   {package} {}",
            first_line.strip_prefix(package).unwrap_or(first_line).trim()
        ));
    }
    Ok(())
}

fn cargo_tool(tool: &CargoTool) -> Result<PathBuf> {
    let path = tool.path()?;
    if path.is_file() {
        return Ok(path);
    }
    let _lock = exclusive(tool.name)?;
    if path.is_file() {
        return Ok(path);
    }
    let root = tool.root()?;
    output::say(format_args!(
        "xtask: cargo install {} {} into {} (once per version, some minutes)",
        tool.name,
        tool.version,
        root.display()
    ));
    let mut cargo = Command::new("cargo");
    // Not from this repository: its lints and configuration are not meant for others' code.
    cargo.current_dir(tools::cache()?).args(["install", "--locked", "--version", tool.version, "--root"]);
    process::run(cargo.arg(&root).arg(tool.name))?;
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!("cargo installed {} but not {}", tool.name, path.display()))
    }
}

/// Two starts at the same moment must not install the same thing twice. Held until it is dropped.
fn exclusive(name: &str) -> Result<File> {
    let dir = tools::cache()?;
    let failed = |error| format!("{}: {error}", dir.display());
    fs::create_dir_all(&dir).map_err(failed)?;
    let file = File::create(dir.join(format!("{name}.lock"))).map_err(failed)?;
    if file.try_lock().is_err() {
        output::say(format_args!("xtask: waiting for another process that installs {name}"));
        file.lock().map_err(failed)?;
    }
    Ok(file)
}
