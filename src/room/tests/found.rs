//! What the simulator found, each as small as it can be shown.

use super::rules::typed;
use super::sim::Sim;
use crate::protocol::change::{Change, ChangeKind};
use crate::protocol::close::CloseCode;
use crate::protocol::message;
use crate::room::{Action, Persisted, Room, RoomConfig, SessionId, SessionInfo, StoreError, Stored};

#[test]
fn w11_a_read_from_before_a_replacement_is_not_mixed_with_what_came_after() {
    let mut sim = Sim::new();
    sim.storage.epoch = sim.storage.append("doc", &typed(1, 0)).clock;
    sim.storage.silent = true;
    let a = sim.join("ann");
    // The content is replaced while the read is on its way; the room is told, and pulls.
    sim.storage.silent = false;
    sim.storage.rows.clear();
    let change = Change { kind: ChangeKind::Replace, ..sim.storage.append("doc", &typed(7, 0)) };
    sim.storage.epoch = change.clock;
    sim.change(&change);
    let late = Stored { updates: vec![typed(1, 0)], clock: 1, epoch: Some(1) };
    sim.room.handle_loaded("doc", 1, Ok(late), sim.now);
    sim.drain(None);
    let inbox = sim.take(a);
    assert_eq!(inbox.closed, None);
    assert!(inbox.updates().iter().all(|update| *update == typed(7, 0)), "{:?}", inbox.updates());
    assert_eq!(sim.storage.loads, 2, "read again");
}

#[test]
fn d6_the_spool_knows_the_epoch_that_people_state_while_storage_is_away() {
    let mut room = Room::new(RoomConfig { alone_after: Some(2_000), spool: true, ..RoomConfig::default() });
    let a = room.handle_open(SessionInfo { epoch: Some(5), ..Sim::info("ann") }, 0);
    room.handle_frame(a, &message::sync_step_1(&[0]), 0);
    room.handle_loaded("doc", 1, Err(StoreError::Unavailable), 0);
    room.handle_frame(a, &message::sync_step_2(&typed(1, 0)), 0);
    room.handle_spool();
    let kept = std::iter::from_fn(|| room.poll_action()).find_map(|action| match action {
        Action::Keep(kept) => Some(kept.epoch),
        _ => None,
    });
    assert_eq!(kept, Some(Some(5)), "or a restart would merge it into whatever is stored by then");
}

#[test]
fn w11_who_waits_with_another_epoch_is_not_sent_what_that_voids() {
    let mut sim = Sim::with(RoomConfig { alone_after: Some(2_000), ..RoomConfig::default() });
    sim.storage.silent = true;
    let stating = |epoch| SessionInfo { epoch: Some(epoch), ..Sim::info("ann") };
    let (old, new) = (sim.open(stating(1)), sim.open(stating(2)));
    sim.frame(old, &message::sync_step_1(&[0]));
    sim.frame(new, &message::sync_step_1(&[0]));
    sim.advance(2_000);
    sim.frame(old, &message::sync_step_2(&typed(1, 0)));
    let inbox = sim.take(new);
    assert_eq!((inbox.closed, inbox.updates().len()), (Some(CloseCode::TryLater), 0));
}

#[test]
fn d1b_a_room_that_owes_an_answer_says_so() {
    let mut sim = Sim::new();
    let a = sim.join("ann");
    assert!(!sim.room.owes_something());
    sim.storage.silent = true;
    let b = sim.open(SessionInfo { document: "other".into(), ..Sim::info("bob") });
    sim.frame(b, &message::sync_step_1(&[0]));
    assert!(sim.room.owes_something(), "bob waits for step 2");
    sim.close(b);
    sim.advance(60_000);
    assert!(!sim.room.owes_something());
    let change = sim.storage.append("doc", &typed(7, 0));
    sim.change(&change);
    assert!(sim.room.owes_something(), "ann lacks what another relay saved");
    sim.storage.silent = false;
    sim.advance(60_000);
    assert_eq!((sim.take(a).updates().last(), sim.room.owes_something()), (Some(&typed(7, 0)), false));
}

#[test]
fn d3_what_was_saved_before_writers_knew_of_the_room_is_looked_for() {
    let mut room = Room::new(RoomConfig::default());
    let a = room.handle_open(Sim::info("ann"), 0);
    room.handle_frame(a, &message::sync_step_1(&[0]), 0);
    room.handle_loaded("doc", 1, Ok(Stored::default()), 10);
    while room.poll_action().is_some() {}
    // Until here a writer saw no lease, and told the room nothing.
    room.handle_lease_written(Ok(()), 20);
    let due = room.poll_timeout().unwrap();
    assert!(due <= 2_020, "{due}");
    room.handle_timeout(due);
    let asked: Vec<Action> = std::iter::from_fn(|| room.poll_action()).collect();
    assert!(asked.contains(&Action::Pull { document: "doc".into(), after: 0, generation: 1 }), "{asked:?}");
}

#[test]
fn w11_a_room_that_wakes_up_knows_the_epoch_that_a_read_told_it() {
    let mut sim = Sim::new();
    sim.storage.epoch = sim.storage.append("doc", &typed(1, 0)).clock;
    let a = sim.join("ann");
    sim.hibernate();
    // Replaced, and nobody told the room.
    sim.storage.rows.clear();
    sim.storage.epoch = sim.storage.append("doc", &typed(7, 0)).clock;
    sim.frame(a, &message::update(&typed(1, 1)));
    let b = sim.join("bob");
    assert_eq!(sim.take(a).closed, Some(CloseCode::EpochChanged));
    sim.advance(60_000);
    assert_eq!(sim.take(b).closed, Some(CloseCode::EpochChanged), "it may have been sent old content");
    assert_eq!(sim.storage.whole("doc"), typed(7, 0));
}

#[test]
fn w11_an_epoch_that_a_flush_told_is_kept_with_the_connections_at_once() {
    let mut sim = Sim::new();
    sim.storage.epoch = 1;
    let a = sim.join("ann");
    sim.frame(a, &message::update(&typed(1, 0)));
    sim.advance(2_000);
    assert_eq!(sim.storage.persists, 1);
    // A reset of the memory may come any time from here on (D1b).
    assert_eq!(sim.take(a).attachment.and_then(|attachment| attachment.epoch), Some(1));
}

#[test]
fn d4_who_comes_when_nobody_waited_any_more_is_served_from_storage() {
    let mut sim = Sim::with(RoomConfig { alone_after: Some(2_000), ..RoomConfig::default() });
    sim.storage.error = Some(StoreError::Unavailable);
    let a = sim.join("ann");
    sim.frame(a, &message::update(&typed(1, 0)));
    sim.close(a);
    sim.advance(5_000);
    let b = sim.join("bob");
    sim.storage.error = None;
    sim.advance(60_000);
    let complete =
        sim.take(b).messages(|message| matches!(message, message::Message::SyncStep2(_)).then_some(()));
    assert_eq!(complete.len(), 1, "storage is read for bob");
}

#[test]
fn r3_a_try_that_a_newer_lease_made_needless_is_not_due_for_ever() {
    let mut room = Room::new(RoomConfig { lease: 10_000, ..RoomConfig::default() });
    let _ = room.handle_open(Sim::info("ann"), 0);
    while room.poll_action().is_some() {}
    // Renewed while the first write is on its way, which then fails.
    let _ = room.handle_open(Sim::info("bob"), 6_000);
    room.handle_lease_written(Err(StoreError::Unavailable), 7_000);
    while room.poll_action().is_some() {}
    let due = room.poll_timeout().unwrap_or(7_000);
    room.handle_timeout(due);
    assert!(room.poll_timeout().is_none_or(|next| next > due), "{:?} at {due}", room.poll_timeout());
}

#[test]
fn r3_a_lease_that_could_not_be_written_is_tried_again_without_an_event() {
    let mut room = Room::new(RoomConfig::default());
    let _ = room.handle_open(Sim::info("ann"), 0);
    while room.poll_action().is_some() {}
    room.handle_lease_written(Err(StoreError::Unavailable), 8_000);
    let due = room.poll_timeout().expect("nothing else may happen for hours");
    while room.poll_action().is_some() {}
    room.handle_timeout(due);
    let asked: Vec<Action> = std::iter::from_fn(|| room.poll_action()).collect();
    assert!(asked.iter().any(|action| matches!(action, Action::Lease { until: 1.., .. })), "{asked:?}");
}

/// Somebody who wrote and asked for a receipt, before storage said anything; from now on it answers.
fn first_save_without_answer() -> (Sim, SessionId) {
    let mut sim = Sim::new();
    let a = sim.join("ann");
    sim.storage.silent = true;
    sim.frame(a, &message::update(&typed(1, 0)));
    sim.text(a, &super::sim::flush(1));
    sim.storage.silent = false;
    (sim, a)
}

/// The answer to the first save of the room's first document.
fn answer_first_save(sim: &mut Sim, saved: Persisted) {
    sim.room.handle_persisted("doc", 1 << 32 | 1, Ok(saved), sim.now);
    sim.drain(None);
}

#[test]
fn w11_a_flush_that_was_saved_before_a_replacement_voids_the_copies_it_came_from() {
    let (mut sim, a) = first_save_without_answer();
    // Committed at clock 1, which made the document; the answer is late. Then it was replaced.
    sim.storage.head = 1;
    let change = Change { kind: ChangeKind::Replace, ..sim.storage.append("doc", &typed(7, 0)) };
    sim.storage.epoch = change.clock;
    sim.change(&change);
    sim.advance(10_000);
    let saved = Persisted { clock: 1, epoch: 1, at: sim.now, missed: true };
    answer_first_save(&mut sim, saved);
    assert_eq!(sim.take(a).closed, Some(CloseCode::EpochChanged));
}

#[test]
fn w8_a_receipt_names_a_clock_at_which_all_of_it_is_stored() {
    let mut sim = Sim::new();
    let a = sim.join("ann");
    // Saved at clock 2; clock 1 is another relay's, and ann does not have it yet.
    sim.storage.silent = true;
    sim.frame(a, &message::update(&typed(1, 0)));
    sim.advance(2_000);
    let saved = Persisted { clock: 2, epoch: 1, at: sim.now, missed: true };
    answer_first_save(&mut sim, saved);
    sim.text(a, &super::sim::flush(1));
    let told = sim.take(a).text;
    assert_eq!(told.last().map(|told| &told["clock"]), Some(&2.into()), "{told:?}");
}

#[test]
fn w8_a_room_that_woke_up_asks_at_which_clock_it_was_saved() {
    let mut sim = Sim::new();
    let a = sim.join("ann");
    let _ = sim.take(a);
    sim.hibernate();
    // What it had attached may be two seconds older than the last save, which may be another relay's.
    let _ = sim.storage.append("doc", &typed(7, 0));
    sim.text(a, &super::sim::flush(1));
    let told = sim.take(a).text;
    assert_eq!(told.last().map(|told| &told["clock"]), Some(&1.into()), "{told:?}");
    sim.hibernate();
    sim.storage.error = Some(StoreError::Unavailable);
    sim.text(a, &super::sim::flush(2));
    assert_eq!(sim.take(a).text[0]["reason"], "storage_unavailable");
}

#[test]
fn w11_who_may_only_read_learns_the_epoch_and_so_can_state_it() {
    let mut sim = Sim::new();
    sim.storage.epoch = sim.storage.append("doc", &typed(7, 0)).clock;
    let viewer = sim.open(SessionInfo { can_write: false, ..Sim::info("vera") });
    sim.frame(viewer, &message::sync_step_1(&[0]));
    let _ = sim.take(viewer);
    sim.text(viewer, &super::sim::flush(1));
    let told = sim.take(viewer).text;
    assert_eq!((&told[0]["reason"], &told[0]["epoch"]), (&"forbidden".into(), &1.into()));
}

fn delete(clock: u64) -> Change {
    Change { clock, kind: ChangeKind::Delete, path: "doc".into(), actor: "bot".into(), at: 0 }
}

#[test]
fn f7_a_delete_that_overtakes_the_answer_to_the_first_save_closes_its_people() {
    let (mut sim, a) = first_save_without_answer();
    // Saved as clock 1, deleted at once, and the room hears of both in the other order.
    sim.change(&delete(2));
    assert_eq!(sim.inboxes[&a].closed, None, "not stored, as far as the room knows");
    let saved = Persisted { clock: 1, epoch: 1, at: sim.now, missed: false };
    answer_first_save(&mut sim, saved);
    assert_eq!(sim.inboxes[&a].closed, Some(CloseCode::Deleted));
    assert!(sim.room.is_idle());
}

#[test]
fn f7_a_delete_that_nobody_told_is_noticed_with_the_next_who_comes() {
    let mut sim = Sim::new();
    sim.storage.append("doc", &typed(1, 0));
    sim.storage.epoch = 1;
    let a = sim.join("ann");
    sim.storage.rows.clear();
    let b = sim.join("bob");
    sim.advance(2_000);
    let closed = [sim.take(a).closed, sim.take(b).closed];
    assert_eq!(closed, [Some(CloseCode::Deleted); 2]);
}

#[test]
fn d3_a_document_that_moves_to_where_people_wait_is_pulled_whole() {
    let mut sim = Sim::with(RoomConfig { follows_feed: true, ..RoomConfig::default() });
    let a = sim.join("ann");
    // Its rows keep their clocks, and are older than what the room knows there to be nothing of.
    sim.room.handle_reset(5, sim.now);
    sim.drain(None);
    sim.storage.append("doc", &typed(7, 0));
    sim.storage.epoch = 1;
    sim.change(&Change { kind: ChangeKind::Move, ..delete(7) });
    assert_eq!(sim.take(a).updates().last(), Some(&typed(7, 0)));
}

#[test]
fn w11_a_pull_from_before_a_delete_is_not_mixed_with_what_came_after() {
    let mut sim = Sim::with(RoomConfig { follows_feed: true, ..RoomConfig::default() });
    let a = sim.join("ann");
    let told = sim.storage.append("doc", &typed(7, 0));
    sim.storage.silent = true;
    sim.change(&told);
    // What the pull reads is deleted, and the next save makes another document.
    sim.storage.rows.clear();
    sim.storage.head = 2;
    sim.frame(a, &message::update(&typed(1, 0)));
    sim.storage.silent = false;
    sim.storage.epoch = 3;
    sim.advance(2_000);
    let late = Stored { updates: vec![typed(7, 0)], clock: 1, epoch: Some(1) };
    sim.room.handle_pulled("doc", 1, Ok(late), sim.now);
    sim.drain(None);
    sim.advance(2_000);
    let inbox = sim.take(a);
    assert_eq!(inbox.closed, None);
    assert!(!inbox.updates().contains(&typed(7, 0)), "{:?}", inbox.updates());
}

#[test]
fn f7_a_late_word_of_a_delete_leaves_who_is_about_to_load_what_was_made_after_it() {
    let mut sim = Sim::new();
    sim.storage.head = 2;
    sim.storage.append("doc", &typed(1, 0));
    sim.storage.epoch = 3;
    sim.storage.silent = true;
    let a = sim.join("ann");
    sim.storage.silent = false;
    sim.change(&delete(2));
    let stored = Stored { updates: vec![typed(1, 0)], clock: 3, epoch: Some(3) };
    sim.room.handle_loaded("doc", 1, Ok(stored), sim.now);
    sim.drain(None);
    let inbox = sim.take(a);
    assert_eq!((inbox.closed, inbox.updates().first()), (None, Some(&typed(1, 0))));
}
