//! Why bytes were not a message.

use std::fmt;

/// Bytes that do not decode. The sender is closed with 4400; nothing of the frame is used (W4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end before the value does.
    Truncated,
    /// A variable-length integer is larger than 2^53 - 1, the largest that JavaScript can hold.
    VarintTooLarge,
    /// A length, count or nesting depth is over its limit (see [`super::limits`]).
    TooLarge,
    /// Bytes remain after the value.
    TrailingBytes,
    /// Text that is not UTF-8.
    NotUtf8,
    /// Text that is not the JSON it has to be.
    NotJson,
    /// A tag or flag that the grammar does not have.
    Unknown,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the bytes end too early",
            Self::VarintTooLarge => "an integer is over 2^53 - 1",
            Self::TooLarge => "a length, count or depth is over its limit",
            Self::TrailingBytes => "bytes remain after the end",
            Self::NotUtf8 => "text is not UTF-8",
            Self::NotJson => "text is not JSON",
            Self::Unknown => "an unknown tag",
        })
    }
}

impl std::error::Error for DecodeError {}
