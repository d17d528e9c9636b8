//! The builds of the core: for the Worker by worker-build, its second module and that of the Deno
//! relay by wasm-bindgen; then one pass of wasm-opt and the limits.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use crate::output;
use crate::process;
use crate::provision::Toolchain;
use crate::tools;
use crate::wasm;
use crate::{Result, fingerprint};

/// What changes the output. `.cargo` and the toolchain count through [`inputs`].
const INPUTS: [&str; 4] = ["Cargo.toml", "Cargo.lock", "package-lock.json", "src"];
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

const WASM_TARGET: &str = "wasm32-unknown-unknown";

/// How to build.
#[derive(Clone, Copy, PartialEq)]
pub enum Mode {
    /// Quick, with names and checks, without limits.
    Dev,
    /// What is deployed.
    Release,
}

/// What is built.
#[derive(Clone, Copy, PartialEq)]
pub enum Artefact {
    /// The Worker's second module, which the first request that needs it loads: it goes into `build/`,
    /// after the Worker.
    Lazy,
    /// The core as the Deno relay loads it: `relay-deno/wasm/`.
    Relay,
    /// The Worker: `build/`.
    Worker,
}

impl Artefact {
    const fn name(self) -> &'static str {
        match self {
            Self::Relay => "relay-deno/wasm",
            Self::Lazy | Self::Worker => "build",
        }
    }

    const fn feature(self) -> &'static str {
        match self {
            Self::Lazy => "lazy",
            Self::Relay => "relay-deno",
            Self::Worker => "edge",
        }
    }

    fn out_dir(self) -> PathBuf {
        tools::root().join(self.name())
    }

    const fn files(self) -> &'static [&'static str] {
        match self {
            Self::Lazy => &["lazy_bg.js", "lazy_bg.wasm"],
            Self::Relay => &["yrelay.d.ts", "yrelay.js", "yrelay_bg.js", "yrelay_bg.wasm"],
            Self::Worker => {
                &["batch.js", "index.js", "index_bg.wasm", "mcp-tools.js", "openapi.js", "worker.js"]
            }
        }
    }

    /// The built module.
    pub fn wasm_path(self) -> PathBuf {
        self.out_dir().join(match self {
            Self::Lazy => "lazy_bg.wasm",
            Self::Relay => "yrelay_bg.wasm",
            Self::Worker => "index_bg.wasm",
        })
    }

    /// What the module may weigh, raw and in gzip. A Worker must start within a second, and growth
    /// should be a decision.
    const fn limits(self) -> (usize, usize) {
        match self {
            Self::Lazy => (260_000, 115_000),
            Self::Relay => (350_000, 150_000),
            Self::Worker => (700_000, 260_000),
        }
    }
}

/// Builds everything that changed since the last time.
pub fn all(toolchain: &Toolchain, mode: Mode) -> Result {
    for artefact in [Artefact::Worker, Artefact::Lazy, Artefact::Relay] {
        run(toolchain, artefact, mode)?;
    }
    demo()
}

/// The demo page, which wrangler deploys beside the Worker: `build/demo/`. Quick enough to be made each time.
pub fn demo() -> Result {
    process::run(tools::node().arg("tools/demo-bundle.mjs"))
}

/// Builds one artefact if it changed since the last time.
pub fn run(toolchain: &Toolchain, artefact: Artefact, mode: Mode) -> Result {
    let target = tools::root().join("target").join("xtask");
    let failed = |error: std::io::Error| format!("{}: {error}", target.display());
    fs::create_dir_all(&target).map_err(failed)?;
    // wrangler may start a build while another one runs.
    let lock = File::create(target.join("build.lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let name = artefact.name();
    let stamp = target.join(format!("{}.stamp", artefact.feature()));
    let inputs = inputs(toolchain, mode)?;
    let outputs = || fingerprint::of_files(&artefact.out_dir(), artefact.files(), &[]);
    if outputs().is_ok_and(|outputs| {
        fs::read_to_string(&stamp).is_ok_and(|found| found == format!("{inputs} {outputs}"))
    }) {
        output::say(format_args!("xtask: {name}/ is up to date"));
    } else {
        // Gone before the work starts: a build that is broken off must not look done.
        let _absent = fs::remove_file(&stamp);
        match artefact {
            Artefact::Lazy => compile_module(toolchain, artefact, "lazy", mode)?,
            Artefact::Relay => compile_module(toolchain, artefact, "yrelay", mode)?,
            Artefact::Worker => compile_worker(toolchain, mode)?,
        }
        if mode == Mode::Release {
            optimize(artefact)?;
        }
        fs::write(&stamp, format!("{inputs} {}", outputs()?)).map_err(failed)?;
    }
    let path = artefact.wasm_path();
    let module = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    check_size(artefact, (module.len(), wasm::gzip_size(&module)?), mode)
}

fn inputs(toolchain: &Toolchain, mode: Mode) -> Result<String> {
    let rustc = process::output(toolchain.compiler.apply(Command::new("rustc").arg("-vV")))?;
    let mode = if mode == Mode::Release { "release" } else { "dev" };
    let versions =
        [mode, &rustc, tools::WORKER_BUILD.version, tools::WASM_BINDGEN.version, include_str!("build.rs")];
    fingerprint::of_files(tools::root(), &INPUTS, &versions)
}

fn compile_worker(toolchain: &Toolchain, mode: Mode) -> Result {
    let mut command = Command::new(&toolchain.worker_build);
    toolchain.compiler.apply(command.current_dir(tools::root()));
    command
        .env("WASM_BINDGEN_BIN", &toolchain.wasm_bindgen)
        .env("ESBUILD_BIN", tools::esbuild_path())
        .arg(if mode == Mode::Release { "--release" } else { "--dev" })
        // Its own pass of wasm-opt keeps the names; ours follows and does not.
        .args(["--no-opt", ".", "--features", "edge", "--locked"]);
    process::run(&mut command)?;
    // Ours is the entry; theirs is the Worker behind it.
    let out = Artefact::Worker.out_dir();
    let ours = tools::root().join("src").join("edge");
    fs::rename(out.join("index.js"), out.join("worker.js"))
        .and_then(|()| fs::copy(ours.join("entry.mjs"), out.join("index.js")).map(drop))
        .and_then(|()| fs::copy(ours.join("batch.mjs"), out.join("batch.js")).map(drop))
        .and_then(|()| fs::write(out.join("openapi.js"), script_of("src/api/openapi.json")?))
        .and_then(|()| fs::write(out.join("mcp-tools.js"), script_of("src/mcp/tools.json")?))
        .map_err(|error| format!("{}: {error}", out.display()))
}

/// A text that is answered as it is, as a script: in the module the description of the API alone
/// would weigh 7 KB of its limit.
fn script_of(json: &str) -> std::io::Result<String> {
    let text = fs::read_to_string(tools::root().join(json))?;
    let document: serde_json::Value = serde_json::from_str(&text)?;
    // JSON in JSON is a string of JavaScript.
    Ok(format!("export default {};\n", serde_json::Value::from(document.to_string())))
}

fn compile_module(toolchain: &Toolchain, artefact: Artefact, name: &str, mode: Mode) -> Result {
    let (profile, folder) = match (mode, artefact) {
        (Mode::Release, Artefact::Relay) => ("relay", "relay"),
        (Mode::Release, _) => ("release", "release"),
        (Mode::Dev, _) => ("dev", "debug"),
    };
    // The Worker's build leaves a file of the same name here; the lock keeps the two apart.
    let target = tools::root().join("target");
    let mut cargo = Command::new("cargo");
    toolchain.compiler.apply(cargo.current_dir(tools::root()));
    cargo
        .args(["build", "--lib", "--locked", "--target", WASM_TARGET, "--features", artefact.feature()])
        .args(["--profile", profile, "--target-dir"])
        .arg(&target);
    process::run(&mut cargo)?;
    let mut bindgen = Command::new(&toolchain.wasm_bindgen);
    // Deno loads this form without any permission.
    bindgen
        .args(["--target", "bundler", "--out-name", name, "--out-dir"])
        .arg(artefact.out_dir())
        .arg(target.join(WASM_TARGET).join(folder).join("yrelay.wasm"));
    process::run(&mut bindgen)?;
    if artefact == Artefact::Lazy {
        // It instantiates the module at once, which is for the entry to decide; nothing imports it.
        let unused = artefact.out_dir().join(format!("{name}.js"));
        fs::remove_file(&unused).map_err(|error| format!("{}: {error}", unused.display()))?;
    }
    Ok(())
}

fn optimize(artefact: Artefact) -> Result {
    let module = artefact.wasm_path();
    let smaller = module.with_extension("opt");
    let mut command = tools::wasm_opt();
    // What a Worker loads is made small: the passes are repeated until nothing is won any more, and
    // the addresses below 1024, where nothing of Rust's is, let offsets be folded. The relay's is made fast.
    let passes: &[&str] = match artefact {
        Artefact::Relay => &["-O4"],
        Artefact::Lazy | Artefact::Worker => &["-Oz", "--converge", "--low-memory-unused"],
    };
    command.arg(&module).arg("-o").arg(&smaller).args(passes).arg("--strip-debug").args(WASM_FEATURES);
    process::run(&mut command)?;
    fs::rename(&smaller, &module).map_err(|error| format!("{}: {error}", smaller.display()))
}

fn check_size(artefact: Artefact, (raw, gzip): (usize, usize), mode: Mode) -> Result {
    let (max_raw, max_gzip) = artefact.limits();
    let path = artefact.wasm_path();
    let shown = path.strip_prefix(tools::root()).unwrap_or(&path).display();
    output::say(format_args!("xtask: {shown}: {raw} B, {gzip} B gzip (limits {max_raw}, {max_gzip})"));
    if mode == Mode::Release && (raw > max_raw || gzip > max_gzip) {
        let advice = "`twiggy top` on a --dev build shows what grew";
        return Err(format!("{shown} is over its size limit; {advice}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_release_over_a_limit_fails() {
        for artefact in [Artefact::Lazy, Artefact::Relay, Artefact::Worker] {
            let (raw, gzip) = artefact.limits();
            assert!(check_size(artefact, (raw, gzip), Mode::Release).is_ok());
            assert!(check_size(artefact, (raw + 1, 0), Mode::Release).is_err());
            assert!(check_size(artefact, (0, gzip + 1), Mode::Release).is_err());
            assert!(check_size(artefact, (raw + 1, 0), Mode::Dev).is_ok());
        }
    }
}
