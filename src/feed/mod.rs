//! The change feed: which clocks a reader gets, when, and as what text. Pure; time is an argument.
//!
//! Owns the resume rule ([`cursor`]), the SSE text ([`sse`]), what a reader may filter by
//! ([`filter`]), the state machine behind one SSE response ([`stream`]) and what the sweep may
//! remove ([`retention`]). It must not read the database, the clock or the network: a shell asks
//! [`stream::Stream`] what to do and tells it what came of it.
//!
//! The rules are F1 to F7 of the design; [`limits`] holds every bound with its reason.

mod bridge;
pub mod config;
pub mod cursor;
pub mod filter;
pub mod limits;
mod reads;
pub mod retention;
pub mod sse;
pub mod stream;
mod time;

#[cfg(test)]
mod tests;
