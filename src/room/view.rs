//! A document's stored checkpoint as far as the room holds it, for answering sync step 1.

use std::sync::Arc;

use crate::document::checkpoint::{self, Outline};
use crate::document::error::DocumentError;
use crate::protocol::Timestamp;

/// The checkpoint is loaded on demand and may be dropped at any time: live forwarding never
/// needs it (W3).
#[derive(Debug, Default)]
pub(super) enum View {
    /// Not read, or dropped.
    #[default]
    Absent,
    /// Being read.
    Loading {
        /// It counts as failed at this time.
        until: Timestamp,
        /// What the read may not see. An update can be saved, and so leave the tail, before the
        /// answer of a read that began earlier is here.
        since: Since,
    },
    /// What storage had, and what came since.
    Loaded {
        /// One update.
        base: Vec<u8>,
        /// Its state vector, what every joiner is told, and its delete set, what every joiner tells.
        outline: Outline,
        /// Updates that are not in `base` yet. They are merged when somebody joins.
        since: Since,
    },
}

/// Updates that are kept apart. Their bytes are counted as they come: every update asks for the sum.
#[derive(Debug, Default)]
pub(super) struct Since {
    updates: Vec<Arc<[u8]>>,
    bytes: usize,
}

impl Since {
    pub(super) fn push(&mut self, update: Arc<[u8]>) {
        self.bytes += update.len();
        self.updates.push(update);
    }
}

/// A document, merged.
#[derive(Debug)]
pub(super) struct Whole<'a> {
    /// One update.
    pub(super) update: &'a [u8],
    /// Its state vector.
    pub(super) vector: &'a [u8],
    /// Its delete set, encoded.
    pub(super) deletes: &'a [u8],
}

impl View {
    /// Sets what storage had, merged with what it may not have had.
    pub(super) fn load<'a>(
        &mut self,
        stored: &[Vec<u8>],
        unsaved: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), DocumentError> {
        let since = match self {
            Self::Loading { since, .. } => std::mem::take(since),
            Self::Absent | Self::Loaded { .. } => Since::default(),
        };
        let stored = stored.iter().map(Vec::as_slice);
        let mut parts: Vec<&[u8]> = stored.chain(since.updates.iter().map(AsRef::as_ref)).collect();
        for update in unsaved {
            parts.push(update);
        }
        let base = checkpoint::merge(&parts)?;
        let outline = checkpoint::outline(&base)?;
        *self = Self::Loaded { base, outline, since: Since::default() };
        Ok(())
    }

    /// Takes an update in, if the view is loaded or will be.
    pub(super) fn push(&mut self, update: Arc<[u8]>) {
        let since = match self {
            Self::Absent => return,
            Self::Loading { since, .. } => return since.push(update),
            Self::Loaded { since, .. } => since,
        };
        since.push(update);
        // Nobody joined for a long time: the next joiner reads storage again.
        if since.updates.len() > MAX_SINCE {
            *self = Self::Absent;
        }
    }

    /// The whole document; `None` unless it is loaded.
    pub(super) fn whole(&mut self) -> Option<Result<Whole<'_>, DocumentError>> {
        let Self::Loaded { base, outline, since } = self else { return None };
        if !since.updates.is_empty() {
            let parts: Vec<&[u8]> =
                std::iter::once(base.as_slice()).chain(since.updates.iter().map(AsRef::as_ref)).collect();
            let merged =
                checkpoint::merge(&parts).and_then(|merged| Ok((checkpoint::outline(&merged)?, merged)));
            match merged {
                Ok(merged) => (*outline, *base) = merged,
                Err(error) => return Some(Err(error)),
            }
            *since = Since::default();
        }
        let deletes = base.get(outline.deletes..).unwrap_or_default();
        Some(Ok(Whole { update: base, vector: &outline.vector, deletes }))
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Absent => 0,
            Self::Loading { since, .. } => since.bytes,
            Self::Loaded { base, since, .. } => base.len() + since.bytes,
        }
    }

    /// Bytes that are kept apart and might be fewer once merged.
    pub(super) fn unmerged(&self) -> usize {
        match self {
            Self::Absent | Self::Loading { .. } => 0,
            Self::Loaded { since, .. } => since.bytes,
        }
    }

    pub(super) fn is_loaded(&self) -> bool {
        matches!(self, Self::Loaded { .. })
    }
}

/// Updates kept apart from the base.
const MAX_SINCE: usize = 4_096;
