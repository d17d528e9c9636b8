//! Packing for hot documents (W3a).
//!
//! The cost of a room is the number of sends. A document with few connections or little traffic
//! is forwarded at once; a hot one collects for some milliseconds and sends each receiver one
//! frame with one merged message, since a stock client reads one message per frame.

use crate::document::checkpoint;
use crate::protocol::Timestamp;
use crate::protocol::awareness::{self, AwarenessEntry};
use crate::protocol::message;

use super::config::RoomConfig;
use super::session::SessionId;

/// What a hot document has collected, and how hot it is.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    updates: Vec<(SessionId, Vec<u8>)>,
    updates_due: Option<Timestamp>,
    /// The newest entry of each client.
    awareness: Vec<(u64, u32, String)>,
    awareness_due: Option<Timestamp>,
    rate: Rate,
}

/// Who gets what.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    pub(super) to: Vec<SessionId>,
    pub(super) frame: Vec<u8>,
}

impl Outbox {
    /// Counts a message, and says whether it has to wait for the window.
    pub(super) fn is_hot(&mut self, members: usize, now: Timestamp, config: &RoomConfig) -> bool {
        let rate = self.rate.count(now);
        members > config.never_hot && rate.saturating_mul(members as u64) >= config.hot_deliveries
    }

    /// Whether updates are waiting; then later ones have to wait behind them.
    pub(super) fn has_updates(&self) -> bool {
        !self.updates.is_empty()
    }

    pub(super) fn push_update(
        &mut self,
        from: SessionId,
        update: &[u8],
        now: Timestamp,
        config: &RoomConfig,
    ) {
        self.updates.push((from, update.to_vec()));
        self.updates_due.get_or_insert(now + config.update_window);
    }

    pub(super) fn push_awareness(
        &mut self,
        entries: &[AwarenessEntry<'_>],
        now: Timestamp,
        config: &RoomConfig,
    ) {
        for entry in entries {
            let newest = (entry.client, entry.clock, entry.state.to_owned());
            match self.awareness.iter_mut().find(|(client, ..)| *client == entry.client) {
                Some(known) => *known = newest,
                None => self.awareness.push(newest),
            }
        }
        self.awareness_due.get_or_insert(now + config.awareness_window);
    }

    /// Forgets what waits of clients that left: it would bring them back for whoever joins in between.
    pub(super) fn forget(&mut self, gone: &[(u64, u32)]) {
        self.awareness.retain(|(client, ..)| gone.iter().all(|(left, _)| left != client));
        if self.awareness.is_empty() {
            self.awareness_due = None;
        }
    }

    pub(super) fn timeout(&self) -> Option<Timestamp> {
        self.updates_due.into_iter().chain(self.awareness_due).min()
    }

    /// What is due now.
    pub(super) fn take_due(&mut self, members: &[SessionId], now: Timestamp) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        if self.updates_due.is_some_and(|due| due <= now) {
            self.updates_due = None;
            deliver_updates(&std::mem::take(&mut self.updates), members, &mut deliveries);
        }
        if self.awareness_due.is_some_and(|due| due <= now) {
            self.awareness_due = None;
            let collected = std::mem::take(&mut self.awareness);
            let entries: Vec<AwarenessEntry<'_>> = collected
                .iter()
                .map(|(client, clock, state)| AwarenessEntry { client: *client, clock: *clock, state })
                .collect();
            // One frame for all, the senders included: it doubles as their keep-alive (W5).
            let frame = message::awareness(&awareness::encode(&entries));
            deliveries.push(Delivery { to: members.to_vec(), frame });
        }
        deliveries.retain(|delivery| !delivery.to.is_empty());
        deliveries
    }
}

/// Merges what was collected. Who sent some of it gets only what others sent, unless there are
/// so many senders that merging for each costs more than the echo.
fn deliver_updates(updates: &[(SessionId, Vec<u8>)], members: &[SessionId], deliveries: &mut Vec<Delivery>) {
    let mut senders: Vec<SessionId> = Vec::new();
    for (from, _) in updates {
        if !senders.contains(from) {
            senders.push(*from);
        }
    }
    let echo = senders.len() > MAX_SEPARATE_SENDERS;
    let others = members.iter().copied().filter(|member| echo || !senders.contains(member)).collect();
    merged(updates.iter().map(|(_, update)| update.as_slice()).collect(), others, deliveries);
    if echo {
        return;
    }
    for sender in senders.into_iter().filter(|sender| members.contains(sender)) {
        let foreign = updates.iter().filter(|(from, _)| *from != sender).map(|(_, update)| update.as_slice());
        merged(foreign.collect(), vec![sender], deliveries);
    }
}

fn merged(updates: Vec<&[u8]>, to: Vec<SessionId>, deliveries: &mut Vec<Delivery>) {
    if updates.is_empty() || to.is_empty() {
        return;
    }
    match checkpoint::merge(&updates) {
        Ok(update) => deliveries.push(Delivery { to, frame: message::update(&update) }),
        // What cannot be merged is forwarded as it came.
        Err(_) => deliveries.extend(
            updates.into_iter().map(|update| Delivery { to: to.clone(), frame: message::update(update) }),
        ),
    }
}

/// Messages per second: of this second so far, or of the last whole one if that was more.
#[derive(Debug, Default)]
struct Rate {
    second: u64,
    current: u64,
    previous: u64,
}

impl Rate {
    fn count(&mut self, now: Timestamp) -> u64 {
        let second = now / 1_000;
        if second != self.second {
            self.previous = if second == self.second + 1 { self.current } else { 0 };
            self.second = second;
            self.current = 0;
        }
        self.current += 1;
        self.current.max(self.previous)
    }
}

/// Senders in one window up to which each gets a merge without its own updates.
const MAX_SEPARATE_SENDERS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const A: &[u8] = &[1, 1, 0x65, 0, 4, 1, 1, b't', 1, b'a', 0];
    const B: &[u8] = &[1, 1, 0x66, 0, 4, 1, 1, b't', 1, b'b', 0];

    #[test]
    fn w3a_few_connections_are_never_hot() {
        let (mut outbox, config) = (Outbox::default(), RoomConfig::default());
        assert!((0..10_000).all(|_| !outbox.is_hot(config.never_hot, 0, &config)));
    }

    #[test]
    fn w3a_many_connections_are_hot_only_while_they_are_busy() {
        let (mut outbox, config) = (Outbox::default(), RoomConfig::default());
        assert!(!outbox.is_hot(100, 0, &config));
        assert!((0..10).any(|_| outbox.is_hot(100, 500, &config)));
        assert!(!outbox.is_hot(100, 10_000, &config), "quiet again");
    }

    #[test]
    fn w3a_a_window_is_one_frame_per_receiver_and_nothing_is_echoed() {
        let (mut outbox, config) = (Outbox::default(), RoomConfig::default());
        outbox.push_update(1, A, 0, &config);
        outbox.push_update(2, B, 5, &config);
        assert_eq!(outbox.timeout(), Some(20));
        assert!(outbox.take_due(&[1, 2, 3, 4], 19).is_empty());
        let deliveries = outbox.take_due(&[1, 2, 3, 4], 20);
        let both = message::update(&checkpoint::merge(&[A, B]).unwrap());
        assert_eq!(
            deliveries,
            [
                Delivery { to: vec![3, 4], frame: both },
                Delivery { to: vec![1], frame: message::update(B) },
                Delivery { to: vec![2], frame: message::update(A) },
            ]
        );
        assert_eq!(outbox.timeout(), None);
    }

    #[test]
    fn a_client_that_left_does_not_come_back_out_of_the_window() {
        let (mut outbox, config) = (Outbox::default(), RoomConfig::default());
        let entry = |client| AwarenessEntry { client, clock: 1, state: "{}" };
        outbox.push_awareness(&[entry(101), entry(102)], 0, &config);
        outbox.forget(&[(101, 1)]);
        let left = outbox.take_due(&[2, 3], 50);
        assert_eq!(left.first().unwrap().frame, message::awareness(&awareness::encode(&[entry(102)])));
        outbox.push_awareness(&[entry(102)], 60, &config);
        outbox.forget(&[(102, 1)]);
        assert_eq!(outbox.timeout(), None, "nothing is left to send");
    }

    #[test]
    fn w3a_awareness_keeps_the_newest_state_of_each_client() {
        let (mut outbox, config) = (Outbox::default(), RoomConfig::default());
        for clock in 1..=50 {
            outbox.push_awareness(&[AwarenessEntry { client: 101, clock, state: "{}" }], 0, &config);
        }
        let deliveries = outbox.take_due(&[1, 2], 50);
        let newest = awareness::encode(&[AwarenessEntry { client: 101, clock: 50, state: "{}" }]);
        assert_eq!(deliveries, [Delivery { to: vec![1, 2], frame: message::awareness(&newest) }]);
    }
}
