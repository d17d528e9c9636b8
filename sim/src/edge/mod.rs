//! The Worker's storage code, the very files of `src/edge`, on a database of the simulator.
//!
//! They name their crate's modules and each other, and a database with `batch`. All of that is here
//! under the same names, so not a line of theirs is copied. What needs the platform is not included.

pub mod clock;
#[path = "../../../src/edge/compaction.rs"]
pub mod compaction;
pub mod db;
pub mod room_object;
#[path = "../../../src/edge/room_storage.rs"]
pub mod room_storage;
