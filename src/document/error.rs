//! Why a stored document could not be merged, diffed or shown.

use std::fmt;

use crate::protocol::error::DecodeError;

/// A document operation that failed. Each variant says what was wrong and what helps.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DocumentError {
    /// The bytes are not a Yjs v1 update (or state vector). Validate before storing.
    Decode(DecodeError),
    /// The update is well formed, but yrs cannot hold what it says. Merging and serving it work;
    /// only text, JSON and server-side edits of this document do not.
    Unsupported(&'static str),
    /// No root was named and the document has several: name one of them.
    Ambiguous(Vec<String>),
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(cause) => write!(f, "not a Yjs v1 update: {cause}; send one that stock Yjs made"),
            Self::Unsupported(what) => {
                write!(
                    f,
                    "the document holds {what}, which only a Yjs client can show; fetch it as an update"
                )
            }
            Self::Ambiguous(roots) => {
                write!(f, "the document has several roots; name one of: {}", roots.join(", "))
            }
        }
    }
}

impl std::error::Error for DocumentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Decode(cause) => Some(cause),
            Self::Unsupported(_) | Self::Ambiguous(_) => None,
        }
    }
}

impl From<DecodeError> for DocumentError {
    fn from(cause: DecodeError) -> Self {
        Self::Decode(cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_cause_and_cure() {
        let text = DocumentError::from(DecodeError::Truncated).to_string();
        assert_eq!(text, "not a Yjs v1 update: the bytes end too early; send one that stock Yjs made");
        let text = DocumentError::Ambiguous(vec!["a".into(), "b".into()]).to_string();
        assert_eq!(text, "the document has several roots; name one of: a, b");
    }
}
