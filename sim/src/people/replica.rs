//! A Yjs document by yrs, which is not our code: a list of marks, each written once.

use std::collections::BTreeMap;
use std::fmt;

use yrs::updates::decoder::Decode;
use yrs::updates::encoder::Encode;
use yrs::{Array, ArrayRef, Doc, Out, ReadTxn, StateVector, Transact, Update};

/// A copy of a document. A clone is the same copy.
#[derive(Clone)]
pub struct Replica {
    doc: Doc,
    list: ArrayRef,
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.marks())
    }
}

impl Replica {
    /// An empty copy with a Yjs client id.
    pub fn new(client: u64) -> Self {
        let doc = Doc::with_client_id(client);
        let list = doc.get_or_insert_array("marks");
        Self { doc, list }
    }

    /// What some updates make.
    pub fn of(updates: &[Vec<u8>]) -> Self {
        let replica = Self::new(1);
        for update in updates {
            replica.apply(update);
        }
        replica
    }

    /// Takes an update in.
    pub fn apply(&self, update: &[u8]) {
        if let Ok(update) = Update::decode_v1(update) {
            // An update that does not apply shows as a copy that differs.
            let _ = self.doc.transact_mut().apply_update(update);
        }
    }

    /// Writes a mark, at a place between 0 and 1000 thousandths, and returns the update.
    pub fn write(&self, mark: &str, place: u64) -> Vec<u8> {
        let mut transaction = self.doc.transact_mut();
        let length = u64::from(self.list.len(&transaction));
        let index = u32::try_from(length * place.min(1000) / 1000).unwrap_or(0);
        self.list.insert(&mut transaction, index, mark);
        transaction.encode_update_v1()
    }

    /// Removes the mark at a place, if there is any, and returns it with the update.
    pub fn erase(&self, place: u64) -> Option<(String, Vec<u8>)> {
        let mut transaction = self.doc.transact_mut();
        let length = u64::from(self.list.len(&transaction));
        if length == 0 {
            return None;
        }
        let index = u32::try_from(length.saturating_sub(1) * place.min(1000) / 1000).unwrap_or(0);
        let mark = match self.list.get(&transaction, index) {
            Some(Out::Any(yrs::Any::String(mark))) => mark.to_string(),
            _ => return None,
        };
        self.list.remove(&mut transaction, index);
        Some((mark, transaction.encode_update_v1()))
    }

    /// What a copy with this state vector lacks; `None` for bytes that are none.
    pub fn lacking(&self, vector: &[u8]) -> Option<Vec<u8>> {
        let vector = StateVector::decode_v1(vector).ok()?;
        Some(self.doc.transact().encode_state_as_update_v1(&vector))
    }

    /// Everything.
    pub fn whole(&self) -> Vec<u8> {
        self.doc.transact().encode_state_as_update_v1(&StateVector::default())
    }

    /// Its state vector.
    pub fn vector(&self) -> Vec<u8> {
        self.doc.transact().state_vector().encode_v1()
    }

    /// The marks, in order.
    pub fn marks(&self) -> Vec<String> {
        let transaction = self.doc.transact();
        self.list
            .iter(&transaction)
            .map(|out| match out {
                Out::Any(yrs::Any::String(mark)) => mark.to_string(),
                _ => String::new(),
            })
            .collect()
    }

    /// How often each mark is there.
    pub fn counts(&self) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        for mark in self.marks() {
            *counts.entry(mark).or_insert(0) += 1;
        }
        counts
    }

    /// Whether updates wait for others that are missing (D5).
    pub fn has_hole(&self) -> bool {
        let transaction = self.doc.transact();
        let store = transaction.store();
        store.pending_update().is_some() || store.pending_ds().is_some()
    }
}
