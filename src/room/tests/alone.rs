//! People go on while storage cannot be read (D4), and nothing is called complete meanwhile (W2).

use super::rules::typed;
use super::sim::{Sim, flush};
use crate::document::checkpoint;
use crate::protocol::close::CloseCode;
use crate::protocol::message::{self, Message};
use crate::room::{RoomConfig, SessionId, SessionInfo, StoreError};

const PATIENCE: u64 = 2_000;

fn relay() -> Sim {
    Sim::with(RoomConfig {
        alone_after: Some(PATIENCE),
        follows_feed: true,
        spool: true,
        ..RoomConfig::default()
    })
}

fn down() -> Sim {
    let mut sim = relay();
    sim.storage.error = Some(StoreError::Unavailable);
    sim
}

/// What a connection was sent, by kind.
fn kinds(sim: &mut Sim, id: SessionId) -> Vec<&'static str> {
    sim.take(id).messages(|message| match message {
        Message::SyncStep1(_) => Some("step 1"),
        Message::SyncStep2(_) => Some("step 2"),
        Message::Update(_) => Some("update"),
        _ => None,
    })
}

fn stating(sub: &str, epoch: u64) -> SessionInfo {
    SessionInfo { epoch: Some(epoch), ..Sim::info(sub) }
}

#[test]
fn d4_a_relay_without_storage_asks_its_people_and_calls_nothing_complete() {
    let mut sim = down();
    let a = sim.join("ann");
    assert_eq!(kinds(&mut sim, a), ["step 1"], "asked for what it has, told nothing");
    // Its answer: all that it has.
    sim.frame(a, &message::sync_step_2(&typed(1, 0)));
    let b = sim.join("bob");
    assert_eq!(sim.take(b).updates(), [typed(1, 0)]);
    sim.frame(b, &message::sync_step_2(&typed(2, 0)));
    assert_eq!(sim.take(a).updates(), [typed(2, 0)]);
    sim.frame(b, &message::update(&typed(2, 1)));
    assert_eq!(sim.take(a).updates(), [typed(2, 1)], "and live edits go on");
}

#[test]
fn d4_c71_when_storage_is_back_it_is_read_merged_and_flushed() {
    let mut sim = down();
    sim.storage.append("doc", &typed(7, 0));
    sim.storage.error = Some(StoreError::Unavailable);
    let a = sim.join("ann");
    sim.frame(a, &message::sync_step_2(&typed(1, 0)));
    sim.text(a, &flush(1));
    sim.advance(30_000);
    assert_eq!(sim.take(a).closed, None, "an outage closes nobody");
    sim.storage.error = None;
    sim.advance(30_000);
    let both = checkpoint::merge(&[&typed(7, 0), &typed(1, 0)]).unwrap();
    let inbox = sim.take(a);
    let got = inbox.updates();
    assert_eq!(checkpoint::merge(&got.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap(), both);
    let steps = inbox.messages(|message| matches!(message, Message::SyncStep2(_)).then_some(()));
    assert_eq!(steps.len(), 1, "complete now");
    assert_eq!(sim.storage.whole("doc"), both);
    assert!(sim.spool.is_empty());
    let loads = sim.storage.loads;
    sim.advance(600_000);
    assert_eq!((sim.storage.loads, sim.room.poll_timeout()), (loads, None), "and read no more");
}

#[test]
fn d4_storage_that_does_not_answer_is_waited_for_a_moment_only() {
    let mut sim = relay();
    sim.storage.silent = true;
    let a = sim.join("ann");
    sim.advance(PATIENCE - 1);
    assert!(kinds(&mut sim, a).is_empty());
    sim.advance(1);
    assert_eq!(kinds(&mut sim, a), ["step 1"]);
    // The answer comes late, and is good.
    sim.room.handle_loaded("doc", 1, Ok(crate::room::Stored::default()), sim.now);
    sim.drain(None);
    assert_eq!(kinds(&mut sim, a), ["step 2", "step 1"]);
}

#[test]
fn d4_reads_are_tried_again_with_backoff_and_only_while_somebody_waits() {
    let mut sim = down();
    let a = sim.join("ann");
    sim.advance(60_000);
    let config = RoomConfig::default();
    let most = 60_000 / config.retry_max + 8;
    assert!((4..=most as usize).contains(&sim.storage.loads), "{}", sim.storage.loads);
    let loads = sim.storage.loads;
    sim.close(a);
    sim.advance(60_000);
    assert_eq!((sim.storage.loads, sim.room.is_idle()), (loads, true));
}

#[test]
fn w11_d4_what_people_of_an_old_epoch_brought_is_not_merged_into_a_new_one() {
    let mut sim = down();
    let a = sim.open(stating("ann", 5));
    sim.frame(a, &message::sync_step_1(&[0]));
    sim.frame(a, &message::sync_step_2(&typed(1, 0)));
    assert_eq!(sim.take(a).closed, None);
    let b = sim.open(stating("bob", 6));
    sim.frame(b, &message::sync_step_1(&[0]));
    assert_eq!(sim.take(b).closed, Some(CloseCode::TryLater), "nobody knows which of them is right");
    sim.storage.epoch = 6;
    sim.storage.append("doc", &typed(7, 0));
    sim.storage.error = None;
    sim.advance(60_000);
    assert_eq!(sim.take(a).closed, Some(CloseCode::EpochChanged));
    assert_eq!(sim.storage.whole("doc"), typed(7, 0), "the new one is as it was");
    assert!(sim.spool.is_empty() && sim.room.is_idle());
}

#[test]
fn r07_a_document_that_is_deleted_closes_its_people_also_here() {
    let mut sim = relay();
    sim.storage.error = Some(StoreError::Deleted);
    let a = sim.join("ann");
    assert_eq!(sim.take(a).closed, Some(CloseCode::Deleted));
}
