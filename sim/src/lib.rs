//! Whole worlds of yrelay from a seed: two relays, the Worker, D1, the feed, people and agents, and
//! whatever goes wrong between them. The same seed is the same world for ever.
//!
//! # Layout
//!
//! - [`schedule`]: what is done to a world, drawn from its seed before it begins, and as text.
//! - [`world`]: virtual time, the queue of what is under way, and everything that lives in it.
//! - [`edge`]: the Worker's own SQL and storage code on SQLite; [`worker`] answers HTTP with it.
//! - [`relays`]: the shells of both relays; the rooms in them are the core.
//! - [`people`]: clients with Yjs documents and the relay walker, agents, readers of the feed.
//! - [`checks`]: what has to be true after every step and at the end.
//! - [`shrink`], [`run`]: many seeds, and the smallest schedule that still fails.
//!
//! `docs/RELIABILITY.md` says what is real here and what is a model.

mod act;
mod bus;
pub mod checks;
mod d1;
mod edge;
mod facts;
pub mod loud;
mod network;
pub mod people;
mod random;
mod relays;
pub mod run;
pub mod schedule;
pub mod shrink;
mod sse;
mod worker;
pub mod world;

// The Worker's files in `edge` name these as modules of their crate.
use yrelay::{api, document, feed, planted, protocol, room};
