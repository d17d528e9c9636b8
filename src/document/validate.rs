//! Is this a Yjs update that a stock client can take? (W4)

use super::walk::{Body, Id, Struct, Visitor, walk};
use crate::protocol::error::DecodeError;
use crate::protocol::varint::Reader;

/// What a valid update holds, counted on the way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UpdateInfo {
    /// Structs, without the ones that only stand for a hole.
    pub structs: usize,
    /// Delete ranges.
    pub deletes: usize,
}

impl UpdateInfo {
    /// Whether applying the update changes nothing, whatever the document.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.structs == 0 && self.deletes == 0
    }
}

impl<'a> Visitor<'a> for UpdateInfo {
    fn visit_struct(&mut self, part: &Struct<'a>) -> Result<(), DecodeError> {
        if !matches!(part.body, Body::Skip) {
            self.structs = self.structs.saturating_add(1);
        }
        Ok(())
    }

    fn visit_delete(&mut self, _first: Id, _len: u32) -> Result<(), DecodeError> {
        self.deletes = self.deletes.saturating_add(1);
        Ok(())
    }
}

/// Checks a Yjs v1 update (W4). What passes can be forwarded to stock clients, merged and diffed;
/// everything that stock Yjs 13 writes passes. Never recurses; allocates only for nested values and
/// for updates of several clients.
pub fn validate_update(bytes: &[u8]) -> Result<UpdateInfo, DecodeError> {
    let mut info = UpdateInfo::default();
    walk(bytes, &mut info)?;
    Ok(info)
}

/// Checks an encoded state vector: pairs of client id and clock, nothing after them. An absent
/// vector (no bytes) is not one; it has to be the single byte 0.
pub fn validate_state_vector(bytes: &[u8]) -> Result<(), DecodeError> {
    let mut reader = Reader::new(bytes);
    for _ in 0..reader.var_uint()? {
        reader.var_uint()?;
        let clock = reader.var_uint()?;
        if u32::try_from(clock).is_err() {
            return Err(DecodeError::TooLarge);
        }
    }
    reader.finish()
}
