//! The close codes of a relay, one table for all vendors (DESIGN section 3).

/// Why a relay closes a connection. The number and whether a client may retry go with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CloseCode {
    /// 1000: nothing is wrong, nobody needs the connection any more.
    Done,
    /// 1009: a frame over the limit. Stop: the same frame would be refused again.
    FrameTooLarge,
    /// 1012: the relay restarts. Same relay again after a jittered delay.
    Restart,
    /// 1013: overloaded, or storage is unavailable. Retry with backoff.
    TryLater,
    /// 4400: bytes that are not the protocol. Stop.
    ProtocolViolation,
    /// 4401: the scope token expired. Fetch a fresh one, retry once.
    TokenExpired,
    /// 4403: forbidden, or access was revoked. Stop.
    Forbidden,
    /// 4404: the workspace or document was deleted. Stop.
    Deleted,
    /// 4409: the document has another epoch. Reload it.
    EpochChanged,
    /// 4413: the document is over its limit. Stop.
    DocumentTooLarge,
    /// 4429: rate limit. Retry after a delay.
    RateLimited,
}

impl CloseCode {
    /// Every code, in the order of the numbers.
    pub const ALL: [Self; 11] = [
        Self::Done,
        Self::FrameTooLarge,
        Self::Restart,
        Self::TryLater,
        Self::ProtocolViolation,
        Self::TokenExpired,
        Self::Forbidden,
        Self::Deleted,
        Self::EpochChanged,
        Self::DocumentTooLarge,
        Self::RateLimited,
    ];

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::Done => 1000,
            Self::FrameTooLarge => 1009,
            Self::Restart => 1012,
            Self::TryLater => 1013,
            Self::ProtocolViolation => 4400,
            Self::TokenExpired => 4401,
            Self::Forbidden => 4403,
            Self::Deleted => 4404,
            Self::EpochChanged => 4409,
            Self::DocumentTooLarge => 4413,
            Self::RateLimited => 4429,
        }
    }

    /// Whether a client must not retry the same thing (the stop band).
    #[must_use]
    pub const fn is_stop(self) -> bool {
        matches!(
            self,
            Self::FrameTooLarge
                | Self::ProtocolViolation
                | Self::Forbidden
                | Self::Deleted
                | Self::DocumentTooLarge
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_ascending() {
        let numbers: Vec<u16> = CloseCode::ALL.iter().map(|code| code.number()).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    }
}
