//! What the document code looks things up and sorts with.
//!
//! Every new pair of key and value types costs the module 6 to 9 KB of `BTreeMap`, every sorted
//! type 3 to 5 KB of sort. So there is one map by client, which is only added to, and one sort.
//! An update of 16 MB may name hundreds of thousands of clients: both stay at n log n.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A value for each client. Clients are never taken out; a value may be emptied.
#[derive(Debug)]
pub(super) struct Table<V> {
    places: BTreeMap<u64, usize>,
    values: Vec<V>,
}

// Not derived: that would ask for `V: Default`.
impl<V> Default for Table<V> {
    fn default() -> Self {
        Self { places: BTreeMap::new(), values: Vec::new() }
    }
}

impl<V> Table<V> {
    pub fn get(&self, client: u64) -> Option<&V> {
        self.values.get(find(&self.places, client)?)
    }

    pub fn get_mut(&mut self, client: u64) -> Option<&mut V> {
        self.values.get_mut(find(&self.places, client)?)
    }

    /// Sets the value of `client`, and says whether it had none.
    pub fn insert(&mut self, client: u64, value: V) -> bool {
        let end = self.values.len();
        let place = place(&mut self.places, client, end);
        match self.values.get_mut(place) {
            Some(old) => *old = value,
            None => self.values.push(value),
        }
        place == end
    }

    /// Changes the value of `client`, which begins as the default.
    pub fn change(&mut self, client: u64, change: impl FnOnce(&mut V))
    where
        V: Default,
    {
        let end = self.values.len();
        let place = place(&mut self.places, client, end);
        if place == end {
            self.values.push(V::default());
        }
        if let Some(value) = self.values.get_mut(place) {
            change(value);
        }
    }

    /// Highest client first, as Yjs writes them: that is the cheaper order to integrate.
    pub fn clients(&self) -> Vec<u64> {
        descending(&self.places)
    }
}

// Not inlined: each copy would be a whole tree search or insertion.
#[inline(never)]
fn find(places: &BTreeMap<u64, usize>, client: u64) -> Option<usize> {
    places.get(&client).copied()
}

/// The place of `client`, which is `new` if it had none.
#[inline(never)]
fn place(places: &mut BTreeMap<u64, usize>, client: u64, new: usize) -> usize {
    *places.entry(client).or_insert(new)
}

#[inline(never)]
fn descending(places: &BTreeMap<u64, usize>) -> Vec<u64> {
    let mut clients = Vec::with_capacity(places.len());
    for client in places.keys().rev() {
        clients.push(*client);
    }
    clients
}

/// The indices below `len` in the order that `compare` gives; equal ones stay as they are.
#[inline(never)]
pub(super) fn order(len: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    // Not the unstable sort: this one is quick on what is merged, which is a few runs in order.
    order.sort_by(|&a, &b| compare(a, b));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_keeps_the_last_value_of_each_client() {
        let mut table = Table::default();
        assert!(table.insert(5, 1));
        assert!(table.insert(9, 2));
        assert!(!table.insert(5, 3));
        table.change(7, |value| *value += 4);
        table.change(7, |value| *value += 4);
        assert_eq!(table.clients(), [9, 7, 5]);
        assert_eq!([9, 7, 5, 6].map(|client| table.get(client).copied()), [Some(2), Some(8), Some(3), None]);
    }

    #[test]
    fn order_is_stable() {
        let keys = [3, 1, 2, 1, 3, 0];
        assert_eq!(order(keys.len(), &|a, b| keys[a].cmp(&keys[b])), [5, 1, 3, 2, 0, 4]);
        assert_eq!(order(100, &|_, _| Ordering::Equal), (0..100).collect::<Vec<_>>());
    }
}
