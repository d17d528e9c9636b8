//! What is wrong with a database of yrelay, whoever reads it: `cargo xtask verify`, and the simulator at the
//! end of its worlds.

pub mod content;
pub mod fact;
pub mod report;
pub mod structure;

/// What stops a run: the cause, and the cure where there is one.
pub type Result<T = ()> = std::result::Result<T, String>;
