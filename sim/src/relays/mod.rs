//! The shells: what the Durable Object and the Deno relay do around the core's rooms, and the Worker
//! around its streams. Models of `room_object.rs`, `relay-deno/*.ts` and `changes.rs`.

pub mod cloudflare;
pub mod deno;
pub mod entrance;
pub mod perform;
pub mod spool;
pub mod stream;
