//! Who an actor is and what a role allows.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What an actor may do in one workspace. Each role includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads; its updates are refused (A5).
    Viewer,
    /// Reads and writes nodes and documents.
    Editor,
    /// Also creates and deletes the workspace.
    Owner,
}

impl Role {
    /// The name in tokens.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Editor => "editor",
            Self::Owner => "owner",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What kind of actor a token speaks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActorKind {
    /// A program that works for people. It never holds a WebSocket (P2, W10).
    Agent,
    /// A person.
    Human,
    /// A part of the system, such as a relay.
    Service,
}
