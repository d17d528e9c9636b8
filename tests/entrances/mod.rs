//! Every entrance for bytes that somebody else made, as a function of bytes. None may panic; what more has
//! to hold is asserted here. `tests/fuzz.rs` runs them over mutations of `fuzz/corpus` in the gate, and
//! `fuzz/fuzz_targets` under libFuzzer.
//!
//! Each returns whether the input was taken, so that a run can show that it saw both.

mod api;
mod bytes;
mod room;

/// One entrance.
#[allow(dead_code, reason = "a fuzz target uses one of them, by its function")]
pub struct Entrance {
    /// The name of its corpus and of its target.
    pub name: &'static str,
    /// Gives it an input.
    pub run: fn(&[u8]) -> bool,
}

/// All of them.
#[allow(dead_code, reason = "a fuzz target uses one of them, by its function")]
pub const ENTRANCES: [Entrance; 10] = [
    Entrance { name: "awareness", run: bytes::awareness },
    Entrance { name: "bodies", run: api::bodies },
    Entrance { name: "control", run: room::control },
    Entrance { name: "frame", run: room::frame },
    Entrance { name: "mcp", run: api::mcp },
    Entrance { name: "query", run: api::query },
    Entrance { name: "route", run: api::route },
    Entrance { name: "session", run: room::session },
    Entrance { name: "token", run: api::token },
    Entrance { name: "update", run: bytes::update },
];

/// The entrance of this name.
#[allow(dead_code, reason = "for the fuzz targets")]
pub fn enter(name: &str, data: &[u8]) {
    let entrance = ENTRANCES.iter().find(|entrance| entrance.name == name);
    (entrance.expect("a target is named after its entrance").run)(data);
}
