//! Stored Yjs documents: validate, merge, diff, project. Bytes in, bytes out.
//!
//! All of it works on the update encoding itself: a bounded walk ([`validate`]), splicing of
//! structs ([`checkpoint`]), and an integration for showing ([`project`]) and editing ([`edit`]). No
//! yrs document is built here: yrs 0.28 panics on some updates that stock Yjs takes, misreads others
//! (XML hooks, legacy JSON content), and changes values it re-encodes (bigint). Tests compare the two
//! where both hold.

pub mod checkpoint;
pub mod edit;
pub mod error;
pub mod project;
pub mod validate;

mod index;
mod replica;
mod splice;
mod value;
mod walk;
mod xml;
