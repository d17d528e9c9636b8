//! The facade that the Deno relay loads: the core, with JavaScript's types at its border.
//!
//! [`room::Room`] is one workspace; its shell is a loop over `next`, as the Durable Object's is.
//! [`gate::Gate`] is what comes before an upgrade. Nothing here decides anything.

mod config;
mod gate;
mod merge;
mod room;

pub use gate::{Admission, Gate, problem, problem_status};
pub use merge::merge_updates;
pub use room::{Room, StoredDocument};

use wasm_bindgen::JsError;

/// A number of JavaScript as an integer; what is no time or clock counts as 0.
fn integer(number: f64) -> u64 {
    // The cast saturates, and every clock and time is below 2^53.
    number as u64
}

fn fault(what: &str) -> JsError {
    JsError::new(what)
}
