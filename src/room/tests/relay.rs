//! What only a relay outside of the Worker asks of a room: it follows the feed, spools, and stops.

use serde_json::json;

use super::rules::typed;
use super::sim::{Sim, flush};
use crate::protocol::awareness::{self as wire, AwarenessEntry};
use crate::protocol::close::CloseCode;
use crate::protocol::message;
use crate::room::{RoomConfig, StoreError};

fn relay() -> Sim {
    Sim::with(RoomConfig { follows_feed: true, hibernates: false, spool: true, ..RoomConfig::default() })
}

#[test]
fn d3_its_own_change_in_the_feed_is_not_pulled() {
    let mut sim = relay();
    let a = sim.join("ann");
    sim.frame(a, &message::update(&typed(1, 0)));
    sim.storage.silent = true;
    sim.advance(2_000);
    // The commit is in the feed before its answer is here.
    let own = sim.storage.append("doc", &typed(1, 0));
    sim.change(&own);
    assert_eq!((sim.storage.persists, sim.storage.pulls), (1, 0));
    let persisted = crate::room::Persisted { clock: 1, epoch: 1, at: sim.now, missed: false };
    let flush = 1 << 32 | 1;
    sim.room.handle_persisted("doc", flush, Ok(persisted), sim.now);
    sim.drain(None);
    sim.advance(60_000);
    assert_eq!(sim.storage.pulls, 0, "nor later");
}

#[test]
fn d3_what_came_while_a_flush_ran_is_pulled_when_it_failed() {
    let mut sim = relay();
    let a = sim.join("ann");
    sim.frame(a, &message::update(&typed(1, 0)));
    sim.storage.silent = true;
    sim.advance(2_000);
    let foreign = sim.storage.append("doc", &typed(7, 0));
    sim.change(&foreign);
    sim.storage.silent = false;
    sim.take(a);
    sim.advance(RoomConfig::default().storage_timeout);
    assert_eq!(sim.take(a).updates(), [typed(7, 0)], "before the flush is tried again");
}

#[test]
fn w7_changes_are_announced_once_and_in_the_order_of_the_feed() {
    let mut sim = relay();
    let a = sim.join("ann");
    sim.text(a, &json!({ "type": "hello", "changes": true }));
    sim.frame(a, &message::update(&typed(1, 0)));
    sim.text(a, &flush(1));
    let told = |sim: &mut Sim| {
        let texts = sim.take(a).text;
        texts.into_iter().filter(|text| text["type"] == "change").collect::<Vec<_>>()
    };
    assert!(told(&mut sim).is_empty(), "saved, and not told before the feed says so");
    let mut own = sim.storage.append("other", &typed(3, 0));
    sim.change(&own);
    own.clock += 1;
    sim.change(&own);
    assert_eq!(told(&mut sim).len(), 2);
}

#[test]
fn f3_after_a_reset_every_document_is_looked_at_once() {
    let mut sim = relay();
    let a = sim.join("ann");
    sim.storage.append("doc", &typed(7, 0));
    sim.take(a);
    sim.room.handle_reset(1, sim.now);
    sim.drain(None);
    assert_eq!(sim.take(a).updates(), [typed(7, 0)]);
    sim.room.handle_reset(1, sim.now);
    sim.drain(None);
    assert_eq!(sim.storage.pulls, 1, "nothing new, nothing asked");
}

#[test]
fn d6_the_spool_has_what_is_not_saved() {
    let mut sim = relay();
    let a = sim.join("ann");
    sim.frame(a, &message::update(&typed(1, 0)));
    sim.frame(a, &message::update(&typed(1, 1)));
    let kept = |sim: &Sim| sim.spool.iter().map(|(_, _, update)| update.clone()).collect::<Vec<_>>();
    assert_eq!(kept(&sim), [typed(1, 0), typed(1, 1)]);
    sim.storage.silent = true;
    sim.advance(2_000);
    sim.frame(a, &message::update(&typed(1, 2)));
    assert_eq!(kept(&sim).len(), 3, "a flush that has no answer releases nothing");
    sim.storage.silent = false;
    sim.advance(60_000);
    assert!(kept(&sim).is_empty());
    assert_eq!(sim.storage.whole("doc"), {
        let updates = [typed(1, 0), typed(1, 1), typed(1, 2)];
        let parts: Vec<&[u8]> = updates.iter().map(Vec::as_slice).collect();
        crate::document::checkpoint::merge(&parts).unwrap()
    });
}

#[test]
fn d6_what_gathers_is_one_row_a_document_however_many_wrote_it() {
    let mut sim = relay();
    sim.spool_waits = true;
    let (a, b) = (sim.join("ann"), sim.join("bob"));
    for (session, client, clock) in [(a, 1, 0), (b, 2, 0), (a, 1, 1)] {
        sim.frame(session, &message::update(&typed(client, clock)));
    }
    assert!(sim.spool.is_empty(), "the shell says when");
    sim.room.handle_spool();
    sim.drain(None);
    let updates = [typed(1, 0), typed(2, 0), typed(1, 1)];
    let parts: Vec<&[u8]> = updates.iter().map(Vec::as_slice).collect();
    let whole = crate::document::checkpoint::merge(&parts).unwrap();
    assert_eq!(sim.spool, [("doc".to_owned(), 1 << 32 | 3, whole)]);
    sim.room.handle_spool();
    sim.drain(None);
    assert_eq!(sim.spool.len(), 1, "once");
    sim.advance(60_000);
    assert!(sim.spool.is_empty() && sim.storage.persists == 1);
}

#[test]
fn d6_what_was_saved_before_the_spool_took_it_is_not_kept() {
    let mut sim = relay();
    sim.spool_waits = true;
    let a = sim.join("ann");
    sim.frame(a, &message::update(&typed(1, 0)));
    sim.advance(2_000);
    sim.room.handle_spool();
    sim.drain(None);
    assert!(sim.spool.is_empty());
}

#[test]
fn d6_what_was_received_during_a_flush_stays_in_the_spool_after_it() {
    let mut sim = relay();
    let a = sim.join("ann");
    sim.frame(a, &message::update(&typed(1, 0)));
    sim.storage.silent = true;
    sim.advance(2_000);
    sim.frame(a, &message::update(&typed(1, 1)));
    let persisted = crate::room::Persisted { clock: 1, epoch: 1, at: sim.now, missed: false };
    sim.room.handle_persisted("doc", 1 << 32 | 1, Ok(persisted), sim.now);
    sim.drain(None);
    assert_eq!(sim.spool.iter().map(|(_, _, update)| update).collect::<Vec<_>>(), [&typed(1, 1)]);
}

#[test]
fn d6_void_edits_leave_the_spool_with_their_connection() {
    let mut sim = relay();
    let a = sim.join("ann");
    sim.frame(a, &message::update(&typed(1, 0)));
    sim.storage.error = Some(StoreError::EpochChanged);
    sim.advance(2_000);
    assert_eq!(sim.take(a).closed, Some(CloseCode::EpochChanged));
    assert!(sim.spool.is_empty());
}

#[test]
fn the_age_of_what_is_unsaved_is_that_of_its_oldest_update() {
    let mut sim = relay();
    let a = sim.join("ann");
    assert_eq!(sim.room.unsaved_since(), None);
    let start = sim.now;
    sim.frame(a, &message::update(&typed(1, 0)));
    sim.advance(500);
    sim.frame(a, &message::update(&typed(1, 1)));
    assert_eq!(sim.room.unsaved_since(), Some(start));
    sim.storage.silent = true;
    sim.advance(2_000);
    sim.frame(a, &message::update(&typed(1, 2)));
    assert_eq!(sim.room.unsaved_since(), Some(start), "a flush on its way is not saved");
    sim.storage.silent = false;
    sim.advance(60_000);
    assert_eq!(sim.room.unsaved_since(), None);
}

#[test]
fn before_a_stop_everything_is_flushed_and_everybody_sent_away() {
    let mut sim = relay();
    let ids: Vec<_> = ["ann", "bob"].map(|name| sim.join(name)).into();
    sim.frame(ids[0], &message::update(&typed(1, 0)));
    sim.room.handle_flush(sim.now);
    sim.drain(None);
    assert_eq!((sim.storage.persists, sim.room.has_unsaved()), (1, false), "without the delay");
    sim.room.handle_restart(sim.now);
    sim.drain(None);
    for id in ids {
        assert_eq!(sim.take(id).closed, Some(CloseCode::Restart));
    }
    assert!(sim.room.is_idle());
}

#[test]
fn a_room_that_never_hibernates_attaches_nothing_and_has_no_timer_for_it() {
    let mut sim = relay();
    let a = sim.join("ann");
    sim.frame(a, &message::awareness(&wire::encode(&[AwarenessEntry { client: 7, clock: 1, state: "{}" }])));
    sim.frame(a, &message::update(&typed(1, 0)));
    sim.advance(10_000);
    assert_eq!((sim.storage.persists, sim.attached), (1, 0));
    assert!(
        sim.room.poll_timeout().is_none_or(|at| at > sim.now + 3_600_000),
        "nothing is due but the lease"
    );
}
