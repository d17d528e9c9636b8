//! What tools/read-database.mjs says of a database, a line each.

use serde::Deserialize;

/// One fact.
#[derive(Debug, Deserialize)]
#[serde(tag = "fact", rename_all = "camelCase")]
pub enum Fact {
    /// SQLite itself finds the file damaged.
    Damaged {
        /// Its words.
        message: String,
    },
    /// The last one.
    End,
    /// Two neighbours in a log that are not neighbours in clock.
    Gap {
        /// The workspace.
        workspace: String,
        /// The later one.
        clock: u64,
        /// The earlier one.
        before: u64,
    },
    /// A kind of change that a log holds.
    Kind {
        /// The workspace.
        workspace: String,
        /// Its name.
        kind: String,
        /// The first of them.
        clock: u64,
        /// How many.
        count: u64,
    },
    /// A node with what belongs to it.
    Node(Node),
    /// Rows that belong to nothing.
    Orphan {
        /// Their table.
        table: String,
        /// The workspace that they name.
        workspace: String,
        /// The document that they name.
        path: Option<String>,
        /// How many.
        count: u64,
    },
    /// A workspace and its log.
    Workspace(Workspace),
}

/// A row of `workspaces`.
#[derive(Debug, Default, Deserialize)]
pub struct Workspace {
    /// Its id.
    pub id: String,
    /// 1 when it is deleted.
    pub deleted: u8,
    /// Rows of its log.
    pub changes: u64,
    /// The oldest clock of its log.
    pub first: Option<u64>,
    /// The newest.
    pub head: Option<u64>,
    /// Rows of kind `delete_workspace`.
    pub deletions: Option<u64>,
}

/// A row of `nodes`, with its rows of `doc_updates`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its workspace.
    pub workspace: String,
    /// Its path.
    pub path: String,
    /// `record` or `document`.
    pub kind: String,
    /// The clock of its newest change.
    pub clock: u64,
    /// The clock at which a document's content began.
    pub epoch: u64,
    /// The clock up to which it is compacted.
    pub base: u64,
    /// Rows that a document has.
    pub parts: u64,
    /// Bytes that a document has.
    pub size: u64,
    /// The path of the change at `clock`, if the log has it.
    pub change_path: Option<String>,
    /// The kind of the change at `epoch`, if the log has it.
    pub epoch_kind: Option<String>,
    /// Whether that change made its node.
    pub epoch_created: Option<u8>,
    /// What is wrong with a record's value.
    pub value_fault: Option<String>,
    /// The rows of a document.
    #[serde(default)]
    pub updates: Vec<Part>,
}

/// A row of `doc_updates`.
#[derive(Debug, Default, Deserialize)]
pub struct Part {
    /// The clock of the update.
    pub clock: u64,
    /// Its place in it.
    pub part: u64,
    /// Base64.
    pub data: String,
}
