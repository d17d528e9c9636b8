//! A Yjs document by yrs, which is not our code: a list of marks, text with marks in angle brackets, and a
//! map with marks as keys. Each mark is written once.

use std::collections::BTreeMap;
use std::fmt;

use yrs::updates::decoder::Decode;
use yrs::updates::encoder::Encode;
use yrs::{
    Any, Array, ArrayRef, Doc, GetString, Map, MapRef, Out, ReadTxn, Snapshot, StateVector, Text, TextRef,
    Transact, TransactionMut, Update,
};

/// A copy of a document. A clone is the same copy.
#[derive(Clone)]
pub struct Replica {
    doc: Doc,
    list: ArrayRef,
    text: TextRef,
    map: MapRef,
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.content())
    }
}

/// What a copy has, and what of it is deleted.
#[derive(Debug, Clone)]
pub struct Extent(Snapshot);

impl Extent {
    /// Whether everything of another one is here, its deletes included.
    pub fn includes(&self, other: &Self) -> bool {
        let (own, their) = (&self.0, &other.0);
        their.state_map.iter().all(|(client, clock)| own.state_map.get(client) >= *clock)
            && their.delete_set.diff(&own.delete_set).is_empty()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.0.state_map.is_empty()
    }
}

impl Replica {
    /// An empty copy with a Yjs client id.
    pub fn new(client: u64) -> Self {
        let doc = Doc::with_client_id(client);
        let list = doc.get_or_insert_array("marks");
        let text = doc.get_or_insert_text(TEXT);
        let map = doc.get_or_insert_map(MAP);
        Self { doc, list, text, map }
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
        let index = index_at(place, self.list.len(&transaction));
        self.list.insert(&mut transaction, index, mark);
        transaction.encode_update_v1()
    }

    /// Removes the mark at a place, if there is any, and returns it with the update.
    pub fn erase(&self, place: u64) -> Option<(String, Vec<u8>)> {
        let mut transaction = self.doc.transact_mut();
        let last = self.list.len(&transaction).checked_sub(1)?;
        let index = index_at(place, last);
        let Some(Out::Any(Any::String(mark))) = self.list.get(&transaction, index) else { return None };
        self.list.remove(&mut transaction, index);
        Some((mark.to_string(), transaction.encode_update_v1()))
    }

    /// Types some letters at a place of the text, but never into a mark.
    pub fn type_letters(&self, letters: &str, place: u64) -> Vec<u8> {
        let mut transaction = self.doc.transact_mut();
        let text = self.text.get_string(&transaction);
        let index = index_at(place, self.text.len(&transaction)) as usize;
        let (before, after) = text.split_at(index);
        let is_inside = before.rfind('<') > before.rfind('>');
        let rest = if is_inside { after.find('>').map_or(after.len(), |end| end + 1) } else { 0 };
        self.text.insert(&mut transaction, u32::try_from(index + rest).unwrap_or(0), letters);
        transaction.encode_update_v1()
    }

    /// Deletes up to `most` letters of the text from a place on, but never of a mark.
    pub fn strike(&self, place: u64, most: usize) -> Option<Vec<u8>> {
        let mut transaction = self.doc.transact_mut();
        let text = self.text.get_string(&transaction);
        let from = index_at(place, self.text.len(&transaction)) as usize;
        let is_letter =
            |index: &usize| text.as_bytes().get(*index).is_some_and(|byte| LETTERS.contains(byte));
        let start = (from..text.len()).chain(0..from).find(is_letter)?;
        let count = (start..text.len()).take(most.max(1)).take_while(is_letter).count();
        self.delete(&mut transaction, start, count);
        Some(transaction.encode_update_v1())
    }

    fn delete(&self, transaction: &mut TransactionMut<'_>, start: usize, count: usize) {
        let number = |number: usize| u32::try_from(number).unwrap_or(0);
        self.text.remove_range(transaction, number(start), number(count));
    }

    /// What a copy with this state vector lacks, and all deletes, as stock clients answer it; `None` for
    /// bytes that are no state vector.
    pub fn lacking(&self, vector: &[u8]) -> Option<Vec<u8>> {
        let vector = StateVector::decode_v1(vector).ok()?;
        Some(self.doc.transact().encode_state_as_update_v1(&vector))
    }

    /// Its state vector.
    pub fn vector(&self) -> Vec<u8> {
        self.doc.transact().state_vector().encode_v1()
    }

    /// What it has, and what of it is deleted.
    pub fn extent(&self) -> Extent {
        Extent(self.doc.transact().snapshot())
    }

    /// Its text.
    pub fn text(&self) -> String {
        self.text.get_string(&self.doc.transact())
    }

    /// All that an application sees of it.
    pub fn content(&self) -> String {
        let transaction = self.doc.transact();
        let keys: Vec<String> = self.keys(&transaction);
        format!("{:?} {:?} {keys:?}", self.list_of(&transaction), self.text.get_string(&transaction))
    }

    fn keys(&self, transaction: &impl ReadTxn) -> Vec<String> {
        let mut keys: Vec<String> = self.map.keys(transaction).map(str::to_owned).collect();
        keys.sort();
        keys
    }

    fn list_of(&self, transaction: &impl ReadTxn) -> Vec<String> {
        let shown = |out| match out {
            Out::Any(Any::String(mark)) => mark.to_string(),
            _ => String::new(),
        };
        self.list.iter(transaction).map(shown).collect()
    }

    /// How often each mark is there, wherever.
    pub fn counts(&self) -> BTreeMap<String, u32> {
        let transaction = self.doc.transact();
        let text = self.text.get_string(&transaction);
        let in_text = text.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(mark, _)| mark);
        let mut counts = BTreeMap::new();
        for mark in self.list_of(&transaction) {
            *counts.entry(mark).or_insert(0) += 1;
        }
        for mark in in_text.map(str::to_owned).chain(self.keys(&transaction)) {
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

fn index_at(place: u64, length: u32) -> u32 {
    u32::try_from(u64::from(length) * place.min(1000) / 1000).unwrap_or(0)
}

/// The root that holds text.
pub const TEXT: &str = "text";

/// The root that is a map.
pub const MAP: &str = "map";

/// What people type: no mark has any of them.
pub const LETTERS: &[u8] = b"klmnopqrstuvwxyz";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_knows_what_is_deleted() {
        let (a, b) = (Replica::new(1), Replica::new(2));
        b.apply(&a.type_letters("kkk", 0));
        assert!(a.extent().includes(&b.extent()) && b.extent().includes(&a.extent()));
        let struck = a.strike(0, 2).unwrap();
        assert!(a.extent().includes(&b.extent()) && !b.extent().includes(&a.extent()));
        b.apply(&struck);
        assert!(b.extent().includes(&a.extent()));
        assert_eq!((a.text(), b.text()), ("k".to_owned(), "k".to_owned()));
    }

    #[test]
    fn letters_neither_split_marks_nor_take_them_along() {
        let a = Replica::new(1);
        let _ = a.type_letters("<a0.1>", 0);
        for place in 0..=10 {
            let _ = a.type_letters("xyz", place * 100);
        }
        assert_eq!(a.counts(), BTreeMap::from([("a0.1".to_owned(), 1)]));
        while a.strike(300, 4).is_some() {}
        assert_eq!(a.text(), "<a0.1>");
    }

    #[test]
    fn step_2_tells_all_deletes() {
        let (a, b) = (Replica::new(1), Replica::new(2));
        b.apply(&a.type_letters("kkk", 0));
        let _ = a.strike(0, 2);
        let only_deletes = a.lacking(&b.vector()).unwrap();
        assert_eq!(only_deletes[0], 0, "no structs");
        b.apply(&only_deletes);
        assert_eq!(b.text(), "k");
    }
}
