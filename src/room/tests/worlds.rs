//! Whole worlds from a seed: clients that come, type and go, a second writer through storage,
//! hibernation, and a storage that fails, stalls, or commits and then reports a failure.
//!
//! Checked: nobody who has a receipt loses what it covers, all replicas and storage end equal, and
//! a room that everybody left is empty.

use std::collections::BTreeMap;

use super::rules::typed;
use super::sim::{Sim, flush};
use crate::document::checkpoint;
use crate::protocol::message::{self, Message};
use crate::room::{SessionId, StoreError};

/// A client with its own copy of the document and its own Yjs client id.
struct Client {
    session: Option<SessionId>,
    yjs: u8,
    typed: u8,
    copy: Vec<u8>,
    /// Letters that a receipt covers.
    saved: u8,
    /// Flushes that wait for a receipt, with the letters that they cover.
    waiting: BTreeMap<u64, u8>,
}

struct World {
    sim: Sim,
    clients: Vec<Client>,
    random: u64,
    flushes: u64,
    foreign: u8,
}

#[test]
fn worlds_lose_nothing_that_was_acknowledged_and_converge() {
    let seeds = std::env::var("YRELAY_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(400);
    let first = std::env::var("YRELAY_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut receipts = 0;
    for seed in first..first + seeds {
        let outcome = std::panic::catch_unwind(|| World::new(seed).run());
        match outcome {
            Ok(count) => receipts += count,
            Err(_) => panic!("seed {seed}: replay it with YRELAY_SEED={seed} YRELAY_SEEDS=1"),
        }
    }
    assert!(receipts > 0, "worlds without receipts check nothing");
}

impl World {
    fn new(seed: u64) -> Self {
        let client = |yjs| Client {
            session: None,
            yjs,
            typed: 0,
            copy: vec![0, 0],
            saved: 0,
            waiting: BTreeMap::new(),
        };
        Self { sim: Sim::new(), clients: (1..=4).map(client).collect(), random: seed, flushes: 0, foreign: 0 }
    }

    fn run(mut self) -> usize {
        for _ in 0..150 {
            self.step();
            self.receive();
        }
        self.heal();
        let mut vectors = vec![checkpoint::state_vector(&self.sim.storage.whole("doc")).unwrap()];
        vectors.extend(self.clients.iter().map(|client| checkpoint::state_vector(&client.copy).unwrap()));
        assert!(vectors.iter().all(|vector| *vector == vectors[0]), "replicas differ: {vectors:?}");
        for index in 0..self.clients.len() {
            self.leave(index);
        }
        self.sim.advance(60_000);
        assert!(self.sim.room.is_idle(), "the room keeps something: {:?}", self.sim.room);
        self.clients.iter().filter(|client| client.saved > 0).count()
    }

    fn step(&mut self) {
        let index = self.draw(self.clients.len() as u64) as usize;
        match self.draw(20) {
            0..=2 if self.clients[index].session.is_none() => self.join(index),
            3..=9 => self.edit(index),
            10 => self.leave(index),
            11..=12 => self.ask_receipt(index),
            13 => {
                // Another writer, whose notification may be lost.
                let update = typed(99, self.foreign);
                self.foreign += 1;
                let change = self.sim.storage.append("doc", &update);
                if self.draw(2) == 0 {
                    self.sim.change(&change);
                }
            }
            14 => {
                let broken = self.draw(3) > 0;
                self.sim.storage.error = broken.then_some(StoreError::Unavailable);
                self.sim.storage.commits_before_error = self.draw(2) == 0;
                self.sim.storage.silent = self.draw(4) == 0;
            }
            15 if self.sim.room.poll_timeout().is_none() => self.sim.hibernate(),
            _ => {
                let by = [1, 20, 300, 2_500, 11_000][self.draw(5) as usize];
                self.sim.advance(by);
            }
        }
    }

    fn join(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let session = self.sim.open(Sim::info(&format!("user{index}")));
        client.session = Some(session);
        client.waiting.clear();
        let vector = checkpoint::state_vector(&client.copy).unwrap();
        self.sim.frame(session, &message::sync_step_1(&vector));
    }

    fn edit(&mut self, index: usize) {
        let client = &mut self.clients[index];
        if client.typed == 250 {
            return;
        }
        let update = typed(client.yjs, client.typed);
        client.typed += 1;
        client.copy = checkpoint::merge(&[&client.copy, &update]).unwrap();
        if let Some(session) = client.session {
            self.sim.frame(session, &message::update(&update));
        }
    }

    fn leave(&mut self, index: usize) {
        if let Some(session) = self.clients[index].session.take() {
            self.sim.close(session);
        }
    }

    fn ask_receipt(&mut self, index: usize) {
        self.receive();
        let client = &mut self.clients[index];
        // As an SDK does: not before its own edits have gone out, and those made offline go out
        // with the answer to the relay's step 1.
        if let Some(session) = client.session {
            self.flushes += 1;
            let own = sent(&self.sim, session, client);
            client.waiting.insert(self.flushes, own);
            self.sim.text(session, &flush(self.flushes));
        }
    }

    /// Clients read what they were sent, and answer step 1.
    fn receive(&mut self) {
        for index in 0..self.clients.len() {
            let Some(session) = self.clients[index].session else { continue };
            let inbox = self.sim.take(session);
            let client = &mut self.clients[index];
            for update in inbox.updates() {
                client.copy = checkpoint::merge(&[&client.copy, &update]).unwrap();
            }
            for text in &inbox.text {
                let covered = text["id"].as_u64().and_then(|id| client.waiting.remove(&id));
                if text["type"] == "receipt"
                    && let Some(letters) = covered
                {
                    client.saved = client.saved.max(letters);
                    let stored = self.sim.storage.whole("doc");
                    assert!(letters_of(&stored, client.yjs) >= letters, "a receipt for what is not stored");
                }
            }
            let asked = inbox.messages(|message| match message {
                Message::SyncStep1(vector) => Some(vector.to_vec()),
                _ => None,
            });
            if inbox.closed.is_some() {
                client.session = None;
                continue;
            }
            let copy = client.copy.clone();
            for vector in asked {
                let lacking = checkpoint::diff(&copy, &vector).unwrap();
                self.sim.frame(session, &message::sync_step_2(&lacking));
            }
        }
    }

    /// Storage works again, everybody is connected, and time passes.
    fn heal(&mut self) {
        self.sim.storage.error = None;
        self.sim.storage.silent = false;
        for _ in 0..4 {
            self.sim.advance(30_000);
            self.receive();
            for index in 0..self.clients.len() {
                self.leave(index);
                self.join(index);
            }
            self.receive();
        }
        self.sim.advance(30_000);
        self.receive();
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

/// Letters of a client that the room has been sent on this connection or that are stored: what a
/// receipt may speak of. Letters typed offline count once the relay has asked for them.
fn sent(sim: &Sim, session: SessionId, client: &Client) -> u8 {
    let answered = sim.inboxes.get(&session).is_some_and(|inbox| inbox.closed.is_none());
    if answered && letters_of(&sim.storage.whole("doc"), client.yjs) == client.typed {
        client.typed
    } else {
        0
    }
}

/// How many letters of a client an update holds without a gap.
fn letters_of(update: &[u8], yjs: u8) -> u8 {
    let vector = checkpoint::state_vector(update).unwrap();
    let mut reader = crate::protocol::varint::Reader::new(&vector);
    let count = reader.var_uint().unwrap();
    (0..count)
        .map(|_| (reader.var_uint().unwrap(), reader.var_uint().unwrap()))
        .find(|(client, _)| *client == u64::from(yjs))
        .map_or(0, |(_, letters)| letters as u8)
}
