//! What each step of a schedule does, and how a world ends.

use std::rc::Rc;

use crate::bus::Owner;
use crate::checks::{DOCUMENTS, Violation};
use crate::d1::WORKSPACE;
use crate::edge::compaction;
use crate::edge::db::Db;
use crate::feed::limits::RETENTION_MS;
use crate::network::Relay;
use crate::people::walker::{self, Phase};
use crate::schedule::{Kind, Step};
use crate::world::{Event, FaultKind, Faults, World};

impl World {
    /// Does one step.
    pub fn act(&mut self, step: &Step) -> Result<(), Violation> {
        let Step { kind, who, amount, .. } = *step;
        let human = of(who, self.humans.len());
        let agent = of(who, self.asked.len());
        let document = DOCUMENTS[usize::from(who % 4 == 0)];
        match kind {
            Kind::Append => self.append(agent, document),
            Kind::Compact => self.compact(document),
            Kind::Cut => {
                if let Some(id) = self.humans[human].connection {
                    self.break_connection(id);
                }
            }
            Kind::CutStream if who % 3 == 0 => self.cut_feed(),
            Kind::CutStream => {
                // Some stay away for so long that the log has moved on without them.
                let away = if amount % 4 == 0 { amount * 20 } else { amount % 3_000 };
                self.cut_reader(of(who, self.readers.len()), away);
            }
            Kind::D1After => self.fault(FaultKind::D1, amount, |faults| faults.d1_after = 60),
            Kind::D1Before => self.fault(FaultKind::D1, amount, |faults| faults.d1_before = 80),
            Kind::D1Stall => self.fault(FaultKind::D1, amount, |faults| faults.d1_stall = 60),
            Kind::Delete => self.delete(agent, amount),
            Kind::DeleteWorkspace => self.delete_workspace(agent),
            Kind::DenoCrash => self.crash_deno(),
            Kind::DenoDown => {
                self.deno.up = false;
                self.at(self.now + amount, Event::FaultEnds(FaultKind::Deno));
            }
            Kind::DenoDrain => self.drain_deno(),
            Kind::DoCrash => self.lose_object(),
            Kind::DoDown => {
                self.cloudflare.up = false;
                self.at(self.now + amount, Event::FaultEnds(FaultKind::Cloudflare));
            }
            Kind::DoReset => self.reset_object(),
            Kind::Edit => self.edit(human, amount % 1_001),
            Kind::Erase => self.erase(human, amount % 1_001),
            Kind::Flush => self.flush(human, amount % 4 == 0),
            Kind::HttpLost => self.fault(FaultKind::Http, amount, |faults| faults.http = 50),
            Kind::Increment => self.increment(agent),
            Kind::Join => self.join(human),
            Kind::Leave => self.walk(human, walker::Event::Disconnect),
            Kind::Move => self.move_documents(agent, amount),
            Kind::Pause => return self.pass(amount),
            Kind::Put => self.put(agent),
            Kind::Replace => {
                // As after a flush that made many parts: both are under way at once.
                if amount % 2 == 0 {
                    self.compact(document);
                }
                self.replace(agent, document);
            }
            Kind::Rewrite => self.rewrite(agent, document, amount),
            Kind::Role => self.change_role(human, amount),
            Kind::Stall => {
                if let Some(id) = self.humans[human].connection {
                    if let Some(connection) = self.connections.get_mut(&id) {
                        connection.stalled = true;
                    }
                    self.at(self.now + amount, Event::Resume(id));
                }
            }
            Kind::Strike => self.strike(human, amount % 1_001),
            Kind::Sweep => {
                let asks = (0..self.asked.len()).any(|agent| self.works(Owner::Agent(agent)));
                self.sweep(if asks { KEPT_WHILE_ASKED_MS } else { KEPT_BY_SWEEP_MS });
            }
            Kind::TellLost => self.fault(FaultKind::Tell, amount, |faults| faults.tell = 70),
            Kind::Tree => self.change_tree(agent, amount),
            Kind::Type => self.type_letters(human, amount % 1_001),
            Kind::Wave => self.wave(human),
        }
        Ok(())
    }

    fn fault(&mut self, kind: FaultKind, lasts: u64, begin: impl FnOnce(&mut Faults)) {
        begin(&mut self.faults);
        self.at(self.now + lasts, Event::FaultEnds(kind));
    }

    fn join(&mut self, human: usize) {
        self.open_again(human);
        let event = match self.humans[human].walker.phase {
            Phase::Waiting => walker::Event::Wake,
            _ => walker::Event::Start,
        };
        self.walk(human, event);
    }

    fn compact(&mut self, path: &'static str) {
        let db = Db::new(Rc::clone(&self.bus));
        let work = async move {
            // Stale, or a failure that the next one cures.
            let _ = compaction::run(&db, WORKSPACE, path).await;
        };
        self.spawn(Owner::Worker, Box::pin(work));
    }

    /// The hourly sweep, at a time at which only what is younger than `kept` stays.
    fn sweep(&mut self, kept: u64) {
        let db = Db::new(Rc::clone(&self.bus));
        let at = self.now + RETENTION_MS - kept;
        let work = async move { while let Ok(1..) = db.sweep(at).await {} };
        self.spawn(Owner::Worker, Box::pin(work));
    }

    /// All faults end, everybody comes, and what was promised is looked at. Then everybody leaves.
    pub fn end(&mut self) -> Result<(), Violation> {
        self.faults = Faults::default();
        // Tokens that end would go on making people come and go.
        self.token_ms = HOUR_MS;
        (self.cloudflare.up, self.deno.up) = (true, true);
        for id in self.connections.keys().copied().collect::<Vec<_>>() {
            self.resume(id)?;
        }
        for human in 0..self.humans.len() {
            self.join(human);
        }
        for reader in 0..self.readers.len() {
            self.open_reader(reader);
        }
        self.pass(HEALS_IN_MS)?;
        self.come_again()?;
        // Whoever happens to be between two connections is not a little later.
        let mut looked = self.look();
        for _ in 0..LOOKS {
            if looked.is_err() {
                self.pass(LOOKS_EVERY_MS)?;
                looked = self.look();
            }
        }
        looked?;
        self.d1.verify()?;
        for human in 0..self.humans.len() {
            self.walk(human, walker::Event::Disconnect);
        }
        self.pass(CLEARS_IN_MS)?;
        self.check_empty()?;
        // Rows go, and what comes after them has clocks of its own.
        self.sweep(0);
        self.pass(1_000)?;
        self.put(0);
        self.pass(CLEARS_IN_MS)?;
        self.read_notes()?;
        self.d1.verify()?;
        self.check_end_of_feed()
    }

    /// What the Durable Object was not told of, it learns with the next connection: one after another comes again,
    /// to a room in which the others are.
    fn come_again(&mut self) -> Result<(), Violation> {
        if !self.ledger.has_untold(&self.d1) {
            return Ok(());
        }
        for id in self.connections_of(Relay::Cloudflare) {
            self.break_connection(id);
            self.pass(COMES_EVERY_MS)?;
        }
        self.pass(LOOKS_EVERY_MS)
    }

    fn look(&mut self) -> Result<(), Violation> {
        self.read_notes()?;
        self.check_end()
    }

    /// Nobody is connected and all is saved: nothing is kept and nothing runs.
    fn check_empty(&self) -> Result<(), Violation> {
        let shell = self.cloudflare.shell();
        // A lease that outlived its room brings streams until the next change ends it (R3).
        let has_streams = !self.connections_of(Relay::Cloudflare).is_empty() && self.d1.lease() > self.now;
        let is_empty = shell.core().is_idle() || (has_streams && !shell.core().has_unsaved());
        if !is_empty && shell.core().clients() == 0 {
            return Err(Violation::new("D1", "the Durable Object keeps something of nobody".to_owned()));
        }
        if shell.core().clients() > 0 {
            return Err(Violation::new("W5", "the Durable Object has clients that left".to_owned()));
        }
        if !self.deno.is_empty(self.now) {
            return Err(Violation::new("D6", "the Deno relay keeps something of nobody".to_owned()));
        }
        Ok(())
    }
}

fn of(who: u64, count: usize) -> usize {
    usize::try_from(who).unwrap_or(0) % count
}

/// What a sweep during a world leaves, seven days in earnest: the Worker tries a request for 25 s.
const KEPT_BY_SWEEP_MS: u64 = 30_000;

/// The same while an agent asks: its key has to be there for as long.
const KEPT_WHILE_ASKED_MS: u64 = 90_000;

const HOUR_MS: u64 = 3_600_000;

/// Every retry of every part is over by then: the longest backoff is 30 s.
const HEALS_IN_MS: u64 = 150_000;

/// How often, and how far apart, it is looked again whether all is well.
const LOOKS: u32 = 3;
const LOOKS_EVERY_MS: u64 = 20_000;

/// How far apart people come again: most are back by then.
const COMES_EVERY_MS: u64 = 5_000;

/// A room whose last client left saves and ends by then; a reader catches up.
const CLEARS_IN_MS: u64 = 40_000;
