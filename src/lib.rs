//! yrelay: the realtime layer for workspaces that a few humans share with many AI agents.
//!
//! # Layout
//!
//! The core is pure: inputs are calls, outputs are values, time is an argument. Nothing in it
//! awaits, reads a clock or draws a random number, so a whole world of it runs from a seed.
//!
//! - [`protocol`]: bytes to types and back. No state, no I/O.
//! - [`document`]: stored Yjs documents: validate, merge, diff, project. The only user of yrs.
//! - [`room`]: the state machine of one workspace on one relay.
//! - [`feed`]: the change feed: cursors, the SSE text, the state machine of a stream.
//! - [`api`]: HTTP decisions: routes, problems, tokens.
//! - [`mcp`]: the Model Context Protocol, as calls of the API.
//! - [`planted`]: known bugs that the simulator switches on; a constant `false` in what ships.
//!
//! The shells are thin loops around it:
//!
//! - `edge` (feature `edge`): the Cloudflare Worker and its Durable Object.
//! - `relay_deno` (feature `relay-deno`): the facade that the Deno relay loads.
//!
//! - `lazy_module` (feature `lazy`): the facade of the Worker's second WASM module.
//!
//! `docs/ARCHITECTURE.md` says who may use whom; `cargo xtask test` checks it.

// Each of them is one feature alone, and so tells what nothing in it uses; while one works, a warning is enough.
#![cfg_attr(not(debug_assertions), deny(unused))]

pub mod api;
pub mod document;
pub mod feed;
pub mod mcp;
pub mod planted;
pub mod protocol;
pub mod room;

#[cfg(feature = "lazy")]
pub mod lazy_module;

#[cfg(feature = "edge")]
pub mod edge;

#[cfg(feature = "relay-deno")]
pub mod relay_deno;
