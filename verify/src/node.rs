//! The two scripts that Node runs: one reads the database, one is stock Yjs.

use std::env::consts::EXE_SUFFIX;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use verify::Result;
use verify::fact::Fact;

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

fn start(script: &str, arg: Option<&Path>, input: Stdio) -> Result<(Child, BufReader<ChildStdout>)> {
    let node = root().join("node_modules").join("node").join("bin").join(format!("node{EXE_SUFFIX}"));
    if !node.is_file() {
        return Err("Node and Yjs are not there: run `cargo xtask provision`".to_owned());
    }
    let mut command = Command::new(node);
    command
        .current_dir(root())
        .arg("--disable-warning=ExperimentalWarning")
        .arg(root().join("tools").join(script));
    let mut child = command
        .args(arg)
        .stdin(input)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("node does not start: {error}"))?;
    let output = child.stdout.take().ok_or("node has no output")?;
    Ok((child, BufReader::new(output)))
}

/// Reads every fact of a database, one by one.
pub fn read(file: &Path, mut each: impl FnMut(Fact) -> Result) -> Result {
    let (mut child, output) = start("read-database.mjs", Some(file), Stdio::null())?;
    let mut is_whole = false;
    for line in output.lines() {
        let line = line.map_err(|error| format!("{}: {error}", file.display()))?;
        let fact = serde_json::from_str(&line).map_err(|error| {
            let shown: String = line.chars().take(200).collect();
            format!("{}: a row that no yrelay wrote: {error}: {shown}", file.display())
        })?;
        is_whole |= matches!(fact, Fact::End);
        each(fact)?;
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    // It has said what is wrong.
    if status.success() && is_whole { Ok(()) } else { Err(format!("{} could not be read", file.display())) }
}

/// Stock Yjs, in a process of its own.
pub struct Yjs {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Yjs {
    /// Starts it.
    pub fn start() -> Result<Self> {
        let (mut child, output) = start("compare-documents.mjs", None, Stdio::piped())?;
        let input = child.stdin.take();
        Ok(Self { child, input, output })
    }

    /// What is wrong with a document.
    pub fn fault(&mut self, request: &Value) -> Result<Option<String>> {
        let failed = |error: std::io::Error| format!("the Yjs process: {error}");
        let input = self.input.as_mut().ok_or("the Yjs process has no input")?;
        writeln!(input, "{request}").map_err(failed)?;
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(failed)?;
        let answer: Value =
            serde_json::from_str(&line).map_err(|_| "the Yjs process ended; its output says why")?;
        Ok(answer["fault"].as_str().map(str::to_owned))
    }
}

impl Drop for Yjs {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ended = self.child.wait();
    }
}
