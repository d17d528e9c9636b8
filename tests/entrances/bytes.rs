//! Yjs updates, state vectors and awareness, without a room.

use yrelay::document::checkpoint::{EMPTY_UPDATE, diff, for_yrs, has_hole, merge, state_vector};
use yrelay::document::error::DocumentError;
use yrelay::document::project;
use yrelay::document::validate::{validate_state_vector, validate_update};
use yrelay::protocol::awareness as codec;
use yrs::updates::decoder::Decode;
use yrs::{Doc, OffsetKind, Options, ReadTxn, StateVector, Transact, Update};

/// A Yjs update or a state vector: each input is tried as both.
pub fn update(data: &[u8]) -> bool {
    if validate_state_vector(data).is_ok() {
        StateVector::decode_v1(data).expect("yrs reads a state vector that was taken");
        diff(&EMPTY_UPDATE, data).expect("a state vector that was taken can be used");
    }
    if validate_update(data).is_err() {
        assert!(merge(&[data, &EMPTY_UPDATE]).is_err(), "merge takes what the validator refuses");
        return false;
    }
    let merged = merge(&[data, &EMPTY_UPDATE]).expect("a valid update merges");
    validate_update(&merged).expect("a merged update is valid");
    assert_eq!(merge(&[&merged, data]).as_ref(), Ok(&merged), "an update adds nothing twice");
    has_hole(&merged).expect("a valid update can be looked at");
    let vector = state_vector(&merged).expect("a valid update has a state vector");
    validate_state_vector(&vector).expect("it is valid");
    for shown in [project::json(&merged).map(drop), project::text(&merged, None).map(drop)] {
        assert!(!matches!(shown, Err(DocumentError::Decode(_))), "a valid update cannot be read");
    }
    if let Ok(loadable) = for_yrs(&merged) {
        in_yrs(&loadable);
    }
    true
}

/// What is said to be for yrs loads there, with the state vector that we say. (That of the whole counts
/// what waits for something, too.)
fn in_yrs(update: &[u8]) {
    let vector = state_vector(update).expect("a valid update has a state vector");
    let doc = Doc::with_options(Options { offset_kind: OffsetKind::Utf16, ..Options::default() });
    let decoded = Update::decode_v1(update).expect("yrs decodes it");
    doc.transact_mut().apply_update(decoded).expect("yrs applies it");
    let ours = StateVector::decode_v1(&vector).expect("yrs reads our state vector");
    assert_eq!(doc.transact().state_vector(), ours);
}

/// An awareness update.
pub fn awareness(data: &[u8]) -> bool {
    let Ok(entries) = codec::decode(data) else { return false };
    let again = codec::encode(&entries);
    assert!(again.len() <= data.len(), "numbers are written no longer than they were read");
    assert_eq!(codec::decode(&again).as_ref(), Ok(&entries), "what was taken is written the same");
    true
}
