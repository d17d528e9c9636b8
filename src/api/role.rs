//! Who an actor is and what a role allows.

use std::fmt;

/// What an actor may do in one workspace. Each role includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Reads; its updates are refused (A5).
    Viewer,
    /// Reads and writes nodes and documents.
    Editor,
    /// Also creates and deletes the workspace.
    Owner,
}

impl Role {
    /// Every role, the least first.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Editor, Self::Owner];

    /// The name in tokens.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Editor => "editor",
            Self::Owner => "owner",
        }
    }

    /// The role of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What kind of actor a token speaks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActorKind {
    /// A program that works for people. It never holds a WebSocket (P2, W10).
    Agent,
    /// A person.
    Human,
    /// A part of the system, such as a relay.
    Service,
}

impl ActorKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Agent, Self::Human, Self::Service];

    /// The name in tokens.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Human => "human",
            Self::Service => "service",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_and_kinds_have_exact_names_and_roles_an_order() {
        assert_eq!(Role::ALL.map(|role| Role::parse(role.as_str())), Role::ALL.map(Some));
        assert_eq!(ActorKind::ALL.map(|kind| ActorKind::parse(kind.as_str())), ActorKind::ALL.map(Some));
        assert_eq!((Role::parse("Owner"), Role::parse("admin"), ActorKind::parse("")), (None, None, None));
        assert!(Role::ALL.is_sorted());
    }
}
