//! What one client counted.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::latency::Latency;
use crate::replica::Content;

/// A client's counts.
pub struct Tally {
    /// Writes made.
    pub writes: u64,
    /// Of these, those made while not in sync with the relay.
    pub written_offline: u64,
    /// Writes of others that came as updates.
    pub live: u64,
    /// Writes of others that came with a sync, after this client joined.
    pub synced: u64,
    /// Awareness messages sent.
    pub awareness_sent: u64,
    /// Awareness states that came.
    pub awareness_received: u64,
    /// From a write to its arrival, of live ones.
    pub latency: Latency,
    /// Ends of connections that were not wanted, by close code or cause.
    pub reconnects: BTreeMap<String, u64>,
    /// Attempts to connect that failed, by cause.
    pub refusals: BTreeMap<String, u64>,
    /// From the client's first sync on, the time without one.
    pub disconnected: Duration,
    /// From the client's first sync to its end.
    pub online: Duration,
    /// Why the client did not end in sync with a receipt; `None` when it did.
    pub failure: Option<String>,
    /// Its replica at the end.
    pub content: Content,
}

impl Tally {
    /// Nothing counted.
    pub fn new() -> crate::Result<Self> {
        Ok(Self {
            writes: 0,
            written_offline: 0,
            live: 0,
            synced: 0,
            awareness_sent: 0,
            awareness_received: 0,
            latency: Latency::new()?,
            reconnects: BTreeMap::new(),
            refusals: BTreeMap::new(),
            disconnected: Duration::ZERO,
            online: Duration::ZERO,
            failure: None,
            content: Content::default(),
        })
    }
}

/// One more of a cause.
pub fn count(counts: &mut BTreeMap<String, u64>, cause: &str) {
    *counts.entry(cause.to_owned()).or_default() += 1;
}
