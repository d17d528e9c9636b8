//! Who owns which awareness entry of a document (W5).

use crate::planted::{Bug, planted};
use crate::protocol::awareness::AwarenessEntry;
use crate::protocol::limits::MAX_OWNED_CLIENT_IDS;
use crate::protocol::sorted::SortedMap;

use super::session::{OwnedEntry, SessionId};

/// The awareness of one document: an entry belongs to the connection that announced it first,
/// and nobody else can change or remove it while that connection lives. A newer connection of the
/// same person takes it over: a network that dies without a word leaves one behind that looks
/// alive, and its person comes back with the same client id.
#[derive(Debug, Default)]
pub(super) struct AwarenessTable {
    entries: SortedMap<u64, Entry>,
    /// Clients that left, with their last clock. A stock client repeats what it hears about
    /// others; without this such an echo would bring a client back that is gone.
    left: Vec<(u64, u32)>,
}

#[derive(Debug)]
struct Entry {
    owner: SessionId,
    clock: u32,
    state: Option<String>,
}

/// What became of an awareness message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Applied<'a> {
    /// What may be forwarded.
    pub(super) accepted: Vec<AwarenessEntry<'a>>,
    /// Entries that are behind what the others know. They go back to the sender as gone, which
    /// makes a client that rejoined raise its clock at once, and one that merely echoed forget
    /// the ghost. Without it a rejoined client stays invisible for up to 30 s.
    pub(super) bounced: Vec<(u64, u32)>,
    /// Connections that lost an entry to the sender.
    pub(super) deprived: Vec<SessionId>,
}

impl AwarenessTable {
    /// Applies a message of `session`, and says what may be forwarded. `is_same_person` tells whether
    /// another connection is of the person who sent it.
    pub(super) fn apply<'a>(
        &mut self,
        session: SessionId,
        message: &[AwarenessEntry<'a>],
        is_same_person: impl Fn(SessionId) -> bool,
    ) -> Applied<'a> {
        let mut applied = Applied::default();
        for entry in message {
            applied.deprived.extend(self.take_over(session, entry, &is_same_person));
            match self.entries.get_mut(&entry.client) {
                Some(known) if known.owner != session => {}
                Some(known) => {
                    if entry.is_gone() {
                        let clock = entry.clock.max(known.clock);
                        self.entries.remove(&entry.client);
                        self.note_left(entry.client, clock);
                    } else if entry.clock >= known.clock {
                        known.clock = entry.clock;
                        // In place: every cursor comes by here.
                        entry.state.clone_into(known.state.get_or_insert_default());
                    }
                    applied.accepted.push(*entry);
                }
                None if entry.is_gone() => {}
                None => match self.left_at(entry.client) {
                    Some(clock) if entry.clock <= clock => applied.bounced.push((entry.client, clock)),
                    _ if self.owned(session).count() >= MAX_OWNED_CLIENT_IDS => {}
                    _ => {
                        self.left.retain(|(client, _)| *client != entry.client);
                        let state = Some(entry.state.to_owned());
                        let new = Entry { owner: session, clock: entry.clock, state };
                        self.entries.insert(entry.client, new);
                        applied.accepted.push(*entry);
                    }
                },
            }
        }
        applied
    }

    /// Hands an entry of another connection of the same person to `session`, and returns who had it.
    /// Only for a newer clock: an equal one is the echo of a stock client in another tab.
    fn take_over(
        &mut self,
        session: SessionId,
        entry: &AwarenessEntry<'_>,
        is_same_person: impl Fn(SessionId) -> bool,
    ) -> Option<SessionId> {
        let known = self.entries.get(&entry.client)?;
        let owner = known.owner;
        if owner == session || entry.clock <= known.clock || !is_same_person(owner) {
            return None;
        }
        if self.owned(session).count() >= MAX_OWNED_CLIENT_IDS {
            return None;
        }
        self.entries.get_mut(&entry.client)?.owner = session;
        Some(owner)
    }

    /// Forgets a connection, and returns its clients with their last clocks.
    pub(super) fn remove(&mut self, session: SessionId) -> Vec<(u64, u32)> {
        let leaves = |entry: &Entry| entry.owner == session || planted(Bug::AwarenessRemovalOfOthers);
        let gone: Vec<(u64, u32)> = self
            .entries
            .iter()
            .filter(|(_, entry)| leaves(entry))
            .map(|(client, entry)| (*client, entry.clock))
            .collect();
        for (client, clock) in &gone {
            self.entries.remove(client);
            self.note_left(*client, *clock);
        }
        gone
    }

    /// The states of everybody else.
    pub(super) fn others(&self, session: SessionId) -> Vec<AwarenessEntry<'_>> {
        self.entries
            .iter()
            .filter(|(_, entry)| entry.owner != session)
            .filter_map(|(client, entry)| {
                let state = entry.state.as_deref()?;
                Some(AwarenessEntry { client: *client, clock: entry.clock, state })
            })
            .collect()
    }

    /// What a connection owns, for its attachment.
    pub(super) fn owned_entries(&self, session: SessionId) -> Vec<OwnedEntry> {
        self.owned(session)
            .map(|(client, entry)| OwnedEntry { client, clock: entry.clock, state: entry.state.clone() })
            .collect()
    }

    /// Takes ownership back after hibernation. Returns whether a state is missing. Of two connections
    /// that claim an entry the one with the newer clock has it.
    pub(super) fn restore(&mut self, session: SessionId, owned: Vec<OwnedEntry>) -> bool {
        let mut missing = false;
        for OwnedEntry { client, clock, state } in owned {
            if self.entries.get(&client).is_some_and(|known| known.clock > clock) {
                continue;
            }
            missing |= state.is_none();
            self.entries.insert(client, Entry { owner: session, clock, state });
        }
        missing
    }

    fn note_left(&mut self, client: u64, clock: u32) {
        self.left.retain(|(known, _)| *known != client);
        if self.left.len() == MAX_LEFT {
            self.left.remove(0);
        }
        self.left.push((client, clock));
    }

    fn left_at(&self, client: u64) -> Option<u32> {
        self.left.iter().find(|(known, _)| *known == client).map(|(_, clock)| *clock)
    }

    fn owned(&self, session: SessionId) -> impl Iterator<Item = (u64, &Entry)> {
        self.entries.iter().filter(move |(_, entry)| entry.owner == session).map(|(id, entry)| (*id, entry))
    }
}

/// Clients that left and are remembered. They matter for seconds, so few are enough.
const MAX_LEFT: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::awareness::GONE;

    fn entry(client: u64, clock: u32, state: &str) -> AwarenessEntry<'_> {
        AwarenessEntry { client, clock, state }
    }

    /// Applies a message of somebody who has no other connection.
    fn apply<'a>(
        table: &mut AwarenessTable,
        session: SessionId,
        message: &[AwarenessEntry<'a>],
    ) -> Applied<'a> {
        table.apply(session, message, |_| false)
    }

    #[test]
    fn a06_entries_of_another_live_connection_are_dropped() {
        let mut table = AwarenessTable::default();
        assert_eq!(apply(&mut table, 1, &[entry(101, 1, "{}")]).accepted.len(), 1);
        for hostile in [entry(101, 99, GONE), entry(101, u32::MAX, "{\"user\":\"evil\"}")] {
            assert_eq!(apply(&mut table, 2, &[hostile]), Applied::default());
        }
        assert_eq!(table.others(2), vec![entry(101, 1, "{}")]);
    }

    #[test]
    fn a02_a_leaving_connection_takes_exactly_its_own_ids() {
        let mut table = AwarenessTable::default();
        let _ = apply(&mut table, 1, &[entry(101, 1, "{}"), entry(102, 4, "{}")]);
        let _ = apply(&mut table, 2, &[entry(201, 1, "{}")]);
        assert_eq!(table.remove(1), vec![(101, 1), (102, 4)]);
        assert_eq!(table.others(9), vec![entry(201, 1, "{}")]);
    }

    #[test]
    fn a07_a_rejoining_client_is_told_to_raise_its_clock() {
        let mut table = AwarenessTable::default();
        let _ = apply(&mut table, 1, &[entry(101, 5, "{}")]);
        let _ = table.remove(1);
        assert_eq!(apply(&mut table, 2, &[entry(101, 5, "{}")]).bounced, vec![(101, 5)]);
        assert_eq!(apply(&mut table, 2, &[entry(101, 6, "{}")]).accepted.len(), 1);
    }

    #[test]
    fn an_echo_does_not_bring_a_client_back() {
        let mut table = AwarenessTable::default();
        let _ = apply(&mut table, 1, &[entry(101, 5, "{}")]);
        let _ = apply(&mut table, 1, &[entry(101, 6, GONE)]);
        assert!(apply(&mut table, 2, &[entry(101, 5, "{}")]).accepted.is_empty());
        assert_eq!(apply(&mut table, 2, &[entry(101, 6, GONE)]), Applied::default(), "F45: ignored");
    }

    #[test]
    fn a01_a_newer_connection_of_the_same_person_takes_an_entry_over() {
        let mut table = AwarenessTable::default();
        let _ = apply(&mut table, 1, &[entry(101, 5, "{}")]);
        let same = |owner| owner == 1;
        assert_eq!(table.apply(2, &[entry(101, 5, "{\"echo\":1}")], same), Applied::default());
        let newer = entry(101, 6, "{\"back\":1}");
        let applied = table.apply(2, &[newer], same);
        assert_eq!((applied.accepted, applied.deprived), (vec![newer], vec![1]));
        assert_eq!(table.remove(1), vec![], "the dead connection takes nothing along");
        assert_eq!(table.remove(2), vec![(101, 6)]);
    }

    #[test]
    fn a01_nobody_takes_over_more_than_a_connection_may_own() {
        let mut table = AwarenessTable::default();
        for client in 0..100 {
            let _ = apply(&mut table, if client < 50 { 1 } else { 2 }, &[entry(client, 1, "{}")]);
        }
        let newer: Vec<_> = (0..100).map(|client| entry(client, 2, "{}")).collect();
        assert_eq!(table.apply(2, &newer, |_| true).deprived, Vec::<SessionId>::new());
        assert_eq!(table.owned_entries(2).len(), MAX_OWNED_CLIENT_IDS);
    }

    #[test]
    fn r02_after_hibernation_the_newer_of_two_claims_counts() {
        let owned = |clock| vec![OwnedEntry { client: 101, clock, state: Some("{}".into()) }];
        for order in [[(1, 5), (2, 6)], [(2, 6), (1, 5)]] {
            let mut table = AwarenessTable::default();
            for (session, clock) in order {
                assert!(!table.restore(session, owned(clock)));
            }
            assert_eq!((table.remove(1), table.remove(2)), (vec![], vec![(101, 6)]));
        }
    }

    #[test]
    fn a_connection_owns_a_bounded_number_of_ids() {
        let mut table = AwarenessTable::default();
        for client in 0..100 {
            let _ = apply(&mut table, 1, &[entry(client, 1, "{}")]);
        }
        assert_eq!(table.owned_entries(1).len(), MAX_OWNED_CLIENT_IDS);
    }
}
