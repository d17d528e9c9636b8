//! What part of a workspace a reader follows.

use std::fmt;

use crate::protocol::change::{self, Change, ChangeKind};
use crate::protocol::limits::MAX_PATH_BYTES;

/// The changes that a reader asked for. The default passes everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Without a slash at the end, not empty.
    prefix: Option<String>,
    kinds: Option<Vec<ChangeKind>>,
}

/// A filter that cannot be meant. The answer is 400 before a stream starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterError {
    /// The prefix is longer than a path may be.
    PrefixTooLong,
    /// A name in `kinds` that no change has. Skipping it would be a stream that is silent for a
    /// typing error.
    UnknownKind,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PrefixTooLong => write!(f, "the prefix is over {MAX_PATH_BYTES} bytes"),
            Self::UnknownKind => {
                f.write_str("kinds is a comma-separated list of ")?;
                f.write_str(&ChangeKind::ALL.map(ChangeKind::as_str).join(", "))
            }
        }
    }
}

impl std::error::Error for FilterError {}

impl Filter {
    /// Reads `?prefix=` and `?kinds=a,b`, both already percent-decoded. An absent or empty value
    /// does not filter.
    ///
    /// # Errors
    ///
    /// See [`FilterError`].
    pub fn parse(prefix: Option<&str>, kinds: Option<&str>) -> Result<Self, FilterError> {
        let prefix = prefix.map(|prefix| prefix.trim_end_matches('/')).filter(|prefix| !prefix.is_empty());
        if prefix.is_some_and(|prefix| prefix.len() > MAX_PATH_BYTES) {
            return Err(FilterError::PrefixTooLong);
        }
        let mut wanted = Vec::new();
        for name in kinds.filter(|kinds| !kinds.is_empty()).into_iter().flat_map(|kinds| kinds.split(',')) {
            let kind = ChangeKind::parse(name).ok_or(FilterError::UnknownKind)?;
            if !wanted.contains(&kind) {
                wanted.push(kind);
            }
        }
        Ok(Self { prefix: prefix.map(str::to_owned), kinds: Some(wanted).filter(|kinds| !kinds.is_empty()) })
    }

    /// Whether the reader gets this change.
    ///
    /// A prefix matches whole path segments: `jobs` (or `jobs/`) passes `jobs` and `jobs/42`, not
    /// `jobs2`. It also passes the delete and the move of an ancestor, which are one change for the
    /// whole subtree (S10): deleting `jobs` concerns a reader of `jobs/42`. The end of the workspace
    /// passes every filter.
    #[must_use]
    pub fn matches(&self, change: &Change) -> bool {
        if change.kind == ChangeKind::DeleteWorkspace {
            return true;
        }
        if self.kinds.as_ref().is_some_and(|kinds| !kinds.contains(&change.kind)) {
            return false;
        }
        self.prefix.as_ref().is_none_or(|prefix| {
            is_within(&change.path, prefix)
                || matches!(change.kind, ChangeKind::Delete | ChangeKind::Move)
                    && is_within(prefix, &change.path)
        })
    }
}

/// Whether `path` is `root` or below it. Everything is below the empty root.
fn is_within(path: &str, root: &str) -> bool {
    root.is_empty() || change::is_within(path, root)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: ChangeKind, path: &str) -> Change {
        Change { clock: 1, kind, path: path.into(), actor: "a".into(), at: 0 }
    }

    #[test]
    fn a_prefix_matches_whole_segments() {
        for prefix in ["jobs", "jobs/", "jobs//"] {
            let filter = Filter::parse(Some(prefix), None).unwrap();
            for (path, expected) in [
                ("jobs", true),
                ("jobs/1", true),
                ("jobs/1/2", true),
                ("jobs2", false),
                ("job", false),
                ("", false),
            ] {
                assert_eq!(filter.matches(&change(ChangeKind::Put, path)), expected, "{prefix} {path}");
            }
        }
        let filter = Filter::parse(Some("é"), None).unwrap();
        assert!(filter.matches(&change(ChangeKind::Put, "é/x")));
        assert!(!filter.matches(&change(ChangeKind::Put, "éa")));
    }

    #[test]
    fn s10_the_delete_of_an_ancestor_passes_a_filter_below_it() {
        let filter = Filter::parse(Some("jobs/42"), None).unwrap();
        assert!(filter.matches(&change(ChangeKind::Delete, "jobs")));
        assert!(filter.matches(&change(ChangeKind::Move, "jobs")));
        assert!(filter.matches(&change(ChangeKind::Delete, "")));
        assert!(filter.matches(&change(ChangeKind::Delete, "jobs/42/log")));
        assert!(!filter.matches(&change(ChangeKind::Delete, "job")));
        assert!(!filter.matches(&change(ChangeKind::Delete, "jobs/4")));
        assert!(!filter.matches(&change(ChangeKind::Put, "jobs")), "only a delete or a move reaches down");
    }

    #[test]
    fn s10_the_end_of_the_workspace_passes_every_filter() {
        let filter = Filter::parse(Some("jobs/42"), Some("put")).unwrap();
        assert!(filter.matches(&change(ChangeKind::DeleteWorkspace, "")));
    }

    #[test]
    fn kinds_select_and_an_unknown_one_is_an_error() {
        let filter = Filter::parse(None, Some("put,delete,put")).unwrap();
        assert!(filter.matches(&change(ChangeKind::Put, "a")));
        assert!(filter.matches(&change(ChangeKind::Delete, "a")));
        assert!(!filter.matches(&change(ChangeKind::Update, "a")));
        for kinds in ["putt", "put,", ",", "PUT", " put"] {
            assert_eq!(Filter::parse(None, Some(kinds)), Err(FilterError::UnknownKind), "{kinds:?}");
        }
        assert!(FilterError::UnknownKind.to_string().contains("delete_workspace"));
    }

    #[test]
    fn empty_values_do_not_filter_and_a_long_prefix_is_refused() {
        for (prefix, kinds) in [(None, None), (Some(""), Some("")), (Some("/"), None)] {
            assert_eq!(Filter::parse(prefix, kinds), Ok(Filter::default()));
        }
        let long = "p".repeat(MAX_PATH_BYTES + 1);
        assert_eq!(Filter::parse(Some(&long), None), Err(FilterError::PrefixTooLong));
        assert!(Filter::parse(long.get(1..), None).is_ok());
    }
}
