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

#[cfg(test)]
mod tests {
    use super::*;

    /// An update of client 11 with one struct at `clock`, and a delete set.
    fn update(clock: u8, part: &[u8], deletes: &[u8]) -> Vec<u8> {
        [&[1, 1, 11, clock], part, deletes].concat()
    }

    const TEXT: [u8; 5] = [4, 1, 1, b't', 1];

    fn text(deletes: &[u8]) -> Result<UpdateInfo, DecodeError> {
        validate_update(&update(0, &[&TEXT[..], b"a"].concat(), deletes))
    }

    #[test]
    fn a_valid_update_is_counted() {
        assert_eq!(text(&[0]), Ok(UpdateInfo { structs: 1, deletes: 0 }));
        assert_eq!(text(&[1, 11, 2, 0, 1, 5, 1]), Ok(UpdateInfo { structs: 1, deletes: 2 }));
        assert!(!text(&[0]).unwrap().is_empty());
        // A block that is only a hole changes nothing.
        assert!(validate_update(&update(0, &[10, 5], &[0])).unwrap().is_empty());
    }

    #[test]
    fn w04_delete_ranges_are_sorted_disjoint_and_not_empty() {
        for deletes in [&[1, 11, 2, 5, 1, 0, 1][..], &[1, 11, 2, 0, 2, 1, 1], &[1, 11, 1, 0, 0]] {
            assert_eq!(text(deletes), Err(DecodeError::Unknown), "{deletes:?}");
        }
    }

    #[test]
    fn w04_a_client_comes_once_in_each_section() {
        let two = [&[2, 1, 11, 0][..], &TEXT, b"a", &[1, 11, 1], &TEXT, b"b", &[0]].concat();
        assert_eq!(validate_update(&two), Err(DecodeError::Unknown));
        assert_eq!(text(&[2, 11, 1, 0, 1, 11, 1, 3, 1]), Err(DecodeError::Unknown));
        assert!(text(&[2, 11, 1, 0, 1, 12, 1, 3, 1]).is_ok());
    }

    #[test]
    fn w04_an_item_may_not_refer_to_itself_or_to_later_ones_of_its_client() {
        let after = |client: u8, clock: u8| update(3, &[0x84, client, clock, 1, b'a'], &[0]);
        assert!(validate_update(&after(11, 2)).is_ok());
        assert_eq!(validate_update(&after(11, 3)), Err(DecodeError::Unknown));
        assert!(validate_update(&after(12, 9)).is_ok(), "of another client it may wait for it");
    }

    #[test]
    fn w04_empty_structs_and_unknown_contents_are_refused() {
        for part in [
            &[0, 0][..],                    // GC of nothing
            &[10, 0],                       // Skip of nothing
            &[4, 1, 1, b't', 0],            // no text
            &[8, 1, 1, b't', 0],            // no values
            &[0x80, 12, 0],                 // GC with an origin
            &[0x14, 1, 1, b't', 0],         // content 20
            &[7, 1, 1, b't', 7],            // type 7: not in Yjs 13
            &[7, 1, 1, b't', 0x82, 0],      // type 2 in two bytes: yrs and Yjs would part
            &[4, 2, 1, b't', 1, b'a'],      // parent info 2
            &[9, 1, 1, b't', 1, b'g', 126], // options null: Yjs would throw
        ] {
            assert_eq!(validate_update(&update(0, part, &[0])), Err(DecodeError::Unknown), "{part:?}");
        }
    }

    #[test]
    fn w04_clocks_stay_in_31_bits() {
        let deleted = |len: &[u8]| update(1, &[&[1, 1, 1, b't'], len].concat(), &[0]);
        assert!(validate_update(&deleted(&[0xfe, 0xff, 0xff, 0xff, 0x07])).is_ok());
        let over = deleted(&[0xff, 0xff, 0xff, 0xff, 0x07]);
        assert_eq!(validate_update(&over), Err(DecodeError::TooLarge));
    }

    #[test]
    fn w04_several_values_of_a_key_have_to_be_deleted_together() {
        let part = [0x28, 1, 1, b'm', 1, b'k', 2, 126, 126];
        let with = |deletes: &[u8]| validate_update(&update(0, &part, deletes));
        assert_eq!(with(&[0]), Err(DecodeError::Unknown));
        assert_eq!(with(&[1, 11, 1, 0, 1]), Err(DecodeError::Unknown));
        assert_eq!(with(&[1, 11, 1, 1, 5]), Err(DecodeError::Unknown));
        assert!(with(&[1, 11, 1, 0, 2]).is_ok());
    }

    #[test]
    fn w04_embeds_and_formats_hold_json() {
        let embed = |json: &str| {
            let part = [&[5, 1, 1, b't', json.len() as u8], json.as_bytes()].concat();
            validate_update(&update(0, &part, &[0]))
        };
        assert!(embed("{\"image\":\"x\"}").is_ok());
        assert_eq!(embed("undefined"), Err(DecodeError::NotJson));
        assert_eq!(embed("{"), Err(DecodeError::NotJson));
    }
}
