//! Bytes to types and back: what travels on a relay's WebSocket. No state, no I/O.
//!
//! The grammar, with the ids of its rules, is `docs/PROTOCOL.md`.

pub mod awareness;
pub mod change;
pub mod close;
pub mod control;
pub mod error;
pub mod json;
pub mod limits;
pub mod message;
pub mod sorted;
pub mod varint;

/// Version of the text frames that this build speaks.
///
/// - 1: `hello`, `change`, `flush`, `receipt`, `flush_failed`, `ping`, `pong`, y-webrtc signaling.
pub const PROTOCOL_VERSION: u32 = 1;

/// Milliseconds since the Unix epoch, always passed in by the shell.
pub type Timestamp = u64;
