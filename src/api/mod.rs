//! HTTP decisions: which endpoint, who is asking, what exactly they ask, and how a refusal looks.
//!
//! Everything here maps text and bytes to values. It reads no clock (`now` is an argument), draws
//! no random number, and knows neither the platform nor the database: a shell calls it with what
//! the request says and acts on the answer. Limits are checked before work (R4).

pub mod accept;
pub mod auth;
pub mod credentials;
pub mod idempotency;
pub mod json;
pub mod jwt;
pub mod limits;
pub mod media;
pub mod merge;
pub mod op;
pub mod origin;
pub mod path;
pub mod precondition;
pub mod problem;
pub mod query;
pub mod request;
pub mod role;
pub mod route;
pub mod token;
