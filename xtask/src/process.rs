//! Child processes. Two kinds: a *step* runs to its end, and prints where its thread does (`output`); a
//! *service* runs beside us in a process group of its own. Whatever ends this process, none of them is left
//! behind: a service also ends by itself when its standard input does, which covers the kill that cannot be
//! caught.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Result, output};

/// How long a service may take to end cleanly before its group is killed.
const STOP_LIMIT: Duration = Duration::from_secs(6);
const POLL: Duration = Duration::from_millis(50);

static STOP: AtomicBool = AtomicBool::new(false);
/// Steps that are running. A service is stopped by its owner, not from here.
static STEPS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// From now on Ctrl-C and SIGTERM end the running steps and make [`stop_requested`] true; the second
/// one ends this process at once (services then end by their closed standard input).
pub fn end_children_on_signal() {
    let handler = || {
        if STOP.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
        for pid in STEPS.lock().map(|steps| steps.clone()).unwrap_or_default() {
            end_step(pid);
        }
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        eprintln!("xtask: Ctrl-C will not wait for children: {error}");
    }
}

/// Whether the user or the system asked this process to end.
pub fn stop_requested() -> bool {
    STOP.load(Ordering::SeqCst)
}

/// The time between two looks at children.
pub fn pause() {
    thread::sleep(POLL);
}

/// Runs a step to its end; it prints where its thread does.
pub fn run(command: &mut Command) -> Result {
    let status = status(command)?;
    if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", name(command))) }
}

/// Runs a step to its end and returns how it ended.
pub fn status(command: &mut Command) -> Result<ExitStatus> {
    if stop_requested() {
        return Err("stopped".to_owned());
    }
    let mut child = output::attach(command)
        .and_then(|()| command.spawn())
        .map_err(|error| format!("{} does not start: {error}", name(command)))?;
    let pid = child.id();
    with_steps(|steps| steps.push(pid));
    if stop_requested() {
        // The signal came before the step was on the list.
        end_step(pid);
    }
    let status = child.wait();
    with_steps(|steps| steps.retain(|step| *step != pid));
    if stop_requested() {
        return Err("stopped".to_owned());
    }
    status.map_err(|error| format!("{}: {error}", name(command)))
}

/// Runs a command for its output, quietly; an error when it fails or is not there.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(|error| format!("{} does not start: {error}", name(command)))?;
    if !output.status.success() {
        return Err(format!("{} ended with {}", name(command), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

fn with_steps(change: impl FnOnce(&mut Vec<u32>)) {
    if let Ok(mut steps) = STEPS.lock() {
        change(&mut steps);
    }
}

/// A child in its own process group, with a line on its standard input and lines on its output.
pub struct Service {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Service {
    /// Starts it and sends it `first_line`.
    pub fn start(command: &mut Command, first_line: &str) -> Result<Self> {
        own_group(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let mut child =
            command.spawn().map_err(|error| format!("{} does not start: {error}", name(command)))?;
        let mut input = child.stdin.take();
        let output = child.stdout.take();
        let (sender, lines) = mpsc::channel();
        if let Some(output) = output {
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        if let Some(input) = &mut input {
            // A child that is gone already is seen by the first wait for its line.
            let _gone = writeln!(input, "{first_line}");
        }
        Ok(Self { child, input, lines })
    }

    /// Waits for its next line of output.
    pub fn line(&self, limit: Duration) -> Result<String> {
        let deadline = Instant::now() + limit;
        loop {
            match self.lines.recv_timeout(POLL) {
                Ok(line) => return Ok(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err("ended; its output says why".to_owned());
                }
                Err(mpsc::RecvTimeoutError::Timeout) if stop_requested() => return Err("stopped".to_owned()),
                Err(mpsc::RecvTimeoutError::Timeout) if Instant::now() >= deadline => {
                    return Err(format!("did not answer within {} s", limit.as_secs()));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Whether this process was asked to end; an error that says how when the service ended first.
    pub fn is_to_stop(&mut self) -> Result<bool> {
        if stop_requested() {
            return Ok(true);
        }
        match self.child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => Err(format!("ended with {status}")),
            None => Ok(false),
        }
    }

    /// Ends it: closes its standard input, waits, then kills what is left of its group.
    pub fn stop(&mut self) {
        drop(self.input.take());
        let deadline = Instant::now() + STOP_LIMIT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(POLL);
        }
        kill_group(self.child.id());
        let _reaped = self.child.wait();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(unix)]
fn own_group(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[cfg(unix)]
fn end_step(pid: u32) {
    use nix::sys::signal::{Signal, kill};
    // Ctrl-C in a terminal reaches the whole tree, SIGTERM only us: a compiler started by a tool
    // that we started would go on for minutes.
    let table = output(Command::new("ps").args(["-A", "-o", "pid=,ppid="])).unwrap_or_default();
    for pid in descendants(pid, &table).into_iter().filter_map(|pid| i32::try_from(pid).ok()) {
        let _gone = kill(nix::unistd::Pid::from_raw(pid), Signal::SIGTERM);
    }
}

/// A process and all below it, parents first, from lines of process id and parent's id.
#[cfg(unix)]
fn descendants(pid: u32, table: &str) -> Vec<u32> {
    let rows: Vec<(u32, u32)> = table
        .lines()
        .filter_map(|line| line.trim().split_once(char::is_whitespace))
        .filter_map(|(pid, parent)| Some((pid.parse().ok()?, parent.trim().parse().ok()?)))
        .collect();
    let mut tree = vec![pid];
    let mut next = 0;
    while let Some(parent) = tree.get(next).copied() {
        tree.extend(rows.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    tree
}

#[cfg(unix)]
fn kill_group(pid: u32) {
    use nix::sys::signal::{Signal, killpg};
    if let Ok(pid) = i32::try_from(pid) {
        let _gone = killpg(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL);
    }
}

#[cfg(windows)]
fn own_group(command: &mut Command) {
    // CREATE_NEW_PROCESS_GROUP: Ctrl-C comes to us, and we end the service in order.
    std::os::windows::process::CommandExt::creation_flags(command, 0x0000_0200);
}

#[cfg(windows)]
fn end_step(pid: u32) {
    kill_group(pid);
}

#[cfg(windows)]
fn kill_group(pid: u32) {
    let mut command = Command::new("taskkill");
    command.args(["/T", "/F", "/PID", &pid.to_string()]);
    let _gone = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_ignores_the_end_of_its_input_is_killed_with_its_children() {
        let script = "read first; sleep 600 & echo $first $!; wait";
        let mut service = Service::start(Command::new("sh").args(["-c", script]), "hello").unwrap();
        let line = service.line(Duration::from_secs(10)).unwrap();
        let (greeting, grandchild) = line.split_once(' ').unwrap();
        assert_eq!(greeting, "hello");
        // The pipe stays open in the grandchild, so the lines end only when it is gone as well.
        kill_group(service.child.id());
        assert_eq!(service.line(Duration::from_secs(10)), Err("ended; its output says why".to_owned()));
        service.stop();
        assert!(grandchild.parse::<u32>().is_ok());
    }

    #[test]
    fn a_service_ends_when_its_input_is_closed() {
        let mut service =
            Service::start(Command::new("sh").args(["-c", "cat >/dev/null; echo bye"]), "").unwrap();
        service.stop();
        assert_eq!(service.line(Duration::from_secs(10)), Ok("bye".to_owned()));
    }

    #[test]
    fn the_tree_of_a_process_is_read_from_the_process_table() {
        assert_eq!(descendants(5, "  1 0\n  5 1\n  7 5\n  8   1\n 9 7\n"), [5, 7, 9]);
        assert_eq!(descendants(5, ""), [5]);
    }

    #[test]
    fn a_missing_program_is_an_error_that_names_it() {
        assert!(
            run(&mut Command::new("no-such-program-here")).unwrap_err().starts_with("no-such-program-here")
        );
    }
}
