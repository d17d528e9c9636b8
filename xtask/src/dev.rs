//! `cargo xtask dev`: everything on this machine, until Ctrl-C.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::args::Args;
use crate::build::{self, Mode};
use crate::process::{self, Service};
use crate::provision;
use crate::token::DEFAULT_DATA;
use crate::{Result, tools};

/// workerd takes a second; a machine that also compiles takes longer.
const START_LIMIT: Duration = Duration::from_secs(90);
const WORKSPACE: &str = "demo";
/// Where the demo page is served, if the port is free; else on another one, which is printed.
const DEMO_PORT: u16 = 8789;

struct Options {
    port: u16,
    /// The port of the Deno relay, unless it is not wanted.
    relay_port: Option<u16>,
    host: String,
    data: PathBuf,
    /// Of pages besides the demo that may call.
    origins: Vec<String>,
    ready_file: Option<PathBuf>,
}

/// Provisions, builds, starts, prints how to use it, and ends every child when asked to.
pub fn run(args: &mut Args) -> Result {
    let options = Options::take(args)?;
    let toolchain = provision::everything()?;
    build::all(&toolchain, Mode::Release)?;
    let worker = start_worker(&options)?;
    let line = worker.line(START_LIMIT).map_err(|error| format!("the Worker {error}"))?;
    let mut ready: Value =
        serde_json::from_str(&line).map_err(|error| format!("the Worker said {line}: {error}"))?;
    // Not for the ready file.
    let origins = ready.as_object_mut().and_then(|ready| ready.remove("origins"));
    let mut services = vec![("the Worker", worker)];
    if let Some(port) = options.relay_port {
        services.push(("the Deno relay", start_relay(&options, port, origins, &mut ready)?));
    }
    ready["pids"]["xtask"] = json!(std::process::id());
    let _ready_file = options.ready_file.as_deref().map(|path| ReadyFile::write(path, &ready)).transpose()?;
    print_usage(&ready, &options.data);
    let ended = watch(&mut services);
    eprintln!("xtask: stopping");
    // The relay first: it saves through the Worker.
    for (_, service) in services.iter_mut().rev() {
        service.stop();
    }
    ended
}

/// Waits until a service ends by itself (an error that says which) or this process is asked to end.
fn watch(services: &mut [(&str, Service)]) -> Result {
    loop {
        for (name, service) in services.iter_mut() {
            if service.is_to_stop().map_err(|error| format!("{name} {error}"))? {
                return Ok(());
            }
        }
        process::pause();
    }
}

impl Options {
    fn take(args: &mut Args) -> Result<Self> {
        let absolute = |path: String| std::path::absolute(&path).map_err(|error| format!("{path}: {error}"));
        let data = args.value("--data")?.map_or_else(|| Ok(tools::root().join(DEFAULT_DATA)), absolute)?;
        let ready_file = args.value("--ready-file")?.map(absolute).transpose()?;
        let host = args.value("--host")?.unwrap_or_else(|| "127.0.0.1".to_owned());
        let port = args.parsed("--port", 8787)?;
        let origins = args.value("--origins")?.unwrap_or_default();
        let origins = origins.split(',').filter(|origin| !origin.is_empty()).map(str::to_owned).collect();
        let relay_port: u16 = args.parsed("--relay-port", 8788)?;
        let relay_port = (!args.flag("--no-relay")).then_some(relay_port);
        args.finish()?;
        if !is_loopback(&host) {
            // DESIGN A6: this stack hands out a token to whoever reads its output, and speaks no TLS.
            return Err(format!("--host {host} is not a loopback address; dev serves this machine only"));
        }
        Ok(Self { port, relay_port, host, data, origins, ready_file })
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn start_worker(options: &Options) -> Result<Service> {
    let mut node = tools::node();
    node.arg(tools::root().join("tools").join("worker-host.mjs"));
    let data = options.data.to_str().ok_or("the path of --data is not valid UTF-8")?;
    let first_line = json!({
        "dataDir": data, "host": options.host, "port": options.port, "demoPort": DEMO_PORT,
        "origins": options.origins, "relayPort": options.relay_port, "workspace": WORKSPACE, "tellOrigins": true,
    });
    Service::start(&mut node, &first_line.to_string())
}

/// Starts the relay beside the Worker that is ready, and adds it to what is ready.
fn start_relay(options: &Options, port: u16, origins: Option<Value>, ready: &mut Value) -> Result<Service> {
    let mut node = tools::node();
    node.arg(tools::root().join("tools").join("relay-host.mjs"));
    let first_line = json!({
        "dataDir": options.data.to_str(), "api": ready["api"], "port": port, "origins": origins,
    });
    let service = Service::start(&mut node, &first_line.to_string())?;
    let line = service.line(START_LIMIT).map_err(|error| format!("the Deno relay {error}"))?;
    let mut relay: Value =
        serde_json::from_str(&line).map_err(|error| format!("the Deno relay said {line}: {error}"))?;
    if let Some(relays) = ready["relays"].as_array_mut() {
        relays.push(relay["relay"].take());
    }
    for (name, pid) in relay["pids"].as_object().into_iter().flatten() {
        ready["pids"][name] = pid.clone();
    }
    Ok(service)
}

fn print_usage(ready: &Value, data: &Path) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api = text(&ready["api"]);
    println!("\nyrelay is up.\n\n  Worker     {api}");
    for relay in ready["relays"].as_array().into_iter().flatten() {
        println!("  relay {:<4} {}", text(&relay["label"]), text(&relay["url"]));
    }
    println!("  demo page  {}", text(&ready["demo"]));
    println!("  workspace  {WORKSPACE}\n  data       {}\n", data.display());
    println!("  token      {}\n", text(&ready["token"]));
    println!(
        "  try        curl -H 'Authorization: Bearer {}' {api}/api/workspaces/{WORKSPACE}\n",
        text(&ready["token"])
    );
    println!("Ctrl-C stops it; the state stays in the data folder.");
}

/// Says to whoever waits for it that everything is up; gone when it no longer is.
struct ReadyFile<'a> {
    path: &'a Path,
}

impl<'a> ReadyFile<'a> {
    fn write(path: &'a Path, ready: &Value) -> Result<Self> {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        // Renamed into place, so that a reader never sees half of it.
        let partial = path.with_extension("partial");
        write_private(&partial, &format!("{ready}\n")).map_err(failed)?;
        fs::rename(&partial, path).map_err(failed)?;
        Ok(Self { path })
    }
}

impl Drop for ReadyFile<'_> {
    fn drop(&mut self) {
        let _absent = fs::remove_file(self.path);
    }
}

/// It holds a token, so only its owner may read it.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<Options> {
        Options::take(&mut Args::new(text.split_whitespace().map(str::to_owned)))
    }

    #[test]
    fn a06_dev_refuses_to_serve_beyond_loopback() {
        for host in ["0.0.0.0", "192.168.1.5", "::", "example.org", "127.0.0.1.example.org"] {
            assert!(options(&format!("--host {host}")).is_err(), "{host}");
        }
        for host in ["127.0.0.1", "127.0.0.2", "::1", "localhost"] {
            assert!(options(&format!("--host {host}")).is_ok(), "{host}");
        }
    }

    #[test]
    fn pages_of_other_origins_are_let_in_when_they_are_named() {
        assert!(options("").unwrap().origins.is_empty());
        let named = options("--origins http://localhost:5173,http://localhost:3000").unwrap().origins;
        assert_eq!(named, ["http://localhost:5173", "http://localhost:3000"]);
    }

    #[test]
    fn the_deno_relay_has_a_port_or_is_left_out() {
        assert_eq!(options("").unwrap().relay_port, Some(8788));
        assert_eq!(options("--relay-port 9000 --port 9001").unwrap().relay_port, Some(9000));
        assert_eq!(options("--relay-port 9000 --no-relay").unwrap().relay_port, None);
        assert!(options("--relay-port x").is_err());
    }
}
