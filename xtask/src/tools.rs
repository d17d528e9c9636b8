//! Which tools this repository uses, at which version, and where they are.

use std::env;
use std::env::consts::{ARCH, EXE_SUFFIX, OS};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;

/// Tied to the `worker` crate of the same version.
pub const WORKER_BUILD: CargoTool =
    CargoTool { name: "worker-build", version: "0.8.7", binary: "worker-build" };
/// Must be exactly the version of the `wasm-bindgen` crate.
pub const WASM_BINDGEN: CargoTool =
    CargoTool { name: "wasm-bindgen-cli", version: "0.2.129", binary: "wasm-bindgen" };

/// A tool that `cargo install` builds into the cache.
pub struct CargoTool {
    /// The crate.
    pub name: &'static str,
    /// Its exact version.
    pub version: &'static str,
    binary: &'static str,
}

impl CargoTool {
    /// The folder that `cargo install --root` gets: one per version, so versions do not disturb each other.
    pub fn root(&self) -> Result<PathBuf> {
        Ok(cache()?.join(format!("{}-{}", self.name, self.version)))
    }

    /// The program itself, whether or not it is there.
    pub fn path(&self) -> Result<PathBuf> {
        Ok(self.root()?.join("bin").join(format!("{}{EXE_SUFFIX}", self.binary)))
    }
}

/// The root of the repository.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Where tools that cargo builds are kept: `YRELAY_TOOLS`, or the user's cache folder.
pub fn cache() -> Result<PathBuf> {
    let from = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = from("YRELAY_TOOLS") {
        return std::path::absolute(dir).map_err(|error| format!("YRELAY_TOOLS: {error}"));
    }
    let base = match OS {
        "windows" => from("LOCALAPPDATA"),
        "macos" => from("HOME").map(|home| home.join("Library").join("Caches")),
        _ => from("XDG_CACHE_HOME").or_else(|| from("HOME").map(|home| home.join(".cache"))),
    };
    let base = base.ok_or("there is no cache folder for tools: set YRELAY_TOOLS to a folder")?;
    Ok(base.join("yrelay").join("tools"))
}

/// A file inside an npm package of this repository.
pub fn package(parts: &[&str]) -> PathBuf {
    let mut path = root().join("node_modules");
    path.extend(parts);
    path
}

/// npm as the user has it: it comes with Node.
pub fn npm() -> Command {
    let mut command = Command::new(if OS == "windows" { "npm.cmd" } else { "npm" });
    command.current_dir(root());
    command
}

/// The Node of package.json, not the one in PATH, which may be too old for wrangler.
pub fn node() -> Command {
    let mut command = Command::new(node_path());
    command.current_dir(root()).env("PATH", path_with_node()).env("NO_UPDATE_NOTIFIER", "1");
    command
}

/// Where that Node is.
pub fn node_path() -> PathBuf {
    package(&["node", "bin", &format!("node{EXE_SUFFIX}")])
}

/// wrangler, run so that it neither asks nor reports anything.
pub fn wrangler() -> Command {
    let mut command = node();
    command
        .arg(package(&["wrangler", "bin", "wrangler.js"]))
        .env("CI", "1")
        .env("WRANGLER_SEND_METRICS", "false")
        .env("WRANGLER_LOG_PATH", root().join("target").join("xtask").join("wrangler"));
    command
}

/// wasm-opt: a script in the binaryen package, so it needs Node.
pub fn wasm_opt() -> Command {
    let mut command = node();
    command.arg(package(&["binaryen", "bin", "wasm-opt"]));
    command
}

/// esbuild's own program (the one in `.bin` is a script on Windows, which worker-build cannot start).
pub fn esbuild_path() -> PathBuf {
    let platform = format!("{}-{}", npm_os(OS), npm_arch(ARCH));
    match OS {
        "windows" => package(&["@esbuild", &platform, "esbuild.exe"]),
        _ => package(&["@esbuild", &platform, "bin", "esbuild"]),
    }
}

/// workerd and Deno, by the entry points that their packages give to Node.
pub fn workerd() -> Command {
    let mut command = node();
    command.args(["-e", "const w=require('workerd');require('node:child_process').execFileSync(w.default,['--version'],{stdio:'inherit'})"]);
    command
}

/// Deno's program: its package puts it beside its script.
pub fn deno() -> Command {
    let mut command = Command::new(package(&["deno", &format!("deno{EXE_SUFFIX}")]));
    command.env("DENO_NO_UPDATE_CHECK", "1");
    command
}

/// The TypeScript compiler. The package `typescript` is the last version that tools can call as a
/// library, which ESLint's parser does.
pub fn tsc() -> Command {
    let mut command = node();
    command.arg(package(&["@typescript", "native", "bin", "tsc"]));
    command
}

/// ESLint, for which a warning is an error.
pub fn eslint() -> Command {
    let mut command = node();
    command.arg(package(&["eslint", "bin", "eslint.js"])).args(["--max-warnings", "0"]);
    command
}

fn npm_os(os: &str) -> &str {
    match os {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    }
}

fn npm_arch(arch: &str) -> &str {
    match arch {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        "x86" => "ia32",
        other => other,
    }
}

fn path_with_node() -> OsString {
    let mut dirs = vec![package(&["node", "bin"])];
    dirs.extend(env::var_os("PATH").iter().flat_map(env::split_paths));
    env::join_paths(dirs).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locked(name: &str) -> String {
        let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
        let at = format!("name = \"{name}\"\nversion = \"");
        let rest = lock.replace("\r\n", "\n").split_once(&at).unwrap().1.to_owned();
        rest.split_once('"').unwrap().0.to_owned()
    }

    #[test]
    fn the_tools_have_the_versions_of_their_crates() {
        assert_eq!(WASM_BINDGEN.version, locked("wasm-bindgen"));
        assert_eq!(WORKER_BUILD.version, locked("worker"));
    }

    #[test]
    fn platform_names_are_those_of_npm() {
        assert_eq!((npm_os("macos"), npm_arch("aarch64")), ("darwin", "arm64"));
        assert_eq!((npm_os("windows"), npm_arch("x86_64")), ("win32", "x64"));
        assert_eq!((npm_os("linux"), npm_arch("x86_64")), ("linux", "x64"));
    }
}
