//! What the clients of a run share: its schedule, when each write was made, and who still writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::api::Api;
use crate::options::Options;
use crate::replica::Marker;

/// How long clients may take to converge and to get their receipts after the last write.
pub const SETTLE_LIMIT: Duration = Duration::from_secs(120);

/// A run.
pub struct Run {
    /// What was asked for.
    pub options: Arc<Options>,
    /// Where it goes to.
    pub workspace: String,
    /// For fresh tokens.
    pub api: Api,
    start: Instant,
    documents: Vec<Document>,
    /// When each write was made, in microseconds after the start: by client, then by number.
    made: Vec<Vec<AtomicU64>>,
}

#[derive(Default)]
struct Document {
    written: AtomicU64,
    writers: AtomicUsize,
}

impl Run {
    /// A run that starts now.
    pub fn new(options: Arc<Options>, workspace: String, api: Api) -> Self {
        let documents: Vec<Document> = (0..options.documents).map(|_| Document::default()).collect();
        for client in 0..options.clients {
            if let Some(document) = documents.get(client % options.documents) {
                document.writers.fetch_add(1, Ordering::SeqCst);
            }
        }
        let most = (options.duration.as_secs_f64() * options.rate) as usize + 2;
        let made = (0..options.clients).map(|_| (0..most).map(|_| AtomicU64::new(0)).collect()).collect();
        Self { options, workspace, api, start: Instant::now(), documents, made }
    }

    /// The document of a client, by number.
    pub fn document_of(&self, client: usize) -> usize {
        client % self.documents.len()
    }

    /// How many clients a document has.
    pub fn clients_of(&self, document: usize) -> usize {
        (0..self.options.clients).filter(|client| self.document_of(*client) == document).count()
    }

    /// The path of a document.
    pub fn path(document: usize) -> String {
        format!("load/{document}")
    }

    /// When a client starts.
    pub fn start_of(&self, client: usize) -> Instant {
        self.start + self.options.ramp * u32::try_from(client).unwrap_or(u32::MAX)
    }

    /// Between two writes of a client.
    pub fn interval(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.options.rate)
    }

    /// How many writes clients make when all of them write from their start to the end.
    pub fn expected_writes(&self) -> u64 {
        let of = |client| self.end().saturating_duration_since(self.start_of(client)).as_secs_f64();
        (0..self.options.clients).map(|client| (of(client) * self.options.rate + 0.5) as u64).sum()
    }

    /// When the writing ends.
    pub fn end(&self) -> Instant {
        self.start + self.options.duration
    }

    /// When a client that has not converged is given up.
    pub fn limit(&self) -> Instant {
        self.end() + SETTLE_LIMIT
    }

    /// Notes that a write is being made.
    pub fn note_write(&self, marker: Marker) {
        if let Some(made) = self.made.get(marker.client).and_then(|list| list.get(marker.number)) {
            made.store(micros(self.start.elapsed()), Ordering::SeqCst);
        }
        if let Some(document) = self.documents.get(self.document_of(marker.client)) {
            document.written.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// When a write was made; `None` for one that nobody made.
    pub fn made(&self, marker: Marker) -> Option<Instant> {
        let at = self.made.get(marker.client)?.get(marker.number)?.load(Ordering::SeqCst);
        (at > 0).then(|| self.start + Duration::from_micros(at))
    }

    /// Every write that was made in a document.
    pub fn markers(&self, document: usize) -> Vec<Marker> {
        let of_document = (0..self.options.clients).filter(|client| self.document_of(*client) == document);
        let all = of_document.flat_map(|client| {
            let count = self.made.get(client).map_or(0, Vec::len);
            (0..count).map(move |number| Marker { client, number })
        });
        all.filter(|marker| self.made(*marker).is_some()).collect()
    }

    /// Notes that a client writes no more.
    pub fn note_written(&self, client: usize) {
        if let Some(document) = self.documents.get(self.document_of(client)) {
            document.writers.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// How many writes a document has, once all are made.
    pub fn total(&self, document: usize) -> Option<u64> {
        let document = self.documents.get(document)?;
        (document.writers.load(Ordering::SeqCst) == 0).then(|| document.written.load(Ordering::SeqCst))
    }
}

/// Microseconds, at least one: zero stands for never.
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).max(1)
}
