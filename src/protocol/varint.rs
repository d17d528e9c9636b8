//! The lib0 encoding that Yjs uses: little-endian base-128 integers and length-prefixed bytes.

use super::error::DecodeError;

/// Largest integer that lib0 reads: JavaScript's `Number.MAX_SAFE_INTEGER`.
pub const MAX_VAR_UINT: u64 = (1 << 53) - 1;

/// Reads lib0 values from a slice. Never reads past the end, never allocates.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything has been read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        let (first, rest) = self.rest.split_first().ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(*first)
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// An unsigned integer of at most 2^53 - 1. Non-minimal encodings are accepted, as lib0 does.
    pub fn var_uint(&mut self) -> Result<u64, DecodeError> {
        let mut value: u64 = 0;
        let mut shift: u32 = 0;
        loop {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift >= 49 && bits >> (53u32.saturating_sub(shift)) != 0 {
                return Err(DecodeError::VarintTooLarge);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            shift += 7;
            if shift > 56 {
                return Err(DecodeError::VarintTooLarge);
            }
        }
    }

    /// Bytes behind their length.
    pub fn var_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = usize::try_from(self.var_uint()?).map_err(|_| DecodeError::TooLarge)?;
        self.take(len)
    }

    /// UTF-8 text behind its length in bytes.
    pub fn var_string(&mut self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.var_bytes()?).map_err(|_| DecodeError::NotUtf8)
    }

    /// Fails unless everything has been read.
    pub fn finish(&self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::TrailingBytes) }
    }
}

/// Appends an unsigned integer.
pub fn write_var_uint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends bytes behind their length.
pub fn write_var_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_var_uint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_survive_a_round_trip() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), MAX_VAR_UINT] {
            let mut bytes = Vec::new();
            write_var_uint(&mut bytes, value);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.var_uint(), Ok(value));
            assert_eq!(reader.finish(), Ok(()));
        }
    }

    #[test]
    fn an_integer_over_53_bits_is_refused() {
        let mut bytes = Vec::new();
        write_var_uint(&mut bytes, MAX_VAR_UINT + 1);
        assert_eq!(Reader::new(&bytes).var_uint(), Err(DecodeError::VarintTooLarge));
        assert_eq!(Reader::new(&[0xff; 10]).var_uint(), Err(DecodeError::VarintTooLarge));
    }

    #[test]
    fn a_non_minimal_integer_is_read_as_its_value() {
        assert_eq!(Reader::new(&[0x82, 0x00]).var_uint(), Ok(2));
    }

    #[test]
    fn a_length_past_the_end_is_truncated() {
        assert_eq!(Reader::new(&[0x05, 1, 2]).var_bytes(), Err(DecodeError::Truncated));
        assert_eq!(Reader::new(&[0x80]).var_uint(), Err(DecodeError::Truncated));
    }
}
