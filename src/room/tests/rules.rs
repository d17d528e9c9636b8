//! One test for each promise of DESIGN section 3 and 8, and for the failures of other systems.

use serde_json::json;

use super::sim::{Sim, flush};
use crate::document::checkpoint;
use crate::protocol::awareness::{self, AwarenessEntry, GONE};
use crate::protocol::change::{Change, ChangeKind};
use crate::protocol::close::CloseCode;
use crate::protocol::limits::MAX_FRAME_BYTES;
use crate::protocol::message::{self, Message};
use crate::protocol::varint::write_var_uint;
use crate::room::{
    Action, Attachment, Frame, Persisted, Refusal, Room, RoomConfig, SessionInfo, SessionKind, StoreError,
    Stored,
};

/// The `n`th letter that Yjs client `client` typed into the root text `t`.
pub fn typed(client: u8, n: u8) -> Vec<u8> {
    if n == 0 {
        return vec![1, 1, client, 0, 4, 1, 1, b't', 1, b'a', 0];
    }
    let mut update = vec![1, 1, client];
    write_var_uint(&mut update, u64::from(n));
    update.extend([0x84, client]);
    write_var_uint(&mut update, u64::from(n) - 1);
    update.extend([1, b'a' + n % 26, 0]);
    update
}

fn cursor(client: u64, clock: u32) -> Vec<u8> {
    message::awareness(&awareness::encode(&[AwarenessEntry { client, clock, state: "{}" }]))
}

fn gone(client: u64, clock: u32) -> Vec<u8> {
    awareness::encode(&[AwarenessEntry { client, clock, state: GONE }])
}

#[test]
fn w1_nothing_is_sent_before_a_connection_has_spoken() {
    let mut sim = Sim::new();
    let writer = sim.join("ann");
    let silent = sim.open(Sim::info("bob"));
    sim.frame(writer, &message::update(&typed(1, 0)));
    sim.frame(writer, &cursor(1, 1));
    sim.change(&Change { clock: 9, kind: ChangeKind::Put, path: "x".into(), actor: "a".into(), at: 0 });
    assert!(sim.take(silent).binary.is_empty());
    assert!(sim.take(writer).text.is_empty(), "a stock y-websocket client never sees JSON");
}

#[test]
fn w2_step_1_is_answered_with_step_2_and_then_a_step_1() {
    let mut sim = Sim::new();
    sim.storage.append("doc", &typed(1, 0));
    let id = sim.join("ann");
    let kinds = sim.take(id).messages(|message| match message {
        Message::SyncStep2(update) => Some(("step 2", update.to_vec())),
        Message::SyncStep1(vector) => Some(("step 1", vector.to_vec())),
        _ => None,
    });
    assert_eq!(kinds, [("step 2", typed(1, 0)), ("step 1", vec![1, 1, 1])]);
}

#[test]
fn w2_a16_nothing_is_answered_before_the_load() {
    let mut sim = Sim::new();
    sim.storage.silent = true;
    let id = sim.join("ann");
    sim.frame(id, &message::update(&typed(2, 0)));
    assert!(sim.take(id).binary.is_empty());
    sim.advance(RoomConfig::default().storage_timeout);
    assert_eq!(sim.take(id).closed, Some(CloseCode::TryLater), "a load that never answers has failed");
}

/// What the room asks for, in order.
fn actions(room: &mut Room) -> Vec<Action> {
    std::iter::from_fn(|| room.poll_action()).collect()
}

#[test]
fn w2_an_update_that_is_saved_while_the_document_is_read_is_in_the_answer() {
    let mut room = Room::new(RoomConfig::default());
    let ann = room.handle_open(Sim::info("ann"), 0);
    room.handle_frame(ann, &message::update(&typed(1, 0)), 0);
    room.handle_text(ann, &flush(1).to_string(), 0);
    let bob = room.handle_open(Sim::info("bob"), 1);
    room.handle_frame(bob, &message::sync_step_1(&[0]), 1);
    let asked = actions(&mut room);
    let saving = asked.iter().find_map(|action| match action {
        Action::Persist(persist) => Some(persist.flush),
        _ => None,
    });
    assert!(asked.iter().any(|action| matches!(action, Action::Load { .. })));
    // The read began before the commit, and its answer comes after that of the commit. An update
    // that arrives meanwhile is saved as well.
    let persisted = Persisted { clock: 1, epoch: 0, at: 2, missed: false };
    room.handle_persisted("doc", saving.unwrap(), Ok(persisted), 2);
    room.handle_frame(ann, &message::update(&typed(1, 1)), 3);
    room.handle_text(ann, &flush(2).to_string(), 3);
    let persisted = Persisted { clock: 2, epoch: 0, at: 4, missed: false };
    room.handle_persisted("doc", saving.unwrap() + 1, Ok(persisted), 4);
    let _ = actions(&mut room);
    room.handle_loaded("doc", 1, Ok(Stored::default()), 5);
    let both = checkpoint::merge(&[&typed(1, 0), &typed(1, 1)]).unwrap();
    let answer = Action::SendBinary { to: vec![bob], frame: Frame::Bytes(message::sync_step_2(&both)) };
    assert!(actions(&mut room).contains(&answer));
}

#[test]
fn w9_a_document_is_as_large_as_its_content_however_often_that_is_sent() {
    let mut sim = Sim::new();
    let a = sim.join("ann");
    let mut update = vec![1, 1, 1, 0, 4, 1, 1, b't'];
    write_var_uint(&mut update, 500_000);
    update.extend([b'x'; 500_000]);
    update.push(0);
    for n in 0..100 {
        sim.frame(a, &message::update(&update));
        assert_eq!(sim.take(a).closed, None, "repetition {n}");
    }
    // Fresh content counts.
    for client in 2..40 {
        update[2] = client;
        sim.frame(a, &message::update(&update));
    }
    assert_eq!(sim.take(a).closed, Some(CloseCode::DocumentTooLarge));
}

#[test]
fn r07_a_failed_load_closes_and_stores_nothing_over_it() {
    let mut sim = Sim::new();
    sim.storage.append("doc", &typed(1, 0));
    sim.storage.error = Some(StoreError::Unavailable);
    let id = sim.join("ann");
    let inbox = sim.take(id);
    assert_eq!(inbox.closed, Some(CloseCode::TryLater));
    assert!(inbox.binary.is_empty(), "no empty document is served");
    sim.storage.error = None;
    let id = sim.join("ann");
    sim.frame(id, &message::update(&typed(2, 0)));
    sim.close(id);
    let whole = sim.storage.whole("doc");
    assert_eq!(checkpoint::state_vector(&whole).unwrap().first(), Some(&2), "old content plus the edit");
}

#[test]
fn w3_an_update_is_forwarded_byte_for_byte_to_the_others_only() {
    let mut sim = Sim::new();
    let (a, b) = (sim.join("ann"), sim.join("bob"));
    let other = sim.open(SessionInfo { document: "other".into(), ..Sim::info("cy") });
    sim.frame(other, &message::sync_step_1(&[0]));
    for id in [a, b, other] {
        sim.take(id);
    }
    let frame = message::update(&typed(1, 0));
    sim.frame(a, &frame);
    assert_eq!(sim.take(b).binary, [frame]);
    assert!(sim.take(a).binary.is_empty());
    assert!(sim.take(other).binary.is_empty(), "another document of the same room");
}

#[test]
fn w3_a_step_2_reaches_the_others_as_an_update() {
    let mut sim = Sim::new();
    let (a, b) = (sim.join("ann"), sim.join("bob"));
    sim.take(b);
    sim.frame(a, &message::sync_step_2(&typed(1, 0)));
    assert_eq!(sim.take(b).binary, [message::update(&typed(1, 0))]);
}

#[test]
fn an_empty_update_is_neither_relayed_nor_stored() {
    let mut sim = Sim::new();
    let (a, b) = (sim.join("ann"), sim.join("bob"));
    sim.take(b);
    sim.frame(a, &message::sync_step_2(&[0, 0]));
    assert!(sim.take(b).binary.is_empty());
    sim.advance(10_000);
    assert_eq!(sim.storage.persists, 0);
}

/// What a stock client that lacks nothing answers to a step 1: no structs, and all deletes.
fn deleted(client: u8, from: u8, len: u8) -> Vec<u8> {
    vec![0, 1, client, 1, from, len]
}

#[test]
fn w3_deletes_that_a_joiner_only_repeats_are_neither_relayed_nor_stored_nor_denied() {
    let mut sim = Sim::new();
    for update in [typed(1, 0), typed(1, 1), typed(1, 2), deleted(1, 0, 2)] {
        sim.storage.append("doc", &update);
    }
    let (a, b) = (sim.join("ann"), sim.join("bob"));
    let viewer = sim.open(SessionInfo { can_write: false, ..Sim::info("eve") });
    sim.frame(viewer, &message::sync_step_1(&[0]));
    for id in [a, b, viewer] {
        sim.take(id);
    }
    for part in [deleted(1, 0, 2), deleted(1, 1, 1)] {
        for id in [b, viewer] {
            sim.frame(id, &message::sync_step_2(&part));
        }
    }
    sim.advance(10_000);
    assert_eq!(sim.storage.persists, 0);
    assert_eq!([a, b, viewer].map(|id| sim.take(id).binary), [const { Vec::<Vec<u8>>::new() }; 3]);
    // What the document has not is kept, as soon as it is one letter.
    sim.frame(b, &message::sync_step_2(&deleted(1, 1, 2)));
    assert_eq!(sim.take(a).updates(), [deleted(1, 1, 2)]);
    // It is known from then on, before it is saved as well.
    sim.frame(a, &message::sync_step_2(&deleted(1, 0, 3)));
    assert!(sim.take(b).binary.is_empty());
    sim.advance(10_000);
    assert_eq!(sim.storage.persists, 1);
    sim.take(viewer);
    sim.frame(viewer, &message::sync_step_2(&deleted(2, 0, 1)));
    assert_eq!(sim.take(viewer).binary.len(), 1, "a viewer is told of what is not kept");
}

#[test]
fn w01_w4_a_malformed_frame_closes_its_sender_and_nobody_notices() {
    let bad: [&[u8]; 8] = [
        &[],
        &[0x80],
        &[0xff; 10],
        &[0, 9],
        &[0, 0, 0xff, 0xff, 0x03],
        &[0, 2, 5, 0xff, 0xff, 0xff, 0xff, 0x07],
        &[0, 2, 3, 0, 0, 7],
        &[1, 2, 1, 1],
    ];
    let mut sim = Sim::new();
    let (b, frame) = (sim.join("bob"), message::update(&typed(1, 0)));
    for bytes in bad {
        let a = sim.join("ann");
        sim.take(b);
        sim.frame(a, bytes);
        assert_eq!(sim.take(a).closed, Some(CloseCode::ProtocolViolation), "{bytes:x?}");
        assert!(sim.take(b).binary.is_empty(), "{bytes:x?}");
        assert_eq!(sim.take(b).closed, None);
    }
    // A good message in front of a bad one is not used either.
    let a = sim.join("ann");
    sim.frame(a, &[frame.as_slice(), &[0x80]].concat());
    sim.advance(10_000);
    assert_eq!(sim.storage.persists, 0);
}

#[test]
fn w10_an_unknown_message_type_is_skipped() {
    let mut sim = Sim::new();
    let (a, b) = (sim.join("ann"), sim.join("bob"));
    sim.take(b);
    sim.frame(a, &[0x7f, 0x00]);
    assert_eq!(sim.take(a).closed, None);
    assert!(sim.take(b).binary.is_empty());
}

#[test]
fn w10_every_message_of_a_frame_counts() {
    let mut sim = Sim::new();
    let (a, b) = (sim.join("ann"), sim.join("bob"));
    sim.take(b);
    sim.frame(a, &[message::update(&typed(1, 0)), cursor(1, 1)].concat());
    assert_eq!(
        sim.take(b).binary,
        [message::update(&typed(1, 0)), cursor(1, 1)],
        "one message per frame out"
    );
}

#[test]
fn w07_a_frame_over_the_limit_is_closed_with_1009() {
    let mut sim = Sim::new();
    let id = sim.join("ann");
    sim.frame(id, &vec![0; MAX_FRAME_BYTES + 1]);
    assert_eq!(sim.take(id).closed, Some(CloseCode::FrameTooLarge));
}

#[test]
fn w5_a03_a_lone_client_hears_its_own_awareness_and_two_do_not() {
    let mut sim = Sim::new();
    let a = sim.join("ann");
    sim.take(a);
    for clock in 1..20 {
        sim.frame(a, &cursor(1, clock));
        assert_eq!(sim.take(a).binary, [cursor(1, clock)], "alone, so it is echoed");
        sim.advance(15_000);
    }
    let b = sim.join("bob");
    sim.frame(b, &cursor(2, 1));
    sim.take(a);
    sim.frame(a, &cursor(1, 30));
    assert!(sim.take(a).binary.is_empty(), "it has just heard the other one");
}

#[test]
fn w5_a_later_joiner_receives_the_states_and_not_those_that_left() {
    let mut sim = Sim::new();
    let (a, b) = (sim.join("ann"), sim.join("bob"));
    sim.frame(a, &cursor(101, 1));
    sim.frame(b, &cursor(102, 1));
    sim.close(b);
    let c = sim.join("cy");
    let states = awareness::encode(&[AwarenessEntry { client: 101, clock: 1, state: "{}" }]);
    assert_eq!(sim.take(c).awareness(), std::slice::from_ref(&states));
    sim.frame(c, &message::query_awareness());
    assert_eq!(sim.take(c).awareness(), [states]);
}

#[test]
fn a02_a_leaving_connection_removes_exactly_its_own_ids() {
    let mut sim = Sim::new();
    let (a, b) = (sim.join("ann"), sim.join("bob"));
    sim.frame(a, &cursor(1, 1));
    sim.frame(b, &cursor(2, 3));
    sim.take(a);
    sim.close(b);
    assert_eq!(sim.take(a).awareness(), [gone(2, 3)]);
}

#[test]
fn a06_nobody_can_remove_or_freeze_anothers_presence() {
    let mut sim = Sim::new();
    let (a, b) = (sim.join("ann"), sim.join("bob"));
    sim.frame(a, &cursor(101, 1));
    sim.take(a);
    sim.frame(b, &message::awareness(&gone(101, 99)));
    let c = sim.join("cy");
    assert_eq!(sim.take(c).awareness().len(), 1, "101 is still there");
    assert!(sim.take(a).awareness().is_empty());
}

#[test]
fn a01_who_comes_back_from_a_dead_network_is_seen_and_keeps_the_id_through_hibernation() {
    let mut sim = Sim::new();
    let (a, ghost) = (sim.join("ann"), sim.join("bob"));
    sim.frame(ghost, &cursor(2, 7));
    let eve = sim.join("eve");
    sim.frame(eve, &cursor(2, 9));
    sim.take(a);
    let b = sim.join("bob");
    sim.frame(b, &cursor(2, 8));
    assert_eq!(sim.take(a).binary, [cursor(2, 8)]);
    sim.advance(15_000);
    sim.hibernate();
    sim.close(ghost);
    assert!(sim.take(a).awareness().is_empty(), "the ghost takes nothing along");
    sim.close(b);
    assert_eq!(sim.take(a).awareness(), [gone(2, 8)]);
}

#[test]
fn a07_a_client_that_rejoins_with_its_old_clock_is_made_visible() {
    let mut sim = Sim::new();
    let (a, b) = (sim.join("ann"), sim.join("bob"));
    sim.frame(b, &cursor(2, 7));
    sim.close(b);
    sim.take(a);
    let b = sim.join("bob");
    sim.take(b);
    sim.frame(b, &cursor(2, 7));
    assert_eq!(sim.take(b).awareness(), [gone(2, 7)], "which makes a stock client raise its clock");
    sim.frame(b, &cursor(2, 8));
    assert_eq!(sim.take(a).binary, [cursor(2, 8)]);
}

#[test]
fn w7_a_change_reaches_who_asked_and_a_hint_is_marked() {
    let mut sim = Sim::new();
    let (a, b) = (sim.open(Sim::info("ann")), sim.open(Sim::info("bob")));
    sim.text(a, &json!({ "type": "hello", "changes": true }));
    sim.text(b, &json!({ "type": "hello" }));
    let change =
        Change { clock: 3, kind: ChangeKind::Put, path: "jobs/1".into(), actor: "bot".into(), at: 5 };
    sim.change(&change);
    assert_eq!(
        sim.take(a).text,
        [json!({ "type": "change", "clock": 3, "kind": "put", "path": "jobs/1", "actor": "bot", "at": 5 })]
    );
    assert!(sim.take(b).text.is_empty());
    sim.text(b, &json!({ "type": "change", "clock": 99, "kind": "put", "path": "x", "actor": "forged" }));
    let hint =
        json!({ "type": "change", "clock": 99, "kind": "put", "path": "x", "actor": "bob", "hint": true });
    assert_eq!(sim.take(a).text, [hint]);
}

#[test]
fn w02_text_that_is_not_understood_is_answered_and_not_relayed() {
    let mut sim = Sim::new();
    let (a, b) = (sim.join("ann"), sim.open(Sim::info("bob")));
    sim.text(b, &json!({ "type": "hello", "changes": true }));
    sim.room.handle_text(a, "..`", sim.now);
    sim.room.handle_text(a, "", sim.now);
    sim.text(a, &json!({ "type": "ping" }));
    let inbox = sim.take(a);
    let types: Vec<&str> = inbox.text.iter().filter_map(|text| text["type"].as_str()).collect();
    assert_eq!((types, inbox.closed), (vec!["error", "error", "pong"], None));
    assert!(sim.take(b).text.is_empty());
    sim.frame(a, &message::sync_step_1(&[0]));
    assert!(!sim.take(a).binary.is_empty(), "the connection still works");
}

#[test]
fn u03_a_viewer_reads_and_nothing_of_it_is_relayed_or_stored() {
    let mut sim = Sim::new();
    let (a, watcher) = (sim.join("ann"), sim.open(Sim::info("bob")));
    sim.text(watcher, &json!({ "type": "hello", "changes": true }));
    sim.storage.append("doc", &typed(9, 0));
    let viewer = sim.open(SessionInfo { can_write: false, ..Sim::info("eve") });
    sim.frame(viewer, &message::sync_step_1(&[0]));
    sim.advance(2_000);
    assert!(!sim.take(viewer).updates().is_empty());
    sim.take(a);
    let padded = [&[0x80, 0x00, 0x82, 0x00][..], &message::update(&typed(1, 0))[2..]].concat();
    for frame in [message::update(&typed(1, 0)), message::sync_step_2(&typed(1, 0)), padded] {
        sim.frame(viewer, &frame);
    }
    sim.text(viewer, &json!({ "type": "change", "clock": 1, "kind": "put", "path": "y" }));
    assert!(sim.take(a).binary.is_empty());
    assert!(sim.take(watcher).text.is_empty());
    sim.advance(10_000);
    assert_eq!(sim.storage.persists, 0);
    let inbox = sim.take(viewer);
    assert_eq!(inbox.binary.len(), 1, "it is told once that it may not write");
    assert_eq!((inbox.text[0]["code"].as_str(), inbox.closed), (Some("forbidden"), None));
}

#[test]
fn u01_an_expired_connection_is_closed_at_the_next_event_and_nothing_wakes_for_it() {
    let mut sim = Sim::new();
    let a = sim.open(SessionInfo { expires_at: sim.now + 600_000, ..Sim::info("ann") });
    sim.frame(a, &message::sync_step_1(&[0]));
    assert_eq!(sim.room.poll_timeout(), None);
    sim.now += 600_000;
    sim.frame(a, &message::update(&typed(1, 0)));
    assert_eq!(sim.take(a).closed, Some(CloseCode::TokenExpired));
    sim.advance(10_000);
    assert_eq!(sim.storage.persists, 0, "the late frame was not used");
}

#[test]
fn w9_r10_a_connection_that_does_not_read_is_closed_and_the_rest_go_on() {
    let bound = RoomConfig::default().max_queued_bytes;
    let mut sim = Sim::new();
    let (a, b, c) = (sim.join("ann"), sim.join("bob"), sim.join("cy"));
    sim.queued(b, bound);
    assert_eq!(sim.inboxes[&b].closed, None);
    sim.queued(b, bound + 100);
    assert_eq!(sim.inboxes[&b].closed, Some(CloseCode::TryLater));
    sim.take(c);
    sim.frame(a, &message::update(&typed(1, 0)));
    assert_eq!((sim.inboxes[&c].closed, sim.inboxes[&c].updates().len()), (None, 1));
}

#[test]
fn w9_a_joiner_may_take_its_time_to_read_a_large_document() {
    let mut sim = Sim::new();
    let mut large = vec![1, 1, 1, 0, 4, 1, 1, b't'];
    write_var_uint(&mut large, 6_000_000);
    large.resize(large.len() + 6_000_000, b'x');
    large.push(0);
    sim.storage.append("doc", &large);
    let a = sim.join("ann");
    sim.queued(a, large.len() as u64);
    assert_eq!(sim.inboxes[&a].closed, None);
    sim.queued(a, large.len() as u64 + RoomConfig::default().max_queued_bytes + 100);
    assert_eq!(sim.inboxes[&a].closed, Some(CloseCode::TryLater));
}

#[test]
fn a18_connections_are_bounded() {
    let config = RoomConfig { max_sessions: 3, max_sessions_per_subject: 2, ..RoomConfig::default() };
    let mut sim = Sim::with(config);
    sim.open(Sim::info("ann"));
    sim.open(Sim::info("ann"));
    assert_eq!(sim.room.admits(&Sim::info("ann")), Err(Refusal::TooManyConnections));
    assert_eq!(sim.room.admits(&Sim::info("bob")), Ok(()));
    sim.open(Sim::info("bob"));
    assert_eq!(sim.room.admits(&Sim::info("cy")), Err(Refusal::RoomFull));
}

#[test]
fn d1_edits_are_saved_within_two_seconds_and_announced() {
    let mut sim = Sim::new();
    let (a, b) = (sim.join("ann"), sim.open(Sim::info("bob")));
    sim.text(b, &json!({ "type": "hello", "changes": true }));
    sim.frame(a, &message::update(&typed(1, 0)));
    sim.advance(1_999);
    assert_eq!(sim.storage.persists, 0);
    sim.advance(1);
    assert_eq!(sim.storage.whole("doc"), typed(1, 0));
    let told = &sim.take(b).text[0];
    assert_eq!((&told["clock"], &told["kind"], &told["actor"]), (&json!(1), &json!("update"), &json!("ann")));
    sim.advance(60_000);
    assert_eq!((sim.storage.persists, sim.room.poll_timeout()), (1, None), "a24: nothing periodic");
}

#[test]
fn d1_documents_are_flushed_together() {
    let mut sim = Sim::new();
    for n in 0..5 {
        let id = sim.open(SessionInfo { document: format!("doc{n}"), ..Sim::info("ann") });
        sim.frame(id, &message::update(&typed(1, 0)));
        sim.now += 300;
    }
    sim.advance(2_000);
    assert_eq!(sim.batches, [5], "one round trip");
}

#[test]
fn d1_the_last_connection_out_saves_at_once() {
    let mut sim = Sim::new();
    let a = sim.join("ann");
    sim.frame(a, &message::update(&typed(1, 0)));
    sim.close(a);
    assert_eq!(sim.storage.whole("doc"), typed(1, 0));
    assert!(sim.room.is_idle());
}

#[test]
fn r08_leave_and_join_at_the_same_moment_loses_nothing() {
    let mut sim = Sim::new();
    for n in 0..200u8 {
        let a = sim.join("ann");
        sim.storage.silent = n % 3 == 0;
        sim.frame(a, &message::update(&typed(1, n)));
        sim.close(a);
        sim.storage.silent = false;
    }
    let last = sim.join("ann");
    sim.close(last);
    sim.advance(60_000);
    assert_eq!(checkpoint::state_vector(&sim.storage.whole("doc")).unwrap(), [1, 1, 0xc8, 0x01]);
    assert!(sim.room.is_idle());
}

#[test]
fn d1_a_failed_flush_keeps_the_tail_and_is_retried() {
    let mut sim = Sim::new();
    let a = sim.join("ann");
    sim.storage.error = Some(StoreError::Unavailable);
    sim.frame(a, &message::update(&typed(1, 0)));
    sim.text(a, &flush(1));
    assert_eq!(
        sim.take(a).text,
        [json!({ "type": "flush_failed", "id": 1, "reason": "storage_unavailable" })]
    );
    sim.advance(60_000);
    let tries = sim.storage.persists;
    assert!((5..15).contains(&tries), "backoff, not a storm: {tries}");
    sim.storage.error = None;
    sim.text(a, &flush(2));
    sim.advance(10_000);
    assert_eq!(sim.take(a).text, [json!({ "type": "receipt", "id": 2, "clock": 1, "epoch": 0 })]);
    assert_eq!(sim.storage.whole("doc"), typed(1, 0));
}

#[test]
fn d01_a_flush_that_was_committed_but_reported_as_failed_is_harmless() {
    let mut sim = Sim::new();
    let a = sim.join("ann");
    sim.storage.error = Some(StoreError::Unavailable);
    sim.storage.commits_before_error = true;
    sim.frame(a, &message::update(&typed(1, 0)));
    sim.advance(2_000);
    sim.storage.error = None;
    sim.advance(10_000);
    assert_eq!(sim.storage.persists, 2);
    assert_eq!(checkpoint::state_vector(&sim.storage.whole("doc")).unwrap(), [1, 1, 1]);
    assert_eq!(sim.take(a).closed, None);
}

#[test]
fn w8_a_receipt_comes_after_the_commit_and_only_then() {
    let mut sim = Sim::new();
    let a = sim.join("ann");
    sim.text(a, &flush(0));
    assert_eq!(sim.take(a).text, [json!({ "type": "receipt", "id": 0, "clock": 0, "epoch": 0 })]);
    sim.storage.silent = true;
    sim.frame(a, &message::update(&typed(1, 0)));
    sim.text(a, &flush(1));
    assert!(sim.take(a).text.is_empty());
    sim.advance(RoomConfig::default().storage_timeout);
    assert_eq!(sim.take(a).text.len(), 1, "flush_failed after the time limit");
    sim.storage.silent = false;
    sim.advance(5_000);
    sim.text(a, &flush(2));
    assert_eq!(sim.take(a).text, [json!({ "type": "receipt", "id": 2, "clock": 1, "epoch": 0 })]);
}

#[test]
fn d3_what_others_append_is_pulled_and_forwarded_once() {
    let mut sim = Sim::new();
    let a = sim.join("ann");
    sim.take(a);
    let change = sim.storage.append("doc", &typed(7, 0));
    sim.change(&change);
    assert_eq!(sim.take(a).binary, [message::update(&typed(7, 0))]);
    sim.change(&change);
    assert!(sim.take(a).binary.is_empty(), "told twice, sent once");
    assert_eq!(sim.storage.pulls, 1);
    let b = sim.join("bob");
    assert_eq!(sim.take(b).updates(), [typed(7, 0)]);
}

#[test]
fn d3_a_lost_notification_is_made_good_by_the_next_flush() {
    let mut sim = Sim::new();
    let a = sim.join("ann");
    sim.storage.append("doc", &typed(7, 0));
    sim.take(a);
    sim.frame(a, &message::update(&typed(1, 0)));
    sim.advance(2_000);
    // The room's own update comes along; it changes nothing at who has it.
    assert_eq!(sim.take(a).updates(), [typed(7, 0), typed(1, 0)]);
    assert_eq!((sim.storage.pulls, sim.storage.persists), (1, 1));
}

#[test]
fn d3_a_lost_notification_is_made_good_by_the_next_joiner() {
    let mut sim = Sim::new();
    let a = sim.join("ann");
    sim.storage.append("doc", &typed(7, 0));
    sim.take(a);
    let pulls = sim.storage.pulls;
    let ids: Vec<_> = (0..50).map(|_| sim.join("bob")).collect();
    sim.advance(2_000);
    assert_eq!(sim.take(a).updates(), [typed(7, 0)], "nobody told the room");
    assert!(ids.iter().all(|id| sim.inboxes[id].updates().contains(&typed(7, 0))));
    assert_eq!((sim.storage.pulls, sim.room.poll_timeout()), (pulls + 1, None), "b08: one query for a storm");
}

#[test]
fn d3_a_change_that_comes_while_a_pull_runs_is_pulled_too() {
    let mut sim = Sim::new();
    let a = sim.join("ann");
    let first = sim.storage.append("doc", &typed(7, 0));
    sim.storage.silent = true;
    sim.change(&first);
    let second = sim.storage.append("doc", &typed(8, 0));
    sim.change(&second);
    sim.take(a);
    let stored = crate::room::Stored { updates: vec![typed(7, 0)], clock: 1, epoch: Some(0) };
    sim.storage.silent = false;
    sim.room.handle_pulled("doc", 1, Ok(stored), sim.now);
    sim.advance(0);
    sim.text(a, &json!({ "type": "ping" }));
    assert_eq!(sim.take(a).updates(), [typed(7, 0), typed(8, 0)]);
}

#[test]
fn i06_a_stalled_pull_is_tried_again() {
    let mut sim = Sim::new();
    let a = sim.join("ann");
    sim.take(a);
    sim.storage.silent = true;
    let change = sim.storage.append("doc", &typed(7, 0));
    sim.change(&change);
    sim.storage.silent = false;
    sim.advance(30_000);
    assert_eq!(sim.take(a).updates(), [typed(7, 0)]);
}

#[test]
fn r01_r02_hibernation_keeps_roles_ownership_and_delivery_and_reads_nothing() {
    let mut sim = Sim::new();
    let (a, b) = (sim.join("ann"), sim.join("bob"));
    let viewer = sim.open(SessionInfo { can_write: false, ..Sim::info("eve") });
    sim.frame(viewer, &message::sync_step_1(&[0]));
    sim.text(a, &json!({ "type": "hello", "changes": true }));
    sim.frame(a, &cursor(1, 4));
    sim.frame(b, &cursor(2, 6));
    sim.frame(a, &message::update(&typed(1, 0)));
    sim.advance(15_000);
    sim.hibernate();
    let loads = sim.storage.loads;
    for id in [a, b, viewer] {
        sim.take(id);
    }
    sim.frame(a, &message::update(&typed(1, 1)));
    assert_eq!(sim.take(b).binary, [message::update(&typed(1, 1))]);
    assert_eq!(sim.take(viewer).binary.len(), 1);
    assert_eq!(sim.storage.loads, loads, "the next frame is served without the document");
    sim.frame(viewer, &message::update(&typed(9, 0)));
    assert!(sim.take(b).binary.is_empty(), "a viewer is still one");
    sim.frame(b, &message::awareness(&gone(1, 99)));
    let c = sim.join("cy");
    assert_eq!(sim.inboxes[&c].awareness().len(), 1, "states survive");
    let expected = checkpoint::merge(&[&typed(1, 0), &typed(1, 1)]).unwrap();
    assert_eq!(sim.inboxes[&c].updates(), [expected], "content survives");
    sim.take(a);
    sim.close(b);
    assert_eq!(sim.take(a).awareness(), [gone(2, 6)], "and b's leave removes b's id");
    sim.advance(2_000);
    assert_eq!(sim.take(a).text.len(), 1, "a still hears changes");
}

#[test]
fn r03_the_lease_is_set_by_the_first_client_and_cleared_by_the_last() {
    let mut sim = Sim::new();
    let a = sim.join("ann");
    let lease = RoomConfig::default().lease;
    assert_eq!(sim.lease, sim.now + lease);
    let bridge = sim.open(SessionInfo { kind: SessionKind::Bridge, ..Sim::info("stream") });
    sim.lease = 0;
    let b = sim.join("bob");
    assert_eq!(sim.lease, 0, "no write while it is fresh");
    sim.now += lease / 2 + 1;
    sim.frame(b, &cursor(2, 1));
    assert_eq!(sim.lease, sim.now + lease);
    sim.close(a);
    sim.close(b);
    assert_eq!(sim.lease, 0);
    assert_eq!(sim.take(bridge).closed, Some(CloseCode::Done), "streams go back to polling");
}

#[test]
fn f7_deletes_close_who_is_concerned() {
    let mut sim = Sim::new();
    let a = sim.open(SessionInfo { document: "notes/a".into(), ..Sim::info("ann") });
    let b = sim.open(SessionInfo { document: "notes2".into(), ..Sim::info("bob") });
    for id in [a, b] {
        sim.frame(id, &message::update(&typed(id as u8, 0)));
    }
    let change = |kind, path: &str| Change { clock: 5, kind, path: path.into(), actor: "x".into(), at: 0 };
    sim.change(&change(ChangeKind::Delete, "notes"));
    assert_eq!((sim.inboxes[&a].closed, sim.inboxes[&b].closed), (Some(CloseCode::Deleted), None));
    sim.change(&change(ChangeKind::DeleteWorkspace, ""));
    assert_eq!(sim.inboxes[&b].closed, Some(CloseCode::Deleted));
    sim.advance(10_000);
    assert_eq!(sim.storage.persists, 0, "nothing is saved into what is gone");
    assert!(sim.room.is_idle());
}

#[test]
fn w11_another_epoch_is_closed_with_4409() {
    let mut sim = Sim::new();
    sim.storage.epoch = 3;
    let old = sim.open(SessionInfo { epoch: Some(2), ..Sim::info("ann") });
    sim.frame(old, &message::sync_step_1(&[0]));
    let inbox = sim.take(old);
    assert_eq!((inbox.closed, inbox.updates().len()), (Some(CloseCode::EpochChanged), 0));
    sim.storage.append("doc", &typed(1, 0));
    let current = sim.open(SessionInfo { epoch: Some(3), ..Sim::info("ann") });
    sim.frame(current, &message::sync_step_1(&[0]));
    assert_eq!(sim.take(current).closed, None);
}

#[test]
fn w11_a_document_that_was_replaced_meanwhile_is_not_merged_with_old_edits() {
    let mut sim = Sim::new();
    sim.storage.append("doc", &typed(1, 0));
    sim.storage.epoch = 1;
    let a = sim.join("ann");
    sim.frame(a, &message::update(&typed(2, 0)));
    sim.storage.rows.clear();
    sim.storage.epoch = 2;
    let change = sim.storage.append("doc", &typed(7, 0));
    sim.change(&change);
    assert_eq!(sim.take(a).closed, Some(CloseCode::EpochChanged));
    sim.advance(60_000);
    assert_eq!(sim.storage.whole("doc"), typed(7, 0));
    assert!(sim.room.is_idle());
}

#[test]
fn a29_the_change_that_replaces_a_document_closes_its_members() {
    let mut sim = Sim::new();
    sim.storage.epoch = sim.storage.append("doc", &typed(1, 0)).clock;
    let a = sim.join("ann");
    sim.storage.silent = true;
    sim.frame(a, &message::update(&typed(2, 0)));
    sim.storage.rows.clear();
    let change = Change { kind: ChangeKind::Replace, ..sim.storage.append("doc", &typed(7, 0)) };
    sim.storage.epoch = change.clock;
    sim.change(&change);
    assert_eq!(sim.take(a).closed, Some(CloseCode::EpochChanged), "without a read");
    sim.storage.silent = false;
    // Told again, or late: who has the new content stays.
    let b = sim.join("bob");
    sim.change(&change);
    sim.advance(60_000);
    assert_eq!(sim.take(b).closed, None);
    assert_eq!(sim.storage.whole("doc"), typed(7, 0));
}

#[test]
fn b07_who_waits_in_an_empty_document_gets_what_is_seeded() {
    let mut sim = Sim::new();
    let a = sim.join("ann");
    let change = Change { kind: ChangeKind::Replace, ..sim.storage.append("doc", &typed(7, 0)) };
    sim.storage.epoch = change.clock;
    sim.change(&change);
    let inbox = sim.take(a);
    assert_eq!((inbox.closed, inbox.updates().last()), (None, Some(&typed(7, 0))));
}

#[test]
fn w11_a_connection_of_another_epoch_brings_nothing_in() {
    let mut sim = Sim::new();
    sim.storage.append("doc", &typed(1, 0));
    sim.storage.epoch = 11;
    let stating = |epoch| SessionInfo { epoch: Some(epoch), ..Sim::info("old") };
    // Nobody knows the epoch yet: writing has to wait for the sync.
    let early = sim.open(stating(3));
    sim.frame(early, &message::update(&typed(5, 0)));
    assert_eq!(sim.take(early).closed, Some(CloseCode::TryLater));
    // The room knows it: the old copy is refused before it is asked for.
    let a = sim.join("ann");
    let old = sim.open(stating(3));
    sim.frame(old, &message::sync_step_1(&[0]));
    let inbox = sim.take(old);
    assert_eq!((inbox.closed, inbox.binary.len()), (Some(CloseCode::EpochChanged), 0));
    let current = sim.open(stating(11));
    sim.frame(current, &message::update(&typed(6, 0)));
    assert_eq!(sim.take(a).updates().last(), Some(&typed(6, 0)));
}

#[test]
fn p8_a_small_frame_makes_one_answer() {
    let mut sim = Sim::new();
    sim.storage.append("doc", &typed(1, 0));
    let (a, b) = (sim.join("ann"), sim.join("bob"));
    sim.frame(a, &cursor(1, 1));
    sim.take(b);
    sim.frame(b, &message::sync_step_1(&[0]).repeat(1_000));
    assert_eq!(sim.take(b).binary.len(), 3, "step 2, step 1, awareness");
    sim.frame(b, &message::query_awareness().repeat(1_000));
    assert_eq!(sim.take(b).binary.len(), 1);
}

#[test]
fn p8_what_waits_to_be_saved_is_bounded_over_all_documents() {
    let mut sim = Sim::with(RoomConfig { max_pending_bytes: 30, ..RoomConfig::default() });
    sim.storage.silent = true;
    let ids: Vec<_> =
        (0..4).map(|n| sim.open(SessionInfo { document: format!("doc{n}"), ..Sim::info("ann") })).collect();
    for id in &ids {
        sim.frame(*id, &message::update(&typed(1, 0)));
    }
    let closed: Vec<_> = ids.iter().map(|id| sim.inboxes[id].closed).collect();
    assert_eq!(closed, [None, None, Some(CloseCode::TryLater), Some(CloseCode::TryLater)]);
}

#[test]
fn w8_a_read_only_connection_gets_no_receipt() {
    let mut sim = Sim::new();
    let viewer = sim.open(SessionInfo { can_write: false, ..Sim::info("eve") });
    sim.frame(viewer, &message::update(&typed(1, 0)));
    sim.text(viewer, &flush(1));
    assert_eq!(
        sim.take(viewer).text,
        [json!({ "type": "flush_failed", "id": 1, "reason": "forbidden", "epoch": 0 })]
    );
}

#[test]
fn f7_a_late_word_of_a_delete_leaves_the_document_made_after_it() {
    let mut sim = Sim::new();
    sim.storage.append("doc", &typed(1, 0));
    sim.storage.epoch = 11;
    let a = sim.join("ann");
    let delete =
        |clock| Change { clock, kind: ChangeKind::Delete, path: "doc".into(), actor: "x".into(), at: 0 };
    sim.change(&delete(10));
    assert_eq!(sim.take(a).closed, None);
    sim.change(&delete(12));
    assert_eq!(sim.take(a).closed, Some(CloseCode::Deleted));
}

#[test]
fn a_document_that_is_gone_closes_who_is_on_it_and_lets_the_room_sleep() {
    let mut sim = Sim::new();
    let a = sim.join("ann");
    let change = sim.storage.append("doc", &typed(1, 0));
    sim.storage.error = Some(StoreError::Deleted);
    sim.change(&change);
    assert_eq!((sim.take(a).closed, sim.room.poll_timeout()), (Some(CloseCode::Deleted), None));
}

#[test]
fn an_answer_for_an_earlier_stay_of_a_document_is_ignored() {
    let mut room = Room::new(RoomConfig::default());
    let flush_of = |actions: &[Action]| {
        actions.iter().find_map(|action| match action {
            Action::Persist(persist) => Some(persist.flush),
            _ => None,
        })
    };
    let save = |room: &mut Room| {
        let id = room.handle_open(Sim::info("ann"), 0);
        room.handle_frame(id, &message::update(&typed(1, 0)), 0);
        room.handle_text(id, &flush(1).to_string(), 0);
        flush_of(&actions(room)).unwrap()
    };
    let first = save(&mut room);
    let delete = Change { clock: 9, kind: ChangeKind::Delete, path: "doc".into(), actor: "x".into(), at: 0 };
    room.handle_change(&delete, 1);
    let second = save(&mut room);
    assert_ne!(first, second);
    let late = Persisted { clock: 8, epoch: 8, at: 2, missed: false };
    room.handle_persisted("doc", first, Ok(late), 2);
    let told = actions(&mut room);
    assert!(!told.iter().any(|action| matches!(action, Action::SendText { .. })), "no receipt: {told:?}");
}

#[test]
fn r03_a_lease_that_was_not_written_is_written_at_the_next_event() {
    let mut room = Room::new(RoomConfig::default());
    let a = room.handle_open(Sim::info("ann"), 0);
    let is_lease = |action: &Action| matches!(action, Action::Lease { until, .. } if *until > 0);
    assert!(actions(&mut room).iter().any(is_lease));
    room.handle_lease_written(Err(StoreError::Unavailable), 1);
    let told = actions(&mut room);
    let [Action::Attach { attachment, .. }] = told.as_slice() else { panic!("{told:?}") };
    let kept = Attachment::decode(attachment).unwrap();
    assert_eq!(kept.lease_until, 0, "nor is it believed after hibernation");
    room.handle_frame(a, &cursor(1, 1), 2);
    assert!(actions(&mut room).iter().any(is_lease));
}

#[test]
fn a12_a_renewal_that_fails_keeps_the_last_confirmed_deadline_and_past_it_the_room_looks_again() {
    let mut room = Room::new(RoomConfig { lease: 10_000, ..RoomConfig::default() });
    let a = room.handle_open(Sim::info("ann"), 0);
    room.handle_frame(a, &message::sync_step_1(&[0]), 0);
    room.handle_loaded("doc", 1, Ok(Stored::default()), 0);
    room.handle_lease_written(Ok(()), 0);
    let settle = |room: &mut Room, until: u64| {
        while let Some(due) = room.poll_timeout().filter(|due| *due <= until) {
            room.handle_timeout(due);
            while let Some(action) = room.poll_action() {
                if matches!(action, Action::Pull { .. }) {
                    room.handle_pulled("doc", 1, Ok(Stored::default()), due);
                }
            }
        }
    };
    settle(&mut room, 5_000);
    let claimed = |actions: &[Action]| -> Vec<u64> {
        let read = |action: &Action| match action {
            Action::Attach { attachment, .. } => Attachment::decode(attachment).map(|kept| kept.lease_until),
            _ => None,
        };
        actions.iter().filter_map(read).collect()
    };
    let wishes = |actions: &[Action]| {
        actions.iter().filter(|action| matches!(action, Action::Lease { until: 1.., .. })).count()
    };
    let pulls = |actions: &[Action]| actions.iter().any(|action| matches!(action, Action::Pull { .. }));
    room.handle_frame(a, &cursor(1, 1), 6_000);
    assert_eq!(wishes(&actions(&mut room)), 1, "more than half of it is over");
    room.handle_lease_written(Err(StoreError::Unavailable), 6_500);
    assert_eq!(claimed(&actions(&mut room)), [10_000], "what storage is known to have, no more and no less");
    // The try after it succeeds before the deadline: nothing was missed.
    room.handle_timeout(7_500);
    assert_eq!(wishes(&actions(&mut room)), 1);
    room.handle_lease_written(Ok(()), 7_600);
    room.handle_timeout(14_000);
    let told = actions(&mut room);
    assert!(!pulls(&told), "{told:?}");
    // None succeeds before the next: from there to the first that does, nobody told the room anything.
    room.handle_frame(a, &cursor(1, 2), 15_000);
    assert_eq!(wishes(&actions(&mut room)), 1);
    room.handle_lease_written(Err(StoreError::Unavailable), 18_000);
    assert_eq!(claimed(&actions(&mut room)), [17_500], "it ended by itself");
    room.handle_timeout(19_000);
    assert_eq!(wishes(&actions(&mut room)), 1);
    room.handle_lease_written(Ok(()), 19_100);
    let due = room.poll_timeout().unwrap();
    room.handle_timeout(due);
    assert!(pulls(&actions(&mut room)), "what others saved meanwhile is looked for");
}

#[test]
fn a13_what_storage_did_not_confirm_is_neither_a_receipt_nor_a_change() {
    for (silent, committed) in [(true, false), (false, false), (false, true)] {
        let mut sim = Sim::new();
        let (a, b) = (sim.join("ann"), sim.join("bob"));
        sim.text(b, &json!({ "type": "hello", "changes": true }));
        sim.take(b);
        sim.storage.silent = silent;
        sim.storage.error = (!silent).then_some(StoreError::Unavailable);
        sim.storage.commits_before_error = committed;
        sim.frame(a, &message::update(&typed(1, 0)));
        sim.text(a, &flush(1));
        sim.advance(RoomConfig::default().storage_timeout);
        let failed = json!({ "type": "flush_failed", "id": 1, "reason": "storage_unavailable" });
        assert_eq!(sim.take(a).text, [failed], "{silent} {committed}");
        let seen = sim.take(b);
        assert!(seen.text.is_empty(), "nothing is called committed: {:?}", seen.text);
        assert_eq!(seen.updates(), [typed(1, 0)], "people go on typing to each other");
        assert_eq!(seen.attachment.map(|kept| kept.clock), Some(0));
        (sim.storage.silent, sim.storage.error) = (false, None);
        sim.advance(60_000);
        assert_eq!(sim.take(b).text.len(), 1, "the change, once it is committed");
        sim.text(a, &flush(2));
        assert_eq!(sim.take(a).text.len(), 1, "and a receipt for who asks");
    }
}

#[test]
fn a4_a_workspace_that_was_deleted_while_its_first_connection_came_in_closes_it() {
    let mut room = Room::new(RoomConfig::default());
    let a = room.handle_open(Sim::info("ann"), 0);
    assert_eq!(actions(&mut room).len(), 2);
    room.handle_lease_written(Err(StoreError::Deleted), 1);
    let closed = |action: &Action| matches!(action, Action::Close { session, code: CloseCode::Deleted, .. } if *session == a);
    assert!(actions(&mut room).iter().any(closed));
    assert_eq!(room.clients(), 0);
}

#[test]
fn p02_signaling_stays_on_its_topic() {
    let mut sim = Sim::new();
    let (a, b, c) = (sim.open(Sim::info("ann")), sim.open(Sim::info("bob")), sim.open(Sim::info("cy")));
    for id in [a, b] {
        sim.text(id, &json!({ "type": "subscribe", "topics": ["room"] }));
    }
    sim.text(c, &json!({ "type": "publish", "topic": "room", "data": "from outside" }));
    sim.text(a, &json!({ "type": "publish", "topic": "room", "data": 1 }));
    let expected = json!({ "type": "publish", "topic": "room", "data": 1, "clients": 2, "sender": "ann" });
    assert_eq!(sim.take(a).text, std::slice::from_ref(&expected));
    assert_eq!(sim.take(b).text, [expected]);
    assert!(sim.take(c).text.is_empty());
}

#[test]
fn c79_forwarding_does_not_depend_on_the_size_of_the_document() {
    let mut sim = Sim::new();
    let (a, b) = (sim.join("ann"), sim.join("bob"));
    sim.advance(5_000);
    sim.take(b);
    let loads = sim.storage.loads;
    for n in 0..100 {
        sim.frame(a, &message::update(&typed(1, n)));
    }
    assert_eq!((sim.take(b).binary.len(), sim.storage.loads), (100, loads));
}

#[test]
fn w3a_a_hot_document_packs_and_loses_nothing() {
    let mut sim = Sim::new();
    let ids: Vec<_> = (0..40).map(|_| sim.join("ann")).collect();
    for id in &ids {
        sim.take(*id);
    }
    for n in 0..50u8 {
        for (client, id) in ids.iter().take(20).enumerate() {
            sim.frame(*id, &message::update(&typed(client as u8 + 1, n)));
        }
        sim.advance(4);
    }
    sim.advance(100);
    let watcher = sim.take(ids[39]);
    let merged = checkpoint::merge(&watcher.updates().iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
    let whole: Vec<Vec<u8>> = (0..20).flat_map(|client| (0..50).map(move |n| typed(client + 1, n))).collect();
    let whole = checkpoint::merge(&whole.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
    assert_eq!(checkpoint::state_vector(&merged).unwrap(), checkpoint::state_vector(&whole).unwrap());
    assert!(watcher.binary.len() < 100, "{} frames for 1000 updates", watcher.binary.len());
}

#[test]
fn unknown_connections_are_ignored() {
    let mut room = Room::new(RoomConfig::default());
    room.handle_frame(7, &[0, 0, 1, 0], 0);
    room.handle_text(7, "{}", 0);
    room.handle_close(7, 0);
    assert!(room.poll_action().is_none());
}

#[test]
fn d1a_attachments_are_written_when_a_connection_is_quiet_and_not_while_it_is_busy() {
    let mut sim = Sim::new();
    let a = sim.join("ann");
    // The epoch of a new document is kept at once.
    sim.frame(a, &message::update(&typed(2, 0)));
    sim.advance(5_000);
    let before = sim.attached;
    for n in 0..20_u8 {
        sim.frame(a, &cursor(1, u32::from(n) + 1));
        sim.frame(a, &message::update(&typed(1, n)));
        sim.advance(500);
    }
    assert_eq!(sim.attached, before, "ten busy seconds");
    sim.advance(6_000);
    assert!(sim.attached > before, "and then it is kept");
    assert_eq!(sim.room.poll_timeout(), None, "the room can sleep");
    let attachment = sim.inboxes[&a].attachment.clone().unwrap();
    assert_eq!((attachment.owned[0].clock, attachment.clock), (20, sim.storage.head));
}
