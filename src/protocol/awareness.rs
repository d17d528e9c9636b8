//! Awareness updates: `count • (clientId • clock • state as JSON text)*`.

use super::error::DecodeError;
use super::json;
use super::limits::{MAX_AWARENESS_ENTRIES, MAX_AWARENESS_STATE_BYTES, MAX_NESTING};
use super::varint::{Reader, write_var_bytes, write_var_uint};

/// One client's state in an awareness update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AwarenessEntry<'a> {
    /// The Yjs client id that the state belongs to.
    pub client: u64,
    /// Grows with each state of that client; a higher one wins.
    pub clock: u32,
    /// The state as JSON text; `null` says that the client is gone.
    pub state: &'a str,
}

impl AwarenessEntry<'_> {
    /// Whether the entry says that its client is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.state == GONE
    }
}

/// The state of a client that left.
pub const GONE: &str = "null";

/// Decodes and checks an awareness update: bounded, UTF-8, JSON that a client can parse (W4).
///
/// A clock over 2^32 - 1 is refused: yrs reads 32 bits, and a huge one would freeze the presence
/// of its client for ever in plain y-protocols.
pub fn decode(payload: &[u8]) -> Result<Vec<AwarenessEntry<'_>>, DecodeError> {
    let mut reader = Reader::new(payload);
    let count = usize::try_from(reader.var_uint()?).map_err(|_| DecodeError::TooLarge)?;
    if count > MAX_AWARENESS_ENTRIES {
        return Err(DecodeError::TooLarge);
    }
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let client = reader.var_uint()?;
        let clock = u32::try_from(reader.var_uint()?).map_err(|_| DecodeError::TooLarge)?;
        let state = reader.var_string()?;
        if state.len() > MAX_AWARENESS_STATE_BYTES {
            return Err(DecodeError::TooLarge);
        }
        json::check(state, MAX_NESTING)?;
        entries.push(AwarenessEntry { client, clock, state });
    }
    reader.finish()?;
    Ok(entries)
}

/// Encodes an awareness update.
#[must_use]
pub fn encode(entries: &[AwarenessEntry<'_>]) -> Vec<u8> {
    let mut payload = Vec::new();
    write_var_uint(&mut payload, entries.len() as u64);
    for entry in entries {
        write_var_uint(&mut payload, entry.client);
        write_var_uint(&mut payload, u64::from(entry.clock));
        write_var_bytes(&mut payload, entry.state.as_bytes());
    }
    payload
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_a_round_trip() {
        let entries = [
            AwarenessEntry { client: 101, clock: 1, state: "{\"user\":{}}" },
            AwarenessEntry { client: u64::from(u32::MAX), clock: 7, state: GONE },
        ];
        assert_eq!(decode(&encode(&entries)), Ok(entries.to_vec()));
        assert!(entries[1].is_gone() && !entries[0].is_gone());
    }

    #[test]
    fn a_clock_over_32_bits_is_refused() {
        let mut payload = vec![1, 0x65];
        write_var_uint(&mut payload, (1 << 53) - 1);
        write_var_bytes(&mut payload, b"{}");
        assert_eq!(decode(&payload), Err(DecodeError::TooLarge));
    }

    #[test]
    fn states_that_a_client_would_throw_on_are_refused() {
        let large = format!("\"{}\"", "x".repeat(MAX_AWARENESS_STATE_BYTES));
        for (state, error) in [("{", DecodeError::NotJson), (large.as_str(), DecodeError::TooLarge)] {
            let payload = encode(&[AwarenessEntry { client: 1, clock: 1, state }]);
            assert_eq!(decode(&payload), Err(error));
        }
        assert_eq!(decode(&[1, 1, 1, 2, 0xc3, 0x28]), Err(DecodeError::NotUtf8));
        assert_eq!(decode(&[0, 0]), Err(DecodeError::TrailingBytes));
    }
}
