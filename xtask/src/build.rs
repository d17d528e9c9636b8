//! The Worker's build: worker-build, then one pass of wasm-opt, then the limits.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process;
use crate::provision::Toolchain;
use crate::tools;
use crate::wasm;
use crate::{Result, fingerprint};

/// What the WASM may weigh. A Worker must start within a second, and growth should be a decision.
const MAX_RAW: usize = 700_000;
const MAX_GZIP: usize = 260_000;
/// What changes the output. `.cargo` and the toolchain count through [`inputs`].
const INPUTS: [&str; 5] = ["Cargo.toml", "Cargo.lock", "build.rs", "package-lock.json", "src"];
/// What rustc and wasm-bindgen emit for this target; a list, not `--all-features`, so that wasm-opt
/// never writes an encoding that workerd does not read yet.
const WASM_FEATURES: [&str; 7] = [
    "--enable-bulk-memory",
    "--enable-exception-handling",
    "--enable-multivalue",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-reference-types",
    "--enable-sign-ext",
];

/// How to build.
#[derive(Clone, Copy, PartialEq)]
pub enum Mode {
    /// Quick, with names and checks, without limits.
    Dev,
    /// What is deployed.
    Release,
}

/// The built module.
pub fn wasm_path() -> PathBuf {
    out_dir().join("index_bg.wasm")
}

/// Builds the Worker into `build/`; does nothing when no input changed since the last time.
pub fn worker(toolchain: &Toolchain, mode: Mode) -> Result {
    let target = tools::root().join("target").join("xtask");
    let failed = |error: std::io::Error| format!("{}: {error}", target.display());
    fs::create_dir_all(&target).map_err(failed)?;
    // wrangler may start a build while another one runs.
    let lock = File::create(target.join("build.lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let stamp = target.join("build.stamp");
    let inputs = inputs(toolchain, mode)?;
    if outputs().is_ok_and(|outputs| {
        fs::read_to_string(&stamp).is_ok_and(|found| found == format!("{inputs} {outputs}"))
    }) {
        eprintln!("xtask: build/ is up to date");
    } else {
        // Gone before the work starts: a build that is broken off must not look done.
        let _absent = fs::remove_file(&stamp);
        compile(toolchain, mode)?;
        if mode == Mode::Release {
            optimize(&wasm_path())?;
        }
        fs::write(&stamp, format!("{inputs} {}", outputs()?)).map_err(failed)?;
    }
    let module = fs::read(wasm_path()).map_err(|error| format!("{}: {error}", wasm_path().display()))?;
    check_size(module.len(), wasm::gzip_size(&module)?, mode)
}

fn out_dir() -> PathBuf {
    tools::root().join("build")
}

fn inputs(toolchain: &Toolchain, mode: Mode) -> Result<String> {
    let rustc = process::output(toolchain.compiler.apply(Command::new("rustc").arg("-vV")))?;
    let mode = if mode == Mode::Release { "release" } else { "dev" };
    let versions =
        [mode, &rustc, tools::WORKER_BUILD.version, tools::WASM_BINDGEN.version, include_str!("build.rs")];
    fingerprint::of_files(tools::root(), &INPUTS, &versions)
}

fn outputs() -> Result<String> {
    fingerprint::of_files(&out_dir(), &["index.js", "index_bg.wasm"], &[])
}

fn compile(toolchain: &Toolchain, mode: Mode) -> Result {
    let mut command = Command::new(&toolchain.worker_build);
    toolchain.compiler.apply(command.current_dir(tools::root()));
    command
        .env("WASM_BINDGEN_BIN", &toolchain.wasm_bindgen)
        .env("ESBUILD_BIN", tools::esbuild_path())
        .arg(if mode == Mode::Release { "--release" } else { "--dev" })
        // Its own pass of wasm-opt keeps the names; ours follows and does not.
        .args(["--no-opt", ".", "--features", "edge", "--locked"]);
    process::run(&mut command)
}

fn optimize(module: &Path) -> Result {
    let smaller = module.with_extension("opt");
    let mut command = tools::wasm_opt();
    command.arg(module).arg("-o").arg(&smaller).args(["-O", "--strip-debug"]).args(WASM_FEATURES);
    process::run(&mut command)?;
    fs::rename(&smaller, module).map_err(|error| format!("{}: {error}", smaller.display()))
}

fn check_size(raw: usize, gzip: usize, mode: Mode) -> Result {
    eprintln!("xtask: build/index_bg.wasm: {raw} B, {gzip} B gzip (limits {MAX_RAW}, {MAX_GZIP})");
    if mode == Mode::Release && (raw > MAX_RAW || gzip > MAX_GZIP) {
        return Err(
            "the Worker is over its size limit; `twiggy top` on a --dev build shows what grew".to_owned()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_release_over_a_limit_fails() {
        assert!(check_size(MAX_RAW, MAX_GZIP, Mode::Release).is_ok());
        assert!(check_size(MAX_RAW + 1, 0, Mode::Release).is_err());
        assert!(check_size(0, MAX_GZIP + 1, Mode::Release).is_err());
        assert!(check_size(MAX_RAW + 1, 0, Mode::Dev).is_ok());
    }
}
