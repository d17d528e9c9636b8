//! The structs of an update while they wait for their turn.

use super::super::index::Table;
use super::super::walk::{Body, Id, Struct, Visitor};
use crate::protocol::error::DecodeError;

/// The parts of an update, still to be integrated.
#[derive(Default)]
pub(super) struct Queue<'a> {
    pub structs: Table<Parts<'a>>,
    pub deletes: Vec<(Id, u32)>,
    /// Whether a struct was left out that is not there already.
    pub has_gap: bool,
}

/// The structs of one client, the first of which are done.
#[derive(Default)]
pub(super) struct Parts<'a> {
    pub structs: Vec<Struct<'a>>,
    pub done: usize,
    /// Whether the next one waits for another client's.
    waits: bool,
}

impl<'a> Parts<'a> {
    pub fn first(&self) -> Option<&Struct<'a>> {
        self.structs.get(self.done)
    }
}

impl Queue<'_> {
    /// Whether there is more of `client`, and it does not wait itself.
    pub fn can_help(&self, client: u64) -> bool {
        self.structs.get(client).is_some_and(|parts| parts.first().is_some() && !parts.waits)
    }

    pub fn set_waits(&mut self, client: u64, waits: bool) {
        self.structs.change(client, |parts| parts.waits = waits);
    }
}

impl<'a> Visitor<'a> for Queue<'a> {
    /// Keeps each client up to its first hole, and each element once.
    fn visit_struct(&mut self, part: &Struct<'a>) -> Result<(), DecodeError> {
        let mut has_gap = false;
        self.structs.change(part.id.client, |parts| {
            let end = parts.structs.last().map_or(0, Struct::end);
            if part.id.clock == end && !matches!(part.body, Body::Skip) {
                parts.structs.push(*part);
            } else if part.end() > end {
                has_gap = true;
            }
        });
        self.has_gap |= has_gap;
        Ok(())
    }

    fn visit_delete(&mut self, first: Id, len: u32) -> Result<(), DecodeError> {
        self.deletes.push((first, len));
        Ok(())
    }
}
