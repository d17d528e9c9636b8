//! What was counted, and every fault.

/// The result.
#[derive(Debug, Default)]
pub struct Report {
    /// Workspaces, deleted ones included.
    pub workspaces: u64,
    /// Rows of all logs.
    pub changes: u64,
    /// Nodes that are records.
    pub records: u64,
    /// Nodes that are documents.
    pub documents: u64,
    /// Rows of documents.
    pub parts: u64,
    /// Bytes of documents.
    pub bytes: u64,
    /// Documents that were compared with stock Yjs.
    pub in_yjs: u64,
    /// Documents that were compared with yrs.
    pub in_yrs: u64,
    /// Each with its table and row.
    pub faults: Vec<String>,
}

impl Report {
    /// One more fault.
    pub fn fault(&mut self, place: &str, what: &str) {
        self.faults.push(format!("{place}: {what}"));
    }

    /// For a person: faults, then counts.
    pub fn text(&self) -> String {
        let mut lines: Vec<String> = self.faults.iter().map(|fault| format!("FAULT {fault}")).collect();
        lines.push(format!("{} workspaces, {} changes in their logs", self.workspaces, self.changes));
        lines.push(format!("{} records", self.records));
        lines.push(format!(
            "{} documents, {} rows, {} bytes; equal by the core and Yjs: {}, by yrs too: {}",
            self.documents, self.parts, self.bytes, self.in_yjs, self.in_yrs
        ));
        lines.push(match self.faults.len() {
            0 => "no fault".to_owned(),
            count => format!("{count} faults"),
        });
        lines.join("\n")
    }
}
