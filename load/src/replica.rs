//! A client's copy of its document: a map whose keys are markers, `client.number`, one a write.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use yrs::types::{EntryChange, map::MapEvent};
use yrs::updates::decoder::Decode;
use yrs::updates::encoder::Encode;
use yrs::{Doc, Map, MapRef, Observable, ReadTxn, StateVector, Transact, TransactionMut, Update};

use crate::Result;

/// The root that the markers are in.
pub const ROOT: &str = "load";

/// One write: who made it, and the how manieth of theirs it is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Marker {
    /// The number of the client.
    pub client: usize,
    /// Counted from 0.
    pub number: usize,
}

impl Marker {
    fn parse(key: &str) -> Option<Self> {
        let (client, number) = key.split_once('.')?;
        Some(Self { client: client.parse().ok()?, number: number.parse().ok()? })
    }

    fn key(self) -> String {
        format!("{}.{}", self.client, self.number)
    }
}

/// A replica.
pub struct Replica {
    doc: Doc,
    map: MapRef,
    arrived: Arc<Mutex<Vec<Marker>>>,
}

impl Replica {
    /// An empty one. Its client id is its own for the whole run.
    pub fn new(client_id: u64) -> Self {
        let doc = Doc::with_client_id(client_id);
        let map = doc.get_or_insert_map(ROOT);
        let arrived = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&arrived);
        map.observe("arrivals", move |txn: &TransactionMut<'_>, event: &MapEvent| {
            let keys = event.keys(txn).iter();
            let inserted = keys.filter(|(_, change)| matches!(change, EntryChange::Inserted(_)));
            if let Ok(mut list) = sink.lock() {
                list.extend(inserted.filter_map(|(key, _)| Marker::parse(key)));
            }
        });
        Self { doc, map, arrived }
    }

    /// Its Yjs client id.
    pub fn client_id(&self) -> u64 {
        self.doc.client_id().get()
    }

    /// Writes a marker, and gives the update that does it.
    pub fn write(&self, marker: Marker) -> Vec<u8> {
        let mut txn = self.doc.transact_mut();
        self.map.insert(&mut txn, marker.key(), i64::try_from(marker.client).unwrap_or(-1));
        txn.encode_update_v1()
    }

    /// Takes in an update.
    pub fn apply(&self, update: &[u8]) -> Result {
        let update =
            Update::decode_v1(update).map_err(|error| format!("an update does not decode: {error}"))?;
        let applied = self.doc.transact_mut().apply_update(update);
        applied.map_err(|error| format!("an update does not apply: {error}"))
    }

    /// The markers that came since the last call, own ones included.
    pub fn take_arrived(&self) -> Vec<Marker> {
        self.arrived.lock().map(|mut list| std::mem::take(&mut *list)).unwrap_or_default()
    }

    /// Its state vector, encoded.
    pub fn state_vector(&self) -> Vec<u8> {
        self.doc.transact().state_vector().encode_v1()
    }

    /// What somebody with this state vector lacks.
    pub fn missing(&self, state_vector: &[u8]) -> Result<Vec<u8>> {
        let vector = StateVector::decode_v1(state_vector)
            .map_err(|error| format!("a step 1 does not decode: {error}"))?;
        Ok(self.doc.transact().encode_state_as_update_v1(&vector))
    }

    /// Its content, as far as two replicas that converged have the same: markers with their values, and
    /// the state vector.
    pub fn content(&self) -> Content {
        let txn = self.doc.transact();
        let markers = self.map.iter(&txn).map(|(key, value)| format!("{key}={}", value.to_string(&txn)));
        let vector = txn.state_vector();
        Content {
            markers: markers.collect(),
            vector: vector.iter().map(|(client, clock)| (client.get(), u64::from(*clock))).collect(),
        }
    }
}

/// See [`Replica::content`].
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Content {
    /// Each marker with its value, as `client.number=client`.
    pub markers: BTreeSet<String>,
    /// Yjs clients and how far they are.
    pub vector: BTreeSet<(u64, u64)>,
}

impl Content {
    /// Whether a client's write is there, with its value.
    pub fn has(&self, marker: Marker) -> bool {
        self.markers.contains(&format!("{}={}", marker.key(), marker.client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_arrives_once_and_with_its_author() {
        let (a, b) = (Replica::new(1), Replica::new(2));
        let marker = Marker { client: 3, number: 4 };
        let update = a.write(marker);
        b.apply(&update).unwrap();
        b.apply(&update).unwrap();
        assert_eq!(b.take_arrived(), [marker]);
        assert_eq!(b.take_arrived(), []);
        assert_eq!(a.content(), b.content());
        assert!(b.content().has(marker));
        assert!(!b.content().has(Marker { client: 3, number: 5 }));
    }

    #[test]
    fn what_was_not_sent_is_in_the_answer_to_a_state_vector() {
        let (a, b) = (Replica::new(1), Replica::new(2));
        for number in 0..3 {
            drop(a.write(Marker { client: 0, number }));
        }
        b.apply(&a.missing(&b.state_vector()).unwrap()).unwrap();
        assert_eq!(b.take_arrived().len(), 3);
        assert!(b.apply(&[1]).is_err());
    }
}
