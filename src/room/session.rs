//! One connection of a room, and what of it survives hibernation.

use serde::Serialize;
use serde_json::Value;

use crate::protocol::Timestamp;
use crate::protocol::limits::MAX_ATTACHMENT_BYTES;

use super::config::RoomConfig;

/// Names a connection within its room. Stable across hibernation, never reused while it lives.
pub type SessionId = u32;

/// What the Worker vouches for when it hands a connection to the room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionInfo {
    /// Who: the `sub` of the scope token.
    pub sub: String,
    /// What it is.
    pub kind: SessionKind,
    /// Whether it may change documents (A5).
    pub can_write: bool,
    /// When its scope token ends, in milliseconds. It is closed with 4401 at the next event after.
    pub expires_at: Timestamp,
    /// The document that its binary frames belong to.
    pub document: String,
    /// The epoch its copy of the document comes from, when the client states one (W11).
    pub epoch: Option<u64>,
}

/// What is at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionKind {
    /// An SSE stream of the Worker (F5). It hears changes, says nothing, and is no listener.
    Bridge,
    /// A person's browser, or a service that speaks Yjs.
    Client,
}

/// An awareness entry that a connection owns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OwnedEntry {
    /// Yjs client id.
    pub client: u64,
    /// Its newest awareness clock.
    pub clock: u32,
    /// Its newest state, unless the attachment had no room for it.
    pub state: Option<String>,
}

/// A connection's attachment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attachment {
    /// The connection's number.
    pub id: SessionId,
    /// What the Worker vouched for.
    pub info: SessionInfo,
    /// Whether it has sent binary (W1).
    pub binary: bool,
    /// Whether it has sent text (W1).
    pub text: bool,
    /// Whether it asked for changes (W7).
    pub changes: bool,
    /// Awareness entries that it owns (W5).
    pub owned: Vec<OwnedEntry>,
    /// Signaling topics that it is on.
    pub topics: Vec<String>,
    /// Newest clock of its document that the room knew.
    pub clock: u64,
    /// Epoch of its document, once the room knew it.
    pub epoch: Option<u64>,
    /// When the listener lease ends, as far as the room knew.
    pub lease_until: Timestamp,
}

impl Attachment {
    /// The text to keep with the connection. States are left out, largest first, until it fits:
    /// a client can be asked for its state again, but not for which ids it owned.
    #[must_use]
    pub fn encode(mut self) -> String {
        loop {
            let text = serde_json::to_string(&self).unwrap_or_default();
            if text.len() <= MAX_ATTACHMENT_BYTES {
                return text;
            }
            let size = |entry: &OwnedEntry| entry.state.as_ref().map_or(0, String::len);
            match self.owned.iter_mut().max_by_key(|entry| size(entry)).filter(|entry| entry.state.is_some())
            {
                Some(entry) => entry.state = None,
                None => self.topics.clear(),
            }
            if self.topics.is_empty() && self.owned.iter().all(|entry| entry.state.is_none()) {
                return serde_json::to_string(&self).unwrap_or_default();
            }
        }
    }

    /// Reads an attachment back; `None` for text of another version.
    #[must_use]
    pub fn decode(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        Some(Self {
            id: number(value.get("id")?)?,
            info: SessionInfo::from_json(value.get("info")?)?,
            binary: value.get("binary")?.as_bool()?,
            text: value.get("text")?.as_bool()?,
            changes: value.get("changes")?.as_bool()?,
            owned: list(value.get("owned")?, OwnedEntry::from_json)?,
            topics: list(value.get("topics")?, |topic| topic.as_str().map(str::to_owned))?,
            clock: value.get("clock")?.as_u64()?,
            epoch: value.get("epoch")?.as_u64(),
            lease_until: value.get("lease_until")?.as_u64()?,
        })
    }
}

impl SessionInfo {
    /// The connection by which an event stream hears of the room's changes (F5).
    #[must_use]
    pub fn bridge() -> Self {
        Self {
            sub: "stream".to_owned(),
            kind: SessionKind::Bridge,
            can_write: false,
            expires_at: u64::MAX,
            document: String::new(),
            epoch: None,
        }
    }

    /// Reads what the Worker vouches for from its JSON.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        let kind = match value.get("kind")?.as_str()? {
            "bridge" => SessionKind::Bridge,
            "client" => SessionKind::Client,
            _ => return None,
        };
        Some(Self {
            sub: value.get("sub")?.as_str()?.to_owned(),
            kind,
            can_write: value.get("can_write")?.as_bool()?,
            expires_at: value.get("expires_at")?.as_u64()?,
            document: value.get("document")?.as_str()?.to_owned(),
            epoch: value.get("epoch")?.as_u64(),
        })
    }
}

impl OwnedEntry {
    fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            client: value.get("client")?.as_u64()?,
            clock: number(value.get("clock")?)?,
            state: value.get("state")?.as_str().map(str::to_owned),
        })
    }
}

fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

fn list<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    let mut items = Vec::new();
    for item in value.as_array()? {
        items.push(read(item)?);
    }
    Some(items)
}

/// A live connection.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) info: SessionInfo,
    pub(super) binary: bool,
    pub(super) text: bool,
    pub(super) changes: bool,
    pub(super) topics: Vec<String>,
    /// Bytes of the largest step 2 it was sent: a joiner may take its time to read that (W9).
    pub(super) largest: u64,
    /// When it was last sent something that came from another connection. Not kept across
    /// hibernation: without it the connection's next awareness frame is echoed, which is right.
    pub(super) last_relayed: Timestamp,
    /// When something last changed that its attachment does not have. It is written once the
    /// connection is quiet: a room that could hibernate has been quiet for longer.
    pub(super) stale: Option<Timestamp>,
    /// Whether it was told that it may not write.
    pub(super) denied: bool,
}

impl Session {
    pub(super) fn new(info: SessionInfo) -> Self {
        Self {
            changes: info.kind == SessionKind::Bridge,
            info,
            binary: false,
            text: false,
            topics: Vec::new(),
            largest: 0,
            last_relayed: 0,
            stale: None,
            denied: false,
        }
    }

    /// Its attachment is to be written, if the room may ever need it.
    pub(super) fn mark_stale(&mut self, now: Timestamp, config: &RoomConfig) {
        if config.hibernates {
            self.stale = Some(now);
        }
    }

    pub(super) fn is_client(&self) -> bool {
        self.info.kind == SessionKind::Client
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::limits::{MAX_OWNED_CLIENT_IDS, MAX_PATH_BYTES, MAX_TOPICS};

    #[test]
    fn r04_an_attachment_fits_whatever_a_connection_does() {
        let owned = (0..MAX_OWNED_CLIENT_IDS as u64)
            .map(|n| OwnedEntry { client: u64::MAX - n, clock: u32::MAX, state: Some("x".repeat(3_000)) })
            .collect();
        let attachment = Attachment {
            id: 1,
            info: SessionInfo {
                sub: "s".repeat(128),
                kind: SessionKind::Client,
                can_write: true,
                expires_at: u64::MAX,
                document: "d".repeat(MAX_PATH_BYTES),
                epoch: Some(u64::MAX),
            },
            binary: true,
            text: true,
            changes: true,
            owned,
            topics: (0..MAX_TOPICS).map(|n| format!("{n:0>60}")).collect(),
            clock: u64::MAX,
            epoch: Some(1),
            lease_until: u64::MAX,
        };
        let text = attachment.encode();
        assert!(text.len() <= MAX_ATTACHMENT_BYTES, "{}", text.len());
        let read = Attachment::decode(&text).unwrap();
        assert_eq!(read.encode(), text);
        let read = Attachment::decode(&text).unwrap();
        assert_eq!(read.owned.len(), MAX_OWNED_CLIENT_IDS, "ownership is never dropped");
        assert!(read.owned.iter().any(|entry| entry.state.is_some()), "states that fit are kept");
    }

    #[test]
    fn text_of_another_version_is_no_attachment() {
        assert_eq!(Attachment::decode("{\"id\":1}"), None);
    }
}
