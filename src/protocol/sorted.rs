//! A small map in a sorted vector of keys and one of values: a search touches keys alone.
//!
//! A B-tree costs some 8 KB of WASM for each type of entry. What a room holds is bounded by its
//! connections, a few hundred at most, and for that a vector is as fast.

use std::borrow::Borrow;

/// A map for few entries. Inserting and removing move what follows; looking up is a binary search.
#[derive(Debug)]
pub struct SortedMap<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self { keys: Vec::new(), values: Vec::new() }
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let index = self.find(key).ok()?;
        self.values.get(index)
    }

    /// The value of a key, to change.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let index = self.find(key).ok()?;
        self.values.get_mut(index)
    }

    /// Whether a key is there.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_ok()
    }

    /// Sets the value of a key.
    pub fn insert(&mut self, key: K, value: V) {
        match self.find(&key) {
            Ok(index) => {
                if let Some(known) = self.values.get_mut(index) {
                    *known = value;
                }
            }
            Err(index) => {
                self.keys.insert(index, key);
                self.values.insert(index, value);
            }
        }
    }

    /// Takes a key out.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let index = self.find(key).ok()?;
        self.keys.remove(index);
        Some(self.values.remove(index))
    }

    /// All entries, in the order of the keys.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.keys.iter().zip(&self.values)
    }

    /// All entries, with values to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.keys.iter().zip(&mut self.values)
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.keys.iter()
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.values.iter()
    }

    /// All values, to change.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.values.iter_mut()
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        self.keys.binary_search_by(|known| known.borrow().cmp(key))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_map(ops in proptest::collection::vec((any::<u8>(), any::<Option<u16>>()), 0..200)) {
            let (mut model, mut map) = (BTreeMap::new(), SortedMap::default());
            for (key, value) in ops {
                match value {
                    Some(value) => {
                        model.insert(key, value);
                        map.insert(key, value);
                    }
                    None => prop_assert_eq!(model.remove(&key), map.remove(&key)),
                }
                prop_assert_eq!(model.get(&key), map.get(&key));
                prop_assert!(model.iter().eq(map.iter()));
                prop_assert_eq!(model.len(), map.len());
            }
        }
    }
}
