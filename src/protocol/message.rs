//! y-protocols messages: what a binary frame holds.
//!
//! A relay reads several messages from one frame and writes one message per frame: the stock
//! y-websocket client reads only the first (docs/decisions/0001).

use super::error::DecodeError;
use super::limits::MAX_MESSAGES_PER_FRAME;
use super::varint::{Reader, write_var_bytes, write_var_uint};

/// One message of a binary frame, borrowing from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message<'a> {
    /// `1`: an awareness update.
    Awareness(&'a [u8]),
    /// `3`: asks for the awareness states of the others.
    QueryAwareness,
    /// `0 0`: a state vector; asks for what it lacks.
    SyncStep1(&'a [u8]),
    /// `0 1`: a Yjs update that answers a step 1.
    SyncStep2(&'a [u8]),
    /// Any other type. Its length is unknown, so the rest of the frame belongs to it.
    Unknown(u64),
    /// `0 2`: a Yjs update.
    Update(&'a [u8]),
}

/// Decodes every message of a frame, or none: nothing of a malformed frame is used (W4).
pub fn decode_frame(frame: &[u8]) -> Result<Vec<Message<'_>>, DecodeError> {
    messages(frame).collect()
}

/// The messages of a frame, up to the first that is malformed: who uses one has to look at all of them first (W4).
pub fn messages(frame: &[u8]) -> impl Iterator<Item = Result<Message<'_>, DecodeError>> {
    let mut reader = Reader::new(frame);
    let (mut count, mut is_over) = (0, false);
    std::iter::from_fn(move || {
        // A frame without a message is malformed as well.
        if is_over || (reader.is_empty() && count > 0) {
            return None;
        }
        count += 1;
        let message = if count > MAX_MESSAGES_PER_FRAME {
            Err(DecodeError::TooLarge)
        } else {
            decode_message(&mut reader)
        };
        is_over = matches!(message, Ok(Message::Unknown(_)) | Err(_));
        Some(message)
    })
}

fn decode_message<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, DecodeError> {
    match reader.var_uint()? {
        SYNC => match reader.var_uint()? {
            STEP_1 => reader.var_bytes().map(Message::SyncStep1),
            STEP_2 => reader.var_bytes().map(Message::SyncStep2),
            UPDATE => reader.var_bytes().map(Message::Update),
            _ => Err(DecodeError::Unknown),
        },
        AWARENESS => reader.var_bytes().map(Message::Awareness),
        QUERY_AWARENESS => Ok(Message::QueryAwareness),
        other => Ok(Message::Unknown(other)),
    }
}

/// A frame with a sync step 1.
#[must_use]
pub fn sync_step_1(state_vector: &[u8]) -> Vec<u8> {
    sync(STEP_1, state_vector)
}

/// A frame with a sync step 2.
#[must_use]
pub fn sync_step_2(update: &[u8]) -> Vec<u8> {
    sync(STEP_2, update)
}

/// A frame with an update.
#[must_use]
pub fn update(update: &[u8]) -> Vec<u8> {
    sync(UPDATE, update)
}

/// A frame with an awareness update.
#[must_use]
pub fn awareness(payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(payload.len() + 6);
    write_var_uint(&mut frame, AWARENESS);
    write_var_bytes(&mut frame, payload);
    frame
}

/// A frame that asks a client for the awareness states it knows.
#[must_use]
pub fn query_awareness() -> Vec<u8> {
    vec![QUERY_AWARENESS as u8]
}

/// A frame that tells a client that it may not write, and why (y-protocols `auth`).
#[must_use]
pub fn permission_denied(reason: &str) -> Vec<u8> {
    let mut frame = Vec::with_capacity(reason.len() + 4);
    write_var_uint(&mut frame, AUTH);
    write_var_uint(&mut frame, PERMISSION_DENIED);
    write_var_bytes(&mut frame, reason.as_bytes());
    frame
}

fn sync(step: u64, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(payload.len() + 7);
    write_var_uint(&mut frame, SYNC);
    write_var_uint(&mut frame, step);
    write_var_bytes(&mut frame, payload);
    frame
}

const SYNC: u64 = 0;
const AWARENESS: u64 = 1;
const AUTH: u64 = 2;
const QUERY_AWARENESS: u64 = 3;
const STEP_1: u64 = 0;
const STEP_2: u64 = 1;
const UPDATE: u64 = 2;
const PERMISSION_DENIED: u64 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_decode_to_what_was_encoded() {
        assert_eq!(decode_frame(&sync_step_1(&[0])), Ok(vec![Message::SyncStep1(&[0])]));
        assert_eq!(decode_frame(&sync_step_2(&[0, 0])), Ok(vec![Message::SyncStep2(&[0, 0])]));
        assert_eq!(decode_frame(&update(&[0, 0])), Ok(vec![Message::Update(&[0, 0])]));
        assert_eq!(decode_frame(&awareness(&[0])), Ok(vec![Message::Awareness(&[0])]));
        assert_eq!(decode_frame(&query_awareness()), Ok(vec![Message::QueryAwareness]));
    }

    #[test]
    fn w10_several_messages_in_one_frame_are_all_read() {
        let mut frame = sync_step_1(&[0]);
        frame.extend(awareness(&[0]));
        assert_eq!(decode_frame(&frame), Ok(vec![Message::SyncStep1(&[0]), Message::Awareness(&[0])]));
    }

    #[test]
    fn w10_an_unknown_type_ends_the_frame_without_an_error() {
        assert_eq!(decode_frame(&[0x7f, 0x00]), Ok(vec![Message::Unknown(127)]));
    }

    #[test]
    fn w01_malformed_frames_decode_to_nothing() {
        for frame in [&[][..], &[0x80], &[0xff; 10], &[0, 9], &[0, 0, 0xff, 0xff, 0x03]] {
            assert!(decode_frame(frame).is_err(), "{frame:x?}");
        }
    }

    #[test]
    fn u03_types_are_decoded_as_varints_not_as_first_bytes() {
        assert_eq!(
            decode_frame(&[0x80, 0x00, 0x82, 0x00, 0x02, 0x00, 0x00]),
            Ok(vec![Message::Update(&[0, 0])])
        );
    }
}
