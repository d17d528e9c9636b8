//! What a room asks its shell to do.

use std::sync::Arc;

use crate::protocol::close::CloseCode;

use super::session::SessionId;

/// One thing for the shell to do, in the order given. Outputs are values: the room never calls.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Action {
    /// Keep this text with the connection so that it survives hibernation.
    Attach {
        /// Whose.
        session: SessionId,
        /// At most [`crate::protocol::limits::MAX_ATTACHMENT_BYTES`].
        attachment: String,
    },
    /// Close a connection. The room has already forgotten it.
    Close {
        /// Which.
        session: SessionId,
        /// Why, as a number that tells the client what to do.
        code: CloseCode,
        /// Why, for a person.
        reason: &'static str,
    },
    /// Put an update that is not saved yet into the spool (D6). Answers `handle_spool`.
    Keep(Keep),
    /// Set the workspace's listener lease, unless one that ends later is stored (R3); answer with
    /// `handle_lease_written`. The next one comes after the answer.
    Lease {
        /// When it ends, in milliseconds since the Unix epoch; 0 clears it.
        until: u64,
        /// Clearing must leave a lease alone that ends after this time: it is somebody else's.
        seen: u64,
    },
    /// Read a document; answer with `handle_loaded`.
    Load {
        /// Its path.
        document: String,
        /// Returned in the answer: an answer for an earlier stay of the document is ignored.
        generation: u64,
    },
    /// Append an update to a document and the log; answer with `handle_persisted`.
    Persist(Persist),
    /// Read what others appended to a document; answer with `handle_pulled`.
    Pull {
        /// Its path.
        document: String,
        /// Only what has a higher clock.
        after: u64,
        /// As in [`Action::Load`].
        generation: u64,
    },
    /// Forget what the spool has of a document up to this number: it is saved, or void (D6).
    Release {
        /// The document's path.
        document: String,
        /// The last number.
        through: u64,
    },
    /// Send a binary frame to each of these connections.
    SendBinary {
        /// Who, never empty.
        to: Vec<SessionId>,
        /// What.
        frame: Frame,
    },
    /// Send a text frame to each of these connections.
    SendText {
        /// Who, never empty.
        to: Vec<SessionId>,
        /// What.
        text: String,
    },
    /// Something waits for the spool (D6): call `handle_spool` soon. Said once until then. Only with
    /// [`RoomConfig::spool`].
    ///
    /// [`RoomConfig::spool`]: super::RoomConfig::spool
    Spool,
}

/// A flush of one document's pending tail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Persist {
    /// The document's path.
    pub document: String,
    /// Its epoch as the room knows it; `None` until the room has learnt it.
    pub epoch: Option<u64>,
    /// The merged Yjs update.
    pub update: Arc<[u8]>,
    /// Who wrote it.
    pub actor: String,
    /// Returned in the answer. A retry of the same bytes has the same number.
    pub flush: u64,
    /// What others appended with a higher clock comes back in the answer.
    pub after: u64,
}

/// What of a document came in since the last time, for the spool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keep {
    /// The document's path.
    pub document: String,
    /// Its epoch as the room knows it.
    pub epoch: Option<u64>,
    /// The Yjs update.
    pub update: Arc<[u8]>,
    /// Who wrote it; the relay when it was several.
    pub actor: String,
    /// The number of the last update in it, growing within a document.
    pub number: u64,
}

/// A binary frame to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// The frame that was just handed in, byte for byte (W3). The shell still has it.
    Input,
    /// These bytes.
    Bytes(Vec<u8>),
}
