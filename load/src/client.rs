//! A client: it types at its rate whether or not it is connected, reconnects as a browser should, and
//! brings what the relay lacks by sync step 1 and 2.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use yrelay::protocol::awareness::{self, AwarenessEntry};
use yrelay::protocol::message::{self, Message, decode_frame};

use crate::Result;
use crate::replica::{Marker, Replica};
use crate::run::Run;
use crate::socket::{Received, Socket};
use crate::tally::{Tally, count};

/// The longest and the first pause before a reconnect; each is drawn from zero to it (full jitter).
const MAX_PAUSE: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// How often a client that waits looks whether it is done.
const LOOK: Duration = Duration::from_millis(100);
/// A flush that failed is asked for again after this.
const FLUSH_PAUSE: Duration = Duration::from_secs(1);
/// What a client must not try again (docs/PROTOCOL.md).
const STOP: [u16; 6] = [1009, 4400, 4403, 4404, 4409, 4413];
const TOKEN_EXPIRED: u16 = 4401;
/// Yjs client ids count from here, so that one is easy to tell in a stored document.
const FIRST_CLIENT_ID: u64 = 1_000_000;

/// How far a client got with the save of its last write.
#[derive(Clone, Copy, PartialEq)]
enum Receipt {
    /// Not asked for on this connection, or to be asked again after a moment.
    Due(Instant),
    /// Asked for.
    Asked,
    /// It came.
    Saved,
}

struct Client {
    number: usize,
    run: Arc<Run>,
    token: String,
    replica: Replica,
    tally: Tally,
    written: usize,
    next_write: Instant,
    is_writing: bool,
    known: u64,
    receipt: Receipt,
    awareness_clock: u32,
    first_sync: Option<Instant>,
    /// Since when it is in sync; `None` while it is not.
    in_sync: Option<Instant>,
    out_of_sync: Option<Instant>,
    /// Whether the relay was told on this connection what it lacks: from then on updates are sent.
    told: bool,
    attempts: u32,
}

/// Runs a client to its end.
pub fn run(number: usize, run: Arc<Run>) -> Result<Tally> {
    let token = run.options.tokens.of_client(number, &run.workspace)?;
    let start = run.start_of(number);
    thread::sleep(start.saturating_duration_since(Instant::now()));
    let mut client = Client {
        number,
        token,
        replica: Replica::new(FIRST_CLIENT_ID + number as u64),
        tally: Tally::new()?,
        written: 0,
        // In the middle of its first interval, so that the ramp costs the writes that it should.
        next_write: start + run.interval() / 2,
        is_writing: true,
        known: 0,
        receipt: Receipt::Due(start),
        awareness_clock: 0,
        first_sync: None,
        in_sync: None,
        out_of_sync: None,
        told: false,
        attempts: 0,
        run,
    };
    client.live();
    Ok(client.end())
}

impl Client {
    fn live(&mut self) {
        while !self.is_done() && self.tally.failure.is_none() && Instant::now() < self.run.limit() {
            let ended = match self.connect() {
                Ok(mut socket) => match self.serve(&mut socket) {
                    None => return socket.close(),
                    Some(code) => {
                        count(&mut self.tally.reconnects, &code.to_string());
                        Some(code)
                    }
                },
                Err(cause) => {
                    count(&mut self.tally.refusals, &cause);
                    None
                }
            };
            self.lose_sync();
            match ended {
                Some(code) if STOP.contains(&code) => {
                    self.tally.failure = Some(format!("the relay closed with {code}, which says stop"));
                }
                // The next attempt has a fresh token, as every one.
                Some(TOKEN_EXPIRED) if self.attempts == 0 => self.attempts = 1,
                _ => self.pause(),
            }
        }
    }

    fn connect(&mut self) -> Result<Socket> {
        let token = self.run.api.relay_token(&self.token, &self.run.workspace)?;
        let path = Run::path(self.run.document_of(self.number));
        let socket =
            Socket::open(&format!("{}/{}/{path}?token={token}", self.run.options.relay, self.run.workspace));
        self.told = false;
        if self.receipt != Receipt::Saved {
            self.receipt = Receipt::Due(Instant::now());
        }
        socket
    }

    /// Waits before the next attempt, and writes meanwhile, as people do.
    fn pause(&mut self) {
        let most = (FIRST_PAUSE * 2_u32.saturating_pow(self.attempts.min(10))).min(MAX_PAUSE);
        let until = Instant::now() + most.mul_f64(fastrand::f64());
        self.attempts += 1;
        loop {
            self.write_due(None);
            let now = Instant::now();
            if now >= until {
                return;
            }
            thread::sleep((until - now).min(LOOK));
        }
    }

    /// Uses a connection until it ends, with its close code, or the client is done (`None`).
    fn serve(&mut self, socket: &mut Socket) -> Option<u16> {
        if !socket.send(message::sync_step_1(&self.replica.state_vector())) {
            return Some(1006);
        }
        loop {
            if !self.write_due(Some(socket)) || !self.ask_receipt(socket) {
                return Some(1006);
            }
            if self.is_done() || self.tally.failure.is_some() || Instant::now() >= self.run.limit() {
                return None;
            }
            let look = Instant::now() + LOOK;
            let until = if self.is_writing { self.next_write.min(look) } else { look };
            let goes_on = match socket.receive(until) {
                Received::Binary(frame) => self.take_frame(&frame, socket),
                Received::Text(text) => self.take_text(&text),
                Received::Nothing => Ok(true),
                Received::Closed(code) => return Some(code),
            };
            match goes_on {
                Ok(true) => {}
                Ok(false) => return Some(1006),
                Err(defect) => self.tally.failure = Some(defect),
            }
        }
    }

    /// Makes the writes that are due. False when the connection is gone.
    fn write_due(&mut self, mut socket: Option<&mut Socket>) -> bool {
        let mut is_open = true;
        while self.is_writing && Instant::now() >= self.next_write {
            if self.next_write > self.run.end() {
                self.is_writing = false;
                self.run.note_written(self.number);
                break;
            }
            self.next_write += self.run.interval();
            let marker = Marker { client: self.number, number: self.written };
            self.written += 1;
            self.run.note_write(marker);
            let update = self.replica.write(marker);
            self.known += self.replica.take_arrived().len() as u64;
            self.tally.writes += 1;
            if self.in_sync.is_none() {
                self.tally.written_offline += 1;
            }
            if let Some(socket) = socket.as_deref_mut().filter(|_| self.told) {
                is_open &= socket.send(message::update(&update)) && socket.send(self.awareness());
            }
        }
        is_open
    }

    fn awareness(&mut self) -> Vec<u8> {
        self.awareness_clock += 1;
        self.tally.awareness_sent += 1;
        let state = json!({ "user": format!("load-{}", self.number), "at": self.written }).to_string();
        let entry =
            AwarenessEntry { client: self.replica.client_id(), clock: self.awareness_clock, state: &state };
        message::awareness(&awareness::encode(&[entry]))
    }

    /// After the last write: asks whether all of it is saved. False when the connection is gone.
    fn ask_receipt(&mut self, socket: &mut Socket) -> bool {
        match self.receipt {
            Receipt::Due(at) if !self.is_writing && self.told && Instant::now() >= at => {
                self.receipt = Receipt::Asked;
                socket.send_text(json!({ "type": "flush", "id": self.number }).to_string())
            }
            _ => true,
        }
    }

    /// Takes in a frame. False when the connection is gone; an error is a defect of the relay.
    fn take_frame(&mut self, frame: &[u8], socket: &mut Socket) -> Result<bool> {
        let messages = decode_frame(frame).map_err(|error| format!("a frame does not decode: {error}"))?;
        let mut is_open = true;
        for message in messages {
            match message {
                Message::SyncStep1(vector) => {
                    is_open &= socket.send(message::sync_step_2(&self.replica.missing(vector)?));
                    self.told = true;
                }
                Message::SyncStep2(update) => {
                    self.replica.apply(update)?;
                    self.note_arrivals(false);
                    self.gain_sync();
                }
                Message::Update(update) => {
                    self.replica.apply(update)?;
                    self.note_arrivals(true);
                }
                Message::Awareness(payload) => {
                    let entries = awareness::decode(payload);
                    let entries = entries.map_err(|error| format!("awareness does not decode: {error}"))?;
                    self.tally.awareness_received += entries.len() as u64;
                }
                _ => {}
            }
        }
        Ok(is_open)
    }

    fn take_text(&mut self, text: &str) -> Result<bool> {
        let said: Value = serde_json::from_str(text).map_err(|error| format!("a text frame: {error}"))?;
        match said["type"].as_str() {
            Some("receipt") => self.receipt = Receipt::Saved,
            Some("flush_failed") => self.receipt = Receipt::Due(Instant::now() + FLUSH_PAUSE),
            _ => {}
        }
        Ok(true)
    }

    /// Counts the markers that came. What is older than this client's sync came late by its own doing,
    /// so it has no latency.
    fn note_arrivals(&mut self, live: bool) {
        let now = Instant::now();
        for marker in self.replica.take_arrived() {
            self.known += 1;
            let made =
                self.run.made(marker).filter(|made| live && self.in_sync.is_some_and(|since| *made >= since));
            match made {
                Some(made) => {
                    self.tally.live += 1;
                    self.tally.latency.record(now.saturating_duration_since(made));
                }
                None => self.tally.synced += 1,
            }
        }
    }

    fn gain_sync(&mut self) {
        let now = Instant::now();
        self.attempts = 0;
        self.first_sync.get_or_insert(now);
        self.in_sync.get_or_insert(now);
        if let Some(since) = self.out_of_sync.take() {
            self.tally.disconnected += now - since;
        }
    }

    fn lose_sync(&mut self) {
        if self.in_sync.take().is_some() {
            self.out_of_sync = Some(Instant::now());
        }
    }

    /// In sync, saved, and with every write of every client of the document.
    fn is_done(&self) -> bool {
        let total = self.run.total(self.run.document_of(self.number));
        self.receipt == Receipt::Saved
            && self.in_sync.is_some()
            && total.is_some_and(|total| self.known >= total)
    }

    fn end(mut self) -> Tally {
        let now = Instant::now();
        if self.is_writing {
            self.run.note_written(self.number);
        }
        self.tally.disconnected += self.out_of_sync.map_or(Duration::ZERO, |since| now - since);
        self.tally.online = self.first_sync.map_or(Duration::ZERO, |since| now - since);
        if self.tally.failure.is_none() && !self.is_done() {
            let what = match (self.in_sync.is_some(), self.receipt == Receipt::Saved) {
                (false, _) => "it was not connected at the end",
                (true, false) => "it got no receipt",
                (true, true) => "it did not get every write",
            };
            self.tally.failure = Some(what.to_owned());
        }
        self.tally.content = self.replica.content();
        self.tally
    }
}
