//! Workspace ids and node paths: what is in an address, checked once, then carried as a type.

use std::fmt;

use super::limits::MAX_PATH_SEGMENTS;
use super::problem::{Problem, ProblemCode};
use crate::protocol::limits::{MAX_PATH_BYTES, MAX_WORKSPACE_ID_BYTES};

/// The id of a workspace: 1 to 64 of `A-Z a-z 0-9 _ -`. Case counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspaceId(String);

impl WorkspaceId {
    /// Checks a decoded id.
    ///
    /// # Errors
    /// `invalid_workspace_id`.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if text.is_empty() || text.len() > MAX_WORKSPACE_ID_BYTES || !text.bytes().all(allowed) {
            return Err(ProblemCode::InvalidWorkspaceId.into());
        }
        Ok(Self(text.to_owned()))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The path of a node, such as `jobs/42`: 1 to 512 bytes of UTF-8 in up to 32 segments, none of
/// which is empty, `.` or `..`, and no control character. Two paths are the same node only when
/// their bytes are equal: there is no Unicode normalization.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodePath(String);

impl NodePath {
    /// Checks a decoded path.
    ///
    /// # Errors
    /// `invalid_path`.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let fits = !text.is_empty()
            && text.len() <= MAX_PATH_BYTES
            && text.split('/').count() <= MAX_PATH_SEGMENTS
            && !text.chars().any(char::is_control)
            && text.split('/').all(|segment| !matches!(segment, "" | "." | ".."));
        if fits { Ok(Self(text.to_owned())) } else { Err(ProblemCode::InvalidPath.into()) }
    }

    /// Decodes and checks the raw segments of an address. They were split at `/` before, so a
    /// `%2F` would put a separator inside a segment: refused, as two addresses for one node.
    ///
    /// # Errors
    /// `invalid_path`.
    pub fn from_segments(segments: &[&str]) -> Result<Self, Problem> {
        let mut path = String::new();
        for (index, raw) in segments.iter().enumerate() {
            let segment = decode_segment(raw).ok_or(ProblemCode::InvalidPath)?;
            if segment.contains('/') {
                return Err(ProblemCode::InvalidPath.into());
            }
            if index > 0 {
                path.push('/');
            }
            path.push_str(&segment);
        }
        Self::parse(&path)
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Decodes `%XX` exactly once. `None` for a broken escape or bytes that are not UTF-8.
#[must_use]
pub fn decode_segment(raw: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = hex_digit(rest.next()?)?;
            let low = hex_digit(rest.next()?)?;
            bytes.push(high << 4 | low);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(raw: &str) -> Option<String> {
        NodePath::from_segments(&raw.split('/').collect::<Vec<_>>()).ok().map(|path| path.0)
    }

    #[test]
    fn escapes_are_decoded_exactly_once() {
        assert_eq!(path("a%20b/%E2%9C%93").as_deref(), Some("a b/✓"));
        assert_eq!(path("%2541").as_deref(), Some("%41"));
        assert_eq!(path("a+b").as_deref(), Some("a+b"));
        assert_eq!(path("\u{1f600}").as_deref(), Some("\u{1f600}"));
    }

    #[test]
    fn segments_that_could_mean_another_node_are_refused() {
        for raw in ["", "a//b", "/a", "a/", ".", "a/../b", "a/%2e%2e/b", "%2E", "a%2Fb", "a%2fb"] {
            assert_eq!(path(raw), None, "{raw}");
        }
        assert_eq!(path("...").as_deref(), Some("..."));
    }

    #[test]
    fn broken_escapes_bad_utf8_and_controls_are_refused() {
        for raw in ["%", "%4", "%zz", "%+1", "%ff", "%C3", "a%00", "a%0Ab", "%7f", "%C2%85", "\u{9}"] {
            assert_eq!(path(raw), None, "{raw}");
        }
    }

    #[test]
    fn r4_a_path_has_512_bytes_and_32_segments_after_decoding() {
        assert!(path(&"%61".repeat(512)).is_some());
        assert_eq!(path(&"a".repeat(513)), None);
        assert_eq!(path(&"é".repeat(257)), None);
        assert!(path(&vec!["a"; 32].join("/")).is_some());
        assert_eq!(path(&vec!["a"; 33].join("/")), None);
    }

    #[test]
    fn a_workspace_id_is_plain_ascii() {
        for id in ["a", "team-1", "A_b-9", &"x".repeat(64)] {
            assert_eq!(WorkspaceId::parse(id).unwrap().as_str(), id);
        }
        for id in ["", "a b", "a/b", "✓", "a.b", "%41", "*", &"x".repeat(65)] {
            assert_eq!(WorkspaceId::parse(id).unwrap_err().code, ProblemCode::InvalidWorkspaceId, "{id}");
        }
    }
}
