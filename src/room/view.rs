//! A document's stored checkpoint as far as the room holds it, for answering sync step 1.

use crate::document::checkpoint;
use crate::document::error::DocumentError;
use crate::protocol::Timestamp;

/// The checkpoint is loaded on demand and may be dropped at any time: live forwarding never
/// needs it (W3).
#[derive(Debug, Default)]
pub(super) enum View {
    /// Not read, or dropped.
    #[default]
    Absent,
    /// Being read; counts as failed at this time.
    Loading(Timestamp),
    /// What storage had, and what came since.
    Loaded {
        /// One update.
        base: Vec<u8>,
        /// Updates that are not in `base` yet. They are merged when somebody joins.
        since: Vec<Vec<u8>>,
    },
}

impl View {
    /// Sets what storage had, merged with what it may not have had.
    pub(super) fn load<'a>(
        &mut self,
        stored: &'a [Vec<u8>],
        unsaved: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), DocumentError> {
        let parts: Vec<&[u8]> = stored.iter().map(Vec::as_slice).chain(unsaved).collect();
        let base = checkpoint::merge(&parts)?;
        *self = Self::Loaded { base, since: Vec::new() };
        Ok(())
    }

    /// Takes an update in, if the view is loaded.
    pub(super) fn push(&mut self, update: &[u8]) {
        let Self::Loaded { since, .. } = self else { return };
        since.push(update.to_vec());
        // Nobody joined for a long time: the next joiner reads storage again.
        if since.len() > MAX_SINCE {
            *self = Self::Absent;
        }
    }

    /// The whole document as one update; `None` unless it is loaded.
    pub(super) fn whole(&mut self) -> Option<Result<&[u8], DocumentError>> {
        let Self::Loaded { base, since } = self else { return None };
        if !since.is_empty() {
            let parts: Vec<&[u8]> = std::iter::once(&*base).chain(&*since).map(Vec::as_slice).collect();
            match checkpoint::merge(&parts) {
                Ok(merged) => *base = merged,
                Err(error) => return Some(Err(error)),
            }
            since.clear();
        }
        Some(Ok(base))
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Absent | Self::Loading(_) => 0,
            Self::Loaded { base, since } => base.len() + since.iter().map(Vec::len).sum::<usize>(),
        }
    }

    pub(super) fn is_loaded(&self) -> bool {
        matches!(self, Self::Loaded { .. })
    }
}

/// Updates kept apart from the base.
const MAX_SINCE: usize = 4_096;
