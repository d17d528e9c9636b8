//! Merging for the spool: what an earlier run left of a document goes to the Worker as one update.

use wasm_bindgen::prelude::*;

use super::fault;
use crate::document::checkpoint;

/// One update with the effect of several. They come one after another in `updates`, with their
/// lengths in `lengths`: one copy over the border in place of many.
///
/// # Errors
/// For lengths that do not fit, and for bytes that are no updates.
#[wasm_bindgen(js_name = mergeUpdates)]
pub fn merge_updates(updates: &[u8], lengths: &[u32]) -> Result<Vec<u8>, JsError> {
    let parts = split(updates, lengths).ok_or_else(|| fault("the lengths are not those of the updates"))?;
    checkpoint::merge(&parts).map_err(|error| fault(&error.to_string()))
}

/// The bytes in pieces of these lengths; `None` when they are not exactly as many.
fn split<'a>(mut bytes: &'a [u8], lengths: &[u32]) -> Option<Vec<&'a [u8]>> {
    let mut parts = Vec::with_capacity(lengths.len());
    for length in lengths {
        let (part, rest) = bytes.split_at_checked(usize::try_from(*length).ok()?)?;
        parts.push(part);
        bytes = rest;
    }
    bytes.is_empty().then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_those_of_the_lengths_or_none() {
        assert_eq!(split(&[1, 2, 3], &[1, 2]), Some(vec![&[1][..], &[2, 3]]));
        assert_eq!(split(&[], &[]), Some(Vec::new()));
        assert_eq!(split(&[1], &[0, 1, 0]), Some(vec![&[][..], &[1], &[]]));
        for lengths in [&[1][..], &[3], &[1, 2], &[u32::MAX], &[]] {
            assert_eq!(split(&[1, 2], lengths), None, "{lengths:?}");
        }
    }
}
