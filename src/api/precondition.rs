//! Optimistic concurrency: the ETag of a node is its clock (I04).

use super::problem::{Problem, ProblemCode};
use super::query::decimal;

/// What must be true of a node for a write to happen. Checked in the same transaction as the
/// write, so of two writers with the same precondition exactly one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precondition {
    /// `If-Match: *`: the node exists.
    Exists,
    /// `If-Match: "N"`: the node is at clock N.
    IfMatch(u64),
    /// `If-None-Match: *`: there is no such node.
    IfNoneMatch,
    /// Anything: the last writer wins.
    None,
}

impl Precondition {
    /// Reads both headers of a write.
    ///
    /// # Errors
    /// `bad_request` for both at once, a list, a weak tag, or a tag that is not a clock.
    pub fn from_headers(if_match: Option<&str>, if_none_match: Option<&str>) -> Result<Self, Problem> {
        match (if_match.map(str::trim), if_none_match.map(str::trim)) {
            (None, None) => Ok(Self::None),
            (Some("*"), None) => Ok(Self::Exists),
            (Some(tag), None) => parse_etag(tag).map(Self::IfMatch).ok_or_else(|| {
                Problem::because(
                    ProblemCode::BadRequest,
                    "`If-Match` is one clock in quotes, such as \"10\", or `*`.",
                )
            }),
            (None, Some("*")) => Ok(Self::IfNoneMatch),
            (None, Some(_)) => {
                Err(Problem::because(ProblemCode::BadRequest, "`If-None-Match` of a write can only be `*`."))
            }
            (Some(_), Some(_)) => Err(Problem::because(
                ProblemCode::BadRequest,
                "Send `If-Match` or `If-None-Match`, not both.",
            )),
        }
    }

    /// Whether a node at this clock (`None`: no such node) satisfies it.
    #[must_use]
    pub fn holds(self, clock: Option<u64>) -> bool {
        match self {
            Self::Exists => clock.is_some(),
            Self::IfMatch(wanted) => clock == Some(wanted),
            Self::IfNoneMatch => clock.is_none(),
            Self::None => true,
        }
    }
}

/// The ETag of a clock.
#[must_use]
pub fn etag(clock: u64) -> String {
    format!("\"{clock}\"")
}

/// Whether a reader with this `If-None-Match` has the current state already: 304. The comparison
/// is weak, since proxies that compress turn tags into weak ones. The ETag of a document does not
/// tell its representations apart: `Vary: Accept` does.
#[must_use]
pub fn not_modified(if_none_match: Option<&str>, clock: u64) -> bool {
    let Some(header) = if_none_match else { return false };
    header
        .split(',')
        .map(str::trim)
        .any(|tag| tag == "*" || parse_etag(tag.strip_prefix("W/").unwrap_or(tag)) == Some(clock))
}

/// The clock of a strong tag.
fn parse_etag(tag: &str) -> Option<u64> {
    tag.strip_prefix('"')?.strip_suffix('"').filter(|digits| !digits.is_empty()).and_then(decimal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i04_the_clock_in_quotes_is_the_precondition() {
        let read = |tag| Precondition::from_headers(Some(tag), None);
        assert_eq!(read("\"10\""), Ok(Precondition::IfMatch(10)));
        assert_eq!(read(" \"0\" "), Ok(Precondition::IfMatch(0)));
        assert_eq!(read("*"), Ok(Precondition::Exists));
        assert_eq!(Precondition::from_headers(None, Some("*")), Ok(Precondition::IfNoneMatch));
        assert_eq!(Precondition::from_headers(None, None), Ok(Precondition::None));
    }

    #[test]
    fn tags_that_are_no_clock_are_refused_and_never_ignored() {
        // Ignoring one would overwrite what the writer meant to protect.
        let bad = [
            "",
            "10",
            "\"\"",
            "\"x\"",
            "W/\"10\"",
            "\"10\", \"11\"",
            "\"10",
            "\"010\"",
            "\"-1\"",
            "\"10-gzip\"",
        ];
        for tag in bad {
            assert!(Precondition::from_headers(Some(tag), None).is_err(), "{tag}");
        }
        assert!(Precondition::from_headers(None, Some("\"10\"")).is_err());
        assert!(Precondition::from_headers(Some("*"), Some("*")).is_err());
    }

    #[test]
    fn i04_of_two_equal_preconditions_one_wins() {
        let mut clock = Some(10);
        let wins = [11, 12].map(|next| {
            let wins = Precondition::IfMatch(10).holds(clock);
            if wins {
                clock = Some(next);
            }
            wins
        });
        assert_eq!((wins, clock), ([true, false], Some(11)));
        assert!(Precondition::IfNoneMatch.holds(None) && !Precondition::IfNoneMatch.holds(Some(1)));
        assert!(Precondition::Exists.holds(Some(1)) && !Precondition::Exists.holds(None));
        assert!(Precondition::None.holds(None) && !Precondition::IfMatch(1).holds(None));
    }

    #[test]
    fn a_reader_with_the_current_tag_gets_304() {
        for header in ["\"7\"", "W/\"7\"", "\"1\", \"7\"", "*"] {
            assert!(not_modified(Some(header), 7), "{header}");
        }
        assert!(!not_modified(Some("\"6\""), 7) && !not_modified(Some("7"), 7) && !not_modified(None, 7));
        assert!(not_modified(Some(&etag(7)), 7));
    }
}
