//! The bodies of successful answers. One type for each schema of the OpenAPI document.

use serde::Serialize;
use serde_json::Value;

use crate::protocol::change::Change;

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// A Yjs document.
    Document,
    /// A JSON value.
    Record,
}

/// A node: the answer of `GET …/nodes/<path>`, and an entry of a list (there without the value).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Node {
    /// Where it is.
    pub path: String,
    /// What it is.
    pub kind: NodeKind,
    /// The clock of its last change, also its ETag.
    pub clock: u64,
    /// The value of a record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// A page of nodes in the order of their paths.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeList {
    /// The page.
    pub nodes: Vec<Node>,
    /// Where the next page starts (`after`), or null after the last one.
    pub next: Option<String>,
    /// The workspace's head at the time of reading.
    pub head: u64,
}

/// A workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Workspace {
    /// Its id.
    pub id: String,
    /// The clock of its last change.
    pub head: u64,
    /// The smallest cursor that the log can still serve (F2).
    pub floor: u64,
}

/// The answer to a write of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WriteAnswer {
    /// The clock of the change.
    pub clock: u64,
    /// The node.
    pub path: String,
}

/// The answer to a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpsAnswer {
    /// The clocks of the changes, in the order of the ops.
    pub clocks: Vec<u64>,
    /// The last of them.
    pub clock: u64,
}

/// A page of changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangeList {
    /// Every change after the cursor, up to the limit, without a gap (F1).
    pub changes: Vec<Change>,
    /// The clock of the workspace's last change.
    pub head: u64,
    /// The smallest cursor that the log can still serve.
    pub floor: u64,
}

/// A scope token.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenAnswer {
    /// The token. Not `Debug`, so that it cannot be logged by accident (A3).
    pub token: String,
    /// When it ends, in milliseconds since the Unix epoch.
    pub expires_at: u64,
    /// What browsers of the workspace seal their signaling with, for those that may write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_secret: Option<String>,
}

/// The answer to an update of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UpdateAnswer {
    /// The clock of the change.
    pub clock: u64,
    /// The document's epoch (W11).
    pub epoch: u64,
    /// For an update with `?since=`: whether others appended something past that clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<bool>,
}

/// The answer to edits of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EditAnswer {
    /// The clock of the change; the document's, when the edits changed nothing.
    pub clock: u64,
    /// The document's epoch (W11).
    pub epoch: u64,
    /// The state vector of the document with the edits, in base64url.
    pub state_vector: String,
}

/// The answer to a report about relays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StoredTelemetry {
    /// How many events were stored: all of them.
    pub stored: usize,
}

/// What clients reported of relays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RelayList {
    /// By label.
    pub relays: Vec<RelaySummary>,
    /// How often a client found every relay of its list failing.
    pub cycles_all_failed: u64,
    /// What was received from this time on is counted, in milliseconds since the Unix epoch.
    pub since: u64,
}

/// One relay of that list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RelaySummary {
    /// Its label.
    pub label: String,
    /// How often a client left it for another.
    pub advances_from: u64,
    /// How often a client came to it from another.
    pub advances_to: u64,
    /// The newest of either, by the clock of the client.
    pub last_advance_at: u64,
}

/// Who is in a workspace.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PresenceList {
    /// Everybody, by session.
    pub presence: Vec<PresenceEntry>,
    /// Humans other than the caller, each counted once.
    pub other_humans: usize,
    /// False when the room should be live and did not answer: people whom only it knows are missing.
    pub complete: bool,
}

/// One session of somebody; of a person who is only connected to the room, just who.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PresenceEntry {
    /// Who: the subject of its token.
    pub sub: String,
    /// `human`, `agent` or `service`, by its token.
    pub kind: &'static str,
    /// Its name of the session.
    pub session: Option<String>,
    /// What the session tells of itself.
    pub state: Option<Value>,
    /// When it stops to count, in milliseconds since the Unix epoch.
    pub expires_at: Option<u64>,
    /// Whether it is the session that the request names, of the caller.
    #[serde(rename = "self")]
    pub own: bool,
}

/// The answer to a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalAnswer {
    /// Its place in the inbox.
    pub id: u64,
    /// When it is gone, in milliseconds since the Unix epoch.
    pub expires_at: u64,
}

/// What waits for a peer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SignalList {
    /// Oldest first.
    pub signals: Vec<Signal>,
}

/// One signal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Signal {
    /// Its place in the inbox; the next request's `after`.
    pub id: u64,
    /// The peer id that the sender states.
    pub from: String,
    /// Who sent it: the subject of its token.
    pub sub: String,
    /// What about.
    pub topic: String,
    /// What the sender sent.
    pub data: Value,
}

/// The answer of `/healthz` and `/readyz`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Always `ok`: anything else is a problem.
    pub status: &'static str,
}
