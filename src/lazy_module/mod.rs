//! A WASM module of its own, beside the Worker's, which loads it with the first request that needs it:
//! what is done for those who do not speak Yjs, agents above all.
//!
//! It is no weight on a Worker that starts, and a defect in it cannot reset the rooms of an isolate
//! (docs/decisions/0012-two-modules.md). Between two requests it holds nothing.

pub mod documents;
pub mod mcp;
