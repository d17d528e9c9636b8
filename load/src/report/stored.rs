//! What is stored after a run, compared with what was written.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::Result;
use crate::replica::{Content, Replica};
use crate::run::Run;
use crate::tally::Tally;

/// The comparison.
#[derive(Default)]
pub struct Stored {
    found: u64,
    missing: Vec<String>,
    writers: BTreeSet<usize>,
    unexpected: u64,
    /// Documents whose replicas, or whose stored content, differ.
    pub apart: BTreeSet<usize>,
}

impl Stored {
    /// Reads every document and looks for every write; compares the replicas with it.
    pub fn read(run: &Run, tallies: &[Tally]) -> Result<Self> {
        let mut stored = Self::default();
        let token = run.options.tokens.of_owner(&run.workspace)?;
        for document in 0..run.options.documents {
            let replica = Replica::new(1);
            if let Some(update) = run.api.document(&token, &run.workspace, &Run::path(document))? {
                replica.apply(&update)?;
            }
            stored.compare(run, document, &replica.content(), tallies);
        }
        Ok(stored)
    }

    /// Compares one document.
    pub fn compare(&mut self, run: &Run, document: usize, content: &Content, tallies: &[Tally]) {
        let markers = run.markers(document);
        for marker in &markers {
            if content.has(*marker) {
                self.found += 1;
                self.writers.insert(marker.client);
            } else {
                self.missing.push(format!("{}.{}", marker.client, marker.number));
            }
        }
        self.unexpected += (content.markers.len() as u64).saturating_sub(markers.len() as u64);
        let replicas = tallies.iter().enumerate().filter(|(client, _)| run.document_of(*client) == document);
        if replicas.into_iter().any(|(_, tally)| tally.content != *content) {
            self.apart.insert(document);
        }
    }

    /// Whether it has so many writes, each of them one that was made.
    pub fn is_complete(&self, writes: u64) -> bool {
        self.missing.is_empty() && self.unexpected == 0 && self.found == writes
    }

    /// For the report.
    pub fn json(&self) -> Value {
        json!({
            "found": self.found, "missing": self.missing.len(), "unexpected": self.unexpected,
            "writers": self.writers.len(), "firstMissing": self.missing.first(),
        })
    }
}
