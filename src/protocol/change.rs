//! The one encoding of a change: what the log, the feed and a relay's text frame carry.

use serde::Serialize;
use serde_json::Value;

/// One committed change of a workspace. `clock` is gapless and strictly increasing (F1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Position in the workspace's log, from 1.
    pub clock: u64,
    /// What happened: see [`ChangeKind`].
    pub kind: ChangeKind,
    /// The node, or the root of the subtree. Empty for the workspace itself.
    pub path: String,
    /// Who did it: the `sub` of the token, or `relay:<label>` for a flush of several writers.
    pub actor: String,
    /// When it was committed, in milliseconds since the Unix epoch.
    pub at: u64,
}

impl Change {
    /// Reads a change from its JSON; `None` when a member is missing or has another type. By hand:
    /// a derived reader brings 30 KB of error texts along.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            clock: value.get("clock")?.as_u64()?,
            kind: ChangeKind::parse(value.get("kind")?.as_str()?)?,
            path: value.get("path")?.as_str()?.to_owned(),
            actor: value.get("actor")?.as_str()?.to_owned(),
            at: value.get("at")?.as_u64()?,
        })
    }
}

/// What a change did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangeKind {
    /// A node and everything below it are gone.
    Delete,
    /// The workspace is gone; nothing follows.
    DeleteWorkspace,
    /// A node and everything below it are here now, from elsewhere; their delete there came before.
    Move,
    /// A record was changed by a merge patch.
    Patch,
    /// A record was written whole.
    Put,
    /// A document's content was replaced: this clock is its epoch, and copies from before are void.
    Replace,
    /// A document received a Yjs update.
    Update,
}

impl ChangeKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Delete,
        Self::DeleteWorkspace,
        Self::Move,
        Self::Patch,
        Self::Put,
        Self::Replace,
        Self::Update,
    ];

    /// The name on the wire and in the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::DeleteWorkspace => "delete_workspace",
            Self::Move => "move",
            Self::Patch => "patch",
            Self::Put => "put",
            Self::Replace => "replace",
            Self::Update => "update",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Whether `path` is `root` or below it: what a change of a subtree is about.
#[must_use]
pub fn is_within(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subtree_is_its_root_and_what_is_below_not_what_begins_alike() {
        for path in ["a", "a/b", "a/b/c"] {
            assert!(is_within(path, "a"), "{path}");
        }
        for path in ["ab", "ab/c", "b", ""] {
            assert!(!is_within(path, "a"), "{path}");
        }
    }

    #[test]
    fn a_change_survives_a_round_trip() {
        for kind in ChangeKind::ALL {
            let change = Change { clock: 7, kind, path: "a/b".into(), actor: "ann".into(), at: 9 };
            let mut json = serde_json::to_value(&change).unwrap();
            assert_eq!(Change::from_json(&json), Some(change));
            json["clock"] = "7".into();
            assert_eq!(Change::from_json(&json), None);
        }
    }

    #[test]
    fn serde_and_as_str_agree() {
        for kind in ChangeKind::ALL {
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{}\"", kind.as_str()));
            assert_eq!(ChangeKind::parse(kind.as_str()), Some(kind));
        }
    }
}
